# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices, their ports and GID tables as sysfs shows them, any vendor: InfiniBand, RoCE, iWARP, eRDMA, rxe.

A mlx5 port has 255 GID slots of which a handful are used, and the kernel answers EINVAL for the type and interface of an
empty one: the GIDs are read first, the rest for those that hold something.
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..types import Hca
from .devices import CLASS_INFINIBAND, CLASS_NET, attribute, driver_of, entries, observe_gpus, observe_switch_functions, pci_of

IDENTITY_SLOTS = 16  # the reserved slots of a port's own interface come first (ib_cache.c); identity looks no further


def observe_gids(host: Host, port: str) -> Optional[List[Dict[str, Any]]]:
    """Every used slot of a port's table in order; None when there is no table to read."""
    gids = []
    readable = False
    for index in _numbers(host, port + "/gids"):
        gid = sysfs_values.gid(attribute(host, "%s/gids/%d" % (port, index)))
        readable = readable or gid is not None
        if gid is None or gid == sysfs_values.ZERO_GID:
            continue
        gids.append({
            "index": index,
            "gid": gid,
            "type": sysfs_values.token(attribute(host, "%s/gid_attrs/types/%d" % (port, index))),
            "netdev": _netdev(host, port, index),
        })
    return gids if readable else None


def first_netdev(host: Host, port: str) -> Optional[str]:
    """The interface that the kernel itself ties to a port: the one of its lowest GID."""
    indexes = _numbers(host, port + "/gid_attrs/ndevs")[:IDENTITY_SLOTS]
    return next(filter(None, (_netdev(host, port, index) for index in indexes)), None)


def port_guid(gids: Optional[List[Dict[str, Any]]], link_layer: Optional[str]) -> Optional[str]:
    """sysfs has no file for it: the low half of GID 0, which is how libibumad (ibstat) gets it.

    On Ethernet only a link-local GID 0 holds one; an address in that slot is no GUID.
    """
    gid = next((str(entry["gid"]) for entry in gids or [] if entry["index"] == 0), sysfs_values.ZERO_GID)
    local = link_layer == "InfiniBand" or gid.startswith("fe80:0000:0000:0000:")
    return gid[20:] if local and gid[20:] != "0000:0000:0000:0000" else None


def _netdev(host: Host, port: str, index: int) -> Optional[str]:
    return sysfs_values.name(attribute(host, "%s/gid_attrs/ndevs/%d" % (port, index)))


def _numbers(host: Host, directory: str) -> List[int]:
    numbers = (sysfs_values.integer(name) for name in host.listdir(directory))
    return sorted(number for number in numbers if number is not None and 0 <= number < 65536)


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


# eth0_3 or pf0vf2: ports of an embedded switch beside the uplink (switchdev), never a rail themselves.
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:vf|sf)[0-9]+\Z")
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
    sub_function: bool = False


def places(host: Host) -> List[Place]:
    """Not of the functions that manage NVSwitches: no job's traffic goes over them, and nothing of theirs is ours to set or to judge."""
    return host.once("places of HCAs", lambda: _places(host))


def _places(host: Host) -> List[Place]:
    found = [_place(host, name) for name in entries(host, CLASS_INFINIBAND)]
    management = observe_switch_functions(host, observe_gpus(host))[0] if found else ()
    return [place for place in found if place.pci is None or place.pci not in management]


def _place(host: Host, name: str) -> Place:
    path = CLASS_INFINIBAND + "/" + name
    node_guid = sysfs_values.guid(attribute(host, path + "/node_guid"))
    # The interface that Soft-RoCE runs on. Only rxe has this attribute (rxe_verbs.c parent_show).
    parent = sysfs_values.name(attribute(host, path + "/parent"))
    if parent is not None:  # up to Linux 5.9 rxe borrowed its interface's PCI device as its own
        return Place(path, name, node_guid, None, SOFT_ROCE_DRIVER, [], parent)
    below = host.readlink(path) or ""  # a sub-function is an auxiliary device below the PCI function: …/mlx5_core.sf.4/infiniband/mlx5_4
    return Place(path, name, node_guid, pci_of(host, path), driver_of(host, path), sibling_netdevs(host, path), None, ".sf." in below)


def sibling_netdevs(host: Host, hca: str) -> List[str]:
    """Interfaces of the HCA's own PCI function, without those of its embedded switch."""
    names = filter(sysfs_values.is_name, host.listdir(hca + "/device/net"))
    own = [name for name in names if not _REPRESENTOR.match((attribute(host, "%s/%s/phys_port_name" % (CLASS_NET, name)) or "").strip())]
    return sorted(own, key=sysfs_values.natural_key)


def netdev_with_dev_port(host: Host, names: List[str], port: int) -> Optional[str]:
    """The interface of one port of an HCA: the kernel numbers them from 0 in dev_port."""
    numbered = (name for name in names if sysfs_values.integer(attribute(host, "%s/%s/dev_port" % (CLASS_NET, name))) == port - 1)
    return next(numbered, names[0] if len(names) == 1 and port == 1 else None)


def hardware_macs(host: Host) -> Dict[str, str]:
    """MAC -> interface, for interfaces of devices only: a bond or VLAN repeats the MAC of what is below it."""
    macs = [(sysfs_values.mac_address(attribute(host, "%s/%s/address" % (CLASS_NET, name))), name) for name in entries(host, CLASS_NET)]
    # The first of each counts.
    return {mac: name for mac, name in reversed(macs) if mac is not None and host.exists("%s/%s/device" % (CLASS_NET, name))}


def port_numbers(host: Host, hca: str) -> List[int]:
    return _numbers(host, hca + "/ports")


def port_netdev(host: Host, place: Place, number: int, kernel_netdev: Optional[str], macs: Mapping[str, str]) -> Optional[str]:
    """The interface of a port: what the kernel's GID table says, else what belongs to the device."""
    return (
        kernel_netdev
        or place.soft_parent
        or netdev_with_dev_port(host, place.siblings, number)
        # eRDMA's interface is another PCI function; its MAC is in the node GUID
        or (None if place.siblings else macs.get(sysfs_values.mac_of_guid(place.node_guid) or ""))
    )


def observe_identities(host: Host) -> Tuple[Hca, ...]:
    """HCAs as identities: nothing here changes with their health."""
    found = places(host)
    macs = hardware_macs(host) if found else {}
    return tuple(_identity(host, place, macs) for place in found)


def _identity(host: Host, place: Place, macs: Mapping[str, str]) -> Hca:
    ports = tuple(port_numbers(host, place.path))
    paths = ["%s/ports/%d" % (place.path, number) for number in ports]
    netdevs = [port_netdev(host, place, number, first_netdev(host, path), macs) or "" for number, path in zip(ports, paths)]
    layers = [sysfs_values.token(attribute(host, path + "/link_layer")) for path in paths]
    gids = [sysfs_values.gid(attribute(host, path + "/gids/0")) for path in paths]
    guids = tuple(port_guid([{"index": 0, "gid": gid}] if gid else None, layer) or "" for gid, layer in zip(gids, layers))
    unique = tuple(dict.fromkeys(name for name in netdevs + place.siblings if name))
    on_bus = place.soft_parent is None
    device_id = sysfs_values.hex_text(attribute(host, place.path + "/device/device")) if on_bus else None
    return Hca(place.name, place.node_guid, place.pci, place.driver, unique, ports, guids, next(filter(None, layers), None),
               tuple(netdevs), device_id)


def observe_hcas(host: Host, active_mtus: Mapping[Tuple[str, int], int]) -> List[Dict[str, Any]]:
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
        **{key: sysfs_values.token(read(key)) for key in ("board_id", "fw_ver", "hw_rev", "hca_type")},
        "pci_address": place.pci,
        "vendor_id": sysfs_values.hex_text(read("device/vendor")) if on_bus else None,
        "device_id": sysfs_values.hex_text(read("device/device")) if on_bus else None,
        "numa_node": sysfs_values.integer(read("device/numa_node")) if on_bus else None,
        "driver": place.driver,
        "sub_function": place.sub_function,
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
        **{key: sysfs_values.enum_text(read(key)) for key in ("state", "phys_state")},
        "rate_gbps": sysfs_values.rate_gbps(read("rate")),
        "lanes": sysfs_values.lanes(read("rate")),
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
        "pkeys": partition_keys(host, path) if link_layer == "InfiniBand" else None,
        # of the port, else of the device (erdma and others know no ports there)
        "hw_counters": observe_counters(host, path + "/hw_counters") or observe_counters(host, place.path + "/hw_counters"),
    }


UNUSED_KEY, UNUSED_SLOTS = "0x0000", 8  # so many unused slots in a row end a table: each read is a question to the firmware


def partition_keys(host: Host, port: str) -> Optional[List[str]]:
    """Return the partition keys of a port in the order of their slots; bit 15 of a key: full member. None when slot 0 cannot be read."""
    keys: List[str] = []
    for index in _numbers(host, port + "/pkeys"):
        key = sysfs_values.hex_text(attribute(host, "%s/pkeys/%d" % (port, index)))
        if key is None or len(key) != len(UNUSED_KEY) or keys[-UNUSED_SLOTS:] == [UNUSED_KEY] * UNUSED_SLOTS:
            break
        keys.append(key)
    return [key for key in keys if key != UNUSED_KEY] if keys else None


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
    # With or without -v, or one file a device (-d mlx5_0).
    texts = [host.read("/cmd/" + name) or "" for name in host.listdir("/cmd") if name.startswith("ibv_devinfo")]
    return {key: mtu for text in texts for key, mtu in parse_devinfo(text).items()}


def parse_devinfo(text: str) -> Dict[PortKey, int]:
    found: Dict[PortKey, int] = {}
    hca, port = None, None
    for line in lines_in(text):
        hca_line, port_line, mtu_line = _HCA.match(line), _PORT.match(line), _ACTIVE_MTU.match(line)
        if hca_line:
            hca, port = sysfs_values.name(hca_line.group(1)), None
        elif port_line:
            port = int(port_line.group(1))
        elif mtu_line and hca is not None and port is not None and int(mtu_line.group(1)) in MTUS:
            found[(hca, port)] = int(mtu_line.group(1))
    return found
