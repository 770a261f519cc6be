# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA Onyx (MLNX-OS): spelt out for any priority. `roce lossless` is one command for priority 3 and for nothing else."""

from __future__ import annotations

from railwright.switch_hints.model import MTU, Chain, Platform, Sheet, comma, shared

PORT = "1/1"
IF = f"interface ethernet {PORT}"
MODE = (26, 3, 48, 6)  # Onyx RoCE Commands, show roce: what `roce lossless` is for
ECN_MIN, ECN_MAX = 150, 1500  # KB, absolute; show roce


def default_priority(dscp: int) -> int:
    """DSCP >> 3: NVIDIA's default on every Spectrum."""
    return dscp >> 3


def write(sheet: Sheet, chain: Chain) -> None:
    sheet.part("1. enter")
    sheet.put("enable", "configure terminal")
    sheet.part("2. DSCP -> switch priority -> egress queue")
    sheet.put(f"{IF} qos trust L3",
              f"{IF} qos map dscp {chain.dscp} to switch-priority {chain.priority}",
              f"{IF} qos map dscp {chain.cnp_dscp} to switch-priority {chain.cnp_priority}")
    for priority in dict.fromkeys((*chain.lossless, chain.cnp_priority)):
        sheet.put(f"{IF} traffic-class {priority} bind switch-priority {priority}")
    sheet.part("3. a lossless pool, then PFC (`force` drops global pause where it is on)")
    sheet.put("traffic pool roce type lossless", "traffic pool roce memory percent 50.00")
    for priority in chain.lossless:
        sheet.put(f"traffic pool roce map switch-priority {priority}")
    sheet.put("dcb priority-flow-control enable force")
    for priority in chain.lossless:
        sheet.put(f"dcb priority-flow-control priority {priority} enable")
    sheet.put(f"{IF} dcb priority-flow-control mode on force", f"{IF} pfc-wd")
    sheet.part("4. ECN and bandwidth of the RoCE queue; CNP strict")
    sheet.put(f"{IF} traffic-class {chain.priority} congestion-control ecn minimum-absolute {ECN_MIN} maximum-absolute {ECN_MAX}",
              f"{IF} traffic-class {chain.priority} dcb ets wrr {chain.share}",
              f"{IF} traffic-class {chain.cnp_priority} dcb ets strict")
    sheet.part("5. MTU, and after the checks below")
    sheet.put(f"{IF} mtu {MTU} force", "configuration write")
    _notes(sheet, chain)


def _notes(sheet: Sheet, chain: Chain) -> None:
    fits = (chain.dscp, chain.priority, chain.cnp_dscp, chain.cnp_priority) == MODE and chain.lossless == (3,)
    by_default = default_priority(chain.dscp)
    sheet.notes(
        "Corrected here",
        "the default trust of a port is L2: without a VLAN tag every packet, RoCE too, is priority 0",
        f"PFC is off by default, and `roce lossless` would set it on 3, where this profile's packets are not (DSCP {chain.dscp} "
        f">> 3 = {by_default})"
        if not fits else "PFC is off by default",
        f"DSCP {chain.dscp} >> 3 = {by_default} by default; the profile says {chain.priority}" if by_default != chain.priority else "",
        f"DSCP {chain.cnp_dscp} >> 3 = {chain.cnp_dscp >> 3} by default; the profile says {chain.cnp_priority}"
        if chain.cnp_dscp >> 3 != chain.cnp_priority else "",
    )
    sheet.notes(
        "Traps",
        "`roce lossless` (3.8.2000 and later) does the same in one command. One or the other, not both; changing the mode may toggle ports."
        if fits else "Do not add `roce lossless`: it is for DSCP 26 on priority 3. `show roce` must say that RoCE mode is N/A.",
        shared(chain, default_priority),
        "A port-channel or MLAG takes trust and maps itself: interface port-channel N, interface mlag-port-channel N.",
        "MTU with `force` takes the port down for a moment.",
    )
    sheet.notes(
        "Verify",
        f"show qos {IF}: trust L3, DSCP {chain.dscp} -> {chain.priority}, DSCP {chain.cnp_dscp} -> {chain.cnp_priority}",
        f"show dcb priority-flow-control: Priority Enabled List: {comma(chain.lossless)}, and nothing else; the port is on",
        f"show dcb ets {IF}: TC {chain.priority} WRR, TC {chain.cnp_priority} strict; show {IF} congestion-control: ECN on TC "
        f"{chain.priority}",
        "show traffic pool: roce is lossless; "
        f"show interfaces ethernet {PORT} counters pfc prio {chain.priority} under load; show interfaces ethernet {PORT}: MTU {MTU}",
    )


PLATFORM = Platform(
    "onyx", "NVIDIA Onyx", "##", f"ethernet {PORT}",
    ("NVIDIA Onyx User Manual 3.10 LTS, QoS (trust, its default) and RoCE Commands (roce, show roce, 150 and 1500)",
     "modules onyx_buffer_pool and onyx_traffic_class of mellanox.onyx (pool, ECN, ets strict; tested by their authors on 3.6.8130)",
     "Mellanox community DOC-2884, Lossless RoCE Configuration for MLNX-OS Switches in DSCP-Based QoS Mode, as public notes quote it (PFC)",
     "third-party notes on Spectrum (qos map dscp to switch-priority, bind switch-priority, pfc-wd)"),
    write)
