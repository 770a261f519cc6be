# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on one node: every rail, the HCAs in all, and what is left of the plan. Pure."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..rules.path_mtu import is_iwarp, netdev_facts, port_facts, roce_gid_index
from ..spec.match import RailTarget, match_rails
from ..spec.model import Spec
from ..types import NO_DEVICE, Change, Identity, Problem, Verdict
from .aiacc import judge_aiacc
from .comparisons import Where, equal, verdict
from .erdma import judge_erdma
from .erdma_mode import judge_erdma_mode
from .firewall import judge_firewall
from .firmware import judge_firmware
from .gpu import judge_gpus
from .gpudirect import judge_gpudirect
from .nccl_gid import judge_nccl_gid
from .platform import judge_platform
from .qos_boot import judge_qos_boot
from .qos_chain import judge_qos
from .rail import expected_device, judge_rail
from .stack import judge_kernel, judge_stack


def judge_node(node: str, spec: Spec, identity: Identity, facts: Mapping[str, Any]) -> List[Verdict]:
    """Everything that the facts of one node can answer."""
    targets, _problems = match_rails(spec, identity)
    found = {target.rail.name: target for target in targets}
    verdicts = [_hca_count(node, spec, facts), _memlock(node, spec, facts)] + judge_gpus(node, spec, facts, identity.nvswitches)
    for rail in spec.rails:
        if rail.name in found:
            verdicts.extend(judge_rail(node, spec, found[rail.name], facts))
        else:
            name, port = expected_device(spec, rail.index)
            verdicts.append(verdict("rail.device", Where(node, name, port, rail.name), "fail", "%s %s" % (rail.match, rail.value), None,
                                    "no device with %s %s on this node" % (rail.match, rail.value)))
    if not spec.rails:
        where = Where(node, None, None, "rails")
        verdicts.append(verdict("rail.device", where, "skipped", None, None, "the inventory names no rail of this node"))
    verdicts += judge_qos(node, spec, targets, facts) + judge_firewall(node, spec, identity, targets, facts)
    verdicts += judge_nccl_gid(node, spec, identity, targets, facts)
    verdicts += judge_qos_boot(node, spec, targets, facts) + judge_erdma(node, spec, facts)
    verdicts += judge_platform(node, spec, identity, facts, targets) + judge_firmware(node, spec, facts)
    verdicts += judge_erdma_mode(node, spec, identity, facts)
    verdicts += judge_aiacc(node, spec, facts)
    verdicts += judge_kernel(node, spec, identity, facts) + judge_stack(node, spec, identity, facts)
    return verdicts + judge_gpudirect(node, spec, identity, facts)


def _hca_count(node: str, spec: Spec, facts: Mapping[str, Any]) -> Verdict:
    hcas = facts.get("hcas")
    count = len(hcas) if hcas is not None else None
    return equal("node.hcas", Where(node, None, None, "HCAs"), spec.expect.get("hcas"), count, "expect.hcas", "number of HCAs")


def _memlock(node: str, spec: Spec, facts: Mapping[str, Any]) -> Verdict:
    """What a service gets now: systemd's effective default, not what a file says it will be."""
    wanted = str(spec["host_tuning_memlock"])
    expected = "infinity" if wanted == "unlimited" else int(wanted) * 1024
    found = ((facts.get("limits") or {}).get("systemd_effective") or {}).get("memlock")
    where = Where(node, None, None, "systemd DefaultLimitMEMLOCK")
    return equal("node.memlock", where, expected, found, "host_tuning_memlock", "locked memory of services")


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


def targets_of(spec: Spec, identity: Identity) -> Tuple[RailTarget, ...]:
    return tuple(match_rails(spec, identity)[0])
