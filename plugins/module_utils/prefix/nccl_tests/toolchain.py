# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has that decides where nccl-tests is built: GPUs, nvcc, NCCL, MPI, tools; and its builds with their checksums. Read-only.

``drop``: the words before a command line that take root's rights away. A program that somebody else than root compiled or owns is not
even inspected by the loader as root: it loads the audit libraries that the program names (DT_AUDIT), and runs them, for ldd too.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...catalogue.drivers import compute_capability
from ...errors import RailwrightError
from ...formats import sysfs_values
from ...formats.outside import json_object, mapping
from ...host.commands import check_answers, on_mount, sums
from ...host.host import CUT, Host
from ...observe.devices import observe_gpus
from ...observe.mpi import MPICH, found_mpi, hpcx_words
from ...observe.nccl_libraries import LDCONFIG, LoadableNccl, nccl_libraries
from ...observe.nvidia_smi import smi_rows
from ..installer import MANIFEST_LIMIT

ENDING, MANIFEST = "_perf", "manifest.json"  # of a program's name; beside the programs
TOOLS = ("make", "g++", "tar", "gzip", "sha256sum", "setpriv", "timeout")
CUDA = "/usr/local/cuda"
PCI = "0000:00:00.0"  # the form of an address in sysfs
# Where the loader and the linker look anyway: never named, or they would come before what a program asks for by itself.
STANDARD = re.compile(r"/(?:usr/)?lib(?:64|/[a-z0-9_]+-linux-gnu)?/?\Z")
_RELEASE = re.compile(r"release ([0-9]{1,9}\.[0-9]{1,9})")
_CODE = re.compile(r"\bsm_[0-9]+\b")
_MISSING = re.compile(r"^[ \t]*(\S+) => not found$|(version `[^'\n]{1,100}' not found)", re.MULTILINE)
LIBRARIES = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")


def inspect_toolchain(
    host: Host, arch: str, cuda_version: Optional[str], nccl_prefix: str, nccl_origin: Optional[str], mpi_prefix: Optional[str],
    mpi_install: str = "none", drop: Sequence[str] = (),
) -> Dict[str, Any]:
    """One node, as the plan wants it. ``nccl_origin``: which NCCL the inventory installs; None: what the loader finds first."""
    libraries = [library for library in nccl_libraries(host, nccl_prefix) if library.version is not None]
    libraries.sort(key=lambda library: library.origin != nccl_origin)
    mpi = find_mpi(host, mpi_prefix, mpi_install, drop)
    nvcc = find_nvcc(host, cuda_version)
    nccl = next((row for row in (_with_header(host, library) for library in libraries) if row is not None), None)
    return {
        "arch": arch, "gpus": _gpus(host), "nvcc": nvcc, "nccl": nccl, "mpi": mpi if mpi is not None and mpi["library"] else None,
        "missing_tools": [tool for tool in TOOLS if host.which(tool) is None],
        "library_path": library_path(libraries, mpi["directory"] if mpi is not None else None, nvcc),
    }


def _gpus(host: Host) -> List[Dict[str, Any]]:
    """The driver's word on every GPU, else the catalogue's. nvidia-smi writes a PCI address with eight digits in front."""
    found = observe_gpus(host)
    rows = (smi_rows(host, ("pci.bus_id", "compute_cap")) or []) if found else []
    told = {address.lower()[-len(PCI):]: capability for address, capability in rows if re.match(r"[0-9]{1,2}\.[0-9]\Z", capability)}
    return [{"pci": gpu.pci, "device_id": gpu.device_id, "capability": told.get(gpu.pci) or compute_capability(gpu)} for gpu in found]


def gencode(codes: Sequence[str]) -> str:
    """NVCC_GENCODE: machine code for exactly these GPUs, sm_90 or 90."""
    return " ".join("-gencode=arch=compute_%s,code=sm_%s" % (code, code) for code in (code.replace("sm_", "") for code in codes))


def find_nvcc(host: Host, version: Optional[str]) -> Optional[Dict[str, Any]]:
    """Path, home, release and machine codes of the release that the inventory wants, else of the node's default, else of the newest."""
    homes = ["%s-%s" % (CUDA, version)] if version else []
    others = [name for name in host.listdir("/usr/local") if re.match(r"cuda-[0-9.]+\Z", name)]
    others.sort(key=sysfs_values.natural_key, reverse=True)
    homes += [CUDA] + ["/usr/local/" + name for name in others]
    paths = ["%s/bin/nvcc" % home for home in homes]
    plain = host.which("nvcc")
    for path in paths + ([plain] if plain is not None else []):
        answer = host.run((path, "--version"), 60.0) if host.exists(path) else None
        release = _RELEASE.search(answer.out) if answer is not None and answer.ok else None
        if release is not None:
            codes = sorted(set(_CODE.findall(_codes(host, path))), key=sysfs_values.natural_key)
            return {"path": path, "home": path[:-len("/bin/nvcc")], "version": release.group(1), "codes": codes}
    return None


def _codes(host: Host, nvcc: str) -> str:
    """CUDA before 11.5 lists its GPUs in the help only."""
    answer = host.run((nvcc, "--list-gpu-code"), 60.0)
    return answer.out if answer.ok and _CODE.search(answer.out) else host.run((nvcc, "--help"), 60.0).out


def _with_header(host: Host, library: LoadableNccl) -> Optional[Dict[str, Any]]:
    """A library and the directory of its nccl.h: beside lib (a prefix, a wheel), or two above (/usr/lib/x86_64-linux-gnu)."""
    # /lib is a link to /usr/lib, and the loader's cache holds the short name
    parts = ("/usr" + library.path if library.path.startswith("/lib") else library.path).split("/")
    for depth in (2, 3):
        include = "/".join(parts[:-depth]) + "/include"
        if host.exists(include + "/nccl.h"):
            return {"library": library.path, "include": include, "version": library.version, "origin": library.origin}
    return None


def find_mpi(host: Host, prefix: Optional[str], install: str = "none", drop: Sequence[str] = ()) -> Optional[Dict[str, Any]]:
    """The MPI that starts the ranks, and, where it has an mpicc, headers and library in mpicc's own words."""
    for mpi in found_mpi(host, prefix, install, drop)[:1]:
        place: Dict[str, Any] = {
            "kind": mpi.kind, "version": mpi.version, "directory": mpi.prefix + "/lib", "include": None, "library": None}
        names = ("mpicc.mpich" if mpi.kind == MPICH else "mpicc.openmpi", "mpicc")  # Debian's mpicc may be another one's
        compiler = next((path for path in ("%s/bin/%s" % (mpi.prefix, name) for name in names) if host.exists(path)), None)
        if compiler is not None:
            place.update(_compiled_for(host, list(drop) + hpcx_words(mpi.mpirun) + [compiler]))
        return place
    return None


def _compiled_for(host: Host, compiler: Sequence[str]) -> Dict[str, Any]:
    """``mpicc -show`` prints the compiler's command line, of Open MPI as of MPICH."""
    answer = host.run(list(compiler) + ["-show"], 30.0)
    words = answer.out.split() if answer.ok else []
    includes = [word[2:] for word in words if word.startswith("-I")] + ["/usr/include"]
    directories = [word[2:] for word in words if word.startswith("-L")] + list(LIBRARIES)
    names = [word[2:] for word in words if re.match(r"-lmpi(ch)?\Z", word)]
    include = next((directory for directory in includes if host.exists(directory + "/mpi.h")), None)
    files = ["%s/lib%s.so" % (directory, name) for name in names for directory in directories]
    library = next((path for path in files if host.exists(path)), None)
    if include is None or library is None:
        return {}
    return {"include": include, "library": library, "directory": library.rpartition("/")[0]}


def library_path(libraries: Sequence[LoadableNccl], mpi: Optional[str], nvcc: Optional[Mapping[str, Any]]) -> List[str]:
    """LD_LIBRARY_PATH on this node: what the loader does not find by itself, NCCL first. ``mpi``: the directory of libmpi."""
    directories = [libraries[0].path.rpartition("/")[0]] if libraries and libraries[0].origin != LDCONFIG else []
    directories += [mpi] if mpi is not None else []
    directories += [nvcc["home"] + "/lib64"] if nvcc is not None else []
    return [directory for directory in dict.fromkeys(directories) if not STANDARD.match(directory)]


def read_manifest(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """The manifest of a directory; None for what is none."""
    found = json_object(text) or {}
    programs = mapping(found.get("programs"))
    return found if programs and all(isinstance(value, str) for value in programs.values()) else None


def state(host: Host, directory: str) -> Dict[str, Any]:
    """Every program of a directory with its sha256, and the manifest beside them. By children alone: it may be on a mount."""
    check_answers(host, directory)
    one_level = ("-mindepth", "1", "-maxdepth", "1")
    wanted = ("-type", "f", "-name", "*" + ENDING, "-perm", "/111", "-printf", "%f\\0")
    listed = on_mount(host, directory, ("find", "-L", directory) + one_level + wanted)
    manifest = on_mount(host, directory, ("head", "-c", "%d" % MANIFEST_LIMIT, "--", "%s/%s" % (directory, MANIFEST)))
    programs = sums(host, directory, sorted(name for name in listed.out.split("\0") if name))
    return {"programs": programs, "manifest": read_manifest(manifest.out if manifest.ok else None)}


def unresolved(host: Host, program: str, libraries: Sequence[str], drop: Sequence[str] = ()) -> List[str]:
    """Shared libraries, or versions of their symbols, that the loader would not find for a program."""
    answer = host.run(list(drop) + ["env", "LD_LIBRARY_PATH=" + ":".join(libraries), "ldd", program], 30.0)
    if answer.rc in (124, CUT):
        raise RailwrightError("ldd %s: %s" % (program, answer.err))
    found = {name or version for name, version in _MISSING.findall(answer.out + answer.err)}
    return sorted(found)
