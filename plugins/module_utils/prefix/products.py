# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes as one archive: NCCL, HPC-X, the source of Alibaba's driver. Which release belongs on this node, from which file, and how it
is made and verified.

NCCL's directory is ``2.30.7-cu13`` of a wheel and ``2.30.7-cu13-sm90`` of a build for these GPUs, with lib, include and a manifest.

Of the driver two layouts are known: the public repository (kernel/CMakeLists.txt with kernel/conf/configure-dkms.sh), and what its
packages put into /usr/src (both in one directory). What the vendor's installer holds nobody here has seen: it is searched for either, and
refused with what it does hold where neither is in it. Nothing of the archive is run; DKMS builds it in /usr/src.
"""

import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..areas.erdma.drivers import archive_of, directory
from ..areas.erdma.erdma import desired, observe
from ..catalogue.artifacts import NCCL_RELEASE, download_url, find_artifact, located, mirrored, pinned
from ..catalogue.drivers import compute_capability, driver_fits, minimum_driver
from ..catalogue.libnccl import cuda_for_driver, wanted_cuda
from ..catalogue.mpi import hpcx_artifact
from ..errors import RailwrightError
from ..formats.outside import is_digits
from ..formats.sysfs_values import is_name
from ..formats.text import first_of
from ..host.commands import must, told
from ..host.host import Host
from ..observe.gpu_driver import driver_on_disk, loaded_driver
from ..observe.mpi import HPCX_PREFIX, HPCX_TAIL, MPICH, found_mpi
from ..observe.nccl_libraries import NAME, library_version
from ..observe.nvidia_smi import smi_rows
from ..rules.erdma_mode import DKMS
from ..spec.model import Spec
from ..types import Identity
from .installer import ABSENT, INSTALLED, UNPACK_SECONDS, Installer, Release, plain_name, remove
from .nccl_tests.toolchain import find_nvcc, gencode

CACHE = "/var/cache/railwright"
SPACE = {"wheel": 1024 ** 3, "source": 6 * 1024 ** 3}  # 2.30.7: 0.3 GiB unpacked; of a build an upper bound, not measured
BUILD_SECONDS = 4 * 3600.0
WITHOUT_GPU = "nccl: no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed"
TOOLS = (("make", "make"), ("g++", "g++ (EL: gcc-c++)"), ("python3", "python3"), ("which", "which"), ("tar", "tar"),
         ("gzip", "gzip"))
# Of the driver: what a source has, how many directories below the archive's root it is searched, and how many names a refusal shows.
SCRIPTS = ("conf/configure-dkms.sh", "configure-dkms.sh")
NEEDED = ("CMakeLists.txt", "src/CMakeLists.txt", "config/erdma.cmake")
DEPTH, SHOWN = 4, 10
_FIELD = re.compile(r"^(Name|Version): (\S+)\s*$", re.MULTILINE)


class Recipe(NamedTuple):
    """How one release is made."""

    install: str  # wheel or source
    cuda: str  # major version
    toolkit: str = ""  # source: CUDA_HOME
    release: str = ""  # source: of that toolkit, like 13.0
    codes: Tuple[str, ...] = ()  # source: the GPUs that it is built for, like 90


class Nccl(Installer):
    """A wheel is unpacked, a source is built."""

    remedy = "set another nccl_prefix"
    key_files = ("lib/" + NAME,)

    def __init__(self, host: Host, release: Release, recipe: Recipe) -> None:
        super().__init__(host, release)
        self.recipe = recipe
        self.title = "NCCL from its " + recipe.install
        self.space = SPACE[recipe.install]

    def facts(self) -> Dict[str, Any]:
        return {"install": self.recipe.install, "cuda": self.recipe.cuda}

    def unpack(self, target: str) -> None:
        if self.recipe.install == "source":
            super().unpack(target)
        else:
            must(self.host, (sys.executable, "-I", "-m", "zipfile", "-e", self.release.file, target), "unpack the wheel", UNPACK_SECONDS)

    def finish(self, work: str) -> Tuple[str, Dict[str, Any]]:
        """lib and include, once the library itself says that it is that release. A build takes long where cores are few."""
        host, recipe, made = self.host, self.recipe, work + "/made"
        if recipe.install == "source":
            told(host, make_argv(recipe, work, build_jobs(host)), "build NCCL", BUILD_SECONDS)
            source = work + "/build"
        else:
            self._check_metadata(work + "/unpacked")
            source = work + "/unpacked/nvidia/nccl"
        must(host, ("mkdir", "--", made), "make " + made)
        for part in ("lib", "include"):
            if not host.exists("%s/%s" % (source, part)):
                raise RailwrightError("%s holds no %s of NCCL" % (self.release.artifact, part))
            must(host, ("mv", "-T", "--", "%s/%s" % (source, part), "%s/%s" % (made, part)), "put %s in place" % part)
        remove(host, made + "/lib/pkgconfig")  # it names the directory of the build
        cuda = self._check_library("%s/lib/%s" % (made, NAME))
        if not host.exists(made + "/lib/libnccl.so"):  # what -lnccl looks for; a wheel has none
            must(host, ("ln", "-s", NAME, made + "/lib/libnccl.so"), "make libnccl.so")
        return made, {"name": "nccl", "cuda": cuda, "install": recipe.install, "gencode": gencode(recipe.codes)}

    def _check_metadata(self, unpacked: str) -> None:
        """The wheel's own word on what it is: somebody may have pinned the wrong one."""
        names = [name for name in self.host.listdir(unpacked) if name.endswith(".dist-info")]
        text = self.host.read("%s/%s/METADATA" % (unpacked, names[0]), 65536) if len(names) == 1 else None
        fields = dict(_FIELD.findall(text or ""))
        found = (fields.get("Name", "").replace("_", "-"), fields.get("Version", ""))
        if found != ("nvidia-nccl-cu" + self.recipe.cuda, self.release.version):
            raise RailwrightError("the wheel says that it is %s %s and not nvidia-nccl-cu%s %s" % (
                found[0] or "of no name", found[1] or "of no version", self.recipe.cuda, self.release.version))

    def _check_library(self, path: str) -> str:
        """The release of CUDA that the library says it was built with."""
        version, cuda = library_version(self.host, path)
        release = self.release
        right = version == release.version.partition(".post")[0]
        if not right or cuda is None or cuda.partition(".")[0] != self.recipe.cuda:
            raise RailwrightError("%s holds NCCL %s for CUDA %s and not %s for CUDA %s" % (
                release.artifact, version or "of no version", cuda or "of no version", release.version, self.recipe.cuda))
        return cuda


def wanted_nccl(host: Host, spec: Spec, identity: Identity) -> Optional[Nccl]:
    """None where the inventory wants none here. Raises RailwrightError with one line where it cannot be had."""
    install = spec["nccl_install"]
    if install not in ("wheel", "source") or not identity.gpus:
        return None
    version = spec["nccl_version"] or NCCL_RELEASE
    toolkit = find_nvcc(host, spec["cuda_version"])
    driver = driver_on_disk(host, identity.kernel).version or loaded_driver(host).version
    if install == "source":
        home, release = _toolkit(spec, toolkit)
        cuda = release.partition(".")[0]
        recipe = Recipe(install, cuda, home, release, _codes(host, identity, (toolkit or {}).get("codes", [])))
        missing = [package for tool, package in TOOLS if host.which(tool) is None]
        if missing:
            raise RailwrightError("nccl_install source needs %s: not on this node; railwright apply installs the compiler" % (
                ", ".join(missing)))
    else:
        cuda = _cuda_of_wheel(spec, toolkit, driver)
        recipe = Recipe(install, cuda)
    if driver is not None and not driver_fits(cuda, driver):
        raise RailwrightError("NCCL for CUDA %s needs driver %s or newer, this node has %s; set gpu_driver_branch to a newer one, or an "
                              "older cuda_version" % (cuda, minimum_driver(cuda), driver))
    name = "nccl-source" if install == "source" else "nccl-wheel-cu%s-%s" % (cuda, identity.arch)
    url, sha256 = _artifact(spec, name, version)
    if url is None and spec["nccl_archive"] is None:
        raise RailwrightError("nothing says where %s %s is; set nccl_archive to the file, or nccl_version to %s and nccl_wheel_index" % (
            name, version, NCCL_RELEASE))
    directory = "%s/%s" % (spec["nccl_prefix"].rstrip("/"), "-".join([version, "cu" + cuda] + ["sm" + code for code in recipe.codes]))
    file = "%s/nccl/%s-%s%s" % (CACHE, name, version, ".whl" if install == "wheel" else ".tar.gz")
    source = None if spec["nccl_archive"] is not None else url
    return Nccl(host, Release(version, directory, name, source, sha256, file, plain_name(identity.hostname)), recipe)


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
    texts = [row[0] for row in rows] if rows is not None else [compute_capability(gpu) for gpu in identity.gpus]
    found = {(text or "").replace(".", "") for text in texts}
    if not all(is_digits(code) for code in found):
        raise RailwrightError("the compute capability of this node's GPUs is not known: the driver does not answer and the catalogue lacks "
                              "one of them; load the driver first, or use the wheel")
    missing = sorted(code for code in found if supported and "sm_" + code not in supported)
    if missing:
        raise RailwrightError("nvcc of this node does not build for compute capability %s of its GPUs; set another cuda_version, or use "
                              "the wheel" % ", ".join(missing))
    return tuple(sorted(found, key=int))


def _cuda_of_wheel(spec: Spec, toolkit: Optional[Dict[str, Any]], driver: Optional[str]) -> str:
    """What the inventory says, else the node's toolkit, else the newest that its driver runs."""
    cuda = wanted_cuda(spec) or (str(toolkit["version"]).partition(".")[0] if toolkit else cuda_for_driver(driver or ""))
    if not cuda:
        raise RailwrightError("which CUDA the wheel has to be for is not known: this node has no CUDA and no driver; set cuda_version or "
                              "gpu_driver_branch")
    return cuda


def _artifact(spec: Spec, name: str, version: str) -> Tuple[Optional[str], str]:
    """(URL, sha256). The catalogue's checksum is of its own release only, and a wheel's URL too: it is made of the wheel."""
    artifact = find_artifact(name)
    if artifact is None:
        raise RailwrightError("no %s is known; allowed: nccl_install source, or another cuda_version" % name)
    same = version == artifact.version
    sha256 = pinned(artifact, spec, version)
    if sha256 is None:
        raise RailwrightError("%s %s is not pinned here: set rdma_artifact_pins.%s to its sha256" % (name, version, name))
    url = download_url(artifact, spec, version) if same or name == "nccl-source" else None
    return url, sha256


def make_argv(recipe: Recipe, work: str, jobs: int) -> List[str]:
    """The build: the library and its headers, without the static library and the tools beside it.

    CUDA's version is told: the Makefile asks ``which`` for it, and small installations have none.
    """
    major, _dot, minor = recipe.release.partition(".")
    return ["make", "-C", work + "/unpacked", "-j%d" % jobs, "src.lib", "BUILDDIR=%s/build" % work,
            "CUDA_HOME=" + recipe.toolkit, "NVCC=%s/bin/nvcc" % recipe.toolkit, "NVCC_GENCODE=" + gencode(recipe.codes),
            "CUDA_MAJOR=" + major, "CUDA_MINOR=" + minor]


def build_jobs(host: Host) -> int:
    """As many compilers as there are CPUs, and memory: one for GPU code takes up to 2 GiB."""
    cpus = len([name for name in host.listdir("/sys/devices/system/cpu") if name[:3] == "cpu" and is_digits(name[3:])])
    free = re.search(r"^MemAvailable: +([0-9]{1,18}) kB$", host.read("/proc/meminfo") or "", re.MULTILINE)
    return max(1, min(cpus, int(free.group(1)) // (2 * 1024 * 1024) if free is not None else cpus))


class Hpcx(Installer):
    """Unpacked as it is."""

    title = "HPC-X"
    space = 4 * 1024 ** 3  # choice: the archive has some hundred MB, and is packed by bzip2
    remedy = "set another mpi_version"
    key_files = (HPCX_TAIL[1:],)

    def finish(self, work: str) -> Tuple[str, Dict[str, Any]]:
        """Once its own mpirun starts from where it lies."""
        if not self.host.exists(work + "/unpacked" + HPCX_TAIL):
            raise RailwrightError("%s is not laid out as HPC-X is: there is no %s below its first directory, which holds %s" % (
                self.release.artifact, HPCX_TAIL[1:], archive_contents(self.host, work + "/unpacked")))
        answers = [row for row in found_mpi(self.host, work + "/unpacked") if row.kind != MPICH]
        if not answers:
            raise RailwrightError("%s holds no %s that runs on this node" % (self.release.artifact, HPCX_TAIL[1:]))
        return work + "/unpacked", {"name": "hpcx", "mpi": answers[0].version}


def wanted_hpcx(host: Host, spec: Spec, identity: Identity) -> Optional[Hpcx]:
    """None where the inventory wants none. Raises RailwrightError with one line where it cannot be had."""
    if spec["mpi_install"] != "hpcx":
        return None
    artifact = hpcx_artifact(identity.platform, identity.arch)
    if artifact is None:
        raise RailwrightError("the catalogue has no HPC-X for %s (%s); use openmpi or mpich, or unpack one and name it in mpi_prefix" % (
            identity.platform.pretty or identity.platform.id, identity.arch))
    version = spec["mpi_version"] or artifact.version
    sha256 = pinned(artifact, spec, version)
    if sha256 is None:
        raise RailwrightError("%s %s is not pinned here: set rdma_artifact_pins.%s to its sha256" % (
            artifact.name, version, artifact.name))
    url = None if spec["mpi_archive"] is not None else mirrored(located(artifact, version), spec["artifact_mirror"])
    file = "%s/hpcx/%s-%s.tbz" % (CACHE, artifact.name, version)
    return Hpcx(host, Release(version, "%s/%s" % (HPCX_PREFIX, version), artifact.name, url, sha256, file, plain_name(identity.hostname)))


class ErdmaDriver(Installer):
    """DKMS builds it from its place, and inspects no name with a dot in front."""

    title = "the driver's source"
    strip = 0
    linked = False

    def state(self) -> Tuple[str, str]:
        """What somebody else put there whole is as good."""
        there = self.host.exists("%s/%s" % (self.release.directory, NEEDED[0]))
        return (INSTALLED if there else ABSENT), ""

    def finish(self, work: str) -> Tuple[str, Dict[str, Any]]:
        found = source_in(self.host, work + "/unpacked")
        if found is None:
            raise RailwrightError("%s %s holds no source of the driver in a layout that is known (%s beside %s); it holds %s. Its own "
                                  "installer is not run: run it yourself and set erdma_driver: auto, or use the public source" % (
                                      self.release.artifact, self.release.version, NEEDED[0], " or ".join(SCRIPTS),
                                      archive_contents(self.host, work + "/unpacked")))
        return found, {"name": "erdma"}


def wanted_erdma_driver(host: Host, spec: Spec, identity: Identity) -> Optional[ErdmaDriver]:
    """What has to be brought before DKMS can build; None where it is there, or none is wanted. Raises RailwrightError."""
    asked = desired(spec, identity)
    choice = observe(host, asked).choice
    if choice is None or choice.kind != DKMS or not asked.live:
        return None
    source = asked.source
    if source is None or source.version != choice.version:  # what DKMS has from an earlier apply has its source already
        return None
    if source.sha256 is None:
        raise RailwrightError("%s is not pinned here: set rdma_artifact_pins.%s to its sha256" % (source.url, source.artifact))
    return ErdmaDriver(host, Release(
        source.version, directory(source.version), source.artifact, source.url, source.sha256, archive_of(source),
        plain_name(identity.hostname)))


def source_in(host: Host, root: str) -> Optional[str]:
    """The first directory, uppermost first, that is a source of the driver."""
    level = [root]
    for _depth in range(DEPTH + 1):
        for path in level:
            if all(host.exists("%s/%s" % (path, name)) for name in NEEDED) and any(host.exists("%s/%s" % (path, name)) for name in SCRIPTS):
                return path
        level = [below for path in level for below in directories(host, path)]
    return None


def directories(host: Host, path: str) -> List[str]:
    """Real ones: a link in an archive leads nowhere."""
    names = [name for name in host.listdir(path) if is_name(name)]
    return [full for full in ["%s/%s" % (path, name) for name in names] if host.readlink(full) is None and host.listdir(full)]


def archive_contents(host: Host, root: str) -> str:
    """What the archive holds, two levels deep, bounded."""
    names: List[str] = []
    for path in [root] + directories(host, root):
        here = [name for name in host.listdir(path) if is_name(name)]
        names += ["%s/%s" % (path[len(root) + 1:], name) if path != root else name for name in here]
    return first_of(names, SHOWN) or "nothing"
