# SPDX-License-Identifier: GPL-3.0-or-later
"""Cumulus Linux 5 with NVUE: RoCE mode does nearly all for priority 3; another priority is moved as NVIDIA's RoCE page moves it."""

from __future__ import annotations

from railwright.switch_hints.model import MTU, ROCE_SHARE, Chain, Platform, Sheet, comma, ranges, shared

PORT = "swp1"
# "Default RoCE Configuration" of NVIDIA's page: switch priority 3 -> TC 3 (DWRR 50 %, ECN), 6 -> TC 6 (strict), all others -> TC 0.
MODE_PRIORITY = 3
ROCE_TC = 3
CNP_TC = 6
ECN_MIN, ECN_MAX = 150000, 1500000  # bytes, probability 100: what RoCE mode sets (nv show qos roce: 146.48 KB, 1.43 MB)


def default_priority(dscp: int) -> int:
    """DSCP >> 3: NVIDIA's default on every Spectrum."""
    return dscp >> 3


def write(sheet: Sheet, chain: Chain) -> None:
    sheet.part("1. RoCE mode: PFC, ECN, buffer pools, DWRR and the strict CNP queue, for the ASIC that it runs on")
    sheet.put("nv set qos roce mode lossless")
    sheet.part("2. DSCP -> switch priority (both: an IP packet's DSCP decides, a VLAN tag only for what is no IP)")
    sheet.put("nv set qos mapping default-global trust both",
              f"nv set qos mapping default-global dscp {chain.dscp} switch-priority {chain.priority}",
              f"nv set qos mapping default-global dscp {chain.cnp_dscp} switch-priority {chain.cnp_priority}")
    sheet.part("3. switch priority -> PFC, pool and egress queue")
    sheet.put(f"nv set qos pfc default-global switch-priority {comma(chain.lossless)}")
    for priority in chain.lossless:
        sheet.put(f"nv set qos egress-queue-mapping default-global switch-priority {priority} traffic-class {ROCE_TC}")
    sheet.put(f"nv set qos egress-queue-mapping default-global switch-priority {chain.cnp_priority} traffic-class {CNP_TC}")
    if MODE_PRIORITY not in (*chain.lossless, chain.cnp_priority):
        sheet.put(f"nv set qos egress-queue-mapping default-global switch-priority {MODE_PRIORITY} traffic-class 0")
    if chain.lossless != (MODE_PRIORITY,):
        # The page moves a pool's priorities for lossy RoCE (roce-lossy switch-priority 4); roce-lossless is its name in lossless mode.
        lossy = [priority for priority in range(8) if priority not in chain.lossless]
        sheet.put(f"nv set qos traffic-pool default-lossy switch-priority {ranges(lossy)}",
                  f"nv set qos traffic-pool roce-lossless switch-priority {comma(chain.lossless)}")
    sheet.part("4. ECN and bandwidth of the RoCE queue")
    sheet.put(f"nv set qos congestion-control default-global traffic-class {ROCE_TC} min-threshold {ECN_MIN}",
              f"nv set qos congestion-control default-global traffic-class {ROCE_TC} max-threshold {ECN_MAX}")
    if chain.own_share:
        sheet.put(f"nv set qos egress-scheduler default-global traffic-class {ROCE_TC} bw-percent {chain.share}",
                  f"nv set qos egress-scheduler default-global traffic-class 0 bw-percent {100 - chain.share}")
    sheet.part("5. the port")
    sheet.put(f"nv set interface {PORT} link mtu {MTU}", f"nv set interface {PORT} qos pfc-watchdog")
    sheet.part("6. look first (nv config diff), then")
    sheet.put("nv config apply", "nv config save")
    _notes(sheet, chain)


def _notes(sheet: Sheet, chain: Chain) -> None:
    by_default = default_priority(chain.dscp)
    moved = chain.lossless != (MODE_PRIORITY,)
    sheet.notes(
        "Corrected here",
        f"RoCE mode alone has PFC, the lossless pool and TC {ROCE_TC} for switch priority {MODE_PRIORITY} only. The default map "
        "DSCP >> 3 sends "
        f"DSCP {chain.dscp} to {by_default}: without steps 2 and 3 that is TC 0, lossy." if moved else "",
        f"DSCP {chain.dscp} >> 3 = {by_default} by default; the profile says {chain.priority}" if by_default != chain.priority else "",
        f"DSCP {chain.cnp_dscp} >> 3 = {chain.cnp_dscp >> 3} by default; the profile says {chain.cnp_priority}"
        if chain.cnp_dscp >> 3 != chain.cnp_priority else "",
        f"the mapping of DSCP {chain.dscp} and {chain.cnp_dscp} is spelt out, so that it holds also where somebody changed the default",
        "the PFC watchdog is off by default",
    )
    sheet.notes(
        "Traps",
        shared(chain, default_priority),
        "`nv set qos roce` without a mode leaves a switch that was lossy lossy.",
        f"`nv config diff` must not leave {MODE_PRIORITY} in the PFC priorities: if it does, nv unset qos pfc default-global "
        "switch-priority "
        f"{MODE_PRIORITY}." if MODE_PRIORITY not in chain.lossless else "",
        f"RoCE mode announces UDP 4791 with priority {MODE_PRIORITY} by LLDP: hosts that take DCBX from the switch would follow that; "
        "let the hosts set their own." if chain.priority != MODE_PRIORITY else "",
        "Headroom follows the cable length: nv set qos pfc default-global cable-length 50 (metres) where cables are long. Pools "
        "are per ASIC: "
        "do not copy them between Spectrum generations.",
        "The watchdog works on physical ports (swp), not on bonds. Applying buffers may lose packets for a moment.",
    )
    share = chain.share if chain.own_share else ROCE_SHARE
    sheet.notes(
        "Verify",
        f"nv show qos roce: pfc-priority {comma(chain.lossless)}; roce: DSCP {chain.dscp}, switch-prio {chain.priority}, TC "
        f"{ROCE_TC}, DWRR-{share}%; "
        f"cnp: DSCP {chain.cnp_dscp}, switch-prio {chain.cnp_priority}, TC {CNP_TC}, strict-priority",
        f"nv show qos mapping default-global dscp {chain.dscp}; nv show qos congestion-control default-global: TC {ROCE_TC} has ECN",
        f"nv show interface {PORT} qos roce status pool-map: switch priority {comma(chain.lossless)} is in the lossless ingress "
        "pool and no other is",
        f"nv show interface {PORT} qos roce counters under load; nv show interface {PORT} qos pfc-watchdog; nv show interface "
        f"{PORT} link: mtu {MTU}",
    )


PLATFORM = Platform(
    "nvue", "Cumulus Linux 5 (NVUE)", "#", PORT,
    ("NVIDIA Cumulus Linux 5 user guide, RDMA over Converged Ethernet (RoCE mode, Change RoCE Configuration)",
     "NVIDIA Cumulus Linux 5 user guide, Quality of Service (trust, PFC, PFC watchdog, ECN, egress scheduler)"),
    write)
