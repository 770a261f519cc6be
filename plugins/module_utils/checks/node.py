# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on one node: every rail, the HCAs in all, and what is left of the plan. Pure."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..areas.network.verdicts import judge_devices
from ..rules.comparisons import Inspection, Where, equal, verdict
from ..rules.path_mtu import is_iwarp, netdev_facts, port_facts, roce_gid_index
from ..spec.match import RailTarget, match_rails
from ..spec.model import Spec
from ..types import NO_DEVICE, Change, Identity, Problem, Verdict
from .area_verdicts import AREA_VERDICTS
from .rail import judge_rails

HEALTH = "hca"  # the area of what no area sets


def judge_node(seen: Inspection) -> List[Tuple[str, Verdict]]:
    """Everything that the facts of one node can answer, each verdict with its area: first what areas set, then health, which none does."""
    verdicts = [(row.area, item) for row in AREA_VERDICTS for item in row.judge(seen)]
    health = [_hca_count(seen)] + ([] if seen.spec.rdma_stack == "soft_roce" else judge_devices(seen)) + judge_rails(seen)
    return verdicts + [(HEALTH, item) for item in health]


def _hca_count(seen: Inspection) -> Verdict:
    hcas = seen.facts.get("hcas")
    count, where = len(hcas) if hcas is not None else None, Where(seen.node, None, None, "HCAs")
    return equal("node.hcas", where, seen.spec.expect.get("hcas"), count, "rdma_expect.hcas", "number of HCAs")


def judge_plan(
    node: str, areas: Sequence[str], changes: Sequence[Change], problems: Sequence[Problem], targets: Sequence[RailTarget]
) -> List[Verdict]:
    """Drift is a verdict: ``config.<area>`` fails once for every change that ``apply`` would make.

    The plan is the one that ``railwright plan`` shows, so the two cannot disagree.
    """
    verdicts = [_of_change(node, change, targets) for change in changes]
    verdicts.extend(
        verdict("config." + item.area, Where(node, None, None, item.subject), "fail", None, None, item.message)
        for item in problems if item.code != NO_DEVICE)  # rail.device says it
    dirty = {change.area for change in changes} | {item.area for item in problems}
    verdicts.extend(
        verdict("config." + area, Where(node, None, None, area), "pass", "no change", "no change", "as the inventory wants it")
        for area in areas if area not in dirty)
    return verdicts


def _of_change(node: str, change: Change, targets: Sequence[RailTarget]) -> Verdict:
    hca, port = None, None
    for target in targets:
        if target.rail.name == change.rail:
            hca, port = target.hca.name if target.hca else None, target.port
    return verdict("config." + change.area, Where(node, hca, port, change.what), "fail", change.after, change.before, change.why)


def rail_views(spec: Spec, identity: Identity, facts: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The rails as the controller needs them for pings, perftest and the cluster's verdicts: names and places only."""
    views: List[Dict[str, Any]] = []
    exchange = management_address(identity, facts)
    for target in match_rails(spec, identity)[0]:
        port = port_facts(facts, target.hca.name, target.port) if target.hca is not None else None
        gid_index = None
        iwarp = target.hca is not None and is_iwarp(facts, target.hca.name)
        gid_needed = spec.fabric != "infiniband" and not iwarp
        if port is not None and target.rail.address is not None and gid_needed:
            gid_index = roce_gid_index(port, target.rail.address)
        views.append({
            "name": target.rail.name,
            "label": target.label,
            "address": target.rail.address.split("/")[0] if target.rail.address else None,
            "mtu": target.rail.mtu,
            "netdev": target.netdev,
            "hca": target.hca.name if target.hca else None,
            "port": target.port,
            "gid_index": gid_index,
            "gid_needed": gid_needed,
            "rdma_cm": iwarp,
            "exchange": exchange,
        })
    return views


def management_address(identity: Identity, facts: Mapping[str, Any]) -> Optional[str]:
    """An IPv4 address of the interface that the node's peers reach it by when no rail has one (InfiniBand without IPoIB)."""
    for nic in sorted((nic for nic in identity.nics if nic.uplink is not None), key=lambda nic: nic.uplink or 0):
        for address in netdev_facts(facts, nic.name).get("addresses") or []:
            if ":" not in address:
                return str(address.partition("/")[0])
    return None
