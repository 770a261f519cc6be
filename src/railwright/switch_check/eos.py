# SPDX-License-Identifier: GPL-3.0-or-later
"""Arista EOS' running-config as ports: its text, or ``show running-config | json`` (commands within commands). Pure.

Source: Arista EOS user manual, Quality of Service (default maps, trust, tx-queues, ECN) and DCBX and Flow Control (PFC, its watchdog);
aristanetworks/avd, eos_cli_config_gen. Headroom and priority groups are the platform's own: no configuration says them.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, read_json
from railwright.switch_check.commands import Block, indented, joined, numbers
from railwright.switch_check.model import Marking, Port, Schedule, Unusable, bounded
from railwright.switch_hints.model import EOS_MAP

KIND = "an EOS running-config"
LARGEST, ROUTED = 9214, 1500  # bytes that a switched port and a routed one take by themselves
NOT_EOS = ("feature ", "vdc ", "policy-map type network-qos ", "system qos")
MTU = re.compile(r"(?:l2 )?mtu ([0-9]{1,5})")
INTERFACE = re.compile(r"interface (Ethernet[0-9/]{1,16})")
DSCP_MAP = re.compile(r"qos map dscp ([0-9 ,-]{1,300}) to traffic-class ([0-7])")
QUEUE_MAP = re.compile(r"qos map traffic-class ([0-7 ,-]{1,40}) to (?:uc-)?tx-queue ([0-7])")
QUEUE = re.compile(r"(?:uc-)?tx-queue ([0-7])")
NO_DROP = re.compile(r"(no )?priority-flow-control priority ([0-7]) (no-drop|drop)")
TRUST = ("qos trust cos", "qos trust dscp", "no qos trust")  # of a switched port by itself, and of a routed one
PFC = ("priority-flow-control on", "priority-flow-control off", "no priority-flow-control", "no priority-flow-control on")
MARK = re.compile(r"random-detect ecn minimum-threshold ([0-9]{1,9}) (\w{1,9}) maximum-threshold ([0-9]{1,9}) (\w{1,9})(?: .{0,80})?")
SPEED = re.compile(r"speed (forced |auto )?([0-9]{1,4})g(?:-([1-8]))?(?:full)?")  # the user manual, Ethernet Ports
FEC = "error-correction encoding "
SIZES = {"bytes": 1, "kbytes": 1000, "mbytes": 1000000, "segments": 208}


def parse(text: str, limit: int) -> Block:
    """Commands by indentation, or EOS' JSON. Raises UnreadableText for JSON that is none."""
    if text.lstrip().startswith("{"):
        return mapping(read_json(text, limit))
    return indented(text, "!")


def ports(document: Any) -> list[Port]:
    """Every Ethernet interface. Raises Unusable."""
    commands = _commands(document)
    if any(text.startswith(NOT_EOS) for text in commands):
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
    return Maps(classes, queues, any(text.startswith("priority-flow-control pause watchdog default timeout ") for text in commands))


def _port(commands: Block, maps: Maps, name: str, own: Block) -> Port:
    profiles = [mapping(commands.get(f"qos profile {text.partition(' ')[2]}")) for text in own if text.startswith("service-profile ")]
    lines = [text for block in (*profiles, own) for text in block]  # the port's own words come after its profile's, and the last one counts
    trust = next((text for text in reversed(lines) if text in TRUST), TRUST[1] if "no switchport" in own else TRUST[0])
    no_drop: set[int] = set()
    for text in lines:
        if found := NO_DROP.fullmatch(text):
            (no_drop.discard if found[1] or found[3] == "drop" else no_drop.add)(int(found[2]))
    on = next((text for text in reversed(lines) if text in PFC), "") == PFC[0]
    paused = frozenset(no_drop if on else ())
    rows: dict[int, dict[str, Any]] = {}
    for block in (*profiles, own):
        for text, below in block.items():
            if found := QUEUE.fullmatch(text):
                rows.setdefault(int(found[1]), {}).update(below)
    speed = next((found for text in own if (found := SPEED.fullmatch(text))), None)
    return Port(
        name, "shutdown" not in own, _mtu(commands, own), trust == TRUST[1], maps.classes, maps.queues, None, None, paused,
        {number: maps.queues[number] for number in paused}, paused if maps.watched else frozenset(),
        {number: _marking(row) for number, row in rows.items()}, {number: _schedule(rows.get(number, {})) for number in range(8)},
        int(speed[2]) * 1000 if speed else None, next((text.removeprefix(FEC) for text in own if text.startswith(FEC)), None), None,
        {"forced ": False, "auto ": True}.get(speed[1] or "") if speed else None, int(speed[3]) if speed and speed[3] else None,
    )  # fmt: skip


def _mtu(commands: Block, own: Block) -> int | None:
    """A switched port takes jumbo frames as it is, a routed one what Ethernet takes, unless the switch has another default."""
    said = next((found[1] for text in own if (found := MTU.fullmatch(text))), None)
    if said is not None or "no switchport" not in own:
        return LARGEST if said is None else int(said)
    return None if "interface defaults" in commands else ROUTED


def _marking(row: Block) -> Marking:
    for text in row:
        if (found := MARK.fullmatch(text)) and found[2] in SIZES and found[4] in SIZES:
            return Marking(ecn=True, low=int(found[1]) * SIZES[found[2]], high=int(found[3]) * SIZES[found[4]])
    return Marking(ecn=False)


def _schedule(row: Block) -> Schedule:
    """A queue is strict unless it says ``no priority``."""
    weight = next((int(text.split()[2]) for text in row if re.fullmatch(r"bandwidth percent [0-9]{1,3}", text)), None)
    return Schedule("no priority" not in row, weight)


def line(port: str, hop: str, wanted: str) -> str:
    """The command that puts a hop right."""
    key, _colon, value = wanted.replace('"', "").partition(": ")
    number, _space, state = wanted.partition(" ")
    off = "no " if state == "off" else ""
    return LINES[hop].format(port=port, wanted=wanted, key=key, value=value, pfc=f"{off}priority-flow-control priority {number} no-drop")


LINES = {
    "mtu": "interface {port}: mtu 9214",
    "trust": "interface {port}: qos trust dscp",
    "class": "qos map dscp {key} to traffic-class {value}",
    "group": "",
    "headroom": "",
    "pfc": "the qos profile of {port}: priority-flow-control on; {pfc}",
    "queue": "qos map traffic-class {key} to tx-queue {value}",
    "pause": "qos map traffic-class {key} to tx-queue {key}",
    "ecn": "the qos profile of {port}, uc-tx-queue {wanted}: random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes",
    "schedule": "the qos profile of {port}, uc-tx-queue {wanted}: no priority; bandwidth percent",
    "cnp": "{wanted}",
    "watchdog": "priority-flow-control pause watchdog default timeout 0.20",
}
