# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions as sysfs shows them: where they hang, how their links run, their BARs, what their configuration space says.

The links of a path go in pairs: a device and the port above it (root port or a switch's downstream port) have one link,
a switch's upstream port and the port above that one the next. sysfs gives speed and width of a link at both of its ends.
"""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from .devices import PCI_DEVICES, linked_name, pci_attribute
from .pci_config import SPACE_BYTES, ConfigSpace, acs_names, parse_config

MAX_DEPTH = 16  # buses between a device and its root port; a captured tree may hold a loop
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?GT/s(?: PCIe)?\Z")
_NO_WIDTH = (0, 63, 255)  # what kernels print for "no link" and "unknown"
_BARS = 6
_FLAG_MEMORY, _FLAG_64 = 0x200, 0x100000  # include/linux/ioport.h


class Link(NamedTuple):
    """One PCIe link: what it runs at and what its two ends can do. None: not known."""

    device: str
    port: Optional[str]
    speed: Optional[float]  # GT/s
    width: Optional[int]
    device_speed: Optional[float]
    device_width: Optional[int]
    port_speed: Optional[float]
    port_width: Optional[int]

    @property
    def best_speed(self) -> Optional[float]:
        known = [value for value in (self.device_speed, self.port_speed) if value is not None]
        return min(known) if known else None

    @property
    def best_width(self) -> Optional[int]:
        known = [value for value in (self.device_width, self.port_width) if value is not None]
        return min(known) if known else None


def config_of(host: Host, address: str) -> Optional[ConfigSpace]:
    return parse_config(host.read_bytes("%s/%s/config" % (PCI_DEVICES, address), SPACE_BYTES))


def path_above(host: Host, address: str) -> Tuple[str, ...]:
    """The bridges between a function and its root complex, the nearest first, root port last."""
    target = host.readlink("%s/%s" % (PCI_DEVICES, address))
    if target is None:
        return ()
    found: List[str] = []
    for part in target.split("/"):
        function = sysfs_values.pci_address(part)
        if function is not None and function != address:
            found.insert(0, function)
    return tuple(found[:MAX_DEPTH])


def links_of(host: Host, address: str) -> Tuple[Link, ...]:
    """The device's own link first, then those of the switches above it."""
    chain = (address,) + path_above(host, address)
    return tuple(_link(host, chain[at], chain[at + 1] if at + 1 < len(chain) else None) for at in range(0, len(chain), 2))


def _link(host: Host, device: str, port: Optional[str]) -> Link:
    return Link(
        device, port, _speed(host, device, "current_link_speed"), _width(host, device, "current_link_width"),
        _speed(host, device, "max_link_speed"), _width(host, device, "max_link_width"),
        _speed(host, port, "max_link_speed") if port is not None else None,
        _width(host, port, "max_link_width") if port is not None else None)


def _speed(host: Host, address: str, name: str) -> Optional[float]:
    """``32.0 GT/s PCIe`` (``16 GT/s`` up to Linux 5.4); ``Unknown`` where the port has no link."""
    found = _SPEED.match((pci_attribute(host, address, name) or "").strip())
    return float(found.group(1)) if found else None


def _width(host: Host, address: str, name: str) -> Optional[int]:
    width = sysfs_values.integer(pci_attribute(host, address, name))
    return width if width is not None and width not in _NO_WIDTH and 0 < width <= 32 else None


def driver_of_function(host: Host, address: str) -> Optional[str]:
    return linked_name(host, "%s/%s/driver" % (PCI_DEVICES, address))


def passed_through(host: Host) -> Tuple[str, ...]:
    """Functions that belong to a virtual machine (bound to vfio-pci): ACS above them is what keeps that machine in."""
    addresses = [sysfs_values.pci_address(entry) for entry in host.listdir(PCI_DEVICES)]
    return tuple(address for address in addresses if address is not None and driver_of_function(host, address) == "vfio-pci")


def is_virtual_function(host: Host, address: str) -> bool:
    return host.readlink("%s/%s/physfn" % (PCI_DEVICES, address)) is not None


def bars_of(host: Host, address: str) -> Optional[List[Dict[str, Any]]]:
    """The memory BARs: ``{index, address, size, bits}``; an address of 0 is one that the firmware found no room for."""
    text = pci_attribute(host, address, "resource")
    if text is None:
        return None
    found: List[Dict[str, Any]] = []
    for index, line in enumerate(text.splitlines()[:_BARS]):
        fields = [sysfs_values.integer(field) for field in line.split()]
        if len(fields) != 3 or fields[0] is None or fields[1] is None or fields[2] is None:
            continue
        start, end, flags = fields[0], fields[1], fields[2]
        if flags & _FLAG_MEMORY and end > start:
            found.append({"index": index, "address": "0x%x" % start, "size": end - start + 1, "bits": 64 if flags & _FLAG_64 else 32})
    return found


def link_facts(host: Host, address: str) -> Dict[str, Any]:
    """The ``link`` object of an HCA or GPU."""
    links = links_of(host, address)
    config = config_of(host, address)
    express = config.express if config is not None else None
    return {
        "path": list(path_above(host, address)),
        "links": [_as_dict(link) for link in links],
        "max_payload": express.max_payload if express is not None else None,
        "max_read_request": express.max_read_request if express is not None else None,
        "relaxed_ordering": express.relaxed_ordering if express is not None else None,
        "bars": bars_of(host, address),
        "sriov": _sriov(host, address),
        "iommu": sysfs_values.name(pci_attribute(host, address, "iommu_group/type")),
        "virtual_function": is_virtual_function(host, address),
    }


def _as_dict(link: Link) -> Dict[str, Any]:
    return {
        "device": link.device, "port": link.port, "speed_gts": link.speed, "width": link.width,
        "best_speed_gts": link.best_speed, "best_width": link.best_width,
        "device_speed_gts": link.device_speed, "device_width": link.device_width,
        "port_speed_gts": link.port_speed, "port_width": link.port_width,
    }


def _sriov(host: Host, address: str) -> Optional[Dict[str, Optional[int]]]:
    """None where the function has no SR-IOV capability (or none that the firmware enables)."""
    total = sysfs_values.integer(pci_attribute(host, address, "sriov_totalvfs"))
    if total is None:
        return None
    return {"total": total, "enabled": sysfs_values.integer(pci_attribute(host, address, "sriov_numvfs"))}


def bridges_above(host: Host, addresses: Iterable[str]) -> Dict[str, List[str]]:
    """Every bridge above these functions, with those of them that are below it."""
    found: Dict[str, List[str]] = {}
    for address in addresses:
        for bridge in path_above(host, address):
            below = found.setdefault(bridge, [])
            if address not in below:
                below.append(address)
    return found


def acs_facts(host: Host, addresses: Iterable[str]) -> List[Dict[str, Any]]:
    """Access Control Services of every bridge above GPUs and HCAs that has them; ``enabled`` None: not readable (needs root)."""
    found: List[Dict[str, Any]] = []
    for bridge, below in sorted(bridges_above(host, addresses).items()):
        config = config_of(host, bridge)
        if config is not None and config.extended and config.acs is None:
            continue  # read whole, and there is none
        if config is not None and config.complete and not config.extended:
            continue  # 256 bytes: conventional PCI
        acs = config.acs if config is not None else None
        found.append({"bridge": bridge, "enabled": list(acs_names(acs.control)) if acs is not None else None, "below": below})
    return found
