# SPDX-License-Identifier: GPL-3.0-or-later
"""``nv config show -o json`` of Cumulus Linux 5 as ports. Pure.

Source: NVIDIA, Cumulus Linux 5 user guide, Quality of Service and RDMA over Converged Ethernet (what RoCE mode sets), NVUE object model. A
switch priority is a class here, a traffic class a queue, and the pool roce-lossless what has headroom. RoCE mode sets what the document
does not say: its defaults lie below.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, rows, whole
from railwright.switch_check.commands import numbers
from railwright.switch_check.model import Marking, Port, Schedule, Unusable, bounded, on_off

KIND = "what `nv config show -o json` prints"
UNSET_FEC = "auto"  # Cumulus Linux 5 user guide, Switch Port Attributes
GLOBAL = "default-global"  # the profile of a port that names none
PLAIN = {number: number >> 3 for number in range(64)}  # DSCP -> switch priority, of every Spectrum
ROCE_QUEUES = {3: 3, 6: 6}  # switch priority -> traffic class in RoCE mode; all others are in 0
ROCE_SCHEDULE = {0: Schedule(strict=False, weight=50), 3: Schedule(strict=False, weight=50), 6: Schedule(strict=True)}
ROCE_MARKING = {0: Marking(ecn=True, low=150000, high=1500000, percent=100), 3: Marking(ecn=True, low=150000, high=1500000, percent=100)}
ON = ("on", "enable", "enabled", True)
LOSSLESS = ("lossless", "lossless-single-ipool")  # the modes with PFC; of lossy the rest holds too, lossy-multi-tc has other maps
OFF = ("off", "disable", "disabled", False)
POOLS = ("roce-lossless", "default-lossless")
RANGE = re.compile(r"([a-z]+)([0-9]{1,4})(?:-([0-9]{1,4}))?(?:s([0-9])(?:-([0-9]))?)?")
MOST = 200_000  # ports in all ranges
SPLIT = re.compile(r"[2-8]x")


def ports(document: Any) -> list[Port]:
    """Every front panel port of the file. Raises Unusable."""
    said = next((mapping(row["set"]) for row in rows(document) if "set" in row), {})
    interfaces = mapping(said.get("interface"))
    if not interfaces:
        raise Unusable(f"is not {KIND}: it sets no interface")
    qos = mapping(said.get("qos"))
    found: dict[str, Mapping[str, Any]] = {}
    named = ((name, mapping(row)) for key, row in interfaces.items() for name in _names(str(key)))
    for name, row in islice(named, MOST):  # a port stands in each range that it shares a setting with, and alone
        found[name] = _merged(found.get(name, {}), row)
    if next(named, None) is not None:
        raise Unusable(f"is not {KIND}: its ranges name more than {MOST} ports")
    return [_port(qos, name, row) for name, row in bounded(found).items() if not _split(row)]


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {key for key in one if isinstance(one[key], dict) and isinstance(other.get(key), dict)}
    return {**one, **other} | {key: _merged(one[key], other[key]) for key in both}


def _names(text: str) -> Iterator[str]:
    """``swp1-4,swp7``: switch ports alone."""
    for part in text.split(","):
        found = RANGE.fullmatch(part)
        if found is not None and found[1] == "swp":
            parts = [f"s{part}" for part in range(int(found[4]), int(found[5] or found[4]) + 1)] if found[4] else [""]
            yield from (f"swp{number}{part}" for number in range(int(found[2]), int(found[3] or found[2]) + 1) for part in parts)


def _split(row: Mapping[str, Any]) -> bool:
    """Whether its lanes are ports of their own: then it is none."""
    said = mapping(row.get("link")).get("breakout")
    return any(SPLIT.fullmatch(str(way)) for way in (said if isinstance(said, dict) else (said,)))


def _port(qos: Mapping[str, Any], name: str, row: Mapping[str, Any]) -> Port:
    own, link = mapping(row.get("qos")), mapping(row.get("link"))
    mode = _roce(qos)
    roce, other = mode is not None, mode == "lossy-multi-tc"
    maps = _profile(qos, own, "mapping")
    classes = PLAIN | dict(_numbered(maps.get("dscp"), "switch-priority"))
    queues = dict.fromkeys(range(8), 0) | (ROCE_QUEUES if roce else {number: number for number in range(8)})
    queues |= dict(_numbered(_profile(qos, own, "egress-queue-mapping").get("switch-priority"), "traffic-class"))
    pfc = _profile(qos, own, "pfc")
    lossless = frozenset((3,)) if mode in LOSSLESS else frozenset()
    default = lossless if _name(own, "pfc") == GLOBAL else frozenset()
    said = _numbers(pfc["switch-priority"]) if "switch-priority" in pfc else default
    paused, heard = (frozenset() if pfc.get(way) in OFF else said for way in ("tx", "rx"))
    pools = [pool for name in POOLS if "switch-priority" in (pool := mapping(mapping(qos.get("traffic-pool")).get(name)))]
    headroom = frozenset[int]().union(*(_numbers(pool["switch-priority"]) for pool in pools)) if pools else lossless if roce else None
    lossy = _lossy(qos)
    watched = mapping(own.get("pfc-watchdog")).get("state") in ON
    trust = maps.get("trust", "both" if roce and _name(own, "mapping") == GLOBAL else "l2")  # what a port has by itself
    return Port(
        name, link.get("state") != "down" and "down" not in mapping(link.get("state")), whole(link.get("mtu")), trust in ("l3", "both"),
        None if other else classes, None if other else queues,
        {number: number for number in range(8)}, None if headroom is None else headroom - lossy, paused,
        {number: queues[number] for number in heard}, paused if watched else frozenset(), None if other else _marking(qos, own, roce=roce),
        None if other else _schedule(qos, own, roce=roce),
        _speed(str(link.get("speed"))), None if link.get("fec") is None else str(link["fec"]), None,
        on_off(link.get("auto-negotiate")), whole(link.get("lanes")), lossy,
    )  # fmt: skip


def _lossy(qos: Mapping[str, Any]) -> frozenset[int]:
    """The switch priorities that the document puts into a lossy pool and into no lossless one."""
    pools = mapping(qos.get("traffic-pool"))
    said = {name: _numbers(pool["switch-priority"]) for name, row in pools.items() if "switch-priority" in (pool := mapping(row))}
    lossless, lossy = (frozenset[int]().union(*(own for name, own in said.items() if (name in POOLS) is kind)) for kind in (True, False))
    return lossy - lossless


def _speed(text: str) -> int | None:
    """400G; None for auto."""
    figure = whole(text.removesuffix("G"), 1, 10_000) if text.endswith("G") else None
    return None if figure is None else figure * 1000


def _roce(qos: Mapping[str, Any]) -> str | None:
    """The mode, None where it is off. ``enable: on`` until 5.14, ``state: enabled`` since; `nv set qos roce` alone is lossless."""
    said = mapping(qos.get("roce"))
    on = "roce" in qos and said.get("state", said.get("enable", True)) in ON
    return str(said.get("mode", "lossless")) if on else None


def _profile(qos: Mapping[str, Any], own: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The profile of a kind that a port names, or everybody's."""
    return mapping(mapping(qos.get(kind)).get(_name(own, kind)))


def _name(own: Mapping[str, Any], kind: str) -> str:
    return str(mapping(own.get(kind)).get("profile", GLOBAL))


def _numbered(rows: Any, field: str) -> Iterator[tuple[int, int]]:
    for key, row in mapping(rows).items():
        value = whole(mapping(row).get(field))
        if value is not None:
            yield from ((number, value) for number in numbers(str(key), 63))


def _numbers(value: Any) -> frozenset[int]:
    """A list, a mapping by number, or ``3,4`` and ``3-4``."""
    texts = [str(item) for item in value] if isinstance(value, (list, dict)) else [str(value)]
    return frozenset(numbers(",".join(texts), 7))


def _marking(qos: Mapping[str, Any], own: Mapping[str, Any], *, roce: bool) -> dict[int, Marking]:
    found = dict(ROCE_MARKING) if roce else {}
    for key, row in mapping(_profile(qos, own, "congestion-control").get("traffic-class")).items():
        said = mapping(row)
        for number in numbers(str(key), 7):
            before = found.get(number, Marking(ecn=False))
            ecn = said["ecn"] in ON if "ecn" in said else before.ecn
            low, high, percent = (whole(said[name]) if name in said else old for name, old in (
                ("min-threshold", before.low), ("max-threshold", before.high), ("probability", before.percent)))
            found[number] = Marking(ecn, low, high, percent)
    return found


def _schedule(qos: Mapping[str, Any], own: Mapping[str, Any], *, roce: bool) -> dict[int, Schedule] | None:
    found = dict(ROCE_SCHEDULE) if roce else {}
    for key, row in mapping(_profile(qos, own, "egress-scheduler").get("traffic-class")).items():
        said = mapping(row)
        for number in numbers(str(key), 7):
            strict = said["mode"] == "strict" if "mode" in said else found.get(number, Schedule(strict=False)).strict
            found[number] = Schedule(strict, None if strict else whole(said.get("bw-percent")))
    return found or None


# The command that puts a hop right.
LINES = {
    "fec": "nv set interface {port} link fec rs",
    "mtu": "nv set interface {port} link mtu {wanted}",
    "trust": "nv set qos mapping default-global trust both",
    "class": "nv set qos mapping default-global dscp {key} switch-priority {value}",
    "group": "nv set qos roce mode lossless",
    "headroom": "nv set qos traffic-pool roce-lossless switch-priority {wanted}",
    "pfc": "nv set qos pfc default-global switch-priority; {wanted}",
    "queue": "nv set qos egress-queue-mapping default-global switch-priority {key} traffic-class 3",
    "pause": "nv set qos egress-queue-mapping default-global switch-priority {key} traffic-class {value}",
    "ecn": "nv set qos congestion-control default-global traffic-class {wanted} ecn enable",
    "schedule": "nv set qos egress-scheduler default-global traffic-class {wanted}",
    "cnp": "{wanted}",
    "watchdog": "nv set interface {port} qos pfc-watchdog state enable",
}
