# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X below its prefix: the pinned archive only, beside its place first, its mpirun asked, never changed afterwards. Real tar and mv."""

import bz2
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_text import OS_RELEASE
from tests.lib.starter_host import StarterHost

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.mpi import found_mpi
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.installer import Release
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests.toolchain import find_mpi
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.products import Hpcx, wanted_hpcx
from ansible_collections.railwright.rdma.plugins.plugin_utils.controller_files import wrong_archive
from field_specs import build_spec

MPIRUN = '#!/bin/sh\n[ -n "$OPAL_PREFIX" ] && echo "mpirun (Open MPI) 4.1.9a1"\n'


def archive(mpirun: str = MPIRUN, top: str = "hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64/") -> bytes:
    """A stand-in for HPC-X's archive: one directory above everything, packed by bzip2."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, text in (("ompi/bin/mpirun", mpirun), ("ucx/lib/libucp.so.0", "\x7fELF")):
            row = tarfile.TarInfo(top + name)
            row.mode, row.size = 0o750, len(text)
            tar.addfile(row, io.BytesIO(text.encode()))
    return bz2.compress(content.getvalue())


@pytest.fixture
def node(tmp_path: Path) -> StarterHost:
    return StarterHost(tmp_path)


def brought(node: StarterHost, content: bytes, version: str = "2.25.1", sha256: str | None = None) -> Hpcx:
    file = f"/var/cache/railwright/hpcx/hpcx-{version}.tbz"
    hpcx = Hpcx(node, Release(version, f"/opt/railwright/hpcx/{version}", "hpcx-ubuntu24.04-x86_64", None,
                              sha256 or hashlib.sha256(content).hexdigest(), file, "node1"))
    hpcx.prepare()
    Path(node.path(file)).write_bytes(content)
    return hpcx


def below(node: StarterHost) -> list[str]:
    top = Path(node.path("/"))
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file() or path.is_symlink())


def test_it_is_put_there_found_and_not_touched_again(node: StarterHost, monkeypatch: pytest.MonkeyPatch) -> None:
    hpcx = brought(node, archive())
    finish, before = hpcx.finish, []
    monkeypatch.setattr(hpcx, "finish", lambda work: (before.append(found_mpi(node)), finish(work))[1])
    row = hpcx.inspect()["release"]
    assert (row["missing"], row["needed"]) == (True, True)
    assert "node" not in row
    hpcx.install()
    assert before == [()], "what is not in place is not found"
    row = hpcx.inspect()["release"]
    assert (row["missing"], row["needed"]) == (False, False)
    assert below(node) == ["opt/railwright/hpcx/2.25.1/ompi/bin/mpirun", "opt/railwright/hpcx/2.25.1/railwright.json",
                           "opt/railwright/hpcx/2.25.1/ucx/lib/libucp.so.0", "opt/railwright/hpcx/current"]
    (found,) = found_mpi(node)
    assert (found.kind, found.version, found.mpirun) == ("openmpi4", "4.1.9a1", "/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun")
    assert Path(node.path(found.mpirun)).stat().st_mode & 0o777 == 0o755, "jobs of any user start it"
    assert json.loads(Path(node.path("/opt/railwright/hpcx/2.25.1/railwright.json")).read_text())["mpi"] == "4.1.9a1"


def test_two_releases_and_current_leads_to_the_wanted_one(node: StarterHost) -> None:
    for version in ("2.25.1", "2.9.0"):
        brought(node, archive(), version).install()
    assert found_mpi(node)[0].prefix == "/opt/railwright/hpcx/2.9.0/ompi"


def test_another_archive_is_not_unpacked(node: StarterHost) -> None:
    hpcx = brought(node, archive(), sha256="0" * 64)
    with pytest.raises(RailwrightError, match=r"and not 0{64}, which the inventory or the catalogue pins"):
        hpcx.install()
    assert below(node) == []


@pytest.mark.parametrize("mpirun", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho 'HYDRA build details:'\necho '    Version:   4.0.2 '\n"])
def test_what_does_not_answer_is_not_put_in_place(node: StarterHost, mpirun: str) -> None:
    hpcx = brought(node, archive(mpirun))
    with pytest.raises(RailwrightError, match="holds no ompi/bin/mpirun that runs on this node"):
        hpcx.install()
    assert below(node) == []
    assert not Path(node.path("/opt/railwright/hpcx")).exists()


@pytest.mark.parametrize(("top", "holds"), [
    ("", "bin, lib, bin/mpirun, lib/libucp.so.0"), ("hpcx/hpcx-v2.25.1/", "hpcx-v2.25.1, hpcx-v2.25.1/ompi, hpcx-v2.25.1/ucx")])
def test_an_archive_with_another_layout_is_named_by_what_it_holds(node: StarterHost, top: str, holds: str) -> None:
    """A directory more or less above everything."""
    hpcx = brought(node, archive(top=top))
    with pytest.raises(RailwrightError, match=rf"there is no ompi/bin/mpirun below its first directory, which holds {holds}$"):
        hpcx.install()
    assert below(node) == []


@pytest.mark.parametrize(("spoil", "said"), [
    (lambda top: (top / "railwright.json").unlink(), "it has no manifest of railwright's"),
    (lambda top: (top / "railwright.json").write_text('{"artifact_sha256": "1", "files": {}}'), "it was made from another file"),
    (lambda top: (top / "ompi/bin/mpirun").unlink(), "ompi/bin/mpirun is not the file that was put there"),
])
def test_what_somebody_changed_is_named_and_left(node: StarterHost, spoil: Any, said: str) -> None:
    hpcx = brought(node, archive())
    hpcx.install()
    spoil(Path(node.path(hpcx.release.directory)))
    with pytest.raises(RailwrightError, match=f"^/opt/railwright/hpcx/2.25.1 is there, but {said}"):
        hpcx.inspect()


def test_its_mpicc_is_asked_with_its_own_libraries(node: StarterHost) -> None:
    """It finds none of them by itself where no other Open MPI is installed."""
    home = "/opt/railwright/hpcx/2.25.1"
    brought(node, archive()).install()
    text = f'#!/bin/sh\n[ "${{LD_LIBRARY_PATH%%:*}}" = {home}/ompi/lib ] && echo "gcc -I{home}/ompi/include -L{home}/ompi/lib -lmpi"\n'
    for name, content in (("include/mpi.h", ""), ("lib/libmpi.so", ""), ("bin/mpicc", text)):
        path = Path(node.path(f"{home}/ompi/{name}"))
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    found = find_mpi(node, None, "hpcx")
    assert found is not None
    assert (found["kind"], found["include"], found["library"]) == ("openmpi4", f"{home}/ompi/include", f"{home}/ompi/lib/libmpi.so")


def wishes(node: StarterHost, system: str = "ubuntu2404", **values: Any) -> Release | None:
    path = Path(node.path("/etc/os-release"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(OS_RELEASE[system])
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": [], "rdma_stack": "inbox", **values}, "node1")
    assert spec is not None, findings
    found = wanted_hpcx(node, spec, observe_identity(node)._replace(arch="x86_64"))
    return found.release if found is not None else None


def test_which_archive(node: StarterHost) -> None:
    artifact = find_artifact("hpcx-ubuntu24.04-x86_64")
    assert artifact is not None
    assert wishes(node, mpi_install="openmpi") is None
    found = wishes(node, mpi_install="hpcx", artifact_mirror="http://mirror.example/pub")
    assert found is not None
    assert (found.sha256, found.directory) == (artifact.value, "/opt/railwright/hpcx/2.25.1")
    assert found.url is not None
    assert found.url.startswith("http://mirror.example/pub/content.mellanox.com/hpc/hpc-x/v2.25.1_cuda13/hpcx-v2.25.1-gcc-")
    own = wishes(node, mpi_install="hpcx", mpi_archive="/srv/hpcx.tbz", mpi_version="2.26.0",
                 artifact_pins={"hpcx-ubuntu24.04-x86_64": "a" * 64})
    assert own is not None
    assert (own.url, own.sha256, own.version) == (None, "a" * 64, "2.26.0")


def test_what_is_not_pinned_or_does_not_exist_is_refused_in_one_line(node: StarterHost) -> None:
    with pytest.raises(RailwrightError, match=r"hpcx-ubuntu22.04-x86_64 2.26.0 is not pinned here: set rdma_artifact_pins"):
        wishes(node, "ubuntu2204", mpi_install="hpcx", mpi_version="2.26.0", artifact_pins={"hpcx-ubuntu24.04-x86_64": "a" * 64})
    with pytest.raises(RailwrightError, match=r"the catalogue has no HPC-X for Debian GNU/Linux 12 \(bookworm\)"):
        wishes(node, "debian12", mpi_install="hpcx")


def test_a_wrong_archive_never_leaves_the_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "hpcx.tbz"
    file.write_bytes(b"something")
    right = hashlib.sha256(b"something").hexdigest()
    assert wrong_archive("mpi_archive", str(file), "hpcx-rhel9-x86_64", right) is None
    said = wrong_archive("mpi_archive", str(file), "hpcx-rhel9-x86_64", "0" * 64)
    assert said == (
        f"mpi_archive {file} has the sha256 {right} and not {'0' * 64}, which is pinned for hpcx-rhel9-x86_64; no node was changed")
    said = wrong_archive("mpi_archive", str(tmp_path / "none"), "hpcx-rhel9-x86_64", right)
    assert "cannot be read on the controller: No such file" in str(said)
