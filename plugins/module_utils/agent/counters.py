# SPDX-License-Identifier: GPL-3.0-or-later
"""What parts of a node count, by part: read each minute, and how far it grew. A part is known by its serial number.

A port's counters are its HCA's and its interface's; of names that a driver does not have none is made. A counter that fell began anew
(driver, reset): its new value is the growth. One at its ceiling can grow no more, and what it counts is unknown until it is reset.
"""

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.counters import COUNTERS, LINK_DOWNED, is_full
from ..formats.sysfs_values import integer, is_name
from ..host.host import Host
from ..observe.devices import CLASS_INFINIBAND, CLASS_NET, attribute
from ..observe.traffic_counters import hca_counters

DOWNS = "downs"
NAMES = tuple(row.name for row in COUNTERS if row.kept)  # those without a threshold too: the history shows when one began to grow
ERRORS = {row.name: row.an_hour for row in COUNTERS if row.an_hour is not None}
GPU_KEPT = ("volatile_corrected", "volatile_uncorrected", "aggregate_uncorrected", "remapped_corrected", "remapped_uncorrected",
            "pcie_replays", "hw_thermal_us")
PARTS = 64


class Part(NamedTuple):
    """``key``: ``port SERIAL``, ``gpu SERIAL``; ``name``: what it is called on this node now, as verdicts call it.

    ``full``: the files of counters that are at their ceiling; ``link_downed`` only if the downs of the part come from it.
    """

    key: str
    name: str
    state: Optional[str]
    counters: Dict[str, int]
    full: Sequence[str] = ()


def observe_parts(host: Host, hcas: List[Mapping[str, Any]], health: Mapping[str, Any]) -> List[Part]:
    """``hcas``: of the facts; ``health``: their section, whose GPUs are the newest."""
    return (list(_ports(host, hcas, health)) + list(_gpus(health)))[:PARTS]


def _ports(host: Host, hcas: List[Mapping[str, Any]], health: Mapping[str, Any]) -> Iterator[Part]:
    modules = {(port.get("hca"), port.get("port")): (port.get("module") or {}).get("serial") for port in health.get("ports") or []}
    for hca in hcas:
        for port in hca.get("ports") or []:
            name, number, netdev = str(hca.get("name")), port.get("number"), str(port.get("netdev") or "")
            if not is_name(name) or not isinstance(number, int):
                continue
            serial = "%s/%d" % (hca.get("node_guid") or name, number)
            cable = modules.get((name, number))
            counted = hca_counters(host, name, number, NAMES)
            downs = integer(attribute(host, "%s/%s/carrier_down_count" % (CLASS_NET, netdev))) if is_name(netdev) else None
            counters = {key: value for key, value in counted.items() if value is not None and key != LINK_DOWNED}
            down = downs if downs is not None else counted.get(LINK_DOWNED)
            full = [key for key, value in counted.items() if is_full(key, value) and (key != LINK_DOWNED or downs is None)]
            if down is not None:
                counters[DOWNS] = down
            state = (attribute(host, "%s/%s/ports/%d/state" % (CLASS_INFINIBAND, name, number)) or "").rpartition(": ")[2] or None
            yield Part("port %s%s" % (serial, " cable %s" % cable if cable else ""),
                       "%s (%s)" % (name, netdev) if netdev else str(name), state, counters, full)


def _gpus(health: Mapping[str, Any]) -> Iterator[Part]:
    for gpu in (health.get("gpu") or {}).get("gpus") or []:
        counters = {key: int(gpu[key]) for key in GPU_KEPT if isinstance(gpu.get(key), (int, float))}
        yield Part("gpu %s" % (gpu.get("serial") or gpu.get("uuid") or gpu["pci"]), "GPU %s" % gpu["pci"], None, counters)


def growth(before: Mapping[str, Mapping[str, int]], parts: List[Part]) -> Dict[str, Dict[str, int]]:
    """Part -> counter -> how far it grew since ``before``; a part or a counter that was not there has grown by nothing."""
    found: Dict[str, Dict[str, int]] = {}
    for part in parts:
        known = before.get(part.key, {})
        grown = {name: value - known[name] if value >= known[name] else value for name, value in part.counters.items() if name in known}
        if any(grown.values()):
            found[part.key] = {name: more for name, more in grown.items() if more}
    return found


def add(total: Dict[str, Dict[str, int]], more: Mapping[str, Mapping[str, int]]) -> None:
    for key, counters in more.items():
        into = total.setdefault(key, {})
        into.update((name, into.get(name, 0) + value) for name, value in counters.items())


def beyond(total: Mapping[str, int]) -> List[Tuple[str, int, int]]:
    """(counter, growth, limit) of those that grew beyond what an hour may have."""
    return [(name, total[name], limit) for name, limit in ERRORS.items() if total.get(name, 0) > limit]
