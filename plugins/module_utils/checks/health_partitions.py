# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the partitions of InfiniBand ports and on the counters of EFA. Pure."""

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..catalogue.counters import EFA_COUNTERS, EfaCounter
from ..formats.outside import rows
from ..formats.text import first_of, grouped
from .signs import Sign, majority

FULL = 0x8000  # InfiniBand vol. 1, 10.9.1.1: bit 15 of a P_Key; two limited members of a partition cannot talk to each other
ACTIVE = "ACTIVE"
EFA = "efa"


def partition_signs(facts: Mapping[str, Any]) -> List[Sign]:
    """A port that is nowhere a full member fails: NCCL's nodes are equals and reach each other as full members only. Other keys than most
    ports of the same subnet only warn."""
    ports = _ports(facts)
    found: List[Sign] = []
    subnets = grouped((_subnet(port), (hca, port)) for hca, port in ports if port.get("pkeys"))
    for members in subnets.values():
        usual = majority([_partitions(port) for _hca, port in members])
        for hca, port in members:
            keys = [str(key) for key in port["pkeys"]]
            if not any(int(key, 16) & FULL for key in keys):
                text = "it is a limited member only (P_Key %s): it reaches no other limited member, such as its peer nodes" % (
                    first_of(keys, 4))
                found.append(_sign("port.pkey", hca, port, "fail", keys[0], text))
            elif usual is not None and _partitions(port) != usual:
                text = "its P_Keys are %s, those of most ports of its subnet %s" % (first_of(keys, 4), first_of(list(usual), 4))
                found.append(_sign("port.pkey", hca, port, "warn", keys[0], text))
    return found


def partitions_judged(facts: Mapping[str, Any]) -> bool:
    ports = _ports(facts)
    return bool(ports) and all(port.get("pkeys") for _hca, port in ports)


def _ports(facts: Mapping[str, Any]) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    """(HCA, port) of the InfiniBand ports that carry traffic."""
    return [(hca, port) for hca in rows(facts.get("hcas")) for port in rows(hca.get("ports"))
            if port.get("link_layer") == "InfiniBand" and port.get("state") == ACTIVE]


def _subnet(port: Mapping[str, Any]) -> Tuple[str, Any]:
    """The upper half of GID 0 and the subnet manager: two fabrics may both have the default prefix."""
    return next((str(gid.get("gid"))[:19] for gid in rows(port.get("gids")) if gid.get("index") == 0), ""), port.get("sm_lid")


def _partitions(port: Mapping[str, Any]) -> Tuple[str, ...]:
    return tuple(sorted(str(key) for key in port["pkeys"]))


def _sign(check: str, hca: Mapping[str, Any], port: Mapping[str, Any], status: str, found: str, text: str) -> Sign:
    return Sign(check, "%s port %s" % (hca.get("name"), port.get("number")), hca.get("name"), status, found, text)


def efa_signs(facts: Mapping[str, Any], hours: int) -> List[Sign]:
    days = max(hours, 24) / 24.0
    found: List[Sign] = []
    for hca, port in _efa_ports(facts):
        counters = port.get("hw_counters") or {}
        found += [_sign("port.efa", hca, port, "warn", str(counters[row.name]), "%s: %d %s since boot" % (
            row.name, counters[row.name], row.meaning)) for row in EFA_COUNTERS if _beyond(row, counters, days)]
    return found


def efa_judged(facts: Mapping[str, Any]) -> bool:
    """Instances before Nitro v4 have no counters of retransmissions: then the drops alone are judged."""
    counters = [port.get("hw_counters") or {} for _hca, port in _efa_ports(facts)]
    names = [name for row in EFA_COUNTERS for name in (row.name,) + (row.share or ())[:1]]
    return bool(counters) and all("rx_drops" in own and all(own.get(str(name), 0) is not None for name in names) for own in counters)


def _efa_ports(facts: Mapping[str, Any]) -> Sequence[Tuple[Dict[str, Any], Dict[str, Any]]]:
    return [(hca, port) for hca in rows(facts.get("hcas")) if hca.get("driver") == EFA for port in rows(hca.get("ports"))]


def _beyond(row: EfaCounter, counters: Mapping[str, Any], days: float) -> bool:
    count = counters.get(row.name) or 0
    if count <= row.a_day * days:
        return False
    whole = counters.get(row.share[0]) if row.share is not None else None
    return row.share is None or not whole or count > row.share[1] * whole
