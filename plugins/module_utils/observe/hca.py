# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices and their ports as sysfs shows them, any vendor: InfiniBand, RoCE, iWARP, eRDMA, rxe."""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from ..types import Hca
from .devices import (
    CLASS_INFINIBAND,
    CLASS_NET,
    attribute,
    driver_of,
    entries,
    hardware_macs,
    netdev_with_dev_port,
    netdev_with_mac,
    pci_of,
    sibling_netdevs,
    soft_parent,
)
from .gids import first_netdev, observe_gids, port_guid

# Port counters: whatever the driver offers, by the names of its files.
#
# ``N/A (no PMA)`` of a virtual function, EINVAL of a restricted one and anything else
# that is no number is None: a counter that cannot be read is not zero.


def observe_counters(host: Host, directory: str) -> Dict[str, Optional[int]]:
    """Every counter of a directory in alphabetical order; {} when there is no such directory."""
    return {
        name: sysfs_values.integer(attribute(host, directory + "/" + name))
        for name in host.listdir(directory) if sysfs_values.is_name(name)
    }


def observe_hw_counters(host: Host, hca: str, port: str) -> Dict[str, Optional[int]]:
    """The driver's counters: of the port, else of the device (erdma and others know no ports there)."""
    return observe_counters(host, port + "/hw_counters") or observe_counters(host, hca + "/hw_counters")


SOFT_ROCE_DRIVER = "rdma_rxe"


class Place(NamedTuple):
    """Where one HCA sits, found once and used for its identity and its facts."""

    path: str
    name: str
    node_guid: Optional[str]
    pci: Optional[str]
    driver: Optional[str]
    siblings: List[str]
    soft_parent: Optional[str]


def places(host: Host) -> List[Place]:
    """Every HCA of the node in natural order."""
    return host.once("places of HCAs", lambda: [_place(host, name) for name in entries(host, CLASS_INFINIBAND)])


def _place(host: Host, name: str) -> Place:
    path = CLASS_INFINIBAND + "/" + name
    node_guid = sysfs_values.guid(attribute(host, path + "/node_guid"))
    parent = soft_parent(host, path)
    if parent is not None:  # up to Linux 5.9 rxe borrowed its interface's PCI device as its own
        return Place(path, name, node_guid, None, SOFT_ROCE_DRIVER, [], parent)
    return Place(path, name, node_guid, pci_of(host, path), driver_of(host, path), sibling_netdevs(host, path), None)


def port_numbers(host: Host, hca: str) -> List[int]:
    numbers = (sysfs_values.integer(name) for name in host.listdir(hca + "/ports"))
    return sorted(number for number in numbers if number is not None and number >= 0)


def port_netdev(host: Host, place: Place, number: int, kernel_netdev: Optional[str], macs: Mapping[str, str]) -> Optional[str]:
    """The interface of a port: what the kernel's GID table says, else what belongs to the device."""
    return (
        kernel_netdev
        or place.soft_parent
        or netdev_with_dev_port(host, place.siblings, number)
        or (netdev_with_mac(macs, place.node_guid) if not place.siblings else None)
    )


def observe_identities(host: Host) -> Tuple[Hca, ...]:
    """HCAs as identities: nothing here changes with their health."""
    found = places(host)
    macs = hardware_macs(host) if found else {}
    return tuple(_identity(host, place, macs) for place in found)


def _identity(host: Host, place: Place, macs: Mapping[str, str]) -> Hca:
    ports = tuple(port_numbers(host, place.path))
    netdevs: List[str] = []
    guids = []
    link_layer: Optional[str] = None
    for number in ports:
        path = "%s/ports/%d" % (place.path, number)
        netdevs.append(port_netdev(host, place, number, first_netdev(host, path), macs) or "")
        layer = sysfs_values.token(attribute(host, path + "/link_layer"))
        link_layer = link_layer or layer
        gid = sysfs_values.gid(attribute(host, path + "/gids/0"))
        guids.append(port_guid([{"index": 0, "gid": gid}] if gid else None, layer) or "")
    names = [name for name in netdevs + place.siblings if name]
    unique = tuple(name for at, name in enumerate(names) if name not in names[:at])
    on_bus = place.soft_parent is None  # what lies behind rxe's borrowed link is the interface's, not its own
    device_id = sysfs_values.hex_text(attribute(host, place.path + "/device/device")) if on_bus else None
    return Hca(place.name, place.node_guid, place.pci, place.driver, unique, ports, tuple(guids), link_layer, tuple(netdevs), device_id)


def observe_hcas(host: Host, active_mtus: Mapping[Tuple[str, int], int]) -> List[Dict[str, Any]]:
    """The ``hcas`` part of the facts object."""
    found = places(host)
    macs = hardware_macs(host) if found else {}
    return [_hca(host, place, macs, active_mtus) for place in found]


def _hca(host: Host, place: Place, macs: Mapping[str, str], active_mtus: Mapping[Tuple[str, int], int]) -> Dict[str, Any]:
    path = place.path

    def read(name: str) -> Optional[str]:
        return attribute(host, path + "/" + name)

    on_bus = place.soft_parent is None  # what lies behind rxe's borrowed link is the interface's, not its own
    return {
        "name": place.name,
        "node_type": sysfs_values.enum_text(read("node_type")),
        "node_guid": place.node_guid,
        "sys_image_guid": sysfs_values.guid(read("sys_image_guid")),
        "board_id": sysfs_values.token(read("board_id")),
        "fw_ver": sysfs_values.token(read("fw_ver")),
        "hw_rev": sysfs_values.token(read("hw_rev")),
        "hca_type": sysfs_values.token(read("hca_type")),
        "pci_address": place.pci,
        "vendor_id": sysfs_values.hex_text(read("device/vendor")) if on_bus else None,
        "device_id": sysfs_values.hex_text(read("device/device")) if on_bus else None,
        "numa_node": sysfs_values.integer(read("device/numa_node")) if on_bus else None,
        "driver": place.driver,
        "ports": [_port(host, place, number, macs, active_mtus) for number in port_numbers(host, path)],
    }


def _port(host: Host, place: Place, number: int, macs: Mapping[str, str], active_mtus: Mapping[Tuple[str, int], int]) -> Dict[str, Any]:
    path = "%s/ports/%d" % (place.path, number)

    def read(name: str) -> Optional[str]:
        return attribute(host, path + "/" + name)

    gids = observe_gids(host, path)
    link_layer = sysfs_values.token(read("link_layer"))
    kernel_netdev = next((entry["netdev"] for entry in gids or [] if entry["netdev"] is not None), None)
    netdev = port_netdev(host, place, number, kernel_netdev, macs)
    return {
        "number": number,
        "state": sysfs_values.enum_text(read("state")),
        "phys_state": sysfs_values.enum_text(read("phys_state")),
        "rate_gbps": sysfs_values.rate_gbps(read("rate")),
        "link_layer": link_layer,
        "lid": sysfs_values.integer(read("lid")),
        "lmc": sysfs_values.integer(read("lid_mask_count")),
        "sm_lid": sysfs_values.integer(read("sm_lid")),
        "cap_mask": sysfs_values.hex_text(read("cap_mask")),
        "port_guid": port_guid(gids, link_layer),
        "active_mtu": active_mtus.get((place.name, number)),
        "netdev": netdev,
        "netdev_mtu": sysfs_values.integer(attribute(host, "%s/%s/mtu" % (CLASS_NET, netdev))) if netdev is not None else None,
        "gids": gids,
        "counters": observe_counters(host, path + "/counters"),
        "hw_counters": observe_hw_counters(host, place.path, path),
    }


# active_mtu, the one port attribute that sysfs lacks: from ``ibv_devinfo -v`` or its recording.
#
# It is never computed from an interface's MTU: the two differ exactly when something is wrong.

PortKey = Tuple[str, int]

_HCA = re.compile(r"\s*hca_id:\s*(\S+)\s*\Z")
_PORT = re.compile(r"\s*port:\s*([0-9]{1,3})\s*\Z")
_ACTIVE_MTU = re.compile(r"\s*active_mtu:\s*([0-9]{3,4})(?: \([0-9]+\))?\s*\Z")
MTUS = (256, 512, 1024, 2048, 4096)  # enum ibv_mtu; a recording cut off in the number gives none of them
TIMEOUT = 20.0  # a device in trouble makes ibv_open_device wait for its firmware


def active_mtus(host: Host) -> Dict[PortKey, int]:
    """(HCA, port) -> active_mtu in bytes. A port that verbs does not tell about is missing."""
    if host.live:
        return parse_devinfo(host.run(["ibv_devinfo", "-v"], TIMEOUT).out)
    found: Dict[PortKey, int] = {}
    for name in host.listdir("/cmd"):
        if name.startswith("ibv_devinfo"):  # with or without -v, or one file a device (-d mlx5_0)
            found.update(parse_devinfo(host.read("/cmd/" + name) or ""))
    return found


def parse_devinfo(text: str) -> Dict[PortKey, int]:
    """The active_mtu lines of ``ibv_devinfo``, with or without -v."""
    found: Dict[PortKey, int] = {}
    hca, port = None, None
    for line in text.splitlines():
        hca_line, port_line, mtu_line = _HCA.match(line), _PORT.match(line), _ACTIVE_MTU.match(line)
        if hca_line:
            hca, port = sysfs_values.name(hca_line.group(1)), None
        elif port_line:
            port = int(port_line.group(1))
        elif mtu_line and hca is not None and port is not None and int(mtu_line.group(1)) in MTUS:
            found[(hca, port)] = int(mtu_line.group(1))
    return found
