# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL belongs below nccl_prefix on this node, from which file, and whether it lies there already. Reads only.

Every release has a directory of its own, ``2.30.7-cu13`` of a wheel and ``2.30.7-cu13-sm90`` of a build, with lib, include and a
manifest. What is in place is never changed: it is the wanted one, or somebody has to say what shall become of it. The link
``current`` names the one that the inventory asks for.
"""

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..catalogue.artifacts import NCCL_RELEASE, download_url, find, pinned
from ..catalogue.drivers import driver_fits, minimum_driver
from ..catalogue.gpus import compute_capability
from ..catalogue.libnccl import cuda_for_driver, wanted_cuda
from ..errors import RailwrightError
from ..formats.outside import is_digits, read_json
from ..host.commands import sums
from ..host.host import Host
from ..observe.gpu_driver import driver_on_disk, loaded_driver, smi_rows
from ..observe.nccl_library import CURRENT, NAME
from ..spec.model import Spec
from ..types import Identity
from .nccl_tests.toolchain import find_nvcc

CACHE = "/var/cache/railwright/nccl"
MANIFEST = "railwright.json"
TOOLS = (("make", "make"), ("g++", "g++ (EL: gcc-c++)"), ("python3", "python3"), ("which", "which"), ("tar", "tar"),
         ("gzip", "gzip"))


class Wanted(NamedTuple):
    """One release in its directory. ``url`` None: the file comes from the controller."""

    install: str  # wheel or source
    version: str
    cuda: str  # major version
    directory: str
    artifact: str
    url: Optional[str]
    sha256: str
    file: str  # where the wheel or archive is brought to
    toolkit: str  # source: CUDA_HOME
    release: str  # source: of that toolkit, like 13.0
    codes: Tuple[str, ...]  # source: the GPUs that it is built for, like 90
    node: str  # its host name: the prefix may lie on a file system that nodes share

    @property
    def staging(self) -> str:
        """Beside its place, so that a rename puts it there."""
        parent, _slash, name = self.directory.rpartition("/")
        return "%s/.%s.%s.part" % (parent, name, self.node)

    @property
    def link(self) -> str:
        return self.directory.rpartition("/")[0] + "/" + CURRENT


def wanted(host: Host, spec: Spec, identity: Identity) -> Optional[Wanted]:
    """None where the inventory wants none here. Raises RailwrightError with one line where it cannot be had."""
    install = spec["nccl_install"]
    if install not in ("wheel", "source") or not identity.gpus:
        return None
    version = spec["nccl_version"] or NCCL_RELEASE
    toolkit = find_nvcc(host, spec["cuda_version"])
    driver = driver_on_disk(host, identity.kernel).version or loaded_driver(host).version
    codes: Tuple[str, ...] = ()
    if install == "source":
        home, release = _toolkit(spec, toolkit)
        cuda = release.partition(".")[0]
        codes = _codes(host, identity, (toolkit or {}).get("codes", []))
        _check_tools(host)
    else:
        home, release, cuda = "", "", _cuda_of_wheel(spec, toolkit, driver)
    _check_driver(driver, cuda)
    name = "nccl-source" if install == "source" else "nccl-wheel-cu%s-%s" % (cuda, identity.arch)
    url, sha256 = _artifact(spec, name, version)
    if url is None and spec["nccl_archive"] is None:
        raise RailwrightError("nothing says where %s %s is; set nccl_archive to the file, or nccl_version to %s and nccl_wheel_index" % (
            name, version, NCCL_RELEASE))
    directory = "%s/%s" % (spec["nccl_prefix"].rstrip("/"), "-".join([version, "cu" + cuda] + ["sm" + code for code in codes]))
    file = "%s/%s-%s%s" % (CACHE, name, version, ".whl" if install == "wheel" else ".tar.gz")
    return Wanted(install, version, cuda, directory, name, None if spec["nccl_archive"] is not None else url, sha256, file, home,
                  release, codes, re.sub(r"[^A-Za-z0-9.-]", "-", identity.hostname))


def _toolkit(spec: Spec, found: Optional[Dict[str, Any]]) -> Tuple[str, str]:
    """CUDA_HOME and its release, of the toolkit that the inventory wants where it names one."""
    asked = spec["cuda_version"]
    if found is None or (asked is not None and found["version"] != asked):
        raise RailwrightError("nccl_install source needs nvcc of CUDA%s, this node has %s; set cuda_version, apply, or use the wheel" % (
            " " + asked if asked else "", "none" if found is None else "only that of CUDA " + found["version"]))
    return str(found["home"]), str(found["version"])


def _codes(host: Host, identity: Identity, supported: List[str]) -> Tuple[str, ...]:
    """Compute capabilities without their dot: what the driver says, else the catalogue."""
    rows = smi_rows(host, ("compute_cap",))
    told = [row[0] for row in rows] if rows is not None else [compute_capability(gpu) for gpu in identity.gpus]
    found = {(text or "").replace(".", "") for text in told}
    if not all(is_digits(code) for code in found):
        raise RailwrightError("the compute capability of this node's GPUs is not known: the driver does not answer and the catalogue lacks "
                              "one of them; load the driver first, or use the wheel")
    missing = sorted(code for code in found if supported and "sm_" + code not in supported)
    if missing:
        raise RailwrightError("nvcc of this node does not build for compute capability %s of its GPUs; set another cuda_version, or use "
                              "the wheel" % ", ".join(missing))
    return tuple(sorted(found, key=int))


def _check_tools(host: Host) -> None:
    missing = [package for tool, package in TOOLS if host.which(tool) is None]
    if missing:
        raise RailwrightError("nccl_install source needs %s: not on this node; railwright apply installs the compiler" % ", ".join(missing))


def _cuda_of_wheel(spec: Spec, toolkit: Optional[Dict[str, Any]], driver: Optional[str]) -> str:
    """What the inventory says, else the node's toolkit, else the newest that its driver runs."""
    cuda = wanted_cuda(spec) or (str(toolkit["version"]).partition(".")[0] if toolkit else cuda_for_driver(driver or ""))
    if not cuda:
        raise RailwrightError("which CUDA the wheel has to be for is not known: this node has no CUDA and no driver; set cuda_version or "
                              "gpu_driver_branch")
    return cuda


def _check_driver(driver: Optional[str], cuda: str) -> None:
    if driver is not None and not driver_fits(cuda, driver):
        raise RailwrightError("NCCL for CUDA %s needs driver %s or newer, this node has %s; set gpu_driver_branch to a newer one, or an "
                              "older cuda_version" % (cuda, minimum_driver(cuda), driver))


def _artifact(spec: Spec, name: str, version: str) -> Tuple[Optional[str], str]:
    """(URL, sha256). The catalogue's checksum is of its own release only, and a wheel's URL too: it is made of the wheel."""
    artifact = find(name)
    if artifact is None:
        raise RailwrightError("no %s is known; allowed: nccl_install source, or another cuda_version" % name)
    same = version == artifact.version
    sha256 = pinned(artifact, spec) if same else spec["artifact_pins"].get(name)
    if sha256 is None:
        raise RailwrightError("nobody here vouches for %s %s: set rdma_artifact_pins.%s to its sha256" % (name, version, name))
    url = download_url(artifact, spec, version) if same or name == "nccl-source" else None
    return url, sha256


def gencode(codes: Tuple[str, ...]) -> str:
    """NVCC_GENCODE of NCCL's Makefile."""
    return " ".join("-gencode=arch=compute_%s,code=sm_%s" % (code, code) for code in codes)


def manifest(library: Wanted, release: str, sha256: str) -> str:
    """What the directory says of itself; ``release``: of the CUDA that the file says it was built with, ``sha256``: of that file."""
    found = {
        "name": "nccl", "version": library.version, "cuda": release, "install": library.install, "artifact": library.artifact,
        "artifact_sha256": library.sha256, "gencode": gencode(library.codes), "files": {"lib/" + NAME: sha256},
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def in_place(host: Host, library: Wanted) -> bool:
    """Whether it lies there whole. Raises RailwrightError where something else lies in its place."""
    if not host.exists(library.directory):
        return False
    try:
        found = read_json(host.read(library.directory + "/" + MANIFEST, 65536) or "")
    except ValueError:
        found = None
    wrong: Optional[str] = None
    if not isinstance(found, dict) or not isinstance(found.get("files"), dict):
        wrong = "it has no manifest of railwright's (%s)" % MANIFEST
    elif found.get("artifact_sha256") != library.sha256:
        wrong = "it was made from another file than the one that is pinned now"
    elif sums(host, library.directory + "/lib", [NAME]).get(NAME) != found["files"].get("lib/" + NAME):
        wrong = "lib/%s is not the file that was put there" % NAME
    if wrong is not None:
        raise RailwrightError("%s is there, but %s; remove it, or set another nccl_prefix" % (library.directory, wrong))
    return True


def make_argv(library: Wanted, jobs: int) -> List[str]:
    """The build: the library and its headers, without the static library and the tools beside it.

    CUDA's version is told: the Makefile asks ``which`` for it, and small installations have none.
    """
    major, _dot, minor = library.release.partition(".")
    return ["make", "-C", library.staging + "/source", "-j%d" % jobs, "src.lib", "BUILDDIR=%s/build" % library.staging,
            "CUDA_HOME=" + library.toolkit, "NVCC=%s/bin/nvcc" % library.toolkit, "NVCC_GENCODE=" + gencode(library.codes),
            "CUDA_MAJOR=" + major, "CUDA_MINOR=" + minor]


def build_jobs(host: Host) -> int:
    """As many compilers as there are CPUs, and memory: one for GPU code takes up to 2 GiB."""
    cpus = len([name for name in host.listdir("/sys/devices/system/cpu") if name[:3] == "cpu" and is_digits(name[3:])])
    free = re.search(r"^MemAvailable: +([0-9]{1,18}) kB$", host.read("/proc/meminfo") or "", re.MULTILINE)
    return max(1, min(cpus, int(free.group(1)) // (2 * 1024 * 1024) if free is not None else cpus))


def as_result(library: Wanted, host: Host) -> Dict[str, Any]:
    """What the role is told. ``missing``: it has to be made; ``needed``: that, or the link leads elsewhere."""
    missing = not in_place(host, library)
    linked = host.readlink(library.link) == library.directory.rpartition("/")[2]
    return {
        "install": library.install, "version": library.version, "cuda": library.cuda, "directory": library.directory, "missing": missing,
        "needed": missing or not linked, "artifact": library.artifact, "url": library.url, "sha256": library.sha256, "file": library.file,
    }
