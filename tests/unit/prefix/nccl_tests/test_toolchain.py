# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides where nccl-tests is built, from trees. Output of nvcc 13.0 and of Open MPI 5.0.11's mpicc was recorded; that of others is
written from their documentation or source, and the tests' names say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import compute_capability
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import LoadableNccl
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import toolchain
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu

NVCC_130 = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""
CODES_130 = "\n".join(f"sm_{code}" for code in (75, 80, 86, 87, 88, 89, 90, 100, 110, 103, 120, 121)) + "\n"
HELP = "        Allowed values for this option:  'compute_70','compute_80','lto_80','sm_70','sm_80'.\n"
NCCL = b"\x7fELF" + b"\0" * 64 + b"NCCL version 2.30.7+cuda13.0\0"
Make = Callable[..., TreeHost]
GPU = "/sys/bus/pci/devices/0000:1b:00.0"


@pytest.fixture
def tree(tmp_path: Path) -> Make:
    def make(files: dict[str, str | bytes], commands: dict[tuple[str, ...], str] | None = None) -> TreeHost:
        texts = dict(files)
        for argv, answer in (commands or {}).items():
            texts["/cmd/" + recording_name(argv)] = answer
        for path, content in texts.items():
            full = tmp_path / path[1:]
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content if isinstance(content, bytes) else content.encode())
        return TreeHost(str(tmp_path))

    return make


def test_nvcc_130_as_recorded(tree: Make) -> None:
    path = "/usr/local/cuda/bin/nvcc"
    host = tree({path: ""}, {(path, "--version"): NVCC_130, (path, "--list-gpu-code"): CODES_130})
    found = toolchain.find_nvcc(host, None)
    assert found is not None
    assert (found["path"], found["home"], found["version"]) == (path, "/usr/local/cuda", "13.0")
    assert found["codes"][0] == "sm_75"
    assert found["codes"][-3:] == ["sm_110", "sm_120", "sm_121"]


def test_an_old_nvcc_lists_its_gpus_in_the_help_only_from_documentation(tree: Make) -> None:
    path = "/usr/local/cuda/bin/nvcc"
    host = tree({path: ""}, {(path, "--version"): "Cuda compilation tools, release 11.0, V11.0.194\n", (path, "--help"): HELP})
    found = toolchain.find_nvcc(host, None)
    assert found is not None
    assert found["codes"] == ["sm_70", "sm_80"]


class Several(TreeHost):
    """Answers --version by path: a recording is named by the command's last part alone."""

    versions: dict[str, str]

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        release = self.versions.get(argv[0])
        return Result(0, f"Cuda compilation tools, release {release}, V1\nsm_90\n", "") if release else Result(127, "", "")


@pytest.mark.parametrize(("wanted", "homes", "expected"), [
    (None, ("cuda", "cuda-12.8", "cuda-13.0"), "/usr/local/cuda"),
    ("12.8", ("cuda", "cuda-12.8", "cuda-13.0"), "/usr/local/cuda-12.8"),
    (None, ("cuda-12.8", "cuda-9.2", "cuda-13.0"), "/usr/local/cuda-13.0"),
    ("13.0", ("cuda-12.8",), "/usr/local/cuda-12.8"),
])
def test_the_cuda_of_the_inventory_then_the_nodes_default_then_the_newest(
    tree: Make, tmp_path: Path, wanted: str | None, homes: tuple[str, ...], expected: str,
) -> None:
    paths = [f"/usr/local/{home}/bin/nvcc" for home in homes]
    tree(dict.fromkeys(paths, ""))
    host = Several(str(tmp_path))
    host.versions = {path: path.split("/")[3].partition("-")[2] or "12.6" for path in paths}
    found = toolchain.find_nvcc(host, wanted)
    assert found is not None
    assert found["home"] == expected


def test_no_nvcc_and_one_that_does_not_start(tree: Make) -> None:
    assert toolchain.find_nvcc(tree({}), None) is None
    assert toolchain.find_nvcc(tree({"/usr/local/cuda/bin/nvcc": ""}), None) is None


def test_nccl_of_a_wheels_prefix_and_of_a_distribution(tree: Make) -> None:
    prefix, system = "/opt/railwright/nccl/2.30.7", "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
    cache = f"\tlibnccl.so.2 (libc6,x86-64) => {system}\n"
    host = tree({f"{prefix}/lib/libnccl.so.2": NCCL, f"{prefix}/include/nccl.h": "", system: NCCL, "/usr/include/nccl.h": ""},
                {("ldconfig", "-p"): cache})
    first = toolchain.inspect_toolchain(host, "x86_64", None, "/opt/railwright/nccl", None, None)
    assert first["nccl"] == {"library": system, "include": "/usr/include", "version": "2.30.7", "origin": "ldconfig"}
    assert first["library_path"] == []
    wheel = toolchain.inspect_toolchain(host, "x86_64", None, "/opt/railwright/nccl", "prefix", None)
    assert wheel["nccl"]["include"] == f"{prefix}/include"
    assert wheel["library_path"] == [f"{prefix}/lib"]


def test_the_loaders_short_name_of_a_system_with_merged_usr(tree: Make) -> None:
    short = "/lib/x86_64-linux-gnu/libnccl.so.2"
    host = tree({short: NCCL, "/usr/include/nccl.h": ""}, {("ldconfig", "-p"): f"\tlibnccl.so.2 (libc6,x86-64) => {short}\n"})
    assert toolchain.inspect_toolchain(host, "x86_64", None, "/opt/railwright/nccl", None, None)["nccl"]["include"] == "/usr/include"


def test_a_library_without_its_header_builds_nothing_but_runs(tree: Make) -> None:
    library = "/opt/railwright/nccl/2.30.7/lib/libnccl.so.2"
    seen = toolchain.inspect_toolchain(tree({library: NCCL}), "x86_64", None, "/opt/railwright/nccl", None, None)
    assert seen["nccl"] is None
    assert seen["library_path"] == ["/opt/railwright/nccl/2.30.7/lib"]


OMPI = "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
SHOW = "cc -I{0}/include -pthread -L{0}/lib -Wl,-rpath -Wl,{0}/lib -Wl,--enable-new-dtags -lmpi\n"


def test_openmpi_in_a_prefix_as_recorded(tree: Make) -> None:
    prefix = "/opt/openmpi"
    names = ("bin/mpirun", "bin/mpicc", "include/mpi.h", "lib/libmpi.so")
    host = tree({f"{prefix}/{name}": "" for name in names}, {("mpirun", "--version"): OMPI, ("mpicc", "-show"): SHOW.format(prefix)})
    found = toolchain.find_mpi(host, prefix)
    assert found == {"kind": "openmpi5", "version": "5.0.11", "include": f"{prefix}/include", "library": f"{prefix}/lib/libmpi.so",
                     "directory": f"{prefix}/lib"}


def test_debians_openmpi_from_documentation(tree: Make) -> None:
    """Headers and links below /usr/lib/ARCH/openmpi; mpicc may be MPICH's by an alternative, mpicc.openmpi never is."""
    home = "/usr/lib/x86_64-linux-gnu/openmpi"
    files = (f"{home}/include/mpi.h", f"{home}/lib/libmpi.so", "/usr/bin/mpicc.openmpi", "/usr/bin/mpicc", "/usr/bin/mpirun.openmpi")
    host = tree(dict.fromkeys(files, ""),
                {("mpirun.openmpi", "--version"): "mpirun.openmpi (Open MPI) 4.1.4\n",
                 ("mpicc.openmpi", "-show"): f"gcc -I{home}/include -I{home}/include/openmpi -L{home}/lib -lmpi\n",
                 ("mpicc", "-show"): "gcc -I/elsewhere -lmpich\n"})
    (Path(host.root) / "usr/bin/mpirun.openmpi").chmod(0o755)
    found = toolchain.find_mpi(host, None)
    assert found is not None
    assert (found["kind"], found["include"], found["library"]) == ("openmpi4", f"{home}/include", f"{home}/lib/libmpi.so")


def test_mpich_of_debian_is_called_libmpich_from_documentation(tree: Make) -> None:
    version = "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x\n"
    files: dict[str, str | bytes] = dict.fromkeys(("/usr/bin/mpirun", "/usr/bin/mpicc.mpich", "/usr/include/x86_64-linux-gnu/mpich/mpi.h",
                                                   "/usr/lib/x86_64-linux-gnu/libmpich.so"), "")
    host = tree(files, {("mpirun", "--version"): version, ("mpicc.mpich", "-show"):
                        "gcc -Wl,-z,relro -I/usr/include/x86_64-linux-gnu/mpich -L/usr/lib/x86_64-linux-gnu -lmpich\n"})
    found = toolchain.find_mpi(host, "/usr")
    assert found is not None
    assert (found["kind"], found["library"]) == ("mpich", "/usr/lib/x86_64-linux-gnu/libmpich.so")


def test_an_mpi_without_compiler_runs_and_does_not_build(tree: Make) -> None:
    host = tree({"/usr/lib64/openmpi/bin/mpirun": ""}, {("mpirun", "--version"): OMPI})
    seen = toolchain.inspect_toolchain(host, "x86_64", None, "/opt/railwright/nccl", None, "/usr/lib64/openmpi")
    assert seen["mpi"] is None
    assert seen["library_path"] == ["/usr/lib64/openmpi/lib"]


def gpu(device: str) -> dict[str, str | bytes]:
    return {f"{GPU}/vendor": "0x10de\n", f"{GPU}/class": "0x030200\n", f"{GPU}/device": f"{device}\n", f"{GPU}/numa_node": "0\n"}


SMI = ("nvidia-smi", "--query-gpu=pci.bus_id,compute_cap", "--format=csv,noheader")


def test_the_driver_knows_a_gpus_capability_from_documentation(tree: Make) -> None:
    host = tree(gpu("0x3182"), {SMI: "00000000:1B:00.0, 10.3\n"})
    [found] = toolchain.inspect_toolchain(host, "x86_64", None, "/opt/railwright/nccl", None, None)["gpus"]
    assert found == {"pci": "0000:1b:00.0", "device_id": "0x3182", "capability": "10.3"}


@pytest.mark.parametrize("answer", ["", "00000000:1B:00.0, [N/A]\n", "No devices were found\n", "00000000:2B:00.0, 8.0\n"])
def test_without_its_word_the_catalogue_knows_or_nobody(tree: Make, answer: str) -> None:
    host = tree(gpu("0x2330"), {SMI: answer})
    assert toolchain.inspect_toolchain(host, "x86_64", None, "/opt/railwright/nccl", None, None)["gpus"][0]["capability"] == "9.0"


@pytest.mark.parametrize(("device", "capability"), [
    ("0x1db5", "7.0"), ("0x1eb8", "7.5"), ("0x20b2", "8.0"), ("0x2235", "8.6"), ("0x25b6", "8.6"), ("0x26b5", "8.9"), ("0x27b8", "8.9"),
    ("0x2330", "9.0"), ("0x2335", "9.0"), ("0x2901", "10.0"), ("0x15f8", None), ("0x3182", None), ("", None),
])
def test_capabilities_of_the_catalogue(device: str, capability: str | None) -> None:
    assert compute_capability(Gpu("0000:1b:00.0", device, 0)) == capability


def library(path: str, origin: str) -> LoadableNccl:
    return LoadableNccl(path, "2.30.7", origin)


def test_directories_of_the_system_are_never_named() -> None:
    """In LD_LIBRARY_PATH they would come before what a program was linked to find elsewhere."""
    for standard in ("/usr/lib64", "/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        assert toolchain.library_path([library(f"{standard}/libnccl.so.2", "prefix")], standard, None) == []
    assert toolchain.library_path([library("/n/lib/libnccl.so.2", "prefix")], "/m/lib", {"home": "/usr/local/cuda"}) == [
        "/n/lib", "/m/lib", "/usr/local/cuda/lib64"]


class Ldd(TreeHost):
    said = ""
    rc = 1

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        return Result(self.rc, self.said, "why not" if self.rc != 1 else "")


@pytest.mark.parametrize(("said", "missing"), [
    ("\tlibnccl.so.2 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n", ["libnccl.so.2"]),
    ("/x: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /x)\n", ["version `GLIBC_2.38' not found"]),
    ("\tlibnccl.so.2 => /n/lib/libnccl.so.2 (0x1)\n", []),
    ("\tnot a dynamic executable\n", []),
])
def test_what_the_loader_would_not_find(tmp_path: Path, said: str, missing: list[str]) -> None:
    host = Ldd(str(tmp_path))
    host.said = said
    assert toolchain.unresolved(host, "/x", ["/n/lib"]) == missing


@pytest.mark.parametrize("rc", [124, 125])
def test_a_loader_without_an_end_is_no_sign_that_nothing_is_missing(tmp_path: Path, rc: int) -> None:
    host = Ldd(str(tmp_path))
    host.rc = rc
    with pytest.raises(RailwrightError, match="ldd /x: why not"):
        toolchain.unresolved(host, "/x", ["/n/lib"])
