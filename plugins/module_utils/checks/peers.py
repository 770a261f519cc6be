# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a rail by its peer ports in the node, where neither an inventory nor a table has an expectation. Pure.

Peer ports are rails of one PSID, one PCI function number and port number, one link layer and one PCI distance to the nearest GPU. A port
fails if at least four peers, the port included, have a value and three quarters of them agree on a better one; with fewer, or less
agreement, it is a warning. Peers can never judge what all of them have alike: eight ports at 100 Gb/s pass here, and fail against an
inventory.
"""

from collections import Counter
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..areas.network.verdicts import ports_of
from ..formats.outside import mapping, rows
from ..formats.text import grouped
from ..rules.comparisons import Inspection, VerdictSubject, number_text, unreadable, verdict
from ..rules.path_mtu import as_int, hca_facts, parsed_gid
from ..types import Verdict
from .rails import distances, is_virtual, kind_of

PEERS = 4  # ports, the judged one included: with three, one faulty port is a third of the evidence. Source: choice, 2026-11-29
SHARE = 0.75  # of the peers with a value. Source: choice, 2026-11-29; switches' odd ports are found by the same share (switch_check)
# Drivers whose sysfs rate is a constant in the source and says nothing about the link
# (erdma_verbs.c: 100 Gb/sec whatever the instance type; rxe_param.h: speed and width are made up).
CONSTANT_RATE = {
    "erdma": "eRDMA always reports 100 Gb/sec",
    "rdma_rxe": "Soft-RoCE reports a made-up rate",
}


class Port(NamedTuple):
    """A rail with what its verdicts are about."""

    where: VerdictSubject
    hca: Mapping[str, Any]
    facts: Mapping[str, Any]


class Attribute(NamedTuple):
    """One value that peers are compared by. ``read`` returns None for a value that cannot be read. ``odd``: the status of a worse value.
    ``key``: of the inventory, which would decide."""

    check: str
    what: str
    unit: str
    read: Callable[[Port], Any]
    odd: str
    key: str
    ordered: bool = True  # a larger value is better; otherwise any other value is worse


def _rate(port: Port) -> Any:
    return None if port.hca.get("driver") in CONSTANT_RATE else port.facts.get("rate_gbps")


def _lanes(port: Port) -> Any:
    return None if port.hca.get("driver") in CONSTANT_RATE else port.facts.get("lanes")


def _netdev_mtu(port: Port) -> Any:
    return port.facts.get("netdev_mtu") if port.facts.get("link_layer") == "Ethernet" else None


def _active_mtu(port: Port) -> Any:
    return as_int(port.facts.get("active_mtu"))


def _lossless(port: Port) -> Any:
    """Trust and PFC as one text: with either of them another rail's packets are lost, or paused, where this one's are not."""
    qos = port.facts.get("qos") or {}
    trust, pfc = qos.get("trust"), qos.get("pfc")
    return None if trust is None or pfc is None else "trust %s, PFC %s" % (trust, ",".join(map(str, pfc)) or "off")


ATTRIBUTES = (
    Attribute("port.rate", "rate", " Gb/s", _rate, "fail", "rdma_expect.rate_gbps"),
    Attribute("port.width", "link width", "X", _lanes, "fail", "rdma_expect.rate_gbps"),
    Attribute("rail.mtu", "interface MTU", "", _netdev_mtu, "fail", "rdma_mtu"),
    Attribute("port.active_mtu", "active_mtu", "", _active_mtu, "fail", "rdma_expect.active_mtu"),
    Attribute("qos.peers", "lossless RoCE", "", _lossless, "warn", "rdma_qos_profile", ordered=False),
    Attribute("hca.fw_ver", "firmware", "", lambda port: port.hca.get("fw_ver"), "warn", "rdma_expect.fw_ver", ordered=False),
)
CHECKS = tuple(row.check for row in ATTRIBUTES) + ("rail.gid",)


def peer_verdicts(seen: Inspection) -> List[Verdict]:
    """One verdict for each rail and value that peers can judge; none for a rail without peers."""
    found: List[Verdict] = []
    for ports in peers_of(seen).values():
        for row in ATTRIBUTES:
            found += _compared(row, ports)
        if ports[0].facts.get("link_layer") == "Ethernet":
            found += _gids(ports)
    return found


def with_peers(own: Sequence[Verdict], peers: Sequence[Verdict], over: Sequence[str], alone: Sequence[str]) -> List[Verdict]:
    """Replace each verdict of ``own`` whose status is in ``over`` by the peers' verdict on the same check and port, if there is one.

    A pass is only replaced by a worse verdict. Verdicts on a check in ``alone`` are added where ``own`` has none.
    """
    by_place = {(item.check, item.hca, item.port): item for item in peers}
    found = []
    for item in own:
        other = by_place.get((item.check, item.hca, item.port))
        better = other is None or item.status not in over or (item.status == "pass" and other.status == "pass")
        found.append(item if better or other is None else other)
    places = {(item.check, item.hca, item.port) for item in own}
    return found + [item for place, item in by_place.items() if item.check in alone and place not in places]


def peers_of(seen: Inspection) -> Dict[Tuple[Any, ...], List[Port]]:
    """The rails by what makes them peers. Virtual functions and sub-functions have none: their limits are an administrator's."""
    away = distances(seen.facts)
    qos = {(nic.get("hca"), nic.get("port")): nic for nic in rows(mapping(seen.facts.get("qos")).get("nics"))}
    ports = [Port(where, hca_facts(seen.facts, where.hca) or {}, dict(port, qos=qos.get((where.hca, where.port))))
             for _target, where, port in ports_of(seen)]
    real = [port for port in ports if not is_virtual(port.hca)]
    return grouped((_key(port, away.get((port.where.hca, port.where.port))), port) for port in real)


def _key(port: Port, distance: Optional[str]) -> Tuple[Any, ...]:
    return kind_of(port.hca, port.facts) + (port.facts.get("link_layer"), distance)


def _compared(row: Attribute, ports: Sequence[Port]) -> List[Verdict]:
    values = [(port, row.read(port)) for port in ports]
    known = [value for _port, value in values if value is not None]
    usual, agree = _usual(known)
    found = []
    for port, value in values if len(known) > 1 else ():
        status = _status(row, value, usual, known, agree) if value is not None else ""
        found += [_verdict(row, port, status, value, usual, known, agree)] if status else []
    return found


def _usual(known: Sequence[Any]) -> Tuple[Any, bool]:
    """The most frequent value, and whether enough peers agree on it."""
    value, count = Counter(known).most_common(1)[0] if known else (None, 0)
    return value, len(known) >= PEERS and count >= SHARE * len(known)


def _status(row: Attribute, value: Any, usual: Any, known: Sequence[Any], agree: bool) -> str:
    """'' where the peers prove nothing: fewer than four that are all alike."""
    if len(set(known)) == 1:
        return "pass" if agree else ""
    if agree:
        worse = value < usual if row.ordered else value != usual
        return "pass" if value == usual else row.odd if worse else "warn"
    if row.ordered:
        return "warn" if value != max(known) else ""
    return "warn" if value != usual or 2 * known.count(usual) <= len(known) else ""


def _verdict(row: Attribute, port: Port, status: str, value: Any, usual: Any, known: Sequence[Any], agree: bool) -> Verdict:
    own = number_text(value) + row.unit
    if status == "pass":
        text = "%s is %s, as on %d of %d peer ports" % (row.what, own, known.count(usual), len(known))
    elif agree:
        text = "%s is %s, on %d of %d peer ports %s%s" % (row.what, own, known.count(usual), len(known), number_text(usual), row.unit)
    else:
        counts = ", ".join("%s%s on %d" % (number_text(each), row.unit, many) for each, many in Counter(known).most_common(4))
        text = "%s is %s, and the peer ports disagree: %s; %s decides" % (row.what, own, counts, row.key)
    return verdict(row.check, port.where, status, usual if agree else None, value, text)


# Kinds of GIDs: NCCL and most libraries connect by a RoCE v2 GID with an IP address, IPv4 unless NCCL_IB_ADDR_FAMILY says otherwise.


IWARP = "RNIC"  # node_type of a device that connects by addresses and not by GIDs
ROCE_V1 = "IB/RoCE v1"
# Without an address nothing is wrong: pods and virtual machines may have their own.
NO_V2 = "no port has a GID of RoCE v2, not even its link-local one: NCCL finds none, and RoCE v1 is not routed"
FAMILIES = ("IPv4", "IPv6")  # NCCL's first choice first


def roce_families(port: Mapping[str, Any]) -> Optional[Dict[str, int]]:
    """The index of the first RoCE v2 GID with an IPv4 address, and with an IPv6 address that is not link-local, by family.

    None for an unreadable GID table.
    """
    gids = port.get("gids")
    if gids is None:
        return None
    found: Dict[str, int] = {}
    for gid in gids:
        address = parsed_gid(gid.get("gid")) if gid.get("type") == "RoCE v2" else None
        if address is not None and (address.ipv4_mapped is not None or not address.is_link_local):
            found.setdefault("IPv4" if address.ipv4_mapped is not None else "IPv6", gid.get("index"))
    return found


def _gids(ports: Sequence[Port]) -> List[Verdict]:
    """The family that most peers have must be there; a second family that is missing is a warning."""
    families = [(port, roce_families(port.facts)) for port in ports]
    readable = [(port, own) for port, own in families if own is not None]
    counts = Counter(family for _port, own in readable for family in own)
    main = FAMILIES[0] if counts[FAMILIES[0]] else FAMILIES[1]
    found = [unreadable("rail.gid", port.where, "RoCE v2", "the GID table") for port, own in families if own is None]
    types = {gid.get("type") for port, _own in readable for gid in port.facts.get("gids") or []}
    if types == {ROCE_V1} and all(port.hca.get("node_type") != IWARP for port in ports):
        return found + [verdict("rail.gid", port.where, "warn", "RoCE v2", ROCE_V1, NO_V2) for port, _own in readable]
    for port, own in readable if len(readable) > 1 and counts else ():
        have = counts[main]
        agree = len(readable) >= PEERS and have >= SHARE * len(readable)
        rest = [family for family, many in counts.items() if family not in own and many >= SHARE * len(readable)]
        text = "a RoCE v2 GID with an %s address is on %d of %d peer ports" % (main, have, len(readable))
        if main not in own:
            found.append(verdict("rail.gid", port.where, "fail" if agree else "warn", "RoCE v2 with %s" % main, ", ".join(own) or "none",
                                 "no RoCE v2 GID with an %s address, and %s; has its interface an address?" % (main, text[2:])))
        elif rest:
            found.append(verdict("rail.gid", port.where, "warn", "RoCE v2 with %s" % rest[0], ", ".join(own),
                                 "no RoCE v2 GID with an %s address, which most peer ports have" % rest[0]))
        elif agree:
            found.append(verdict("rail.gid", port.where, "pass", "RoCE v2 with %s" % main, ", ".join(own), text))
    return found
