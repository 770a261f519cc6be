# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL below its prefix on this machine's own files: from the pinned file to the directory, once, and nothing of it after an error.

Wheel and source are small stand-ins with the names that the real ones have; unzip, tar, make and sha256sum are real.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import nccl_libraries
from ansible_collections.railwright.rdma.plugins.module_utils.prefix import products
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests.toolchain import gencode
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.products import Nccl, build_jobs, wanted_nccl
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu
from field_specs import build_spec
from nccl_files import elf, source, wheel

H100 = Gpu("0000:1b:00.0", "0x2330", 0)
WHEEL, SOURCE = "nccl-wheel-cu13-x86_64", "nccl-source"
INDEX = "https://index.example/pypi"
PLACE = ("packages/3f/34/c500f90c7ae641b8e0f98965b36b8a7ac79cc8b296e8d251fe3eb592ee54/"
         "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_x86_64.whl")


class GpuHost(Host):
    """This machine, with a driver, GPUs, nvcc and a compiler that it need not have."""

    def __init__(self, driver: str | None = "580.82.07", capabilities: Sequence[str] = ("9.0",), toolkit: str | None = None) -> None:
        self.driver, self.capabilities, self.toolkit = driver, capabilities, toolkit

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        if argv[0] == "modinfo":
            return Result(0, f"{self.driver}\n", "") if self.driver else Result(1, "", "not found")
        if argv[0] == "nvidia-smi":
            return Result(0, "".join(f"{text}\n" for text in self.capabilities), "")
        if argv[0] == "/usr/local/cuda/bin/nvcc":
            return Result(0, "sm_80\nsm_90\n" if "--list-gpu-code" in argv else f"Cuda compilation tools, release {self.toolkit}, V1\n", "")
        return super().run(argv, timeout, stdin)

    def which(self, tool: str) -> str | None:
        if tool in ("nvidia-smi", "nvcc"):
            return "/usr/bin/nvidia-smi" if tool == "nvidia-smi" and self.capabilities else None
        return "/usr/bin/g++" if tool == "g++" else super().which(tool)

    def exists(self, path: str) -> bool:
        return path == "/usr/local/cuda/bin/nvcc" and self.toolkit is not None if path.endswith("/bin/nvcc") else super().exists(path)

    def listdir(self, path: str) -> list[str]:
        return [] if path == "/usr/local" else super().listdir(path)


class Site:
    """One inventory on one node, with its directories below a temporary one."""

    def __init__(self, root: Path, host: GpuHost, values: dict[str, Any], gpus: Sequence[Gpu] = (H100,)) -> None:
        self.root, self.prefix, self.host = root, root / "opt/nccl", host
        given = {"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": [], "nccl_prefix": str(self.prefix),
                 "nccl_wheel_index": INDEX, **values}
        spec, findings = build_spec(given, "gpu1")
        assert spec is not None, findings
        self.spec: Spec = spec
        self.identity = observe_identity(host)._replace(gpus=tuple(gpus), arch="x86_64")

    def library(self) -> Nccl:
        found = wanted_nccl(self.host, self.spec, self.identity)
        assert found is not None
        return found

    def look(self) -> dict[str, Any]:
        """What the node answers."""
        return dict(self.library().inspect()["release"])

    def bring(self, path: Path) -> None:
        library = self.library()
        library.prepare()
        Path(library.release.file).write_bytes(path.read_bytes())

    def make(self) -> str:
        """The directory that the release then has."""
        self.library().install()
        return self.library().release.directory

    def files(self) -> dict[str, str]:
        """Everything below, with what it holds."""
        return {str(path.relative_to(self.root)): str(path.readlink()) if path.is_symlink() else path.read_bytes().hex()
                for path in sorted(self.root.rglob("*")) if path.is_symlink() or path.is_file()}


MakeSite = Callable[..., Site]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSite:
    monkeypatch.setattr(products, "CACHE", str(tmp_path / "node/cache"))
    (tmp_path / "node/cache").mkdir(parents=True)
    return lambda host=None, gpus=(H100,), **values: Site(tmp_path / "node", host or GpuHost(), values, gpus)


def test_a_wheel_becomes_a_directory_of_its_release(site: MakeSite, tmp_path: Path) -> None:
    sha256 = wheel(tmp_path / "w.whl")
    there = site(nccl_install="wheel", artifact_pins={WHEEL: sha256})
    assert there.look()["missing"]
    there.bring(tmp_path / "w.whl")
    before = os.umask(0o077)  # root's, on some sites
    try:
        made = there.make()
    finally:
        os.umask(before)
    assert made == str(there.prefix / "2.30.7-cu13")
    assert sorted(there.files()) == [
        "opt/nccl/2.30.7-cu13/include/nccl.h", "opt/nccl/2.30.7-cu13/lib/libnccl.so", "opt/nccl/2.30.7-cu13/lib/libnccl.so.2",
        "opt/nccl/2.30.7-cu13/railwright.json", "opt/nccl/current"]
    assert (there.prefix / "2.30.7-cu13/lib/libnccl.so").resolve().read_bytes() == elf("2.30.7")
    assert (there.prefix / "2.30.7-cu13").stat().st_mode & 0o777 == 0o755
    assert (there.prefix / "2.30.7-cu13/lib/libnccl.so.2").stat().st_mode & 0o777 == 0o644
    said = json.loads((there.prefix / "2.30.7-cu13/railwright.json").read_text())
    assert said == {
        "name": "nccl", "version": "2.30.7", "cuda": "13.3", "install": "wheel", "artifact": WHEEL, "artifact_sha256": sha256,
        "gencode": "", "files": {"lib/libnccl.so.2": hashlib.sha256(elf("2.30.7")).hexdigest()}}
    assert [row.path for row in nccl_libraries(there.host, prefix=str(there.prefix)) if row.origin == "prefix"] == [
        str(there.prefix / "2.30.7-cu13/lib/libnccl.so.2")]


def test_the_second_look_needs_nothing(site: MakeSite, tmp_path: Path) -> None:
    there = site(nccl_install="wheel", artifact_pins={WHEEL: wheel(tmp_path / "w.whl")})
    there.bring(tmp_path / "w.whl")
    there.make()
    seen = there.look()
    assert (seen["missing"], seen["needed"]) == (False, False)


def test_another_release_comes_beside_and_the_link_goes_over(site: MakeSite, tmp_path: Path) -> None:
    first = site(nccl_install="wheel", artifact_pins={WHEEL: wheel(tmp_path / "w.whl")})
    first.bring(tmp_path / "w.whl")
    first.make()
    older = site(nccl_install="wheel", nccl_version="2.29.7", nccl_archive="/srv/o.whl",
                 artifact_pins={WHEEL: wheel(tmp_path / "o.whl", "2.29.7")})
    older.bring(tmp_path / "o.whl")
    older.make()
    assert [row.version for row in nccl_libraries(older.host, prefix=str(older.prefix)) if row.origin == "prefix"] == ["2.29.7", "2.30.7"]
    back = first.look()
    assert (back["missing"], back["needed"]) == (False, True)
    first.make()
    assert (first.prefix / "current").readlink() == Path("2.30.7-cu13")


def test_a_source_is_built_for_the_gpus_that_are_there(site: MakeSite, tmp_path: Path) -> None:
    there = site(GpuHost(capabilities=("9.0", "8.0", "9.0"), toolkit="13.0"), nccl_install="source",
                 artifact_pins={SOURCE: source(tmp_path / "s.tar.gz")})
    there.bring(tmp_path / "s.tar.gz")
    assert there.make() == str(there.prefix / "2.30.7-cu13-sm80-sm90")
    built = (there.prefix / "current/lib/libnccl.so").read_bytes()
    assert built.endswith(b"-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90")
    assert b"+cuda13.0\0" in built
    assert sorted(name for name in there.files() if "current" not in name) == [
        f"opt/nccl/2.30.7-cu13-sm80-sm90/{name}" for name in (
            "include/nccl.h", "lib/libnccl.so", "lib/libnccl.so.2", "lib/libnccl.so.2.30.7", "railwright.json")]
    assert there.look()["needed"] is False


@pytest.mark.parametrize("defect", ["checksum", "version", "cuda", "metadata", "no library"])
def test_what_is_not_the_wanted_release_leaves_the_node_as_it_was(site: MakeSite, tmp_path: Path, defect: str) -> None:
    path = tmp_path / "w.whl"
    built = {"version": elf("2.29.7"), "cuda": elf("2.30.7", "12.9"), "no library": b"something else"}.get(defect)
    sha256 = wheel(path, library=built, name="nvidia-nccl-cu12" if defect == "metadata" else None)
    there = site(nccl_install="wheel", artifact_pins={WHEEL: "a" * 64 if defect == "checksum" else sha256})
    said = {
        "checksum": f"{WHEEL} has the sha256 {sha256} and not {'a' * 64}",
        "version": f"{WHEEL} holds NCCL 2.29.7 for CUDA 13.3 and not 2.30.7 for",
        "cuda": f"{WHEEL} holds NCCL 2.30.7 for CUDA 12.9 and not",
        "no library": f"{WHEEL} holds NCCL of no version for CUDA of no version",
        "metadata": "the wheel says that it is nvidia-nccl-cu12 2.30.7 and not nvidia-nccl-cu13 2.30.7"}[defect]
    before = sorted(there.root.rglob("*"))
    there.bring(path)
    with pytest.raises(RailwrightError) as error:
        there.make()
    assert str(error.value).startswith(said)
    assert [item for item in sorted(there.root.rglob("*")) if item not in before] == [there.root / "opt"] * (defect != "checksum")


def test_a_run_that_was_cut_off_is_begun_anew(site: MakeSite, tmp_path: Path) -> None:
    there = site(nccl_install="wheel", artifact_pins={WHEEL: wheel(tmp_path / "w.whl")})
    there.bring(tmp_path / "w.whl")
    node = there.library().release.node
    for name in (f".2.30.7-cu13.{node}.part", f".2.29.7-cu13.{node}.part"):  # then the inventory asked for another release
        (there.prefix / name / "lib").mkdir(parents=True)
        (there.prefix / name / "lib/libnccl.so.2").write_bytes(b"half")
    (there.prefix / ".2.30.7-cu13.gpu9.part").mkdir()
    assert [row for row in nccl_libraries(there.host, prefix=str(there.prefix)) if row.origin == "prefix"] == []
    there.make()
    assert (there.prefix / "2.30.7-cu13/lib/libnccl.so.2").read_bytes() == elf("2.30.7")
    left = sorted(path.name for path in there.prefix.iterdir())
    assert left == [".2.30.7-cu13.gpu9.part", "2.30.7-cu13", "current"], "another node's stays"


def test_two_nodes_may_share_the_prefix(site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = wheel(tmp_path / "w.whl")
    one, other = (site(nccl_install="wheel", artifact_pins={WHEEL: sha256}) for _node in range(2))
    other.identity = other.identity._replace(hostname="other/../node")
    assert "/" not in other.library().release.node
    slow = one.library()
    finish = slow.finish

    def finish_late(work: str) -> Any:
        made = finish(work)
        other.bring(tmp_path / "w.whl")
        other.make()
        return made

    monkeypatch.setattr(slow, "finish", finish_late)
    one.bring(tmp_path / "w.whl")
    slow.install()
    assert sorted(path.name for path in one.prefix.iterdir()) == ["2.30.7-cu13", "current"]
    assert one.look()["needed"] is False


@pytest.mark.parametrize(("damage", "words"), [
    ("library", "lib/libnccl.so.2 is not the file that was put there"),
    ("manifest", "it has no manifest of railwright's (railwright.json)"),
    ("pin", "it was made from another file than the one that is pinned now"),
])
def test_what_lies_there_and_is_another_thing_is_refused_and_not_touched(site: MakeSite, tmp_path: Path, damage: str, words: str) -> None:
    there = site(nccl_install="wheel", artifact_pins={WHEEL: wheel(tmp_path / "w.whl")})
    there.bring(tmp_path / "w.whl")
    there.make()
    if damage == "pin":
        there = site(nccl_install="wheel", artifact_pins={WHEEL: "b" * 64})
    else:
        (there.prefix / "2.30.7-cu13" / {"library": "lib/libnccl.so.2", "manifest": "railwright.json"}[damage]).write_bytes(b"mine")
    kept = there.files()
    with pytest.raises(RailwrightError) as error:
        there.look()
    assert str(error.value) == f"{there.prefix}/2.30.7-cu13 is there, but {words}; remove it, or set another nccl_prefix"
    assert there.files() == kept


@pytest.mark.parametrize(("host", "values", "cuda"), [
    (GpuHost(toolkit="12.9"), {"cuda_version": "13.0"}, "13"),
    (GpuHost(toolkit="12.9"), {}, "12"),
    (GpuHost("580.82.07"), {"gpu_driver_branch": "570", "gpu_driver_version": "570.195.03"}, "12"),
])
def test_which_cuda_a_wheel_is_for(site: MakeSite, host: GpuHost, values: dict[str, str], cuda: str) -> None:
    library = site(host, nccl_install="wheel", **values).look()
    assert (library["cuda"], library["artifact"]) == (cuda, f"nccl-wheel-cu{cuda}-x86_64")
    assert library["url"].startswith(f"{INDEX}/packages/")
    assert f"/nvidia_nccl_cu{cuda}-2.30.7-py3-none-" in library["url"]


def test_where_the_file_comes_from(site: MakeSite) -> None:
    of_wheel = {"nccl_install": "wheel", "cuda_version": "13.0"}
    taken = site(**of_wheel).library().release
    assert (taken.url, taken.sha256) == (f"{INDEX}/{PLACE}", "cefa7fdb9710efd0f39c5f1be1d61ff6fc9a996c451265bd7fbdcf9455ed4b50")
    assert site(**of_wheel, nccl_wheel_index="file:///srv/pypi/").library().release.url == f"file:///srv/pypi/{PLACE}"
    for index in (None, INDEX):  # one mirror stands in for every host: the place in it does not depend on the index
        mirrored = site(**of_wheel, nccl_wheel_index=index, artifact_mirror="http://m.example/x/").library().release
        assert (mirrored.url, mirrored.sha256) == (f"http://m.example/x/nccl_wheel_index/{PLACE}", taken.sha256)
    assert site(**of_wheel, nccl_wheel_index=None, nccl_archive="/srv/n.whl").library().release.url is None
    older = site(GpuHost(toolkit="13.0"), nccl_install="source", nccl_version="2.29.7", artifact_pins={SOURCE: "c" * 64}).library().release
    assert str(older.url).endswith("/NVIDIA/nccl/archive/refs/tags/v2.29.7-1.tar.gz")
    assert older.sha256 == "c" * 64


@pytest.mark.parametrize(("host", "values", "words"), [
    (GpuHost(None), {"nccl_install": "wheel"}, "which CUDA the wheel has to be for is not known: this node has no CUDA and no driver"),
    (GpuHost("570.86.15"), {"nccl_install": "wheel", "cuda_version": "13.0"},
     "NCCL for CUDA 13 needs driver 580 or newer, this node has 570.86.15"),
    (GpuHost(), {"nccl_install": "wheel", "cuda_version": "11.8"}, "no nccl-wheel-cu11-x86_64 is known; allowed: nccl_install source"),
    (GpuHost(), {"nccl_install": "source"}, "nccl_install source needs nvcc of CUDA, this node has none"),
    (GpuHost(toolkit="12.9"), {"nccl_install": "source", "cuda_version": "13.0"},
     "nccl_install source needs nvcc of CUDA 13.0, this node has only that of CUDA 12.9"),
    (GpuHost(toolkit="13.0", capabilities=("12.0",)), {"nccl_install": "source"},
     "nvcc of this node does not build for compute capability 120 of its GPUs"),
    (GpuHost(toolkit="13.0", capabilities=("[N/A]",)), {"nccl_install": "source"},
     "the compute capability of this node's GPUs is not known"),
    (GpuHost(), {"nccl_install": "wheel", "cuda_version": "12.8", "nccl_version": "2.29.7", "nccl_archive": "/srv/n.whl",
                 "artifact_pins": {WHEEL: "d" * 64}},
     "nccl-wheel-cu12-x86_64 2.29.7 is not pinned here: set rdma_artifact_pins.nccl-wheel-cu12-x86_64 to its sha256"),
])
def test_what_cannot_be_had_is_refused_with_one_line(site: MakeSite, host: GpuHost, values: dict[str, Any], words: str) -> None:
    there = site(host, **values)
    with pytest.raises(RailwrightError) as error:
        there.look()
    assert str(error.value).startswith(words)
    assert "\n" not in str(error.value)


def test_a_compiler_that_is_missing_is_named(site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "TOOLS", (("make", "make"), ("no-such-compiler", "g++ (EL: gcc-c++)")))
    with pytest.raises(RailwrightError, match=r"nccl_install source needs g\+\+ \(EL: gcc-c\+\+\): not on this node"):
        site(GpuHost(toolkit="13.0"), nccl_install="source").look()


def test_without_a_driver_the_catalogue_tells_the_gpus(site: MakeSite) -> None:
    assert site(GpuHost(None, capabilities=(), toolkit="13.0"), nccl_install="source").library().recipe.codes == ("90",)
    with pytest.raises(RailwrightError, match="compute capability of this node's GPUs is not known"):
        site(GpuHost(None, capabilities=(), toolkit="13.0"), gpus=(Gpu("0000:1b:00.0", "0x2fff", 0),), nccl_install="source").look()


def test_nothing_is_wanted_without_a_gpu_or_for_packages(site: MakeSite) -> None:
    for values, gpus in (({"nccl_install": "wheel"}, ()), ({}, (H100,)), ({"nccl_install": "repository", "cuda_version": "13.0"}, (H100,))):
        there = site(gpus=gpus, **values)
        assert wanted_nccl(there.host, there.spec, there.identity) is None


def test_no_room_no_download_of_time(site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = site(nccl_install="wheel", artifact_pins={WHEEL: wheel(tmp_path / "w.whl")})
    there.bring(tmp_path / "w.whl")
    monkeypatch.setattr(there.host, "free_bytes", lambda _path: 100 << 20)
    for step in (there.library().prepare, there.make):
        with pytest.raises(RailwrightError, match="has 100 MiB free, and NCCL from its wheel needs 1024"):
            step()


@pytest.mark.parametrize(("cpus", "free_gib", "jobs"), [(16, 128, 16), (128, 64, 32), (2, 1, 1), (8, None, 8), (0, 8, 1)])
def test_no_more_compilers_than_there_is_memory_for(tmp_path: Path, cpus: int, free_gib: int | None, jobs: int) -> None:
    for number in range(cpus):
        (tmp_path / f"sys/devices/system/cpu/cpu{number}").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpufreq").mkdir(parents=True)
    if free_gib is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(f"MemTotal:       999999999 kB\nMemAvailable:   {free_gib << 20} kB\n")
    assert build_jobs(TreeHost(str(tmp_path))) == jobs


def test_gencode() -> None:
    assert gencode(("90",)) == "-gencode=arch=compute_90,code=sm_90"
