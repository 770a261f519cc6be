# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA Onyx' running-config as ports: one command a line, each with its interface. Pure.

Source: NVIDIA Onyx User Manual 3.10 LTS (QoS: trust and its default L2, the default map DSCP >> 3; RoCE Commands: what ``roce lossless``
sets: DSCP 26 on priority 3, CNP's 48 on 6, 150 and 1500 KB; traffic pools; PFC and its watchdog).
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in, list_or_empty
from railwright.switch_check.commands import numbers
from railwright.switch_check.model import Marking, Port, Schedule, Unusable, bounded

KIND = "an Onyx running-config"
UNSET_FEC = "auto"  # Onyx User Manual 3.10, Ethernet Interfaces: by the module
MTU = 1500  # of an interface that says nothing
KB = 1000
INTERFACE = re.compile(r"interface (ethernet|port-channel|mlag-port-channel) ([0-9][0-9/]{0,11})(?:-([0-9][0-9/]{0,11}))?(?: (.{1,200}))?")
MEMBER = re.compile(r"(mlag-)?channel-group ([0-9]{1,4})(?: .{0,40})?")
ROCE = re.compile(r"(no )?roce(?: (lossless|semi-lossless|lossy))?")
PREFIX = "cli default prefix-modes enable"  # a running-config ends this at its head and says what persists at its end
WORDS: Mapping[str, re.Pattern[str]] = {
    "mtu": re.compile(r"mtu ([0-9]{1,5})(?: force)?"),
    "trust": re.compile(r"(?:no )?qos trust ?(\w{2,8})?"),
    "dscp": re.compile(r"qos map dscp ([0-9 ,-]{1,200}) to switch-priority ([0-7])"),
    "bind": re.compile(r"traffic-class ([0-7]) bind switch-priority ([0-7 ,-]{1,40})"),
    "ecn": re.compile(r"traffic-class ([0-7]) congestion-control (?:ecn|both) "
                      r"minimum-(absolute|relative) ([0-9]{1,7}) maximum-(?:absolute|relative) ([0-9]{1,7})"),
    "group": re.compile(r"ingress-buffer iPort\.pg([0-7]) bind switch-priority ([0-7 ,-]{1,40})"),
    "buffer": re.compile(r"ingress-buffer iPort\.pg([0-7]) map pool \S{1,20} type (lossless|lossy)(?: .{0,120})?"),
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
    """Commands; those within an interface's block bear its name, as those of one line do. Raises UnreadableText for what was cut off."""
    if text.count(PREFIX) == 1 and f"no {PREFIX}" in text:
        raise UnreadableText("it is cut off: it has no persistent prefix mode setting at its end")
    found, block = [], ""
    for line in lines_in(text):
        words = " ".join(line.split())
        if words == "exit" or (words.startswith("interface ") and INTERFACE.fullmatch(words) is None):
            block = ""
        if words and words != "exit" and not words.startswith("#"):
            head = INTERFACE.fullmatch(words)
            block = words if head is not None and head[4] is None else "" if head is not None else block
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
        names = [f"{head[1]} {name}" for name in _range(head[2], head[3])]
        many += len(names)
        if many > MOST:
            raise Unusable(f"is not {KIND}: more than {MOST} commands of interfaces")
        for name in names:
            own.setdefault(name, []).extend([head[4]] if head[4] else [])
    ethernet = {name.removeprefix("ethernet "): _joined(own, lines) for name, lines in own.items() if name.startswith("ethernet ")}
    if not ethernet:
        raise Unusable(f"is not {KIND}: it has no interface ethernet")
    modes = [found[2] or "lossless" if not found[1] else None for text in others if (found := ROCE.fullmatch(text))]
    silent = not any("dcb priority-flow-control" in text for text in commands)
    switch = Switch(modes[-1] if modes else None, _enabled(others), *_pools(others), silent)
    return [_port(switch, name, lines) for name, lines in bounded(ethernet).items()]


def _joined(own: Mapping[str, list[str]], lines: list[str]) -> list[str]:
    """A member of a channel has the channel's commands too, before its own."""
    member = next((found for text in lines if (found := MEMBER.fullmatch(text))), None)
    return lines if member is None else [*own.get(f"{member[1] or ''}port-channel {member[2]}", []), *lines]


class Switch(NamedTuple):
    """What holds for all ports. ``roce``: its mode; ``pfc``: the priorities that have it, None where it is off, and where nothing is said
    of it ``()``; ``silent``: no command is about PFC."""

    roce: str | None
    pfc: frozenset[int] | tuple[()] | None
    lossless: frozenset[int]
    lossy: frozenset[int]
    silent: bool


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
    (slot, slash, begin), (_other, _too, end) = first.rpartition("/"), (last or first).rpartition("/")
    if not (begin.isdigit() and end.isdigit()):
        return [first]
    return [f"{slot}{slash}{number}" for number in range(int(begin), min(int(end), 256) + 1)]


def _port(switch: Switch, name: str, lines: list[str]) -> Port:
    said = {kind: [found for text in lines if (found := pattern.fullmatch(text))] for kind, pattern in WORDS.items()}
    roce, lossless = switch.roce is not None, frozenset({3} if switch.roce == "lossless" else ())
    classes = {dscp: dscp >> 3 for dscp in range(64)} | (ROCE_DSCP if roce else {})
    for found in said["dscp"]:
        classes |= dict.fromkeys(numbers(found[1], 63), int(found[2]))
    queues = {number: number for number in range(8)}
    for found in said["bind"]:
        queues |= dict.fromkeys(numbers(found[2], 7), int(found[1]))
    mode = (_last(said["pfc"]) or "off") if said["pfc"] else "on" if lossless and not switch.pfc else "off"
    paused = frozenset() if mode != "on" or switch.pfc is None else frozenset(switch.pfc or lossless)
    freed = paused if "pfc-wd" in lines else frozenset[int]()
    unsaid = switch.silent and not lossless and bool(switch.lossless)  # NVIDIA's guide to lossless pools sets no PFC: they may bring it
    buffers = {found[1]: found[2] for found in said["buffer"]}
    bound = {number: buffers.get(found[1]) for found in said["group"] for number in numbers(found[2], 7)}
    headroom = frozenset(number for number, kind in bound.items() if kind == "lossless")
    lossy = (switch.lossy | {number for number, kind in bound.items() if kind == "lossy"}) - headroom
    marking = {3: ROCE_MARK} if roce else {}
    marking |= {int(found[1]): Marking(True, int(found[3]) * KB, int(found[4]) * KB) if found[2] == "absolute" else Marking(ecn=True)
                for found in said["ecn"]}  # fmt: skip
    schedule = {number: Schedule(roce and number == ROCE_DSCP[48]) for number in range(8)}
    schedule |= {int(found[1]): Schedule(found[2] == "strict", int(found[3]) if found[3] else None) for found in said["share"]}
    mtu, speed = _last(said["mtu"]), _last(said["speed"])
    trust = _last(said["trust"]) if said["trust"] else "L3" if roce else None  # by itself it trusts L2
    up = [text for text in lines if text in DOWN][-1:] != [DOWN[0]]
    return Port(
        name, up, MTU if mtu is None else int(mtu), trust in ("L3", "both"), classes, queues,
        {number: number for number in range(8)}, (lossless | switch.lossless | headroom) - lossy, None if unsaid else paused,
        None if unsaid else {number: queues[number] for number in paused}, None if unsaid else freed, marking, schedule,
        None if speed is None else int(speed) * 1000, _last(said["fec"]), f"Eth{name}", lossy=lossy,
    )  # fmt: skip


def _last(found: list[re.Match[str]]) -> str | None:
    return found[-1][1] if found else None


def _pools(commands: list[str]) -> tuple[frozenset[int], frozenset[int]]:
    """The switch priorities that a lossless pool takes, and those that only a lossy one does."""
    rows = [found for text in commands if (found := POOL.fullmatch(text))]
    kinds = {found[1]: found[2] for found in rows if found[2]}
    lossless, lossy = (frozenset(number for found in rows if found[3] and kinds.get(found[1]) == kind for number in numbers(found[3], 7))
                       for kind in ("lossless", "lossy"))  # fmt: skip
    return lossless, lossy - lossless


# The command that puts a hop right.
LINES = {
    "fec": "interface ethernet {port} fec-override rs-fec",
    "mtu": "interface ethernet {port} mtu 9216 force",
    "trust": "interface ethernet {port} qos trust L3",
    "class": "interface ethernet {port} qos map dscp {key} to switch-priority {value}",
    "group": "",
    "headroom": "traffic pool roce type lossless; traffic pool roce map switch-priority {wanted}",
    "pfc": "dcb priority-flow-control enable force; {no}dcb priority-flow-control priority {number} enable; "
           "interface ethernet {port} dcb priority-flow-control mode on force",
    "queue": "interface ethernet {port} traffic-class {key} bind switch-priority {key}",
    "pause": "interface ethernet {port} traffic-class {key} bind switch-priority {key}",
    "ecn": "interface ethernet {port} traffic-class {wanted} congestion-control ecn minimum-absolute 150 maximum-absolute 1500",
    "schedule": "interface ethernet {port} traffic-class {wanted} dcb ets wrr",
    "cnp": "{wanted}",
    "watchdog": "interface ethernet {port} pfc-wd",
}
