# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's GPUs, driver branches, CUDA and cuDNN: what is pinned, what fits together, and the packages by family. Pure.

apt takes the newest version of whatever a package depends on, and NVIDIA's packages depend on each
other in exactly one version: an older release than the newest installs only while ``version_pins``
stand in apt's preferences (NVIDIA ships such pins as nvidia-driver-pinning-VERSION, which would have
to be installed in a step of its own). dnf finds the matching versions itself, within a module stream.
"""

import re
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.sysfs_values import integer
from ..formats.versions import compare
from ..spec.model import Spec
from ..types import Gpu, Identity
from .artifacts import rows_of


class Branch(NamedTuple):
    """One branch of the driver."""

    name: str  # 580
    version: str  # the release that the catalogue pins
    kind: str  # long-term support, production
    eol: str  # ISO date: the last day of the month that NVIDIA names
    source: str


class Wanted(NamedTuple):
    """One package to have. ``version`` is a glob, matched against the package manager's form; None: any."""

    name: str
    version: Optional[str]
    why: str
    source: str


class VersionPin(NamedTuple):
    """apt: of these packages (globs) this version (a glob) is taken, whatever newer one a repository holds."""

    packages: Tuple[str, ...]
    version: str
    why: str


_LIFE = "NVIDIA (supported drivers and CUDA toolkit versions, 620 documentation)"
_REDIST = "NVIDIA (compute/nvidia-driver/redist, redistrib_%s.json of %s); "
BRANCHES = (
    Branch("580", "580.173.02", "long-term support", "2028-06-30", "NVIDIA/gpu-driver-container 858 (2026-07-07); " + _LIFE),
    Branch("595", "595.91.07", "production", "2027-03-31", _REDIST % ("595.91.07", "2026-08-03") + _LIFE),
    Branch("620", "620.70.06", "long-term support", "2029-09-30", _REDIST % ("620.70.06", "2026-11-04") + _LIFE),
)
# Minor version compatibility: a toolkit runs on any driver from this branch on, whatever driver it was released with.
MINIMUM_DRIVERS = {"13": "580", "12": "525", "11": "450"}
MINIMUM_SOURCE = "NVIDIA (CUDA compatibility, table of minor version compatibility)"
LAST_PROPRIETARY = 619  # 620 has open kernel modules only
_GUIDE = "NVIDIA (driver installation guide)"
_AZ = "AZ (install_nvidiagpudriver.sh, install_nvidia_fabric_manager.sh)"
_CUDA_GUIDE = "NVIDIA (CUDA installation guide for Linux: meta packages)"
_CUDNN = "NVIDIA's CUDA repository: package names as public build files of CUDA 12 and 13 install them"
_NVLINK5 = "NVIDIA/gpu-driver-container (install.sh of rhel10 and ubuntu24.04)"
NVLSM, IMEX, DCGM = "nvlsm", "nvidia-imex", "datacenter-gpu-manager-4-cuda"
FABRIC_TOOLS = {
    NVLSM: "the NVLink subnet manager, which the fabric manager starts: without it the NVSwitches stay as they are",
    "infiniband-diags": "the fabric manager's start finds the management port with it",
}
DRIVER_GLOBS = ("*nvidia*", "libcuda1", "libcudadebugger1", "libnvcuvid1", "libnvoptix1", "libxnvctrl*", "cuda-drivers*")
# What a GPU's PCI device id says. NVIDIA gives ids out by generation, in rising order: below 0x1e00 nothing is Turing or later (the open
# modules' list of compatible GPUs begins at 0x1e02), and from 0x2900 on everything is Blackwell or later.
TURING = 0x1E00
BLACKWELL = 0x2900
GRACE_HOPPER = (0x2340, 0x237F)  # first and last id of the superchips: GH200 of 96 GB and 144 GB, GH100-88K-A1 and those to come
# HGX boards whose NVSwitches sit behind ConnectX-7 bridges: no function of NVIDIA's on the PCI bus shows them.
HIDDEN_NVSWITCH = (0x2901, 0x2909, 0x3182)  # B200, HGX B200 168GB, B300 SXM6 AC
# Superchips whose NVSwitches are in trays of their own, and are managed there: what joins their nodes is nvidia-imex.
RACK_NVSWITCH = (0x2941, 0x31A1, 0x31C2, 0x31C3)  # HGX GB200, GB300 MaxQ, GB300
FABRIC_CHIPS = (0x2300, 0x23FF)  # Hopper; from BLACKWELL on all. Older chips say nothing of the NVLink fabric
# First and last id of a generation as pci.ids has them, and the compute capability of its chips (NVIDIA, CUDA GPUs).
# Newer ones only the driver knows: ids of Blackwell are not in order of chips.
CAPABILITIES = (
    (0x1DB1, 0x1DBE, "7.0"),  # GV100
    (0x1E00, 0x1FFF, "7.5"),  # TU102 to TU106
    (0x20B0, 0x20FF, "8.0"),  # GA100
    (0x2200, 0x22FF, "8.6"),  # GA102
    (0x2302, 0x23FF, "9.0"),  # GH100
    (0x2482, 0x25FF, "8.6"),  # GA104 to GA107
    (0x2684, 0x28FF, "8.9"),  # AD102 to AD107
    (0x2901, 0x2901, "10.0"),  # B200
)
GPUS_SOURCE = "OGK (README, compatible GPUs), pci.ids (c1c1254), NVIDIA (open modules are the only ones for Grace Hopper and Blackwell)"
_NUMBERS = re.compile(r"(?:[0-9]+:)?([0-9]{3,4}(?:\.[0-9]{1,9})+)")  # of a package version, 1:580.95.05-1ubuntu1


def find_branch(name: str) -> Optional[Branch]:
    return next((row for row in BRANCHES if row.name == name), None)


def wanted_driver(values: Mapping[str, Any]) -> Optional[str]:
    """The version of the driver that the inventory asks for, where it can be told from the inventory alone."""
    branch = values["gpu_driver_branch"]
    if branch is None:
        return None
    row = find_branch(branch)
    pinned = row.version if row is not None and values.get("gpu_driver_source") == "cuda_repository" else None
    return numbers_of(values["gpu_driver_version"]) or pinned


def numbers_of(version: Optional[str]) -> Optional[str]:
    """580.95.05 of a package's version."""
    found = _NUMBERS.match(version or "")
    return found.group(1) if found is not None else None


def minimum_driver(cuda_version: str) -> str:
    """The oldest driver that a CUDA release runs on; '' for a major version that the catalogue does not know."""
    return MINIMUM_DRIVERS.get(cuda_version.partition(".")[0], "")


def driver_fits(cuda_version: str, driver: str) -> bool:
    """Whether a CUDA release runs on a driver (a version, or a branch)."""
    return compare(driver, minimum_driver(cuda_version), "redhat") >= 0


def driver_glob(spec: Spec) -> Optional[str]:
    """The driver's packages by version: of the release that is asked for or pinned, else of the branch. None without a branch."""
    branch: Optional[str] = spec["gpu_driver_branch"]
    if branch is None:
        return None
    version: Optional[str] = spec["gpu_driver_version"]
    row = find_branch(branch)
    if version is None and row is not None and spec["gpu_driver_source"] == "cuda_repository":
        version = row.version
    return branch + ".*" if version is None else version if "-" in version else version + "-*"


def wants_cuda_repository(spec: Spec, identity: Identity) -> bool:
    """NVIDIA's repository is for what comes from there: the driver unless it is the distribution's, CUDA, NCCL, the container toolkit."""
    driver = spec["gpu_driver_branch"] is not None and spec["gpu_driver_source"] == "cuda_repository"
    software = driver or spec["cuda_version"] is not None or spec["nccl_install"] == "repository"
    return bool(identity.gpus) and (software or wants_toolkit(spec, identity))


def wants_toolkit(spec: Spec, identity: Identity) -> bool:
    """The container toolkit is for nodes with a GPU, where the inventory asks for it and for its use."""
    asked = spec["containers_toolkit_install"] and spec["containers_gpu"] != "none" and spec["containers_runtime"] != "none"
    return bool(asked and identity.gpus)


def gpu_packages(spec: Spec, identity: Identity) -> Tuple[Wanted, ...]:
    """The driver's packages; () where no branch is set, the node has no GPU, or nothing is known for its system."""
    version = driver_glob(spec)
    if version is None or not identity.gpus:
        return ()
    if spec["gpu_driver_source"] == "distribution":
        names = _distribution_names(spec, identity)
    elif spec["cuda_repository_url"] is None and rows_of("cuda", identity)[0] is None:
        return ()
    else:
        names = _nvidia_names(spec, identity)
    # What comes beside it in versions of its own: whatever there is.
    return tuple(Wanted(name, None if name in FABRIC_TOOLS or name.startswith(DCGM) else version, why, source)
                 for name, why, source in names)


def _nvidia_names(spec: Spec, identity: Identity) -> List[Tuple[str, str, str]]:
    """(name, why, source) in NVIDIA's repository. The meta packages follow the newest branch: the version says which."""
    is_open = spec["gpu_driver_flavour"] == "open"
    meta = ("nvidia-open" if is_open else "cuda-drivers", "the driver with %s kernel modules" % spec["gpu_driver_flavour"], _GUIDE)
    family = identity.platform.family
    if family not in ("debian", "redhat"):
        return []
    names = [meta]
    if family == "redhat":
        module = "kmod-nvidia-open-dkms" if is_open else "kmod-nvidia-latest-dkms"
        names.append((module, "kernel modules, built on the node by DKMS: the kernel need not be one that NVIDIA built for", _GUIDE))
        names.append(("nvidia-driver-cuda", "nvidia-smi and the CUDA driver library", _GUIDE))
        if spec["gpu_driver_persistence"]:
            names.append(("nvidia-persistenced", "keeps the driver initialised", _GUIDE))
    branch = str(spec["gpu_driver_branch"])
    if wants_fabricmanager(spec, identity):  # one name since 580; before that each family had its own
        older = "nvidia-fabricmanager-" + branch if family == "debian" else "nvidia-fabric-manager"
        names.append(("nvidia-fabricmanager" if int(branch) >= 580 else older, "NVSwitch: must have exactly the driver's version", _AZ))
        if identity.switch_functions:
            names += [(name, why, _NVLINK5) for name, why in FABRIC_TOOLS.items()]
    if spec["gpu_driver_dcgm"]:
        major = next((one for one, oldest in MINIMUM_DRIVERS.items() if int(branch) >= int(oldest)), "11")
        names.append((DCGM + major, "DCGM for the CUDA that the driver brings", "NVIDIA (DCGM installation)"))
    if wants_imex(spec, identity):
        names.append((IMEX if int(branch) >= 580 else "%s-%s" % (IMEX, branch),
                      "joins the GPUs of a rack: must have exactly the driver's version", _NVLINK5))
    return names


def wants_fabricmanager(spec: Spec, identity: Identity) -> bool:
    wanted = spec["gpu_driver_fabricmanager"]
    return bool(identity.nvswitches or identity.switch_functions) if wanted is None else bool(wanted)


def wants_imex(spec: Spec, identity: Identity) -> bool:
    return in_rack_fabric(identity.gpus) if spec["gpu_driver_imex"] is None else bool(spec["gpu_driver_imex"])


def _distribution_names(spec: Spec, identity: Identity) -> List[Tuple[str, str, str]]:
    """Ubuntu's server flavour is the one whose fabric manager follows; Debian has one driver and no fabric manager that we know of."""
    branch, is_open = spec["gpu_driver_branch"], spec["gpu_driver_flavour"] == "open"
    if identity.switch_functions and wants_fabricmanager(spec, identity):
        return []  # no distribution has the NVLink subnet manager
    if wants_imex(spec, identity):
        return []  # nor that we know of nvidia-imex
    if identity.platform.id == "ubuntu":
        source = "Ubuntu (restricted: nvidia-graphics-drivers-%s-server)" % branch
        names = [("nvidia-driver-%s-server%s" % (branch, "-open" if is_open else ""), "the driver as Ubuntu builds it", source)]
        if wants_fabricmanager(spec, identity):
            names.append(("nvidia-fabricmanager-%s" % branch, "NVSwitch: must have exactly the driver's version",
                          "Ubuntu (multiverse: fabric-manager-%s)" % branch))
        return names
    if identity.platform.id == "debian" and not wants_fabricmanager(spec, identity):
        source = "Debian (non-free: nvidia-graphics-drivers)"
        module = "nvidia-open-kernel-dkms" if is_open else "nvidia-kernel-dkms"
        return [("nvidia-driver", "the driver as Debian builds it", source), (module, "its kernel modules, built here by DKMS", source)]
    return []


def module_stream(spec: Spec, identity: Identity) -> Optional[str]:
    """EL 8 and 9: the stream of module nvidia-driver that holds the branch. EL 10 and later have no modules."""
    major = identity.platform.version.partition(".")[0]
    branch = spec["gpu_driver_branch"]
    if branch is None or spec["gpu_driver_source"] != "cuda_repository" or not identity.gpus or major not in ("8", "9"):
        return None
    return "nvidia-driver:%s-%s" % (branch, "open" if spec["gpu_driver_flavour"] == "open" else "dkms")


def version_pins(spec: Spec, identity: Identity) -> Tuple[VersionPin, ...]:
    """What apt must take from NVIDIA's repository at one version though it holds newer ones."""
    pins = []
    driver = driver_glob(spec)
    if driver is not None and spec["gpu_driver_source"] == "cuda_repository" and identity.gpus:
        pins.append(VersionPin(DRIVER_GLOBS, driver, "packages of the driver depend on each other in one version"))
    if cudnn_glob(spec) is not None and identity.gpus:
        pins.append(VersionPin(("libcudnn*", "cudnn*"), cudnn_glob(spec) or "", "cuDNN's headers and libraries go together"))
    return tuple(pins)


def cudnn_glob(spec: Spec) -> Optional[str]:
    """``9.13.*`` of 9.13, ``9.13.1.26-*`` of all four numbers."""
    version = spec["cuda_cudnn_version"]
    if version is None or spec["cuda_version"] is None:
        return None
    whole = version.count(".") >= 3
    return str(version) if "-" in version else "%s-*" % version if whole else "%s.*" % version


def cuda_packages(spec: Spec, identity: Identity) -> Tuple[Wanted, ...]:
    """CUDA's and cuDNN's packages; () where no version is set, the node has no GPU, or NVIDIA has no repository for its system."""
    version = spec["cuda_version"]
    if version is None or not identity.gpus or identity.platform.family not in ("debian", "redhat"):
        return ()
    if spec["cuda_repository_url"] is None and rows_of("cuda", identity)[0] is None:
        return ()
    major, _dot, minor = version.partition(".")
    # Only the packages that bear CUDA's name have its version; libcublas-13-0 is 13.1.
    rows = [Wanted("%s-%s-%s" % (name, major, minor), "%s.*" % version if name.startswith("cuda-") else None, "CUDA %s" % version,
                   _CUDA_GUIDE) for name in spec["cuda_packages"]]
    cudnn = cudnn_glob(spec)
    if cudnn is not None:
        library = "libcudnn" + cudnn.partition(".")[0]
        devel = "dev" if identity.platform.family == "debian" else "devel"
        parts = (("", "cuDNN"), ("-headers", "cuDNN's headers"), ("-" + devel, "to build against cuDNN"))
        rows += [Wanted("%s%s-cuda-%s" % (library, part, major), cudnn, why, _CUDNN) for part, why in parts]
    return tuple(rows)


def number_of(gpu: Gpu) -> Optional[int]:
    return integer(gpu.device_id)


def only_open(gpus: Tuple[Gpu, ...]) -> Tuple[Gpu, ...]:
    """Those that the proprietary kernel modules do not drive."""
    return tuple(gpu for gpu in gpus if (number_of(gpu) or 0) >= BLACKWELL or _between(gpu, GRACE_HOPPER))


def only_proprietary(gpus: Tuple[Gpu, ...]) -> Tuple[Gpu, ...]:
    """Those that the open kernel modules do not drive."""
    return tuple(gpu for gpu in gpus if 0 < (number_of(gpu) or 0) < TURING)


def hides_nvswitches(gpus: Sequence[Gpu]) -> bool:
    """Whether these GPUs come on a board with NVSwitches that the PCI bus does not show."""
    return any(number_of(gpu) in HIDDEN_NVSWITCH for gpu in gpus)


def in_rack_fabric(gpus: Sequence[Gpu]) -> bool:
    """Whether these GPUs are joined by the NVSwitches of a whole rack."""
    return any(number_of(gpu) in RACK_NVSWITCH for gpu in gpus)


def tells_fabric(gpus: Sequence[Gpu]) -> bool:
    """Whether these GPUs say how far the NVLink fabric is, where they are part of one. One whose id cannot be read may."""
    return any(not number_of(gpu) or (number_of(gpu) or 0) >= BLACKWELL or _between(gpu, FABRIC_CHIPS) for gpu in gpus)


def _between(gpu: Gpu, ids: Tuple[int, int]) -> bool:
    return ids[0] <= (number_of(gpu) or 0) <= ids[1]


def compute_capability(gpu: Gpu) -> Optional[str]:
    """``9.0`` for an H100, without asking a driver; None for a chip that the catalogue does not have."""
    number = number_of(gpu) or 0
    return next((capability for first, last, capability in CAPABILITIES if first <= number <= last), None)
