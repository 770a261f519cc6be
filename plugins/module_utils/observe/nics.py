# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces: what they are, and over which of them the controller reaches the node.

An interface is ``management`` when it carries a default route or the address of the
controller's connection, and so is everything below it (members of a bond or bridge, the
interface of a VLAN): to touch those may cut the node off.
"""

import re
import struct
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ..formats import sysfs_values
from ..formats.outside import json_value, lines_in, rows
from ..host.host import Host
from ..types import Nic
from .devices import CLASS_NET, attribute, driver_of, entries, linked_name, pci_of

ARPHRD_ETHER = 1  # include/uapi/linux/if_arp.h
KINDS: Dict[Optional[int], str] = {32: "infiniband", 772: "loopback"}
RTF_UP, RTF_REJECT = 0x1, 0x200  # include/uapi/linux/route.h
# IPv4 addresses are in no file that names their interface; -d adds the largest MTU that the driver takes. An older ip knows no -d here.
IP_ADDR = (("ip", "-j", "-d", "addr", "show"), ("ip", "-j", "addr"))
IP_DEFAULT_6 = ("ip", "-j", "-6", "route", "show", "default")


def observe_nics(host: Host, management_address: Optional[str] = None) -> Tuple[Nic, ...]:
    """Every interface in natural order. ``management_address``: the node's own end of the controller's connection."""
    names = entries(host, CLASS_NET)
    carrying = [name for name in uplinks(host, management_address) if name in names]
    management = _with_lower(host, set(carrying))
    return tuple(_nic(host, name, name in management, carrying.index(name) if name in carrying else None) for name in names)


def uplinks(host: Host, management_address: Optional[str]) -> List[str]:
    """The interfaces of the default routes as the kernel prefers them, then those of the controller's connection.

    The routes come first: they are the same whoever looks, over ssh or from the node itself.
    """
    found = _by_preference(host)
    if management_address is not None:
        found += sorted(netdevs_with_address(host, management_address), key=sysfs_values.natural_key)
    return list(dict.fromkeys(found))


def _nic(host: Host, name: str, management: bool, uplink: Optional[int]) -> Nic:
    path = CLASS_NET + "/" + name
    hardware = host.exists(path + "/device") or host.readlink(path + "/device") is not None
    type_number = sysfs_values.integer(attribute(host, path + "/type"))
    kind = "ethernet" if type_number == ARPHRD_ETHER and hardware else KINDS.get(type_number, "virtual")
    # A member of a bond shows the bond's address; the kernel keeps its own beside it.
    macs = [sysfs_values.mac_address(attribute(host, path + file)) for file in ("/bonding_slave/perm_hwaddr", "/address")]
    return Nic(
        name, macs[0] or macs[1] or "", pci_of(host, path) if hardware else None,
        driver_of(host, path) if hardware else None, kind, management, uplink, _bond(host, path))


def _bond(host: Host, path: str) -> Optional[str]:
    """A bridge or a VRF is a master too, but only a bond takes the member's place as the port of its HCA."""
    if not host.exists(path + "/bonding_slave"):
        return None
    if host.readlink(path + "/master") is not None:
        return linked_name(host, path + "/master")
    lower = "lower_" + path.rpartition("/")[2]  # a capture may have one end of the relation only
    return next((name for name in entries(host, CLASS_NET) if lower in host.listdir(CLASS_NET + "/" + name)), None)


def _with_lower(host: Host, names: Set[str]) -> Set[str]:
    found: Set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        pending.extend(entry[len("lower_"):] for entry in host.listdir(CLASS_NET + "/" + name)
                       if entry.startswith("lower_") and sysfs_values.is_name(entry))
    return found


def _by_preference(host: Host) -> List[str]:
    """Interfaces of the default routes of the main table, IPv4 before IPv6 and the lowest metric first. May name an interface twice."""
    found = [(0, route[3], sysfs_values.natural_key(route[0]), route[0]) for route in _ipv4_routes(host) if route[1] == 0 and route[2] == 0]
    for line in lines_in(host.read("/proc/net/ipv6_route") or ""):
        fields = line.split()
        if len(fields) != 10 or fields[0] != "0" * 32 or fields[1] != "00" or not sysfs_values.is_name(fields[9]):
            continue
        flags = sysfs_values.integer("0x" + fields[8])
        if flags is not None and flags & RTF_UP and not flags & RTF_REJECT:
            found.append((1, sysfs_values.integer("0x" + fields[5]) or 0, sysfs_values.natural_key(fields[9]), fields[9]))
    # ipv6_route shows the routes of every table and not which, so also the gateway in a rail's own: ``ip`` tells them apart.
    told = json_value(host.run(IP_DEFAULT_6, 10.0).out) if any(route[0] == 1 for route in found) else None
    if told is not None:
        main = [hop.get("dev") for row in rows(told) for hop in [row, *rows(row.get("nexthops"))]]
        found = [route for route in found if route[0] == 0 or route[3] in main]
    return [name for _family, _metric, _key, name in sorted(found)]


def _ipv4_routes(host: Host) -> List[Tuple[str, int, int, int]]:
    """(interface, network, mask, metric) in host order of every IPv4 route that is up."""
    routes = []
    lines = [line.split() for line in lines_in(host.read("/proc/net/route") or "")[1:]]
    for fields in [fields for fields in lines if len(fields) > 7 and sysfs_values.is_name(fields[0])]:
        values = [sysfs_values.integer("0x" + fields[at]) for at in (1, 3, 7)]
        if None not in values and (values[1] or 0) & RTF_UP:
            routes.append((fields[0], _host_order(values[0] or 0), _host_order(values[2] or 0), sysfs_values.integer(fields[6]) or 0))
    return routes


def _host_order(value: int) -> int:
    """proc prints the address as the little-endian machine's integer of its network-order bytes."""
    return int(struct.unpack(">I", struct.pack("<I", value & 0xFFFFFFFF))[0])


def netdevs_with_address(host: Host, address: str) -> Set[str]:
    """The interfaces that hold an address; if nothing tells, those whose network it lies in (rather one too many)."""
    bare = address.partition("%")[0]
    if bare.startswith("::ffff:") and "." in bare:
        bare = bare[len("::ffff:"):]
    held = {name for name, addresses in observe_addresses(host).items() if bare in [item.partition("/")[0] for item in addresses]}
    if held or ":" in bare:
        return held
    import socket

    try:
        number = int(struct.unpack(">I", socket.inet_aton(bare))[0])
    except OSError:
        return set()
    fitting = [(mask, name) for name, network, mask, _metric in _ipv4_routes(host) if mask and number & mask == network]
    longest = max((mask for mask, _name in fitting), default=0)
    return {name for mask, name in fitting if mask == longest}


def interface_rows(host: Host) -> Optional[Dict[str, Dict[str, Any]]]:
    """By interface what ``ip -j addr`` says of it; None when it does not answer."""
    return host.once("rows of interfaces", lambda: _interface_rows(host))


def _interface_rows(host: Host) -> Optional[Dict[str, Dict[str, Any]]]:
    told = (json_value(host.run(argv, 10.0).out) for argv in IP_ADDR)
    found = next((answer for answer in told if answer is not None), None)
    names = [(link.get("ifname"), link) for link in rows(found)]
    return None if found is None else {name: link for name, link in names if isinstance(name, str) and sysfs_values.is_name(name)}


def observe_addresses(host: Host) -> Dict[str, List[str]]:
    """Addresses with prefix length by interface, from one command or its recording; {} when neither answers."""
    links = interface_rows(host)
    if links is None:
        return _ipv6_addresses(host)
    texts = {name: [sysfs_values.token("%s/%s" % (item.get("local"), item.get("prefixlen"))) for item in rows(link.get("addr_info"))
                    if item.get("family") in ("inet", "inet6")] for name, link in links.items()}
    return {name: [text for text in own if text is not None] for name, own in texts.items()}


def _ipv6_addresses(host: Host) -> Dict[str, List[str]]:
    """IPv6 alone is in a file; without ``ip`` it is better than nothing."""
    import socket

    found: Dict[str, List[str]] = {}
    for line in lines_in(host.read("/proc/net/if_inet6") or ""):
        fields = line.split()
        prefix = sysfs_values.integer("0x" + fields[2]) if len(fields) == 6 else None
        if prefix is None or not sysfs_values.is_name(fields[5]):
            continue
        try:
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
        except (OSError, ValueError):
            continue
        found.setdefault(fields[5], []).append("%s/%d" % (address, prefix))
    return found


def observe_netdevs(host: Host, nics: Tuple[Nic, ...]) -> List[Dict[str, Any]]:
    """The ``netdevs`` part of the facts object: each interface with what it does at the moment."""
    addresses = observe_addresses(host) if nics else {}
    found = []
    for nic in nics:
        mtu, operstate, speed = (attribute(host, "%s/%s/%s" % (CLASS_NET, nic.name, name)) for name in ("mtu", "operstate", "speed"))
        rate = sysfs_values.integer(speed)
        found.append({
            "name": nic.name, "mac": nic.mac or None, "pci_address": nic.pci,
            **{name: getattr(nic, name) for name in ("driver", "kind", "management")},
            "mtu": sysfs_values.integer(mtu), "operstate": sysfs_values.name(operstate),
            "speed_mbps": rate if rate is not None and rate > 0 else None,  # -1 (or EINVAL): the kernel's word for "no link"
            "addresses": addresses.get(nic.name),
        })
    return found


# The node's own address in the controller's ssh connection: the interface that holds it must not be cut.
#
# sshd tells it in SSH_CONNECTION. sudo drops that variable from its command's environment, but the
# shell that sshd started still has it, and root may look: the parents are asked one by one.

_LIMIT = 256 * 1024
_MAX_PARENTS = 16  # sshd, its child, a shell, sudo, a shell, Python: six in practice
_VARIABLE = re.compile(r"(?:\A|\x00)SSH_CONNECTION=[^\s\x00]+ [0-9]+ ([^\s\x00]+) [0-9]+(?:\x00|\Z)")
_PARENT = re.compile(r".*\) \S ([0-9]{1,18}) ", re.DOTALL)  # a process name may hold brackets and blanks: count from the last one


def ancestors_connection_address(host: Host) -> Optional[str]:
    """None where no ancestor was started by sshd (or the node is a captured tree)."""
    told = (_VARIABLE.search(host.read("/proc/%s/environ" % process, _LIMIT) or "") for process in ancestors(host))
    return next((found.group(1) for found in told if found is not None), None)


def ancestors(host: Host) -> Iterator[str]:
    """This process and its parents, as names below /proc."""
    process = "self"
    for _step in range(_MAX_PARENTS):
        yield process
        parent = _PARENT.match(host.read("/proc/%s/stat" % process, 4096) or "")
        if parent is None or parent.group(1) in ("0", "1"):
            return
        process = parent.group(1)


def listening(host: Host) -> List[int]:
    """TCP ports in state LISTEN (0A), both families."""
    lines = [line.split() for path in ("/proc/net/tcp", "/proc/net/tcp6") for line in lines_in(host.read(path) or "")[1:]]
    ports = [sysfs_values.integer("0x" + fields[1].rpartition(":")[2]) for fields in lines if len(fields) > 3 and fields[3] == "0A"]
    return [port for port in ports if port is not None]
