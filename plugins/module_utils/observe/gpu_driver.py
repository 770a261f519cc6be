# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver of a node with GPUs: what is loaded, what is on disk, and the daemons beside it.

Read from /proc and /sys; ``modinfo`` tells what the next boot would load and ``nvidia-smi`` only what nothing else
does (persistence mode, NVLink fabric). A GPU that fell off the bus can make nvidia-smi hang, so it has a short limit.
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..types import Gpu, Identity
from .devices import PCI_DEVICES, linked_name
from .modules import running_modules
from .nvidia_smi import GPU_LINE, PERSISTENCE, SMI_SECONDS, smi_rows
from .packages import query_packages
from .processes import unit_active

_INFORMATION = "/proc/driver/nvidia/gpus/%s/information"
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def gpu_facts(host: Host, gpus: Sequence[Gpu]) -> List[Dict[str, Any]]:
    """The facts of every GPU; name, uuid and NVLinks only the loaded driver knows."""
    found = []
    loaded = gpus and loaded_driver(host).version is not None
    nvlinks = nvlinks_up(host) if loaded and smi_rows(host, PERSISTENCE) is not None else {}  # one that hangs is not waited for twice
    for gpu in gpus:
        information = _fields(host.read(_INFORMATION % gpu.pci, 4096))
        uuid = information.get("GPU UUID", "")
        found.append({
            "pci": gpu.pci,
            "device_id": gpu.device_id or None,
            "numa_node": gpu.numa_node,
            "driver": linked_name(host, "%s/%s/driver" % (PCI_DEVICES, gpu.pci)),
            "name": information.get("Model"),
            "uuid": uuid if _UUID.match(uuid) else None,  # question marks until the GPU has been initialised once
            "nvlinks": nvlinks.get(uuid),
        })
    return found


def _fields(text: Optional[str]) -> Dict[str, str]:
    """``Model: \t\t NVIDIA H100 80GB HBM3`` lines."""
    pairs = [line.partition(":") for line in lines_in(text or "")]
    return {name.strip(): value.strip() for name, separator, value in pairs if separator and sysfs_values.token(value) is not None}


VERSION_FILE = "/proc/driver/nvidia/version"
FABRICMANAGER = "nvidia-fabricmanager.service"
PERSISTENCED = "nvidia-persistenced.service"
DCGM_UNIT = "nvidia-dcgm.service"
IMEX = "nvidia-imex"
IMEX_UNIT = IMEX + ".service"
HOPPER = "0x2300"  # the first device id of GPUs that say something of the NVLink fabric; those above it that do not say N/A
IMEX_CHANNELS = "/dev/nvidia-caps-imex-channels"
MOST_NVLINKS = 64
# "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)", below it "Link 0: 26.562 GB/s" or "Link 1: <inactive>".
_SMI_LINK = re.compile(r"\s{0,8}Link [0-9]{1,3}: ([0-9]{1,4}(?:\.[0-9]{1,6})?) GB/s\Z")
_NVRM = "NVRM version: "
_NUMBERED = re.compile(r"(?<=[ \t]{2})[0-9]+(?:\.[0-9]+)+(?=\s)")
_VERSION = re.compile(r"[0-9]{3,4}(?:\.[0-9]+)+\Z")
_OPEN_LICENSE = "Dual MIT/GPL"  # of the open modules; the proprietary ones say NVIDIA

# What tells the driver's packages apart, by name: CUDA repository, Debian, Ubuntu. Branch packages are added for BRANCHES.
_NAMES = (
    "nvidia-open", "cuda-drivers", "nvidia-driver", "nvidia-driver-cuda", "nvidia-driver-cuda-libs", "nvidia-kernel-open-dkms",
    "nvidia-kernel-dkms", "nvidia-open-kernel-dkms", "kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms", "nvidia-persistenced",
    "nvidia-fabricmanager", "nvidia-fabric-manager", IMEX, "nvidia-smi", "libcuda1", "datacenter-gpu-manager",
    "datacenter-gpu-manager-4-core", "nvlsm", "infiniband-diags", "libnvsdm",
)
_BY_BRANCH = (
    "nvidia-open-%s", "cuda-drivers-%s", "nvidia-driver-%s", "nvidia-driver-%s-open", "nvidia-driver-%s-server",
    "nvidia-driver-%s-server-open", "nvidia-dkms-%s", "nvidia-dkms-%s-open", "nvidia-dkms-%s-server", "nvidia-dkms-%s-server-open",
    "nvidia-fabricmanager-%s", IMEX + "-%s",
)
_BRANCHES = ("470", "525", "535", "550", "560", "565", "570", "575", "580", "590", "595", "610", "615", "620")


class Driver(NamedTuple):
    """A build of the kernel module: of the one that is loaded, or of the one on disk for the running kernel."""

    version: Optional[str]
    flavour: Optional[str]  # open or proprietary


def loaded_driver(host: Host) -> Driver:
    """The driver says in its version file which kind it is; both None when it is not loaded."""
    for line in lines_in(host.read(VERSION_FILE, 4096) or ""):
        found = _NUMBERED.search(line + "\n") if line.startswith(_NVRM) else None
        if found is not None:
            return Driver(found.group(), "open" if "Open Kernel Module" in line[:found.start()] else "proprietary")
    return Driver(sysfs_values.token(host.line("/sys/module/nvidia/version")), None)


def driver_on_disk(host: Host, kernel: str) -> Driver:
    """What ``modprobe nvidia`` would load into the running kernel now."""
    if not sysfs_values.is_name(kernel):
        return Driver(None, None)
    version = host.run(("modinfo", "-k", kernel, "-F", "version", "nvidia"), 10.0)
    if not version.ok or not _VERSION.match(version.out.strip()):
        return Driver(None, None)
    licence = host.run(("modinfo", "-k", kernel, "-F", "license", "nvidia"), 10.0).out.strip()
    return Driver(version.out.strip(), "open" if licence == _OPEN_LICENSE else "proprietary" if licence else None)


def observe_gpu_driver(host: Host, identity: Identity) -> Optional[Dict[str, Any]]:
    """The facts; None on a node that has neither a GPU nor the driver."""
    loaded = loaded_driver(host)
    if not identity.gpus and loaded.version is None:
        return None
    disk, running = driver_on_disk(host, identity.kernel), running_modules(host)
    packages = query_packages(host, identity, _NAMES + tuple(name % branch for branch in _BRANCHES for name in _BY_BRANCH))
    smi = smi_rows(host, PERSISTENCE) if loaded.version is not None else None
    return {
        "version": loaded.version,
        "flavour": loaded.flavour,
        "disk_version": disk.version,
        "disk_flavour": disk.flavour,
        "loaded_matches_installed": loaded.version == disk.version if loaded.version and disk.version else None,
        "packages": packages,
        "modules": None if running is None else sorted(name for name in running if name == "nvidia" or name.startswith("nvidia_")),
        "nouveau_loaded": module_loaded(host, "nouveau"),
        "fabricmanager": _fabricmanager(host, identity, packages, smi is not None),
        "imex": _imex(host, packages),
        "persistence": {
            "running": unit_active(host, PERSISTENCED),
            "mode": None if smi is None else {str(sysfs_values.pci_address(row[0][-12:])): row[1] for row in smi},
        },
    }


def module_loaded(host: Host, name: str) -> Optional[bool]:
    running = running_modules(host)
    return None if running is None else name in running


def nvlinks_up(host: Host) -> Dict[str, List[float]]:
    """By UUID of a GPU the rate of each NVLink that is up: GB/s in each direction, as nvidia-smi prints it."""
    if host.which("nvidia-smi") is None:
        return {}
    answer = host.run(("nvidia-smi", "nvlink", "--status"), SMI_SECONDS)
    found: Dict[str, List[float]] = {}
    rates: List[float] = []
    for line in lines_in(answer.out) if answer.ok else ():
        gpu, link = GPU_LINE.match(line), _SMI_LINK.match(line)
        if gpu is not None:
            rates = found.setdefault(gpu.group(1), [])
        elif link is not None and len(rates) < MOST_NVLINKS and float(link.group(1)) > 0:  # a link without a rate carries nothing
            rates.append(float(link.group(1)))
    return found


def _fabricmanager(host: Host, identity: Identity, packages: Optional[Mapping[str, str]], answers: bool) -> Dict[str, Any]:
    """``states``: what the GPUs say of the NVLink fabric (Completed once the fabric manager has done its work, wherever it runs).

    ``statuses``: with which error, valid only of those that are Completed (nvidia-smi --help-query-gpu of driver 580). ``answers``:
    nvidia-smi did so a moment ago; one that hangs is not waited for twice.
    """
    version = _version_of(packages, "nvidia-fabric-?manager")
    asked = bool(identity.nvswitches) or any((gpu.device_id or HOPPER) >= HOPPER for gpu in identity.gpus)
    rows = smi_rows(host, ("fabric.state", "fabric.status")) if answers and asked else None
    return {
        "installed": None if packages is None else version is not None,
        "version": version,
        "running": unit_active(host, FABRICMANAGER),
        "states": None if rows is None else sorted({row[0] for row in rows}),
        "statuses": None if rows is None else sorted({row[1] for row in rows}),
        "switch_functions": list(identity.switch_functions),
        "unread_functions": list(identity.unread_functions),
    }


def _imex(host: Host, packages: Optional[Mapping[str, str]]) -> Dict[str, Any]:
    """The service that joins the GPUs of a rack's nodes, and the channels over which a job may use it."""
    return {
        "version": _version_of(packages, IMEX),
        "running": unit_active(host, IMEX_UNIT),
        "channels": len([name for name in host.listdir(IMEX_CHANNELS) if name.startswith("channel")]),
    }


def _version_of(packages: Optional[Mapping[str, str]], name: str) -> Optional[str]:
    """Of the package that is called so, with or without a branch behind its name."""
    return next((version for key, version in sorted((packages or {}).items()) if re.match(name + r"(?:-[0-9]+)?\Z", key)), None)
