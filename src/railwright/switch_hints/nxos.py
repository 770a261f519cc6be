# SPDX-License-Identifier: GPL-3.0-or-later
"""Cisco NX-OS on Nexus 9000 with eight queues: class maps, qos-groups, network-qos and queuing policies."""

from __future__ import annotations

from railwright.switch_hints.model import MTU, Chain, Platform, Sheet, comma

PORT = "Ethernet1/1"
CNP_GROUP = 7  # the queue that NX-OS has `priority level 1` on; Cisco's RoCEv2 script puts CNP there
ECN_MIN, ECN_MAX, ECN_PROBABILITY = 150, 3000, 7  # kbytes; for 100G


def write(sheet: Sheet, chain: Chain) -> None:
    sheet.part("1. DSCP -> qos-group")
    sheet.put(
        "configure terminal",
        "class-map type qos match-all RAILWRIGHT-ROCE", f"  match dscp {chain.dscp}",
        "class-map type qos match-all RAILWRIGHT-CNP", f"  match dscp {chain.cnp_dscp}",
        "policy-map type qos RAILWRIGHT-IN",
        "  class RAILWRIGHT-ROCE", f"    set qos-group {chain.priority}",
        "  class RAILWRIGHT-CNP", f"    set qos-group {CNP_GROUP}",
        "  class class-default", "    set qos-group 0")
    sheet.part("2. qos-group -> PFC and MTU")
    sheet.put("policy-map type network-qos RAILWRIGHT-NQ")
    for priority in chain.lossless:
        sheet.put(f"  class type network-qos c-8q-nq{priority}", f"    mtu {MTU}", f"    pause pfc-cos {priority}")
    sheet.put("  class type network-qos c-8q-nq-default", f"    mtu {MTU}")
    sheet.part("3. qos-group -> queue: ECN and bandwidth; CNP strict")
    sheet.put("policy-map type queuing RAILWRIGHT-OUT", f"  class type queuing c-out-8q-q{CNP_GROUP}", "    priority level 1")
    for queue in range(6, 0, -1):
        sheet.put(f"  class type queuing c-out-8q-q{queue}")
        if queue == chain.priority:
            sheet.put(f"    bandwidth remaining percent {chain.share}",
                      f"    random-detect minimum-threshold {ECN_MIN} kbytes maximum-threshold {ECN_MAX} kbytes "
                      f"drop-probability {ECN_PROBABILITY} weight 0 ecn")
        else:
            sheet.put("    bandwidth remaining percent 0")
    sheet.put("  class type queuing c-out-8q-q-default", f"    bandwidth remaining percent {100 - chain.share}")
    sheet.part("4. the switch, then the port")
    sheet.put(
        "system qos", "  service-policy type network-qos RAILWRIGHT-NQ", "  service-policy type queuing output RAILWRIGHT-OUT",
        "priority-flow-control watch-dog-interval on",
        f"interface {PORT}", f"  mtu {MTU}", "  service-policy type qos input RAILWRIGHT-IN",
        "  priority-flow-control mode on", "  priority-flow-control watch-dog-interval on", "end")
    sheet.part("5. after the checks below")
    sheet.put("copy running-config startup-config")
    _notes(sheet, chain)


def _notes(sheet: Sheet, chain: Chain) -> None:
    sheet.notes(
        "Corrected here",
        "without a policy on the port all traffic is qos-group 0: NX-OS trusts a DSCP only where a class map matches it",
        f"PFC is `auto` by default and follows DCBX: here `on`, with pause on CoS {comma(chain.lossless)}",
        "the PFC watchdog is off by default",
    )
    sheet.notes(
        "Traps",
        f"CNP has qos-group {CNP_GROUP} here, although the hosts call it priority {chain.cnp_priority}: the number is local to "
        "the switch, and queue "
        f"{CNP_GROUP} is the one with `priority level 1`. Never give its group a `pause pfc-cos`."
        if chain.cnp_priority != CNP_GROUP else f"Never give qos-group {CNP_GROUP} (CNP) a `pause pfc-cos`.",
        f"qos-group, c-8q-nq, pfc-cos and c-out-8q-q must have one number ({chain.priority}): with pfc-cos of another, the port "
        "pauses traffic that is not RoCE.",
        "Without `ecn` at its end `random-detect` drops RoCE packets where it should mark them.",
        "Thresholds are for 100G; Cisco's script of 2026 starts at 950 kbytes. Traffic on qos-groups other than 0, "
        f"{chain.priority} and {CNP_GROUP} would get "
        "0 percent: give it a share if there is any.",
        "`system qos` takes one network-qos and one queuing policy: a policy that is there already (FCoE) is replaced. Names of "
        "classes with four "
        "queues (Nexus 3000, older 9000) have no 8q; see show class-map type network-qos.",
        "Ingress buffers are carved by `mtu` and `pause` of network-qos; long cables take a queuing input policy per platform.",
    )
    sheet.notes(
        "Verify",
        f"show policy-map interface {PORT} input type qos: RAILWRIGHT-ROCE counts packets under load, class-default does not",
        f"show interface priority-flow-control: {PORT} is On, in its VL bmap bit {comma(chain.lossless)} and no other",
        f"show policy-map system type network-qos and type queuing; show queuing interface {PORT}: queue {chain.priority} marks "
        "ECN, drops nothing",
        f"show queuing pfc-queue interface {PORT}: watchdog enabled, none shut down; show interface {PORT}: MTU {MTU}",
    )


PLATFORM = Platform(
    "nxos", "Cisco NX-OS (Nexus 9000)", "!", PORT,
    ("roce_enable.py by Paresh Gupta of Cisco, 0.30 of 2026 (all classes, CNP in qos-group 7 with priority level 1, watchdog)",
     "third-party pages that cite Cisco's Nexus 9000 NX-OS QoS Configuration Guide 10.x (thresholds, show commands)"),
    write)
