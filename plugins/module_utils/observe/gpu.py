# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA GPUs and NVSwitches of a node, from the PCI bus: there with or without a driver.

What a function is, its class says (PCI code and id assignment specification): 0x0300 VGA controller, 0x0302 3D controller
(data centre GPUs), 0x0680 another bridge (NVSwitches). The audio function of a card (0x0403) and virtual functions that this
machine itself hands out (they have a ``physfn`` link) are left out.
"""

import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from ..types import Gpu
from .devices import PCI_DEVICES, linked_name, pci_attribute

NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
_NVSWITCH_CLASSES = ("0x0680",)
_INFORMATION = "/proc/driver/nvidia/gpus/%s/information"
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def observe_gpus(host: Host) -> Tuple[Gpu, ...]:
    """Every GPU in the order of PCI addresses."""
    return tuple(
        Gpu(address, sysfs_values.hex_text(pci_attribute(host, address, "device")) or "",
            sysfs_values.integer(pci_attribute(host, address, "numa_node")))
        for address in _functions(host, _GPU_CLASSES))


def observe_nvswitches(host: Host) -> Tuple[str, ...]:
    """PCI addresses of the NVSwitches that the host sees (HGX with A100, H100, H200; those of later systems are no PCI functions)."""
    return tuple(_functions(host, _NVSWITCH_CLASSES))


def gpu_facts(host: Host, gpus: Sequence[Gpu]) -> List[Dict[str, Any]]:
    """The facts of every GPU; name and uuid only the loaded driver knows."""
    return [_gpu(host, gpu) for gpu in gpus]


def _gpu(host: Host, gpu: Gpu) -> Dict[str, Any]:
    information = _fields(host.read(_INFORMATION % gpu.pci, 4096))
    uuid = information.get("GPU UUID", "")
    return {
        "pci": gpu.pci,
        "device_id": gpu.device_id or None,
        "numa_node": gpu.numa_node,
        "driver": linked_name(host, "%s/%s/driver" % (PCI_DEVICES, gpu.pci)),
        "name": information.get("Model"),
        "uuid": uuid if _UUID.match(uuid) else None,  # question marks until the GPU has been initialised once
    }


def _functions(host: Host, classes: Tuple[str, ...]) -> List[str]:
    found = []
    for entry in host.listdir(PCI_DEVICES):
        address = sysfs_values.pci_address(entry)
        if address is None or (pci_attribute(host, address, "vendor") or "").strip() != NVIDIA:
            continue
        kind = (pci_attribute(host, address, "class") or "").strip()[:6]
        if kind in classes and host.readlink("%s/%s/physfn" % (PCI_DEVICES, address)) is None:
            found.append(address)
    return sorted(found)


def _fields(text: Optional[str]) -> Dict[str, str]:
    """``Model: \t\t NVIDIA H100 80GB HBM3`` lines."""
    found = {}
    for line in (text or "").splitlines():
        name, separator, value = line.partition(":")
        if separator and sysfs_values.token(value) is not None:
            found[name.strip()] = value.strip()
    return found
