# SPDX-License-Identifier: GPL-3.0-or-later
"""What the RDMA formats imply: path MTUs, GIDs that hold an address, numbers from sysfs. Pure."""

import ipaddress
from typing import Any, Dict, List, Mapping, Optional

from ..formats.outside import rows
from ..formats.sysfs_values import integer

# enum ib_mtu of the InfiniBand architecture, in bytes.
PATH_MTUS = (256, 512, 1024, 2048, 4096)
# What RoCE takes off the netdev's MTU at most: GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4
# (include/rdma/ib_addr.h, iboe_get_mtu). 1500 leaves 1024, 9000 leaves 4096.
ROCE_OVERHEAD = 96


def path_mtu_for(netdev_mtu: int) -> Optional[int]:
    """The largest path MTU that fits a netdev MTU which the inventory asks for; None when none does."""
    fitting = [mtu for mtu in PATH_MTUS if mtu <= netdev_mtu - ROCE_OVERHEAD]
    return fitting[-1] if fitting else None


def parsed_gid(gid: Any) -> Optional[ipaddress.IPv6Address]:
    """None for what is no GID."""
    try:
        return ipaddress.IPv6Address(str(gid))
    except ValueError:
        return None


def same_address(text: str) -> str:
    """An address with its prefix length in one spelling: fd00::1/64 and FD00:0::1/64 are the same."""
    try:
        return str(ipaddress.ip_interface(text))
    except ValueError:
        return text


def address_of_gid(gid: Any) -> Optional[str]:
    """The IP address in a GID; None for link-local GIDs and for what is no GID."""
    parsed = parsed_gid(gid)
    if parsed is None or (parsed.ipv4_mapped is None and parsed.is_link_local):
        return None
    return str(parsed.ipv4_mapped or parsed)


def gids_holding(port: Mapping[str, Any], address: str) -> List[Dict[str, Any]]:
    """The entries of a port's GID table that hold an address (IPv4 as ::ffff:a.b.c.d), in table order."""
    own = ipaddress.ip_interface(address).ip
    wanted = ipaddress.IPv6Address("::ffff:%s" % own) if own.version == 4 else own
    return [dict(entry) for entry in port.get("gids") or [] if parsed_gid(entry.get("gid")) == wanted]


def roce_gid_index(port: Mapping[str, Any], address: str) -> Optional[int]:
    """The index of the RoCE v2 GID with the rail's address: differs per NIC, so it is never a constant."""
    return next((int(entry["index"]) for entry in gids_holding(port, address) if entry.get("type") == "RoCE v2"), None)


def as_int(value: Any) -> Optional[int]:
    """0x1c and 28 alike; None for what is neither."""
    return value if isinstance(value, int) else integer(str(value))


def hca_facts(facts: Mapping[str, Any], name: Optional[str]) -> Optional[Dict[str, Any]]:
    return next((hca for hca in rows(facts.get("hcas")) if hca.get("name") == name), None)


def is_iwarp(facts: Mapping[str, Any], name: Optional[str]) -> bool:
    """An eRDMA device in mode default: one GID that is a MAC, and queue pairs that RDMA-CM alone connects."""
    hca = hca_facts(facts, name)
    return hca is not None and hca.get("driver") == "erdma" and hca.get("node_type") == "RNIC"


def port_facts(facts: Mapping[str, Any], name: Optional[str], number: Optional[int]) -> Optional[Dict[str, Any]]:
    """One port of one HCA in a facts object, or None."""
    ports = rows((hca_facts(facts, name) or {}).get("ports"))
    return next((port for port in ports if port.get("number") == number), None)


def netdev_facts(facts: Mapping[str, Any], name: Optional[str]) -> Dict[str, Any]:
    """One interface in a facts object; {} when it is not there."""
    return next((netdev for netdev in rows(facts.get("netdevs")) if netdev.get("name") == name), {})
