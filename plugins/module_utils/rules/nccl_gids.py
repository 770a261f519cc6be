# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL_IB_GID_INDEX: one number for all HCAs of a node, over tables that are each port's own. Pure; for the plan and the verdict alike.

Without an index NCCL before 2.21 takes 0, which is a link-local GID of RoCE v1; from 2.21 on it looks for the
GID itself, by family, RoCE version and address range (NCCL, src/transport/net_ib/connect.cc).
"""

import ipaddress
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..formats.outside import is_digits
from ..types import Hca, Identity
from .path_mtu import address_of_gid, gids_holding, parsed_gid

GID_INDEX = "NCCL_IB_GID_INDEX"
ROCE_V2 = "RoCE v2"
FINDS_IT_TEXT = "2.21"  # the first NCCL that finds the index itself
_VERSIONS = {"IB/RoCE v1": 1, "RoCE v1": 1, ROCE_V2: 2}


class GidPort(NamedTuple):
    """A port that NCCL is told to use. ``address``: the rail's (CIDR); None where it is no rail's, or the rail has none."""

    hca: str
    port: int
    address: Optional[str]

    @property
    def label(self) -> str:
        return "%s port %d" % (self.hca, self.port)


def finds_it(version: str) -> bool:
    """What is no version is older than all."""
    parts = version.split(".")
    return len(parts) > 1 and is_digits(parts[0]) and is_digits(parts[1]) and (int(parts[0]), int(parts[1])) >= (2, 21)


def selected(value: str, identity: Identity, addresses: Mapping[Tuple[str, int], Optional[str]]) -> Tuple[GidPort, ...]:
    """The ports that a value of NCCL_IB_HCA selects of the node's ('': all); those of InfiniBand have no index."""
    found = []
    for hca in identity.hcas:
        for port in hca.ports:
            rail = (hca.name, port) in addresses  # one HCA may have ports of both kinds, and the layer is its first one's
            if names_port(value, hca, port) and (rail or hca.link_layer != "InfiniBand"):
                found.append(GidPort(hca.name, port, addresses.get((hca.name, port))))
    return tuple(found)


def names_port(value: str, hca: Hca, port: int) -> bool:
    """Whether NCCL takes a port: ``mlx5`` is a beginning, ``=mlx5_0:1`` a name with a port, ``^`` turns it round (src/misc/utils.cc)."""
    negated = value.startswith("^")
    names = value[1:] if negated else value
    exact = names.startswith("=")
    names = names[1:] if exact else names
    if not names:
        return not negated
    matches = False
    for item in names.split(","):
        name, _colon, rest = item.partition(":")
        number = rest.partition(":")[0]
        fits = hca.name == name if exact else hca.name.startswith(name)
        matches = matches or (fits and (not is_digits(number) or int(number) == port))
    return matches != negated


def right_indexes(gids: Optional[List[Dict[str, Any]]], address: Optional[str]) -> List[int]:
    """Indexes of RoCE v2 GIDs that hold the rail's address; where it has none, any address but a link-local one."""
    entries = gids or []
    if address is not None:
        entries = gids_holding({"gids": entries}, address)
    else:
        entries = [entry for entry in entries if address_of_gid(entry.get("gid")) is not None]
    return [int(entry["index"]) for entry in entries if entry.get("type") == ROCE_V2]


def holds(gids: Optional[List[Dict[str, Any]]], address: Optional[str]) -> bool:
    """Whether an address is in a table at all, of whatever type."""
    return address is not None and bool(gids_holding({"gids": gids}, address))


def judge_index(index: int, gids: Optional[List[Dict[str, Any]]], port: GidPort) -> Tuple[str, str]:
    """(pass, fail or unknown; the sentence) about one index of one port."""
    if gids is None:
        return "unknown", "the GID table of %s cannot be read" % port.label
    if index in right_indexes(gids, port.address):
        return "pass", "index %d of %s %s" % (index, port.label, described(gids, index))
    entry = _entry(gids, index)
    if entry is not None and entry.get("type") is None:
        return "unknown", "the type of index %d of %s cannot be read" % (index, port.label)
    wanted = "a RoCE v2 GID with %s" % (port.address.partition("/")[0] if port.address is not None else "an address")
    right = right_indexes(gids, port.address)
    where = "; that is index %s" % " or ".join(map(str, right)) if right else "; no index has one"
    return "fail", "index %d of %s %s, not %s%s" % (index, port.label, described(gids, index), wanted, where)


def described(gids: List[Dict[str, Any]], index: int) -> str:
    """``holds 10.0.0.1 (RoCE v2)``, ``holds a link-local GID (IB/RoCE v1)``, ``is empty``."""
    entry = _entry(gids, index)
    if entry is None:
        return "is empty"
    return "holds %s (%s)" % (address_of_gid(entry.get("gid")) or "a link-local GID", entry.get("type") or "of unknown type")


def automatic(gids: List[Dict[str, Any]], variables: Mapping[str, str]) -> Optional[int]:
    """The index that NCCL 2.21 and later takes of a port's table; None where it stays at 0 and 0 is empty."""
    wanted6 = variables.get("NCCL_IB_ADDR_FAMILY", "AF_INET") == "AF_INET6"
    version = variables.get("NCCL_IB_ROCE_VERSION_NUM", "2")
    prefix = _prefix(variables.get("NCCL_IB_ADDR_RANGE"), wanted6)
    current = _entry(gids, 0)
    for entry in gids:
        if entry["index"] == 0 or _is6(entry) != wanted6 or not _within(entry, prefix):
            continue
        if _is6(current) != wanted6:
            current = entry  # the first of the family, whatever its type
        elif _usable(entry) and str(_version(entry)) == version and (_version(current) != _version(entry) or not _usable(current)):
            current = entry
    return int(current["index"]) if current is not None else None


def _entry(gids: List[Dict[str, Any]], index: int) -> Optional[Dict[str, Any]]:
    return next((entry for entry in gids if entry.get("index") == index), None)


def _is6(entry: Optional[Mapping[str, Any]]) -> bool:
    """An empty slot counts as IPv6 to NCCL: it is no mapped IPv4 address."""
    address = parsed_gid(entry.get("gid")) if entry is not None else None
    return address is None or address.ipv4_mapped is None


def _usable(entry: Optional[Mapping[str, Any]]) -> bool:
    return entry is not None and address_of_gid(entry.get("gid")) is not None


def _version(entry: Optional[Mapping[str, Any]]) -> int:
    return _VERSIONS.get(str(entry.get("type")), 0) if entry is not None else 0


def _prefix(text: Optional[str], wanted6: bool) -> Any:
    """The range as a network; NCCL ignores one that is none of the family."""
    try:
        network: Any = ipaddress.ip_network(text or "", strict=False)
    except ValueError:
        return None
    return network if (network.version == 6) == wanted6 else None


def _within(entry: Mapping[str, Any], prefix: Any) -> bool:
    address = parsed_gid(entry.get("gid"))
    if prefix is None or address is None:
        return prefix is None
    return (address if prefix.version == 6 else address.ipv4_mapped) in prefix
