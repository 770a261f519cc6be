# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of switch configurations, one a platform: what a switch would do with a text.

Written from the platforms' documentation, and from nothing of railwright: a reader starts with the platform's default
maps, carries out the text line by line, and follows each DSCP to its class, its queue and the priority that PFC pauses.
A line that a reader does not know is an error. Readers know what the documents say, no more: no reader is a switch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

COMMENT = {"sonic": "#", "nvue": "#", "onyx": "#", "eos": "!", "nxos": "!"}
DSCPS = range(64)


@dataclass
class Told:
    """What the port does after the text."""

    classes: dict[int, int]  # DSCP -> the platform's class
    paused: dict[int, int] = field(default_factory=dict)  # DSCP -> PFC priority, of those that are lossless from end to end
    pfc: set[int] = field(default_factory=set)  # priorities that the port pauses
    marked: set[int] = field(default_factory=set)  # DSCPs whose queue marks ECN
    strict: set[int] = field(default_factory=set)  # DSCPs whose queue goes before all others
    trusted: bool = False  # the DSCP decides
    watched: bool = False  # PFC watchdog
    mtu: int = 0
    share: dict[int, int] = field(default_factory=dict)  # DSCP -> percent or weight, where the text says one
    saved: bool = False


def commands(os: str, lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip() and not line.startswith(COMMENT[os])]


def number(pattern: str, line: str) -> list[int] | None:
    """The integers of a line that is exactly this; None for another line."""
    found = re.fullmatch(pattern.replace("N", r"(\d+)"), line)
    return [int(item) for item in found.groups()] if found else None


def numbers(text: str) -> set[int]:
    """``0-2,5`` or ``0 1 2``."""
    found: set[int] = set()
    for part in re.split(r"[ ,]+", text.strip()):
        low, _dash, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def unknown(line: str) -> AssertionError:
    return AssertionError(f"the platform knows no such line: {line}")


Rules = list[tuple[str, Callable[..., None]]]


def carry_out(lines: list[str], rules: Rules) -> None:
    """Each line by the first rule that is exactly it; N is an integer. A rule gets the groups of its pattern as text."""
    for line in lines:
        for pattern, act in rules:
            found = re.fullmatch(pattern.replace("N", r"(\d+)"), line)
            if found:
                act(*found.groups())
                break
        else:
            raise unknown(line)


class Sonic:
    """qos_config.j2 of sonic-buildimage: the AZURE maps; PG 3 and 4 alone have headroom."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, dict[str, str]]] = {}
        self.buffers: set[int] = set()
        self.files: dict[str, str] = {}
        self.told = Told({})
        self.rules: Rules = [
            ("sudo config qos reload", self.reload),
            (r"sudo config load -y (\S+)", self.load),
            ("sudo config interface pfc priority Ethernet0 N on", self.pause),
            ("sudo config interface buffer priority-group lossless add Ethernet0 N", lambda group: self.buffers.add(int(group))),
            ("sudo config interface mtu Ethernet0 N", lambda mtu: setattr(self.told, "mtu", int(mtu))),
            ("sudo config pfcwd start --action drop Ethernet0 N --restoration-time N", lambda *_ms: setattr(self.told, "watched", True)),
            ("sudo config save -y", lambda: setattr(self.told, "saved", True)),
        ]

    def script(self, lines: list[str]) -> list[str]:
        """The commands; here documents are put aside as the files that they become."""
        found = []
        todo = iter(lines)
        for line in todo:
            here = re.fullmatch(r"cat > (\S+) <<'EOF'", line)
            if here:
                self.files[here[1]] = "\n".join(iter(lambda: next(todo), "EOF"))
            else:
                found.append(line)
        return found

    def reload(self) -> None:
        self.tables, self.buffers = sonic_template(), {3, 4}

    def load(self, name: str) -> None:
        for table, rows in json.loads(self.files[name]).items():
            for key, values in rows.items():
                assert all(isinstance(value, str) for value in values.values()), "config_db holds text"
                self.tables.setdefault(table, {}).setdefault(key, {}).update(values)

    def pause(self, priority: str) -> None:
        row = self.tables["PORT_QOS_MAP"]["Ethernet0"]
        row["pfc_enable"] = ",".join(map(str, sorted(numbers(row["pfc_enable"]) | {int(priority)})))


def sonic(lines: list[str]) -> Told:
    switch = Sonic()
    carry_out(switch.script(commands("sonic", lines)), switch.rules)
    return sonic_port(switch.told, switch.tables, switch.buffers)


def sonic_template() -> dict[str, dict[str, dict[str, str]]]:
    same = {str(item): str(item) for item in range(8)}
    special = {"3": "3", "4": "4", "5": "2", "8": "0", "46": "5", "48": "6"}
    maps = ("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map")
    return {
        "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): special.get(str(dscp), "1") for dscp in DSCPS}},
        "TC_TO_QUEUE_MAP": {"AZURE": dict(same)},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": dict(same)},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {"0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "0", "7": "7"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4", "pfcwd_sw_enable": "3,4"} | dict.fromkeys(maps, "AZURE")},
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}, "scheduler.1": {"type": "DWRR", "weight": "15"}},
        "WRED_PROFILE": {"AZURE_LOSSLESS": {"ecn": "ecn_all"}},
        "QUEUE": {f"Ethernet0|{queue}": {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"} if queue in (3, 4)
                  else {"scheduler": "scheduler.0"} for queue in range(7)},
    }


def sonic_port(told: Told, tables: dict[str, dict[str, dict[str, str]]], buffers: set[int]) -> Told:
    port = tables["PORT_QOS_MAP"]["Ethernet0"]
    classify = tables["DSCP_TO_TC_MAP"][port["dscp_to_tc_map"]]
    told.trusted = "dot1p_to_tc_map" not in port
    told.pfc = numbers(port["pfc_enable"])
    told.watched &= numbers(port["pfcwd_sw_enable"]) == told.pfc
    queues = tables["TC_TO_QUEUE_MAP"][port["tc_to_queue_map"]]
    groups = tables["TC_TO_PRIORITY_GROUP_MAP"][port["tc_to_pg_map"]]
    stopped = {queue: int(priority) for priority, queue in tables["MAP_PFC_PRIORITY_TO_QUEUE"][port["pfc_to_queue_map"]].items()}
    for dscp in DSCPS:
        tc = classify[str(dscp)]
        told.classes[dscp] = int(tc)
        group, queue = int(groups[tc]), queues[tc]
        # What comes in pauses the priority of its group; what goes out is paused by the priority of its queue.
        if group in told.pfc & buffers and stopped[queue] == group:
            told.paused[dscp] = group
        row = tables["QUEUE"].get(f"Ethernet0|{queue}", {})
        scheduler = tables["SCHEDULER"].get(row.get("scheduler", ""), {})
        if scheduler.get("type") == "STRICT":
            told.strict.add(dscp)
        elif "weight" in scheduler:
            told.share[dscp] = int(scheduler["weight"])
        if tables["WRED_PROFILE"].get(row.get("wred_profile", ""), {}).get("ecn") == "ecn_all":
            told.marked.add(dscp)
    return told


class Nvue:
    """Cumulus Linux user guide: RoCE mode, and what changes it. A list that is set is the list."""

    def __init__(self) -> None:
        self.told = Told({dscp: dscp >> 3 for dscp in DSCPS})
        self.queue = dict.fromkeys(range(8), 0)
        self.pools: dict[str, set[int]] = {}
        self.share: dict[int, int] = {}
        self.ecn: set[int] = set()
        self.applied = self.enabled = False
        start = "nv set qos "
        self.rules: Rules = [
            (start + "roce state enabled", lambda: setattr(self, "enabled", True)),
            (start + "roce mode lossless", self.roce_mode),
            (start + "mapping default-global trust (l2|l3|both|port)", lambda how: setattr(self.told, "trusted", how in ("l3", "both"))),
            (start + "mapping default-global dscp N switch-priority N", lambda dscp, to: self.told.classes.update({int(dscp): int(to)})),
            (start + r"pfc default-global switch-priority ([\d,-]+)", lambda text: setattr(self.told, "pfc", numbers(text))),
            (start + "egress-queue-mapping default-global switch-priority N traffic-class N",
             lambda priority, tc: self.queue.update({int(priority): int(tc)})),
            (start + r"traffic-pool (default-lossy|roce-lossless) switch-priority ([\d,-]+)",
             lambda pool, text: self.pools.update({pool: numbers(text)})),
            (start + "congestion-control default-global traffic-class 3 (?:min|max)-threshold N", lambda _bytes: None),
            (start + "egress-scheduler default-global traffic-class N bw-percent N",
             lambda tc, part: self.share.update({int(tc): int(part)})),
            ("nv set interface swp1 link mtu N", lambda mtu: setattr(self.told, "mtu", int(mtu))),
            ("nv set interface swp1 qos pfc-watchdog state enable", lambda: setattr(self.told, "watched", True)),
            ("nv config apply", lambda: setattr(self, "applied", True)),
            ("nv config save", lambda: setattr(self.told, "saved", self.applied)),
        ]

    def roce_mode(self) -> None:
        self.queue = {priority: {3: 3, 6: 6}.get(priority, 0) for priority in range(8)}
        self.pools = {"roce-lossless": {3}, "default-lossy": set(range(8)) - {3}}
        self.told.pfc, self.told.trusted, self.ecn, self.share = {3}, True, {0, 3}, {0: 50, 3: 50}


def nvue(lines: list[str]) -> Told:
    switch, todo = Nvue(), commands("nvue", lines)
    assert "nv config apply" in todo
    assert all(line == "nv config save" for line in todo[todo.index("nv config apply") + 1:]), "set after the apply: not in force"
    carry_out(todo, switch.rules)
    assert switch.enabled, "RoCE is left as it was: disabled, perhaps"
    told, lossless = switch.told, switch.pools["roce-lossless"]
    assert lossless | switch.pools["default-lossy"] == set(range(8)), "a priority without a pool"
    assert not lossless & switch.pools["default-lossy"], "a priority in two pools"
    assert sum(switch.share.values()) <= 100
    for dscp, priority in told.classes.items():
        tc = switch.queue[priority]
        follow(told, dscp, priority if priority in told.pfc & lossless and tc != 6 else None, strict=tc == 6, marked=tc in switch.ecn)
        if tc in switch.share:
            told.share[dscp] = switch.share[tc]
    return told


class Onyx:
    """Onyx User Manual: trust is L2 by default, DSCP >> 3, PFC off; a lossless pool holds the priorities mapped to it."""

    def __init__(self) -> None:
        self.told = Told({dscp: dscp >> 3 for dscp in DSCPS})
        self.queue = {priority: priority for priority in range(8)}
        self.pool: set[int] = set()
        self.strict: set[int] = set()
        self.marked: set[int] = set()
        self.share: dict[int, int] = {}
        self.on: set[str] = set()
        port = "interface ethernet 1/1 "
        self.rules: Rules = [
            ("enable|configure terminal", lambda: None),
            (port + "qos trust (port|L2|L3|both)", lambda how: setattr(self.told, "trusted", how == "L3")),
            (port + "qos map dscp N to switch-priority N", lambda dscp, to: self.told.classes.update({int(dscp): int(to)})),
            (port + "traffic-class N bind switch-priority N", lambda tc, priority: self.queue.update({int(priority): int(tc)})),
            (r"traffic pool roce memory percent \d+\.\d\d", lambda: None),
            ("traffic pool roce map switch-priority N", lambda priority: self.pool.add(int(priority))),
            ("(traffic pool roce type lossless|dcb priority-flow-control enable force)", self.on.add),
            (port + "(dcb priority-flow-control mode on force)", self.on.add),
            ("dcb priority-flow-control priority N enable", lambda priority: self.told.pfc.add(int(priority))),
            (port + "traffic-class N congestion-control ecn minimum-absolute N maximum-absolute N", self.mark),
            (port + "traffic-class N dcb ets wrr N", lambda tc, part: self.share.update({int(tc): int(part)})),
            (port + "traffic-class N dcb ets strict", lambda tc: self.strict.add(int(tc))),
            (port + "mtu N force", lambda mtu: setattr(self.told, "mtu", int(mtu))),
            (port + "pfc-wd", lambda: setattr(self.told, "watched", True)),
            ("configuration write", lambda: setattr(self.told, "saved", True)),
        ]

    def mark(self, tc: str, low: str, high: str) -> None:
        assert int(low) < int(high)
        self.marked.add(int(tc))


def onyx(lines: list[str]) -> Told:
    switch = Onyx()
    carry_out(commands("onyx", lines), switch.rules)
    assert len(switch.on) == 3, "PFC is on globally and on the port, and the pool is lossless"
    told = switch.told
    for dscp, priority in told.classes.items():
        tc = switch.queue[priority]
        follow(told, dscp, priority if priority in told.pfc & switch.pool else None, strict=tc in switch.strict, marked=tc in switch.marked)
        if tc in switch.share:
            told.share[dscp] = switch.share[tc]
    return told


def follow(told: Told, dscp: int, paused: int | None, *, strict: bool, marked: bool) -> None:
    if paused is not None:
        told.paused[dscp] = paused
    if strict:
        told.strict.add(dscp)
    if marked:
        told.marked.add(dscp)


def blocks(lines: list[str]) -> list[tuple[tuple[str, ...], str]]:
    """Lines with the headers that they stand below, by indentation: EOS and NX-OS."""
    above: list[tuple[int, str]] = []
    found = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        found.append((tuple(text for _depth, text in above), line.strip()))
        above.append((depth, line.strip()))
    return found


EOS_SWITCH = re.compile(
    r"priority-flow-control pause watchdog (default (timeout|recovery-time|polling-interval) [\d.]+|action drop)"
    r"|qos profile RAILWRIGHT|interface Ethernet1|configure terminal|end|write memory")


def eos(lines: list[str]) -> Told:
    """EOS manual: DSCP 0-7 is class 1, 8-15 class 0, then DSCP >> 3; class N has queue N; trust of a switched port is CoS."""
    told = Told({dscp: {0: 1, 1: 0}.get(dscp >> 3, dscp >> 3) for dscp in DSCPS})
    queue = {tc: tc for tc in range(8)}
    queues: dict[str, dict[int, set[str]]] = {}
    profile: set[str] = set()
    port: set[str] = set()
    switch: set[str] = set()
    for above, line in blocks(commands("eos", lines)):
        place = above[0] if above else ""
        found = re.fullmatch(r"(uc-tx-queue|tx-queue) (\d)", above[1]) if len(above) == 2 else None
        if found:
            queues.setdefault(place, {}).setdefault(int(found[2]), set()).add(line)
        elif place == "qos profile RAILWRIGHT":
            profile.add(line)
        elif place == "interface Ethernet1":
            port.add(line)
        elif not above and (mapped := re.fullmatch(r"qos map dscp ([\d ]+) to traffic-class (\d)", line)):
            told.classes.update(dict.fromkeys(numbers(mapped[1]), int(mapped[2])))
        elif got := number("qos map traffic-class N to tx-queue N", line):
            assert got[0] != 7, "class 7 and queue 7 belong together"
            queue[got[0]] = got[1]
        elif not above and EOS_SWITCH.fullmatch(line):
            switch.add(line)
        else:
            raise unknown(line)
    assert "service-profile RAILWRIGHT" in port
    told.trusted = "qos trust dscp" in port
    told.mtu = max(int(line.split()[1]) for line in port if line.startswith("mtu "))
    assert told.mtu <= 9214, "EOS refuses more"
    told.watched = "priority-flow-control pause watchdog action drop" in switch
    told.saved = "write memory" in switch
    if "priority-flow-control on" in profile:
        told.pfc = {got[0] for line in profile if (got := number("priority-flow-control priority N no-drop", line))}
    extra = {line for line in profile if not re.match(r"uc-tx-queue|priority-flow-control (on|priority \d no-drop)|qos trust dscp", line)}
    assert not extra, extra
    eos_queues(told, queue, queues["qos profile RAILWRIGHT"])
    return told


def eos_queues(told: Told, queue: dict[int, int], rows: dict[int, set[str]]) -> None:
    marking = re.compile(
        r"random-detect ecn minimum-threshold (\d+) kbytes maximum-threshold (\d+) kbytes max-mark-probability 100 weight 0")
    for dscp, tc in told.classes.items():
        row = rows.get(queue[tc], set())
        if tc in told.pfc:
            told.paused[dscp] = tc
        if "priority strict" in row:
            told.strict.add(dscp)
        for line in row:
            if found := marking.fullmatch(line):
                assert int(found[1]) < int(found[2])
                told.marked.add(dscp)
            elif got := number("bandwidth percent N", line):
                assert "no priority" in row, "a share is of round robin"
                told.share[dscp] = got[0]
            elif line not in ("no priority", "priority strict"):
                raise unknown(line)
    assert sum(int(line.split()[-1]) for row in rows.values() for line in row if line.startswith("bandwidth")) <= 100


NXOS_SWITCH = re.compile(
    r"class-map type qos match-(all|any) \S+|policy-map type (qos|network-qos|queuing) \S+|system qos|interface Ethernet1/1"
    r"|configure terminal|priority-flow-control watch-dog-interval on|end|copy running-config startup-config")


def nxos(lines: list[str]) -> Told:
    """Nexus 9000 QoS guide, eight queues: qos-group N has network-qos c-8q-nqN and queue c-out-8q-qN; what nothing matches is 0."""
    told = Told(dict.fromkeys(DSCPS, 0))
    body: dict[tuple[str, ...], list[str]] = {}
    for above, line in blocks(commands("nxos", lines)):
        if not above and not NXOS_SWITCH.fullmatch(line):
            raise unknown(line)
        body.setdefault(above, []).append(line)
    port, system = body[("interface Ethernet1/1",)], body[("system qos",)]
    classify = "policy-map " + next(line for line in port if line.startswith("service-policy type qos")).removeprefix("service-policy ")
    network, out = (f"policy-map {next(line for line in system if kind in line).removeprefix('service-policy ')}" for kind in (
        "type network-qos", "type queuing output"))
    for line in body[(classify.replace(" input", ""),)]:
        name = line.removeprefix("class ")
        group = number("set qos-group N", body[(classify.replace(" input", ""), line)][0])
        assert group is not None
        if name == "class-default":
            assert group == [0]
            continue
        for rule in body[(f"class-map type qos match-all {name}",)]:
            told.classes.update(dict.fromkeys(numbers(rule.removeprefix("match dscp ")), group[0]))
    told.trusted = True  # a class map that matches a DSCP is the trust
    told.watched = "priority-flow-control watch-dog-interval on" in body[()] and "priority-flow-control watch-dog-interval on" in port
    told.saved = "copy running-config startup-config" in body[()]
    told.mtu = max(got[0] for line in port if (got := number("mtu N", line)))
    nxos_groups(told, body, network, out.replace(" output", ""), mode="priority-flow-control mode on" in port)
    known = r"mtu \d+|service-policy type qos input \S+|priority-flow-control (mode|watch-dog-interval) on"
    assert all(re.fullmatch(known, line) for line in port), port
    return told


def nxos_groups(told: Told, body: dict[tuple[str, ...], list[str]], network: str, out: str, *, mode: bool) -> None:
    paused: dict[int, int] = {}
    for line in body[(network,)]:
        group = number("class type network-qos c-8q-nqN", line)
        for rule in body[(network, line)]:
            got = number("pause pfc-cos N", rule)
            if got and group and mode:
                paused[group[0]] = got[0]
            elif rule != f"mtu {told.mtu}" and not got:
                raise unknown(rule)
    told.pfc = set(paused.values())
    total = 0
    for line in body[(out,)]:
        queue = number("class type queuing c-out-8q-qN", line) or [0]
        here = {dscp for dscp, group in told.classes.items() if group == queue[0]}
        for rule in body[(out, line)]:
            if rule == "priority level 1":
                told.strict |= here
            elif got := number("bandwidth remaining percent N", rule):
                told.share.update(dict.fromkeys(here, got[0]))
                total += got[0]
            elif number("random-detect minimum-threshold N kbytes maximum-threshold N kbytes drop-probability N weight 0 ecn", rule):
                told.marked |= here
            else:
                raise unknown(rule)
    assert total == 100, "the remaining bandwidth is given away whole"
    told.paused = {dscp: paused[group] for dscp, group in told.classes.items() if group in paused}


READERS: dict[str, Callable[[list[str]], Told]] = {"sonic": sonic, "nvue": nvue, "onyx": onyx, "eos": eos, "nxos": nxos}
