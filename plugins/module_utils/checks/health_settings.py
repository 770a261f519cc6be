# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of what stands between a healthy device and its jobs: bonds without LACP, cgroups without RDMA, a slow clock source. Pure."""

from typing import Any, List, Mapping

from ..formats.outside import mapping, rows
from ..formats.text import first_of
from ..observe.bonding import LACP, NOBODY
from .signs import Sign

# Each read of these is an access to a device, microseconds instead of nanoseconds: Linux, arch/x86/kernel/hpet.c and acpi_pm.c; the kernel
# takes them where the TSC is unstable. A virtual machine and arm64 have others, which are fast.
FAST_CLOCKS = ("tsc", "tsc-early", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")


def setting_signs(health: Mapping[str, Any]) -> List[Sign]:
    return [sign for bond in rows(health.get("bonds")) for sign in _bond(bond)] + _clock(health) + [
        Sign("node.rdma_limit", str(row.get("cgroup")), None, "warn", "0", "cgroup %s may use no RDMA object of %s (rdma.max)" % (
            row.get("cgroup"), first_of(list(row.get("devices") or []), 4))) for row in rows(health.get("rdma_limits"))]


def settings_judged(health: Mapping[str, Any]) -> List[str]:
    """The checks that there is evidence for: of a bond the link of each member, and with LACP its aggregator."""
    bonds = rows(health.get("bonds"))
    complete = bool(bonds) and all(_whole(bond) for bond in bonds)
    known = mapping(health.get("clocksource")).get("current") in FAST_CLOCKS + SLOW_CLOCKS
    return [check for check, there in (("port.bond", complete), ("node.clocksource", known)) if there]


def _whole(bond: Mapping[str, Any]) -> bool:
    members = rows(bond.get("members"))
    needed = ("up", "aggregator") if bond.get("mode") == LACP else ("up",)
    return bool(members) and all(member.get(name) is not None for member in members for name in needed)


def _bond(bond: Mapping[str, Any]) -> List[Sign]:
    """Without a partner LACP sends over one member alone; members in other aggregators than the active one send nothing."""
    members = rows(bond.get("members"))
    up = [member for member in members if member.get("up")]
    aggregators = {member.get("aggregator") for member in up}
    lacp, what = bond.get("mode") == LACP, "%s of %s" % (bond.get("name"), bond.get("hca"))
    churned = [str(member.get("name")) for member in up if member.get("churned")]
    down = [str(member.get("name")) for member in members if member.get("up") is False]
    found = []
    if lacp and len(up) > 1 and (bond.get("partner") == NOBODY or (len(churned) == len(up) and len(aggregators) > 1)):
        text = "the switch does not answer LACP: one of %d members carries all traffic of %s" % (len(up), bond.get("name"))
        found.append(("fail", "no LACP partner", text))
    elif lacp and len(aggregators) > 1:
        found.append(("warn", "%d aggregators" % len(aggregators), "its members %s are in %d aggregators, of which one carries traffic" % (
            first_of([str(member.get("name")) for member in up], 4), len(aggregators))))
    if down:
        found.append(("warn", "members down", "its member %s has no link" % first_of(down, 4)))
    return [Sign("port.bond", what, str(bond.get("hca")), status, word, text) for status, word, text in found]


def _clock(health: Mapping[str, Any]) -> List[Sign]:
    current = mapping(health.get("clocksource")).get("current")
    if current not in SLOW_CLOCKS:
        return []
    return [Sign("node.clocksource", "clock source", None, "warn", str(current), "the kernel reads its time from %s" % current)]
