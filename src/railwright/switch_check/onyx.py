# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA Onyx' running-config as ports: one command a line, each with its interface. Pure.

Source: NVIDIA Onyx User Manual 3.10 LTS (QoS: trust and its default L2, the default map DSCP >> 3; RoCE Commands: what ``roce lossless``
sets: DSCP 26 on priority 3, CNP's 48 on 6, 150 and 1500 KB; traffic pools; PFC and its watchdog).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import list_or_empty
from railwright.switch_check.commands import numbers
from railwright.switch_check.model import Marking, Port, Schedule, Unusable, bounded

KIND = "an Onyx running-config"
MTU = 1500  # of an interface that says nothing
KB = 1000
INTERFACE = re.compile(r"interface ethernet ([0-9]{1,3}/[0-9/]{1,8})(?:-([0-9]{1,3}/[0-9/]{1,8}))?(?: (.{1,200}))?")
WORDS: Mapping[str, re.Pattern[str]] = {
    "mtu": re.compile(r"mtu ([0-9]{1,5})(?: force)?"),
    "trust": re.compile(r"(?:no )?qos trust ?(\w{2,8})?"),
    "dscp": re.compile(r"qos map dscp ([0-9 ,-]{1,200}) to switch-priority ([0-7])"),
    "bind": re.compile(r"traffic-class ([0-7]) bind switch-priority ([0-7 ,-]{1,40})"),
    "ecn": re.compile(r"traffic-class ([0-7]) congestion-control ecn minimum-absolute ([0-9]{1,7}) maximum-absolute ([0-9]{1,7})"),
    "share": re.compile(r"traffic-class ([0-7]) dcb ets (strict|wrr)(?: ([0-9]{1,3}))?"),
    "pfc": re.compile(r"(?:no )?dcb priority-flow-control mode ?(on|off|auto)?(?: force)?"),
    "speed": re.compile(r"speed ([0-9]{1,3})G?(?: .*)?"),
    "fec": re.compile(r"fec-override (\S{1,20})(?: .*)?"),
}
POOL = re.compile(r"traffic pool (\S{1,64}) (?:type (lossless|lossy)|map switch-priority ([0-7 ,-]{1,40})|memory .{1,20})")
PRIORITY = re.compile(r"(no )?dcb priority-flow-control priority ([0-7 ,-]{1,40}) enable")
ENABLE = ("dcb priority-flow-control enable", "no dcb priority-flow-control enable")
MOST = 200_000  # commands, each for each interface of its range
DOWN = ("shutdown", "no shutdown")
ROCE_DSCP = {26: 3, 48: 6}
ROCE_MARK = Marking(ecn=True, low=150 * KB, high=1500 * KB)


def parse(text: str, _limit: int) -> list[str]:
    """Commands; those within an interface's block bear its name, as those of one line do."""
    found, block = [], ""
    for line in text.splitlines():
        words = " ".join(line.split())
        if words == "exit":
            block = ""
        elif words and not words.startswith("#"):
            head = INTERFACE.fullmatch(words)
            block = words if head is not None and head[3] is None else "" if head is not None else block
            found.append(words if head is not None or not block else f"{block} {words}")
    return found


def ports(document: Any) -> list[Port]:
    """Every Ethernet interface that a command names. Raises Unusable."""
    commands = [str(text) for text in list_or_empty(document)]
    own: dict[str, list[str]] = {}
    others, many = [], 0
    for text in commands:
        head = INTERFACE.fullmatch(text)
        if head is None:
            others.append(text)
            continue
        names = _range(head[1], head[2])
        many += len(names)
        if many > MOST:
            raise Unusable(f"is not {KIND}: more than {MOST} commands of interfaces")
        for name in names:
            own.setdefault(name, []).extend([head[3]] if head[3] else [])
    if not own:
        raise Unusable(f"is not {KIND}: it has no interface ethernet")
    switch = Switch("roce lossless" in others, _enabled(others), _lossless(others))
    return [_port(switch, name, lines) for name, lines in bounded(own).items()]


class Switch(NamedTuple):
    """What holds for all ports. ``pfc``: the priorities that have it, None where it is off, and where nothing is said of it ``()``."""

    roce: bool
    pfc: frozenset[int] | tuple[()] | None
    lossless: frozenset[int]


def _enabled(commands: list[str]) -> frozenset[int] | tuple[()] | None:
    said = [text.removesuffix(" force") for text in commands if text.removesuffix(" force") in ENABLE]
    if said and said[-1] == ENABLE[1]:
        return None
    rows = [found for text in commands if (found := PRIORITY.fullmatch(text))]
    on: set[int] = set()
    for found in rows:
        (on.difference_update if found[1] else on.update)(numbers(found[2], 7))
    return frozenset(on) if said else ()


def _range(first: str, last: str | None) -> list[str]:
    """1/1-1/4; of a range over slots only the first."""
    (slot, _slash, begin), (_other, _too, end) = first.rpartition("/"), (last or first).rpartition("/")
    return [f"{slot}/{number}" for number in range(int(begin), min(int(end), 256) + 1)] if begin.isdigit() and end.isdigit() else [first]


def _port(switch: Switch, name: str, lines: list[str]) -> Port:
    said = {kind: [found for text in lines if (found := pattern.fullmatch(text))] for kind, pattern in WORDS.items()}
    roce = switch.roce
    classes = {dscp: dscp >> 3 for dscp in range(64)} | (ROCE_DSCP if roce else {})
    for found in said["dscp"]:
        classes |= dict.fromkeys(numbers(found[1], 63), int(found[2]))
    queues = {number: number for number in range(8)}
    for found in said["bind"]:
        queues |= dict.fromkeys(numbers(found[2], 7), int(found[1]))
    mode = (_last(said["pfc"]) or "off") if said["pfc"] else "on" if roce and not switch.pfc else "off"
    paused = frozenset() if mode != "on" or switch.pfc is None else frozenset(switch.pfc or ({3} if roce else ()))
    marking = {3: ROCE_MARK} if roce else {}
    marking |= {int(found[1]): Marking(True, int(found[2]) * KB, int(found[3]) * KB) for found in said["ecn"]}
    schedule = {number: Schedule(roce and number == ROCE_DSCP[48]) for number in range(8)}
    schedule |= {int(found[1]): Schedule(found[2] == "strict", int(found[3]) if found[3] else None) for found in said["share"]}
    mtu, speed = _last(said["mtu"]), _last(said["speed"])
    trust = _last(said["trust"]) if said["trust"] else "L3" if roce else None  # by itself it trusts L2
    up = [text for text in lines if text in DOWN][-1:] != [DOWN[0]]
    return Port(
        name, up, MTU if mtu is None else int(mtu), trust in ("L3", "both"), classes, queues,
        {number: number for number in range(8)}, frozenset({3} if roce else set()) | switch.lossless, paused,
        {number: queues[number] for number in paused}, paused if "pfc-wd" in lines else frozenset(), marking, schedule,
        None if speed is None else int(speed) * 1000, _last(said["fec"]), f"Eth{name}",
    )  # fmt: skip


def _last(found: list[re.Match[str]]) -> str | None:
    return found[-1][1] if found else None


def _lossless(commands: list[str]) -> frozenset[int]:
    """The switch priorities that a lossless pool takes."""
    rows = [found for text in commands if (found := POOL.fullmatch(text))]
    pools = {found[1] for found in rows if found[2] == "lossless"}
    return frozenset(number for found in rows if found[3] and found[1] in pools for number in numbers(found[3], 7))


def line(port: str, hop: str, wanted: str) -> str:
    """The command that puts a hop right."""
    key, _colon, value = wanted.replace('"', "").partition(": ")
    number, _space, state = wanted.partition(" ")
    pfc = f"{'no ' if state == 'off' else ''}dcb priority-flow-control priority {number} enable"
    return LINES[hop].format(interface=f"interface ethernet {port}", wanted=wanted, key=key, value=value, pfc=pfc)


LINES = {
    "mtu": "{interface} mtu 9216 force",
    "trust": "{interface} qos trust L3",
    "class": "{interface} qos map dscp {key} to switch-priority {value}",
    "group": "",
    "headroom": "traffic pool roce type lossless; traffic pool roce map switch-priority {wanted}",
    "pfc": "dcb priority-flow-control enable force; {pfc}; {interface} dcb priority-flow-control mode on force",
    "queue": "{interface} traffic-class {key} bind switch-priority {key}",
    "pause": "{interface} traffic-class {key} bind switch-priority {key}",
    "ecn": "{interface} traffic-class {wanted} congestion-control ecn minimum-absolute 150 maximum-absolute 1500",
    "schedule": "{interface} traffic-class {wanted} dcb ets wrr",
    "cnp": "{wanted}",
    "watchdog": "{interface} pfc-wd",
}
