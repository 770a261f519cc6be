# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports of switches with a good chain, one platform each, written from the platforms' documentation and from nothing of railwright.

And each setting of them broken once: what is broken, and the hop of which it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Config = dict[str, Any]
PORTS = ("Ethernet0", "Ethernet4")


def sonic(dscp: int = 26, priority: int = 3, cnp_dscp: int = 48, cnp: int = 6) -> Config:
    """config_db.json: Configuration.md and qos_config.j2 of sonic-net, maps by the chain."""
    same = {str(number): str(number) for number in range(8)}
    classes = {str(number): "0" for number in range(64)} | {str(dscp): str(priority), str(cnp_dscp): str(cnp)}
    groups = {str(number): str(number if number == priority else 0) for number in range(8)}
    qos = {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE", "pfc_to_queue_map": "AZURE",
           "pfc_enable": str(priority), "pfcwd_sw_enable": str(priority)}  # fmt: skip
    queues = {f"{port}|{number}": {"scheduler": "scheduler.0"} for port in PORTS for number in range(7)}
    for port in PORTS:
        queues[f"{port}|{priority}"] = {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
        queues[f"{port}|{cnp}"] = {"scheduler": "strict"}
    colours = {f"{colour}_{field}": value for colour in ("green", "yellow", "red") for field, value in (
        ("min_threshold", "1048576"), ("max_threshold", "2097152"), ("drop_probability", "5"))}
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf1", "hwsku": "Some-SKU", "platform": "x86_64"}},
        "PORT": {port: {"admin_status": "up", "alias": f"etp{place + 1}", "mtu": "9216", "speed": "400000", "fec": "rs", "lanes": "0,1"}
                 for place, port in enumerate(PORTS)} | {"Ethernet8": {"admin_status": "down", "mtu": "9100", "speed": "400000"}},
        "DSCP_TO_TC_MAP": {"AZURE": classes}, "TC_TO_QUEUE_MAP": {"AZURE": same}, "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": groups},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": dict(same)}, "PORT_QOS_MAP": {port: dict(qos) for port in PORTS},
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}, "scheduler.1": {"type": "DWRR", "weight": "15"},
                      "strict": {"type": "STRICT"}},
        "WRED_PROFILE": {"AZURE_LOSSLESS": {"ecn": "ecn_all", "wred_green_enable": "true", **colours}},
        "QUEUE": queues,
        "BUFFER_PG": {f"{port}|{numbers}": {"profile": profile} for port in PORTS for numbers, profile in (
            ("0", "ingress_lossy_profile"), (str(priority), "pg_lossless_400000_5m_profile"))},
        "BUFFER_PROFILE": {"ingress_lossy_profile": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
                           "pg_lossless_400000_5m_profile": {"pool": "ingress_lossless_pool", "size": "0", "xon": "0", "xoff": "120000"}},
        "PFC_WD": {port: {"action": "drop", "detection_time": "400", "restoration_time": "400"} for port in PORTS},
    }  # fmt: skip


def nvue(dscp: int = 26, priority: int = 3, cnp_dscp: int = 48, cnp: int = 6) -> Config:
    """``nv config show -o json`` (its one document is a list): RoCE mode, and the chain spelt out, as NVIDIA's guide moves it."""
    interface = {"link": {"mtu": 9216, "speed": "400G", "fec": "rs", "state": {"up": {}}}, "qos": {"pfc-watchdog": {"state": "enabled"}},
                 "type": "swp"}  # fmt: skip
    return {"list": [
        {"header": {"model": "SN5600", "nvue-api-version": "nvue_v1", "rev-id": 1.0, "version": "Cumulus Linux 5.11.0"}},
        {"set": {
            "bridge": {"domain": {"br_default": {}}},
            "interface": {"swp1": copy.deepcopy(interface), "swp2-3": copy.deepcopy(interface), "eth0": {"type": "eth"},
                          "swp9": {"link": {"mtu": 9216, "state": {"down": {}}}, "type": "swp"}},
            "qos": {
                "roce": {"mode": "lossless", "state": "enabled"},
                "mapping": {"default-global": {"trust": "both", "dscp": {str(dscp): {"switch-priority": priority},
                                                                         str(cnp_dscp): {"switch-priority": cnp}}}},
                "pfc": {"default-global": {"switch-priority": [priority]}},
                "egress-queue-mapping": {"default-global": {"switch-priority": {
                    str(number): {"traffic-class": {priority: 3, cnp: 6}.get(number, 0)} for number in range(8)}}},
                "traffic-pool": {"roce-lossless": {"switch-priority": [priority]},
                                 "default-lossy": {"switch-priority": [number for number in range(8) if number != priority]}},
                "congestion-control": {"default-global": {"traffic-class": {"3": {
                    "ecn": "enable", "min-threshold": 150000, "max-threshold": 1500000, "probability": 100}}}},
                "egress-scheduler": {"default-global": {"traffic-class": {
                    "0": {"mode": "dwrr", "bw-percent": 50}, "3": {"mode": "dwrr", "bw-percent": 50}, "6": {"mode": "strict"}}}},
            }}},
    ]}  # fmt: skip


EOS_TEXT = """! device: leaf1 (DCS-7060X6, EOS-4.31.2F)
!
hostname leaf1
priority-flow-control pause watchdog default timeout 0.20
priority-flow-control pause watchdog default recovery-time 0.20
priority-flow-control pause watchdog action drop
!
qos map dscp {dscp} to traffic-class {priority}
qos map dscp {cnp_dscp} to traffic-class {cnp}
qos map traffic-class {priority} to tx-queue {priority}
!
qos profile ROCE
   qos trust dscp
   priority-flow-control on
   priority-flow-control priority {priority} no-drop
   uc-tx-queue {priority}
      no priority
      bandwidth percent 50
      random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes max-mark-probability 100 weight 0
   uc-tx-queue 0
      no priority
      bandwidth percent 30
   uc-tx-queue 1
      no priority
      bandwidth percent 20
!
interface Ethernet1
   description to gpu001
   mtu 9214
   service-profile ROCE
!
interface Ethernet2
   mtu 9214
   service-profile ROCE
!
interface Ethernet3
   shutdown
!
interface Management1
   ip address 192.0.2.5/24
!
end
"""


def eos(dscp: int = 26, priority: int = 3, cnp_dscp: int = 48, cnp: int = 6) -> str:
    """A running-config, from the manual's chapters on QoS and on flow control."""
    return EOS_TEXT.format(dscp=dscp, priority=priority, cnp_dscp=cnp_dscp, cnp=cnp)


def as_eos_json(text: str) -> Config:
    """As ``show running-config | json`` nests it."""
    found: Config = {"cmds": {}, "comments": ["device: leaf1"]}
    places = [(-1, found["cmds"])]
    for line in text.splitlines():
        if line.strip() in ("", "!") or line.startswith("!"):
            continue
        depth = len(line) - len(line.lstrip())
        while places[-1][0] >= depth:
            places.pop()
        below: Config = {"cmds": {}}
        places[-1][1][line.strip()] = below
        places.append((depth, below["cmds"]))
    return found


# A line of the running-config -> what stands there instead; '' for nothing.
EOS: dict[str, tuple[str, str, str]] = {
    "a port's MTU is too small": ("mtu", "   mtu 9214\n", "   l2 mtu 1500\n"),
    "a routed port's MTU is too small": ("mtu", "   mtu 9214\n", "   no switchport\n   mtu 1500\n"),
    "a routed port says no MTU": ("mtu", "   mtu 9214\n", "   no switchport\n"),
    "the port takes the profile's trust back": ("trust", "   service-profile ROCE\n", "   service-profile ROCE\n   qos trust cos\n"),
    "the port takes PFC back": ("pfc", "   service-profile ROCE\n", "   service-profile ROCE\n   no priority-flow-control\n"),
    "the profile does not trust the DSCP": ("trust", "   qos trust dscp\n", ""),
    "the profile trusts the VLAN tag": ("trust", "   qos trust dscp\n", "   qos trust cos\n"),
    "the port has no profile": ("trust", "   service-profile ROCE\n", ""),
    "the DSCP goes to another class": ("class", "qos map dscp 26 to traffic-class 3\n", "qos map dscp 26 to traffic-class 2\n"),
    "PFC is off": ("pfc", "   priority-flow-control on\n", ""),
    "PFC is on the neighbour priority": ("pfc", "priority 3 no-drop", "priority 4 no-drop"),
    "PFC drops": ("pfc", "priority 3 no-drop", "priority 3 drop"),
    "the class goes out by another queue": ("queue", "traffic-class 3 to tx-queue 3", "traffic-class 3 to tx-queue 2"),
    "another class is in RoCE's queue": ("queue", "traffic-class 3 to tx-queue 3", "traffic-class 2-3 to tx-queue 3"),
    "the queue does not mark": ("ecn", "      random-detect ecn minimum-threshold", "      random-detect drop minimum-threshold"),
    "the thresholds are the wrong way round": ("ecn", "minimum-threshold 256 kbytes", "minimum-threshold 1 mbytes"),
    "the RoCE queue is strict": ("schedule", "      no priority\n      bandwidth percent 50\n", ""),
    "CNP goes with best effort": ("cnp", "qos map dscp 48 to traffic-class 6\n", "qos map dscp 48 to traffic-class 0\n"),
    "FEC is off on fast lanes": (
        "fec", "   mtu 9214\n", "   mtu 9214\n   speed forced 400gfull\n   no error-correction encoding\n"),
}  # fmt: skip

EOS_WARN: dict[str, tuple[str, str, str]] = {
    "the watchdog is off": ("watchdog", "priority-flow-control pause watchdog default timeout 0.20\n", ""),
    "PFC is on one priority more": ("pfc", "priority 3 no-drop\n", "priority 3 no-drop\n   priority-flow-control priority 4 no-drop\n"),
    "CNP's queue waits its turn": ("cnp", "   uc-tx-queue 0\n", "   uc-tx-queue 6\n      no priority\n   uc-tx-queue 0\n"),
}  # fmt: skip


def _put(*path: str | int) -> Callable[[Any], Callable[[Config], None]]:
    def of(value: Any) -> Callable[[Config], None]:
        def change(config: Config) -> None:
            place: Any = config
            for name in path[:-1]:
                place = place[name]
            if value is None:
                del place[path[-1]]
            else:
                place[path[-1]] = value
        return change
    return of


def _lossy_queue(config: Config) -> None:
    config["BUFFER_QUEUE"] = {"Ethernet0|3-4": {"profile": "egress_lossy_profile"}}
    config["BUFFER_PROFILE"]["egress_lossy_profile"] = {"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3"}


PORT = "Ethernet0"
QOS = ("PORT_QOS_MAP", PORT)
# What is broken on the first port: the hop that it breaks, and how.
SONIC: dict[str, tuple[str, Callable[[Config], None]]] = {
    "a port's MTU is the image's default of long ago": ("mtu", _put("PORT", PORT, "mtu")("1500")),
    "a port's MTU is a little too small": ("mtu", _put("PORT", PORT, "mtu")("8999")),
    "the port trusts the VLAN tag": ("trust", _put(*QOS)({"dot1p_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "pfc_enable": "3"})),
    "the port has no DSCP map": ("trust", _put(*QOS, "dscp_to_tc_map")(None)),
    "the port has no maps at all": ("trust", _put(*QOS)(None)),
    "the DSCP goes to another class": ("class", _put("DSCP_TO_TC_MAP", "AZURE", "26")("1")),
    "the DSCP is in no class": ("class", _put("DSCP_TO_TC_MAP", "AZURE", "26")(None)),
    "the port's DSCP map does not exist": ("class", _put(*QOS, "dscp_to_tc_map")("OTHER")),
    "the class shares the lossy group": ("group", _put("TC_TO_PRIORITY_GROUP_MAP", "AZURE", "3")("0")),
    "the class is in another lossless group": ("group", _put("TC_TO_PRIORITY_GROUP_MAP", "AZURE", "3")("4")),
    "the port has no map of groups": ("group", _put(*QOS, "tc_to_pg_map")(None)),
    "the group has a lossy buffer": ("headroom", _put("BUFFER_PG", f"{PORT}|3", "profile")("ingress_lossy_profile")),
    "the group has no buffer of its own": ("headroom", _put("BUFFER_PG", f"{PORT}|3")(None)),
    "PFC is off": ("pfc", _put(*QOS, "pfc_enable")("")),
    "PFC is on the neighbour priority": ("pfc", _put(*QOS, "pfc_enable")("4")),
    "the class goes out by another queue": ("queue", _put("TC_TO_QUEUE_MAP", "AZURE", "3")("2")),
    "the port has no map of queues": ("queue", _put(*QOS, "tc_to_queue_map")(None)),
    "a received pause stops another queue": ("pause", _put("MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", "3")("4")),
    "a received pause stops no queue": ("pause", _put(*QOS, "pfc_to_queue_map")(None)),
    "the queue has no WRED profile": ("ecn", _put("QUEUE", f"{PORT}|3", "wred_profile")(None)),
    "the WRED profile does not exist": ("ecn", _put("QUEUE", f"{PORT}|3", "wred_profile")("NONE")),
    "ECN is off in the profile": ("ecn", _put("WRED_PROFILE", "AZURE_LOSSLESS", "ecn")("ecn_none")),
    "ECN marks no green packet": ("ecn", _put("WRED_PROFILE", "AZURE_LOSSLESS", "ecn")("ecn_red")),
    "WRED is off for green packets": ("ecn", _put("WRED_PROFILE", "AZURE_LOSSLESS", "wred_green_enable")("false")),
    "the thresholds are the wrong way round": ("ecn", _put("WRED_PROFILE", "AZURE_LOSSLESS", "green_min_threshold")("4194304")),
    "the RoCE queue is strict": ("schedule", _put("QUEUE", f"{PORT}|3", "scheduler")("strict")),
    "the RoCE queue has no scheduler": ("schedule", _put("QUEUE", f"{PORT}|3", "scheduler")(None)),
    "CNP goes with best effort": ("cnp", _put("DSCP_TO_TC_MAP", "AZURE", "48")("0")),
    "FEC is off on fast lanes": ("fec", _put("PORT", PORT, "fec")("none")),
    "FEC is the one of slow lanes": ("fec", _put("PORT", PORT, "fec")("fc")),
    "the queue's buffer is from the lossy pool": ("headroom", _lossy_queue),
}  # fmt: skip
# Where the chain still holds, and somebody should look.
SONIC_WARN: dict[str, tuple[str, Callable[[Config], None]]] = {
    "the watchdog watches nothing": ("watchdog", _put("PFC_WD", PORT)(None)),
    "the watchdog watches another priority": ("watchdog", _put(*QOS, "pfcwd_sw_enable")("4")),
    "PFC is on one priority more": ("pfc", _put(*QOS, "pfc_enable")("3,4")),
    "CNP's queue waits its turn": ("cnp", _put("QUEUE", f"{PORT}|6", "scheduler")("scheduler.0")),
    "CNP's class goes out by another queue": ("cnp", _put("TC_TO_QUEUE_MAP", "AZURE", "6")("5")),
}


SET = ("list", 1, "set")
Q = (*SET, "qos")
QUEUES = (*Q, "egress-queue-mapping", "default-global", "switch-priority")
NVUE: dict[str, tuple[str, Callable[[Config], None]]] = {
    "a port's MTU is too small": ("mtu", _put(*SET, "interface", "swp1", "link", "mtu")(1500)),
    "a range of ports has another MTU": ("mtu", _put(*SET, "interface", "swp2-3", "link", "mtu")(8192)),
    "ports trust the VLAN tag": ("trust", _put(*Q, "mapping", "default-global", "trust")("l2")),
    "the port has a map of its own without trust": ("trust", _put(*SET, "interface", "swp1", "qos", "mapping")({"profile": "other"})),
    "the DSCP goes to another priority": ("class", _put(*Q, "mapping", "default-global", "dscp", "26", "switch-priority")(2)),
    "the lossless pool has another priority": ("headroom", _put(*Q, "traffic-pool", "roce-lossless", "switch-priority")([4])),
    "the lossless pool is empty": ("headroom", _put(*Q, "traffic-pool", "roce-lossless", "switch-priority")([])),
    "PFC is on the neighbour priority": ("pfc", _put(*Q, "pfc", "default-global", "switch-priority")([4])),
    "PFC is on none": ("pfc", _put(*Q, "pfc", "default-global", "switch-priority")([])),
    "PFC is text": ("pfc", _put(*Q, "pfc", "default-global", "switch-priority")("2,4-5")),
    "the port has a PFC profile of its own": ("pfc", _put(*SET, "interface", "swp1", "qos", "pfc")({"profile": "none-such"})),
    "RoCE goes out with best effort": ("queue", _put(*QUEUES, "3")({"traffic-class": 0})),
    "another priority is in RoCE's queue": ("queue", _put(*QUEUES, "5")({"traffic-class": 3})),
    "ECN is off": ("ecn", _put(*Q, "congestion-control", "default-global", "traffic-class", "3", "ecn")("disable")),
    "the thresholds are the wrong way round": ("ecn", _put(*Q, "congestion-control", "default-global", "traffic-class", "3",
                                                           "min-threshold")(3000000)),
    "the RoCE queue is strict": ("schedule", _put(*Q, "egress-scheduler", "default-global", "traffic-class", "3")({"mode": "strict"})),
    "CNP goes with best effort": ("cnp", _put(*Q, "mapping", "default-global", "dscp", "48", "switch-priority")(0)),
    "CNP's priority goes out with best effort": ("cnp", _put(*QUEUES, "6")({"traffic-class": 0})),
    "FEC is off on fast lanes": ("fec", _put(*SET, "interface", "swp1", "link", "fec")("off")),
    "a lossy pool has the priority": ("headroom", _put(*Q, "traffic-pool")({"default-lossy": {"switch-priority": list(range(8))}})),
}  # fmt: skip
NVUE_WARN: dict[str, tuple[str, Callable[[Config], None]]] = {
    "the watchdog is off": ("watchdog", _put(*SET, "interface", "swp1", "qos", "pfc-watchdog", "state")("disabled")),
    "the watchdog is not said": ("watchdog", _put(*SET, "interface", "swp1", "qos", "pfc-watchdog")(None)),
    "PFC is on one priority more": ("pfc", _put(*Q, "pfc", "default-global", "switch-priority")([3, 4])),
    "CNP's queue waits its turn": ("cnp", _put(*Q, "egress-scheduler", "default-global", "traffic-class", "6")({"mode": "dwrr"})),
}


def broken(good: Config, change: Callable[[Config], None]) -> Config:
    found = copy.deepcopy(good)
    change(found)
    return found


NXOS_TEXT = """!Command: show running-config
version 10.4(2) Bios:version 05.51
hostname leaf1
feature lldp
priority-flow-control watch-dog-interval on

class-map type qos match-all ROCE
  match dscp {dscp}
class-map type qos match-any CNP
  match dscp {cnp_dscp}
policy-map type qos IN
  class ROCE
    set qos-group {priority}
  class CNP
    set qos-group 7
  class class-default
    set qos-group 0
policy-map type network-qos NQ
  class type network-qos c-8q-nq{priority}
    mtu 9216
    pause pfc-cos {priority}
  class type network-qos c-8q-nq-default
    mtu 9216
policy-map type queuing OUT
  class type queuing c-out-8q-q7
    priority level 1
  class type queuing c-out-8q-q{priority}
    bandwidth remaining percent 50
    random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn
  class type queuing c-out-8q-q-default
    bandwidth remaining percent 50
system qos
  service-policy type network-qos NQ
  service-policy type queuing output OUT

interface Ethernet1/1
  description gpu001
  mtu 9216
  speed 400000
  fec rs-fec
  priority-flow-control mode on
  priority-flow-control watch-dog-interval on
  service-policy type qos input IN

interface Ethernet1/2
  mtu 9216
  priority-flow-control mode on
  priority-flow-control watch-dog-interval on
  service-policy type qos input IN

interface Ethernet1/3
  shutdown

interface mgmt0
  ip address 192.0.2.5/24
"""


def nxos(dscp: int = 26, priority: int = 3, cnp_dscp: int = 48, _cnp: int = 6) -> str:
    """A running-config with eight queues, from the QoS configuration guide."""
    return NXOS_TEXT.format(dscp=dscp, priority=priority, cnp_dscp=cnp_dscp)


# A text -> what stands there instead.
NXOS: dict[str, tuple[str, str, str]] = {
    "the port's MTU is too small": ("mtu", "  mtu 9216\n  speed 400000\n", "  mtu 1500\n  speed 400000\n"),
    "the port says no MTU": ("mtu", "  mtu 9216\n  speed 400000\n", "  speed 400000\n"),
    "the port has no policy": ("trust", "  service-policy type qos input IN\n\n", "\n"),
    "the port's policy does not exist": ("trust", "  service-policy type qos input IN\n\n", "  service-policy type qos input OTHER\n\n"),
    "the class matches another DSCP": ("class", "  match dscp 26\n", "  match dscp 24\n"),
    "the class has another group": ("class", "    set qos-group 3\n", "    set qos-group 2\n"),
    "another class has the DSCP first": (
        "class", "policy-map type qos IN\n",
        "class-map type qos match-any FIRST\n  match dscp 24-31\npolicy-map type qos IN\n  class FIRST\n    set qos-group 1\n"),
    "the group is not paused": ("group", "    pause pfc-cos 3\n", ""),
    "the group is paused on another CoS": ("group", "    pause pfc-cos 3\n", "    pause pfc-cos 4\n"),
    "another group has the pause": ("group", "c-8q-nq3\n", "c-8q-nq4\n"),
    "the switch has no network-qos policy": ("group", "  service-policy type network-qos NQ\n", ""),
    "PFC follows DCBX": ("pfc", "  priority-flow-control mode on\n", ""),
    "PFC is off": ("pfc", "priority-flow-control mode on\n", "priority-flow-control mode off\n"),
    "random-detect drops": ("ecn", " weight 0 ecn\n", " weight 0\n"),
    "the queue does not mark": (
        "ecn", "    random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn\n", ""),
    "the thresholds are the wrong way round": ("ecn", "minimum-threshold 150 kbytes", "minimum-threshold 4 mbytes"),
    "the RoCE queue is strict": ("schedule", "    bandwidth remaining percent 50\n    random", "    priority level 2\n    random"),
    "CNP goes with best effort": ("cnp", "    set qos-group 7\n", "    set qos-group 0\n"),
    "CNP goes with RoCE": ("cnp", "    set qos-group 7\n", "    set qos-group 3\n"),
    "FEC is off on fast lanes": ("fec", "  fec rs-fec\n", "  fec off\n"),
}  # fmt: skip
NXOS_WARN: dict[str, tuple[str, str, str]] = {
    "the switch's watchdog is off": ("watchdog", "feature lldp\npriority-flow-control watch-dog-interval on\n", "feature lldp\n"),
    "the port's watchdog is off": ("watchdog", "  priority-flow-control watch-dog-interval on\n", ""),
    "PFC is on one priority more": (
        "pfc", "  class type network-qos c-8q-nq-default\n",
        "  class type network-qos c-8q-nq4\n    pause pfc-cos 4\n  class type network-qos c-8q-nq-default\n"),
    "CNP's queue waits its turn": ("cnp", "    priority level 1\n", "    bandwidth remaining percent 1\n"),
}

ONYX_TEXT = """##
## Running database "initial"
## Generated at 2025/11/02 10:00:00 +0000
## Hostname: leaf1
##
   interface ethernet 1/1-1/2 mtu 9216 force
   interface ethernet 1/1 qos trust L3
   interface ethernet 1/2 qos trust L3
   interface ethernet 1/1-1/2 qos map dscp {dscp} to switch-priority {priority}
   interface ethernet 1/1-1/2 qos map dscp {cnp_dscp} to switch-priority {cnp}
   interface ethernet 1/1-1/2 traffic-class {priority} bind switch-priority {priority}
   traffic pool roce type lossless
   traffic pool roce memory percent 50.00
   traffic pool roce map switch-priority {priority}
   dcb priority-flow-control enable force
   dcb priority-flow-control priority {priority} enable
   interface ethernet 1/1 dcb priority-flow-control mode on force
   interface ethernet 1/2 dcb priority-flow-control mode on force
   interface ethernet 1/1 pfc-wd
   interface ethernet 1/2 pfc-wd
   interface ethernet 1/1 traffic-class {priority} congestion-control ecn minimum-absolute 150 maximum-absolute 1500
   interface ethernet 1/2 traffic-class {priority} congestion-control ecn minimum-absolute 150 maximum-absolute 1500
   interface ethernet 1/1-1/2 traffic-class {priority} dcb ets wrr 50
   interface ethernet 1/1 traffic-class {cnp} dcb ets strict
   interface ethernet 1/2 traffic-class {cnp} dcb ets strict
   interface ethernet 1/3 shutdown
"""


def onyx(dscp: int = 26, priority: int = 3, cnp_dscp: int = 48, cnp: int = 6) -> str:
    """``show running-config``, from the user manual's chapters on QoS and RoCE."""
    return ONYX_TEXT.format(dscp=dscp, priority=priority, cnp_dscp=cnp_dscp, cnp=cnp)


ONYX: dict[str, tuple[str, str, str]] = {
    "the ports' MTU is too small": ("mtu", " mtu 9216 force\n", " mtu 1500 force\n"),
    "the ports say no MTU": ("mtu", "   interface ethernet 1/1-1/2 mtu 9216 force\n", ""),
    "the port trusts the VLAN tag": ("trust", "ethernet 1/1 qos trust L3", "ethernet 1/1 qos trust L2"),
    "the port says nothing of trust": ("trust", "   interface ethernet 1/1 qos trust L3\n", ""),
    "the DSCP goes to another priority": ("class", "dscp 26 to switch-priority 3", "dscp 26 to switch-priority 2"),
    "the pool is lossy": ("headroom", "pool roce type lossless", "pool roce type lossy"),
    "the pool has another priority": ("headroom", "pool roce map switch-priority 3", "pool roce map switch-priority 4"),
    "PFC is off": ("pfc", "   dcb priority-flow-control enable force\n", ""),
    "PFC is switched off": ("pfc", "   dcb priority-flow-control enable force\n", "   no dcb priority-flow-control enable force\n"),
    "the port's trust is taken back": (
        "trust", "   interface ethernet 1/1 pfc-wd\n", "   interface ethernet 1/1 pfc-wd\n   interface ethernet 1/1 no qos trust\n"),
    "PFC is on the neighbour priority": ("pfc", "control priority 3 enable", "control priority 4 enable"),
    "the port's PFC is off": ("pfc", "ethernet 1/1 dcb priority-flow-control mode on", "ethernet 1/1 dcb priority-flow-control mode off"),
    "another priority is in RoCE's queue": ("queue", "traffic-class 3 bind switch-priority 3", "traffic-class 3 bind switch-priority 3-4"),
    "the queue does not mark": ("ecn", "1/1 traffic-class 3 congestion-control ecn", "1/1 traffic-class 3 congestion-control red"),
    "the thresholds are the wrong way round": ("ecn", "1/1 traffic-class 3 congestion-control ecn minimum-absolute 150",
                                               "1/1 traffic-class 3 congestion-control ecn minimum-absolute 4000"),
    "the RoCE queue is strict": ("schedule", "traffic-class 3 dcb ets wrr 50", "traffic-class 3 dcb ets strict"),
    "CNP goes with best effort": ("cnp", "dscp 48 to switch-priority 6", "dscp 48 to switch-priority 0"),
    "FEC is off on fast lanes": (
        "fec", "   interface ethernet 1/1 qos trust L3\n",
        "   interface ethernet 1/1 qos trust L3\n   interface ethernet 1/1 speed 400G\n   interface ethernet 1/1 fec-override no-fec\n"),
}  # fmt: skip
ONYX_WARN: dict[str, tuple[str, str, str]] = {
    "the port's watchdog is off": ("watchdog", "   interface ethernet 1/1 pfc-wd\n", ""),
    "PFC is on one priority more": ("pfc", "control priority 3 enable", "control priority 3-4 enable"),
    "CNP's queue waits its turn": ("cnp", "ethernet 1/1 traffic-class 6 dcb ets strict", "ethernet 1/1 traffic-class 6 dcb ets wrr 10"),
}  # fmt: skip
