# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a class device of sysfs sits: its PCI function, its driver. And the GPUs and NVSwitches on the PCI bus, with a driver or without.

NVSwitches of NVLink 5 (HGX B200, B300) are no PCI functions: the node manages them over functions of ConnectX-7 bridges, which look
like InfiniBand HCAs in everything but one word of their Vital Product Data (NVIDIA/gpu-driver-container, _assert_nvlink5_system).

Shared by the identity of a node and by its facts, so that the two cannot name a device differently. What a function is, its class says
(PCI code and id assignment specification). The audio function of a card (0x0403) and virtual functions that this machine itself hands
out (they have a ``physfn`` link) are left out.
"""

from typing import Dict, List, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from ..types import Gpu

CLASS_INFINIBAND = "/sys/class/infiniband"
CLASS_NET = "/sys/class/net"
PCI_DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")  # VGA controller; 3D controller: data centre GPUs
_NVSWITCH_CLASSES = ("0x0680",)  # another bridge
MELLANOX = "0x15b3"
_INFINIBAND_CLASSES = ("0x0207",)
SWITCH_MANAGEMENT = b"SW_MNG"
NVLINK5 = "0x2900"  # drivers.BLACKWELL: the first device id whose GPUs may have it. The catalogue is more than most modules need
VPD_LIMIT = 4096  # a VPD has some hundred bytes; each four cost an access to the configuration space
ATTRIBUTE_LIMIT = 4096  # sysfs hands out at most one page


def attribute(host: Host, path: str) -> Optional[str]:
    return host.read(path, ATTRIBUTE_LIMIT)


def pci_attribute(host: Host, address: str, name: str) -> Optional[str]:
    return attribute(host, "%s/%s/%s" % (PCI_DEVICES, address, name))


def linked_name(host: Host, path: str) -> Optional[str]:
    """The last part of what a link names: a driver, a bond."""
    return sysfs_values.name((host.readlink(path) or "").rstrip("/").rpartition("/")[2])


def entries(host: Host, directory: str) -> List[str]:
    """Device names in a class directory in natural order; plain files in it (bonding_masters) are none."""
    paths = {name: "%s/%s" % (directory, name) for name in host.listdir(directory) if sysfs_values.is_name(name)}
    return sorted((name for name, path in paths.items() if host.readlink(path) is not None or attribute(host, path) is None),
                  key=sysfs_values.natural_key)


def pci_of(host: Host, device: str) -> Optional[str]:
    """PCI function of a class device: from its links, else from the uevent beside it."""
    return (sysfs_values.last_pci_address(host.readlink(device + "/device")) or sysfs_values.last_pci_address(host.readlink(device))
            or sysfs_values.pci_address(_uevent(host, device).get("PCI_SLOT_NAME")))


def _uevent(host: Host, device: str) -> Dict[str, str]:
    return sysfs_values.key_values(attribute(host, device + "/device/uevent"))


def driver_of(host: Host, device: str) -> Optional[str]:
    if host.readlink(device + "/device/driver") is not None:
        return linked_name(host, device + "/device/driver")
    return sysfs_values.name(_uevent(host, device).get("DRIVER"))


def observe_gpus(host: Host) -> Tuple[Gpu, ...]:
    return tuple(
        Gpu(address, sysfs_values.hex_text(pci_attribute(host, address, "device")) or "",
            sysfs_values.integer(pci_attribute(host, address, "numa_node")))
        for address in _functions(host, _GPU_CLASSES))


def observe_nvswitches(host: Host) -> Tuple[str, ...]:
    """PCI addresses of the NVSwitches that the host sees (HGX with A100, H100, H200; those of later systems are no PCI functions)."""
    return tuple(_functions(host, _NVSWITCH_CLASSES))


def observe_switch_functions(host: Host, gpus: Sequence[Gpu]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """PCI addresses: of the functions that manage NVSwitches, and of those of which nobody can tell, because their VPD cannot be read.

    Asked of the PCI bus: they are there before any driver of the RDMA stack is, and the fabric manager needs that driver (gpu-operator
    2781). GPUs that are all older have no such switches: their nodes are spared the reads.
    """
    return host.once("functions that manage NVSwitches", lambda: _switch_functions(host, gpus))


def _switch_functions(host: Host, gpus: Sequence[Gpu]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    older = bool(gpus) and all(gpu.device_id and gpu.device_id < NVLINK5 for gpu in gpus)
    functions = [] if older else _functions(host, _INFINIBAND_CLASSES, MELLANOX)
    vpds = [(address, host.read_bytes("%s/%s/vpd" % (PCI_DEVICES, address), VPD_LIMIT)) for address in functions]
    return (tuple(address for address, vpd in vpds if vpd is not None and SWITCH_MANAGEMENT in vpd),
            tuple(address for address, vpd in vpds if vpd is None))


def pci_functions(host: Host) -> List[str]:
    addresses = [sysfs_values.pci_address(entry) for entry in host.listdir(PCI_DEVICES)]
    return [address for address in addresses if address is not None]


def pci_class(host: Host, address: str) -> str:
    """Base class and subclass, as in 0x0302; '' where they cannot be read."""
    return (pci_attribute(host, address, "class") or "").strip()[:6]


def _functions(host: Host, classes: Tuple[str, ...], vendor: str = NVIDIA) -> List[str]:
    return sorted(
        address for address in pci_functions(host)
        if (pci_attribute(host, address, "vendor") or "").strip() == vendor
        and pci_class(host, address) in classes
        and host.readlink("%s/%s/physfn" % (PCI_DEVICES, address)) is None)
