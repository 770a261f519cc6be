# SPDX-License-Identifier: GPL-3.0-or-later
"""Cisco NX-OS' running-config (Nexus 9000 with eight queues) as ports. Pure.

A qos-group is the class and the queue; its network-qos class says whether it is paused, and on which CoS. Source: Cisco Nexus 9000 Series
NX-OS Quality of Service Configuration Guide (classification, network QoS, queuing, priority flow control and its watchdog); Cisco's
RoCEv2 script of 2026. Headroom is the platform's own: no configuration says it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, whole
from railwright.switch_check.commands import Block, indented, joined, numbers, spoken
from railwright.switch_check.model import Marking, Port, Schedule, Unusable, bounded

KIND = "an NX-OS running-config"
UNSET_FEC = "auto"  # Nexus 9000 Interfaces Configuration Guide: fec auto
MTU = 1500  # of an interface that says nothing
INTERFACE = re.compile(r"interface (Ethernet[0-9/]{1,16})")
MATCH = re.compile(r"match dscp ([0-9 ,-]{1,300})")
GROUP = re.compile(r"set qos-group ([0-7])")
CLASS_MAP = re.compile(r"class-map type qos (?:match-\w+ )?(\S{1,64})")
CLASS = re.compile(r"class (?:type qos )?(\S{1,64})")
TELLS = re.compile(r"match (?:dscp [0-9 ,-]{1,300}|cos .{1,40})")  # what is no DSCP by its number and no CoS may match it
NEGOTIATE = re.compile(r"(no )?negotiate auto(?: [0-9]{1,6})?")
NETWORK = re.compile(r"class type network-qos (?:c-8q-nq|c-nq)([0-7])")
PAUSE = re.compile(r"pause (?:no-drop )?pfc-cos ([0-7])")
QUEUE = re.compile(r"class type queuing c-out-(?:8q-)?q(?:([0-7])|-default)")
SHARE = re.compile(r"bandwidth (?:remaining )?percent ([0-9]{1,3})")
MARK = re.compile(r"random-detect minimum-threshold ([0-9]{1,9}) (\w{1,9}) maximum-threshold ([0-9]{1,9}) (\w{1,9})(.{0,80})")
EOS = ("qos profile ", "qos map ", "transceiver qsfp ", "interface Port-Channel", "interface Management", "management api ",
       "service-profile ", "priority-flow-control priority ")  # the last two of an interface
SIZES = {"bytes": 1, "kbytes": 1000, "mbytes": 1000000, "packets": 208}
WATCHDOG = "priority-flow-control watch-dog-interval on"


def parse(text: str, _limit: int) -> Block:
    return indented(text, "!")


def ports(document: Any) -> list[Port]:
    """Every Ethernet interface. Raises Unusable."""
    commands = mapping(document)
    if spoken(commands, EOS) or any(re.fullmatch(r"interface Ethernet[0-9]{1,3}", text) for text in commands):  # a Nexus' has a slot
        raise Unusable(f"is not {KIND}: it has commands of EOS")
    found = [(name[1], mapping(below)) for text, below in commands.items() if (name := INTERFACE.fullmatch(text))]
    if not found:
        raise Unusable(f"is not {KIND}: it has no interface Ethernet")
    kinds: dict[str, Block] = {}
    for text, below in commands.items():
        if kind := CLASS_MAP.fullmatch(text):
            kinds.setdefault(kind[1], mapping(below))
    return [_port(commands, kinds, name, joined(commands, below, "interface port-channel")) for name, below in bounded(found)]


def _policy(commands: Block, own: Block, kind: str, way: str = "") -> Block:
    """The policy map that is in force: the port's own, else that of ``system qos``."""
    used = f"service-policy type {kind} {way}"
    for block in (own, mapping(commands.get("system qos"))):
        for text in block:
            if text.startswith(used):
                return mapping(commands.get(f"policy-map type {kind} {text.removeprefix(used).split(' ')[0]}"))
    return {}


def _port(commands: Block, kinds: Mapping[str, Block], name: str, own: Block) -> Port:
    policy = _policy(commands, own, "qos", "input ")
    vlans = not policy and any(word.startswith("service-policy type qos input ") for text, below in commands.items()
                               if text.startswith("vlan configuration ") for word in mapping(below))  # fmt: skip
    told = not vlans and all(TELLS.fullmatch(word) for text in policy if (of := CLASS.fullmatch(text)) for word in kinds.get(of[1], {})
               if word.startswith("match "))  # fmt: skip
    classes = dict(_classes(kinds, policy))
    groups = {int(of[1]): int(cos[1]) for text, below in _policy(commands, own, "network-qos").items() if (of := NETWORK.fullmatch(text))
              for word in below if (cos := PAUSE.fullmatch(word))}  # fmt: skip
    rows = _policy(commands, own, "queuing", "output ").items()
    queues = {int(of[1] or 0): below for text, below in rows if (of := QUEUE.fullmatch(text))}
    on = any(text.startswith("priority-flow-control mode on") for text in own)  # auto asks DCBX, and the hosts' DCBX is off
    paused = frozenset(groups.values()) if on else frozenset()
    mtu = next((whole(text.removeprefix("mtu ")) for text in own if text.startswith("mtu ")), MTU)
    return Port(
        name, "shutdown" not in own, mtu, bool(classes) if told else None,
        dict.fromkeys(range(64), 0) | classes if told else None, {number: number for number in range(8)},
        groups, None, paused, {cos: number for number, cos in groups.items()},
        paused if WATCHDOG in commands and WATCHDOG in own else frozenset(),
        {number: _marking(below) for number, below in queues.items()},
        {number: _schedule(below) for number, below in queues.items()} or None,
        next((whole(text.removeprefix("speed ")) for text in own if text.startswith("speed ")), None),
        next((text.removeprefix("fec ") for text in own if text.startswith("fec ")), None), None,
        next((found[1] is None for text in own if (found := NEGOTIATE.fullmatch(text))), None),
    )  # fmt: skip


def _classes(kinds: Mapping[str, Block], policy: Block) -> Iterator[tuple[int, int]]:
    """DSCP -> qos-group, the first class that matches before the others."""
    for text, below in reversed(list(policy.items())):
        group = next((int(found[1]) for word in below if (found := GROUP.fullmatch(word))), None)
        name = CLASS.fullmatch(text)
        if name is None or group is None:
            continue
        for word in kinds.get(name[1], {}):
            if found := MATCH.fullmatch(word):
                yield from dict.fromkeys(numbers(found[1], 63), group).items()


def _marking(below: Block) -> Marking:
    """Without ``ecn`` at its end random-detect drops."""
    for text in below:
        if (found := MARK.fullmatch(text)) and found[2] in SIZES and found[4] in SIZES:
            return Marking("ecn" in found[5].split(), int(found[1]) * SIZES[found[2]], int(found[3]) * SIZES[found[4]])
    return Marking(ecn=any(text.startswith("random-detect ") and text.endswith(" ecn") for text in below))


def _schedule(below: Block) -> Schedule:
    weight = next((int(found[1]) for text in below if (found := SHARE.fullmatch(text))), None)
    return Schedule(any(text.startswith("priority level") for text in below), weight)


# The command that puts a hop right.
LINES = {
    "fec": "interface {port}: fec rs-fec",
    "mtu": "interface {port}: mtu 9216",
    "trust": "interface {port}: service-policy type qos input, a policy with a class that matches the DSCP",
    "class": "the class of the qos policy that matches dscp {key}: set qos-group {value}",
    "group": "policy-map type network-qos, class c-8q-nq{key}: pause pfc-cos {key}",
    "headroom": "",
    "pfc": "interface {port}: priority-flow-control mode on; pause pfc-cos {number} in its network-qos class and in no other",
    "queue": "the class of the qos policy that matches the DSCP: set qos-group {key}",
    "pause": "policy-map type network-qos, class c-8q-nq{key}: pause pfc-cos {key}",
    "ecn": "policy-map type queuing, class c-out-8q-q{wanted}: random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes "
           "drop-probability 7 weight 0 ecn",
    "schedule": "policy-map type queuing, class c-out-8q-q{wanted}: bandwidth remaining percent",
    "cnp": "{wanted}",
    "watchdog": "priority-flow-control watch-dog-interval on, for the switch and on interface {port}",
}
