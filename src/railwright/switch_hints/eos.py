# SPDX-License-Identifier: GPL-3.0-or-later
"""Arista EOS: maps, a QoS profile and the port. Commands are of one third-party page and of AVD's schema, not run on a device by us."""

from __future__ import annotations

from railwright.switch_hints.model import Chain, Platform, Sheet, comma, shared

PORT = "Ethernet1"
EOS_MTU = 9214  # the most that EOS takes on a routed port
NAME = "RAILWRIGHT"
# EOS user manual, Quality of Service: the default DSCP -> traffic class map, by DSCP >> 3. The first two are swapped.
DEFAULT_MAP = (1, 0, 2, 3, 4, 5, 6, 7)
ECN_MIN, ECN_MAX = 256, 512  # kbytes, leaf; 512 and 768 on a spine (Arista AI Network Fabric Deployment Guide, by the third-party page)
WATCHDOG = ("timeout 0.20", "recovery-time 0.20", "polling-interval 0.10")  # seconds; polling <= min(timeout, recovery) / 2


def default_tc(dscp: int) -> int:
    return DEFAULT_MAP[dscp >> 3]


def _best_effort(chain: Chain) -> int:
    """The queue of DSCP 0, which every queue without `no priority` would go before."""
    return 0 if chain.crowd(default_tc) else default_tc(0)


def write(sheet: Sheet, chain: Chain) -> None:
    sheet.part("1. DSCP -> traffic class -> queue, for the whole switch")
    sheet.put("configure terminal")
    crowd = chain.crowd(default_tc)
    if crowd:
        sheet.put(f"qos map dscp {' '.join(map(str, crowd))} to traffic-class 0")
    sheet.put(f"qos map dscp {chain.dscp} to traffic-class {chain.priority}",
              f"qos map dscp {chain.cnp_dscp} to traffic-class {chain.cnp_priority}")
    for priority in dict.fromkeys((*chain.lossless, chain.cnp_priority)):
        if priority != 7:  # class 7 has queue 7 for good
            sheet.put(f"qos map traffic-class {priority} to tx-queue {priority}")
    sheet.part("2. PFC watchdog")
    sheet.put(*(f"priority-flow-control pause watchdog default {value}" for value in WATCHDOG),
              "priority-flow-control pause watchdog action drop")
    sheet.part("3. PFC, ECN and scheduling as a profile")
    sheet.put(f"qos profile {NAME}", "   qos trust dscp", "   priority-flow-control on")
    sheet.put(*(f"   priority-flow-control priority {priority} no-drop" for priority in chain.lossless))
    sheet.put(
        f"   uc-tx-queue {chain.priority}", "      no priority", f"      bandwidth percent {chain.share}",
        f"      random-detect ecn minimum-threshold {ECN_MIN} kbytes maximum-threshold {ECN_MAX} kbytes max-mark-probability 100 weight 0",
        f"   uc-tx-queue {_best_effort(chain)}", "      no priority", f"      bandwidth percent {100 - chain.share}",
        f"   uc-tx-queue {chain.cnp_priority}", "      priority strict")
    sheet.part("4. the port")
    sheet.put(f"interface {PORT}", f"   mtu {EOS_MTU}", "   qos trust dscp", f"   service-profile {NAME}",
              f"   uc-tx-queue {chain.priority}", "      random-detect ecn count", "end")
    sheet.part("5. after the checks below")
    sheet.put("write memory")
    _notes(sheet, chain, crowd)


def _notes(sheet: Sheet, chain: Chain, crowd: list[int]) -> None:
    was = default_tc(chain.dscp)
    role = "lossless" if default_tc(0) in chain.lossless else "strict"
    sheet.notes(
        "Corrected here",
        f"DSCP {chain.dscp} is traffic class {was} by default; the profile says {chain.priority}" if was != chain.priority else "",
        "EOS's default map swaps the first two classes: DSCP 0 to 7, best effort, is traffic class 1, "
        f"which is {role} now. It goes to class 0." if crowd else "",
        "a switched port trusts CoS by default, and untagged RoCE has none: trust is dscp",
        f"largest MTU of EOS is {EOS_MTU}, not 9216; the hosts' 9000 fits. `mtu` is for routed ports; a switched one takes jumbo "
        "frames as it is.",
        "PFC and its watchdog are off by default",
    )
    sheet.notes(
        "Traps",
        "`qos map traffic-class 3 to dscp 26` is the other direction: it rewrites the DSCP of what leaves, and classifies nothing.",
        shared(chain, default_tc),
        "EOS swaps CoS 0 and 1 as well. The hosts' pause frames name priority 1: see which queue they stop before you trust it (show "
        "priority-flow-control counters, show interfaces counters queue)." if 1 in chain.lossless else "",
        "Queues are `uc-tx-queue` on Trident and Tomahawk, `tx-queue` on Jericho and Arad (7280, 7500, 7800): there also in steps "
        "3 and 4, without "
        f"`weight 0`. A spine marks later: {2 * ECN_MIN} and 768 kbytes.",
        f"The watchdog looks only at queues with guaranteed bandwidth, and only some ASICs have that: {PORT}, tx-queue "
        f"{chain.priority}, bandwidth guaranteed "
        "100 (kbps: a floor against starvation, no share).",
        "CNP must not be no-drop: paused congestion notices cannot slow a sender. Buffers and headroom are the platform's own; "
        "EOS has no common command for them.",
    )
    sheet.notes(
        "Verify",
        f"show qos maps: DSCP {chain.dscp} -> class {chain.priority} -> queue {chain.priority}; DSCP {chain.cnp_dscp} -> class "
        f"{chain.cnp_priority}",
        f"show qos interfaces {PORT} trust: DSCP; show qos interfaces {PORT} ecn: queue {chain.priority}, {ECN_MIN} and {ECN_MAX} kbytes",
        f"show priority-flow-control: {PORT} enabled and active, priorities {comma(chain.lossless)} only; show qos profile {NAME}",
        f"show priority-flow-control counters and show qos interfaces {PORT} ecn counters queue under load; show interfaces "
        f"{PORT}: MTU {EOS_MTU}",
        "show priority-flow-control counters watchdog: no stuck queue",
    )


PLATFORM = Platform(
    "eos", "Arista EOS", "!", PORT,
    ("Arista EOS user manual, Quality of Service, and DCBX and Flow Control (as cited by the page below; not run on a device by us)",
     "Arista EOS RoCEv2 Lossless Config, a third-party page of 2026 for EOS 4.36 (profile, watchdog, Arista's thresholds)",
     "aristanetworks/avd, eos_cli_config_gen (random-detect, priority-flow-control pause watchdog)"),
    write)
