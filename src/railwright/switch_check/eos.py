# SPDX-License-Identifier: GPL-3.0-or-later
"""Arista EOS' running-config as ports: its text, or ``show running-config | json`` (commands within commands). Pure.

Source: Arista EOS user manual, Quality of Service (default maps, trust, tx-queues, ECN) and DCBX and Flow Control (PFC, its watchdog);
aristanetworks/avd, eos_cli_config_gen. Headroom and priority groups are the platform's own: no configuration says them.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, read_json
from railwright.switch_check.commands import Block, indented, joined, numbers, spoken
from railwright.switch_check.model import Marking, Port, Schedule, Unusable, bounded
from railwright.switch_hints.model import EOS_MAP

KIND = "an EOS running-config"
UNSET_FEC = "auto"  # EOS user manual, Ethernet Ports: by speed and transceiver
LARGEST, ROUTED = 9214, 1500  # bytes that a switched port and a routed one take by themselves
NOT_EOS = ("feature ", "vdc ", "policy-map type network-qos ", "policy-map type queuing ", "system qos", "interface mgmt0", "boot nxos ",
           "service-policy type queuing ", "priority-flow-control watch-dog-interval ")  # the last two of an interface
MTU = re.compile(r"(l2 )?mtu ([0-9]{1,5})")
INTERFACE = re.compile(r"interface (Ethernet[0-9/]{1,16})")
DSCP_MAP = re.compile(r"qos map dscp ([0-9 ,-]{1,300}) to traffic-class ([0-7])(?: drop-precedence [0-9])?")
QUEUE_MAP = re.compile(r"qos map traffic-class ([0-7 ,-]{1,40}) to (?:uc-)?tx-queue ([0-7])")
QUEUE = re.compile(r"(?:uc-)?tx-queue ([0-7])")
NO_DROP = re.compile(r"(no )?priority-flow-control priority ([0-7]) (no-drop|drop)")
TRUST = ("qos trust cos", "qos trust dscp", "no qos trust")  # of a switched port by itself, and of a routed one
PFC = ("priority-flow-control on", "priority-flow-control mode on", "priority-flow-control off", "no priority-flow-control",
       "no priority-flow-control on", "no priority-flow-control mode on")  # `mode on`: of older releases
WATCHDOG = re.compile(r"priority-flow-control pause watchdog (?:default|port timer) timeout (\S{1,9})(?: .{0,80})?")
WHOLE = re.compile(r"^! Command: show running-config\r?$", re.MULTILINE)  # EOS says the command; a whole one ends with `end`
MARK = re.compile(r"random-detect ecn minimum-threshold ([0-9]{1,9}) (\w{1,12}) maximum-threshold ([0-9]{1,9}) (\w{1,12})(?: .{0,80})?")
CLASSIFIES = ("service-policy type qos input ", "qos map dscp to traffic-class ")  # a port's own policy, or map: neither is followed
SPEED = re.compile(r"speed (forced |auto )?([0-9]{1,4})g(?:-([1-8]))?(?:full)?")  # the user manual, Ethernet Ports
FEC = "error-correction encoding "
SIZES = {"bytes": 1, "kbytes": 1000, "mbytes": 1000000, "segments": 208}


def parse(text: str, limit: int) -> Block:
    """Commands by indentation, or EOS' JSON. Raises UnreadableText for JSON that is none, and for text that was cut off."""
    if text.lstrip().startswith("{"):
        return mapping(read_json(text, limit))
    found = indented(text, "!")
    if WHOLE.search(text) and "end" not in found:  # what comes last may change what comes first: qos map
        raise UnreadableText("it is cut off: it has no `end`")
    return found


def ports(document: Any) -> list[Port]:
    """Every Ethernet interface. Raises Unusable."""
    commands = _commands(document)
    if spoken(commands, NOT_EOS):
        raise Unusable(f"is not {KIND}: it has commands of NX-OS")
    found = [(name[1], mapping(below)) for text, below in commands.items() if (name := INTERFACE.fullmatch(text))]
    if not found:
        raise Unusable(f"is not {KIND}: it has no interface Ethernet")
    maps = _maps(commands)
    return [_port(commands, maps, name, joined(commands, below, "interface Port-Channel")) for name, below in bounded(found)]


def _commands(document: Any) -> Block:
    """EOS' JSON has ``cmds`` within ``cmds``, and null where nothing stands below."""
    said = mapping(document)
    rows = mapping(said["cmds"]) if "cmds" in said else said
    return {" ".join(str(text).split()): _commands(below) for text, below in rows.items() if text not in ("comments", "header")}


class Maps(NamedTuple):
    """The switch's own, for all ports."""

    classes: dict[int, int]
    queues: dict[int, int]
    watched: bool


def _maps(commands: Block) -> Maps:
    classes = {dscp: EOS_MAP[dscp >> 3] for dscp in range(64)}
    queues = {number: number for number in range(8)}
    for text in commands:
        if found := DSCP_MAP.fullmatch(text):
            classes |= dict.fromkeys(numbers(found[1], 63), int(found[2]))
        elif found := QUEUE_MAP.fullmatch(text):
            queues |= dict.fromkeys(numbers(found[1], 7), int(found[2]))
    return Maps(classes, queues, any(_watches(text) for text in commands))


def _watches(text: str) -> bool:
    found = WATCHDOG.fullmatch(text)
    return found is not None and found[1].strip("0.") != ""


def _port(commands: Block, maps: Maps, name: str, own: Block) -> Port:
    profiles = [mapping(commands.get(f"qos profile {text.partition(' ')[2]}")) for text in own if text.startswith("service-profile ")]
    lines = [text for block in (*profiles, own) for text in block]  # the port's own words come after its profile's, and the last one counts
    routed = "no switchport" in own or ("switchport default mode routed" in commands and "switchport" not in own)
    trust = next((text for text in reversed(lines) if text in TRUST), TRUST[1] if routed else TRUST[0])
    policy = any(text.startswith(CLASSIFIES) for text in lines)
    no_drop: set[int] = set()
    for text in lines:
        if found := NO_DROP.fullmatch(text):
            (no_drop.discard if found[1] or found[3] == "drop" else no_drop.add)(int(found[2]))
    on = next((text for text in reversed(lines) if text in PFC), "") in PFC[:2]
    paused = frozenset(no_drop if on and "priority-flow-control all off" not in commands else ())
    watched = (maps.watched or any(map(_watches, lines))) and "no priority-flow-control pause watchdog" not in lines
    encodings = [text.removeprefix(FEC) for text in own if text.startswith(FEC)] or ["none"] * (f"no {FEC.strip()}" in own)
    rows: dict[int, dict[str, Any]] = {}
    for block in (*profiles, own):
        for text, below in block.items():
            if found := QUEUE.fullmatch(text):
                rows.setdefault(int(found[1]), {}).update(below)
    speed = next((found for text in own if (found := SPEED.fullmatch(text))), None)
    return Port(
        name, "shutdown" not in own, _mtu(commands, own, routed=routed), None if policy else trust == TRUST[1],
        None if policy else maps.classes, maps.queues, None, None, paused,
        {number: maps.queues[number] for number in paused}, paused if watched else frozenset(),
        {number: _marking(row) for number, row in rows.items()}, _schedule(rows),
        int(speed[2]) * 1000 if speed else None, encodings[0] if len(encodings) == 1 else None, None,  # of several, it negotiates
        {"forced ": False, "auto ": True}.get(speed[1] or "") if speed else None, int(speed[3]) if speed and speed[3] else None,
    )  # fmt: skip


def _mtu(commands: Block, own: Block, *, routed: bool) -> int | None:
    """``mtu`` is of what is routed, and Ethernet's by itself; a switched port takes jumbo frames, and ``l2 mtu`` alone limits them."""
    said = {found[1] or "": int(found[2]) for text in own if (found := MTU.fullmatch(text))}
    frames = said.get("l2 ", LARGEST)
    if not routed:
        return frames
    if "" in said:
        return min(said[""], frames)
    return None if "interface defaults" in commands else ROUTED


def _marking(row: Block) -> Marking:
    for text in row:
        if found := MARK.fullmatch(text):  # of milliseconds nobody knows how many bytes they are
            known = found[2] in SIZES and found[4] in SIZES
            return Marking(True, *((int(found[1]) * SIZES[found[2]], int(found[3]) * SIZES[found[4]]) if known else ()))
    return Marking(ecn=False)


def _schedule(rows: Mapping[int, Block]) -> dict[int, Schedule]:
    """A queue is strict unless it or a higher one says ``no priority``: those below a round robin queue are round robin too."""
    last = max((number for number, row in rows.items() if "no priority" in row), default=-1)
    shares = {number: [int(text.split()[2]) for text in row if re.fullmatch(r"bandwidth percent [0-9]{1,3}", text)]
              for number, row in rows.items()}  # fmt: skip
    return {number: Schedule(number > last, next(iter(shares.get(number, ())), None)) for number in range(8)}


# The command that puts a hop right.
LINES = {
    "fec": "interface {port}: error-correction encoding reed-solomon",
    "mtu": "interface {port}: mtu 9214",
    "trust": "interface {port}: qos trust dscp",
    "class": "qos map dscp {key} to traffic-class {value}",
    "group": "",
    "headroom": "",
    "pfc": "the qos profile of {port}: priority-flow-control on; {no}priority-flow-control priority {number} no-drop",
    "queue": "qos map traffic-class {key} to tx-queue {value}",
    "pause": "qos map traffic-class {key} to tx-queue {key}",
    "ecn": "the qos profile of {port}, uc-tx-queue {wanted}: random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes",
    "schedule": "the qos profile of {port}, uc-tx-queue {wanted}: no priority; bandwidth percent",
    "cnp": "{wanted}",
    "watchdog": "priority-flow-control pause watchdog default timeout 0.20",
}
