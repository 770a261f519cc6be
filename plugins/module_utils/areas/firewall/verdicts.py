# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the host's firewall, from the rules that were observed: who may connect, and what RoCE's packets meet. Pure."""

from typing import Any, List, Mapping, Optional, Sequence

from ...rules.comparisons import Inspection, VerdictSubject, unreadable, verdict
from ...rules.packet_filter import CLOSED, OPEN
from ...types import Verdict
from .openings import ANYWHERE, ROCE_PORT, Opening, bootstrap_interface, openings, peers_of, worst

TCP, ROCE = "firewall.tcp", "firewall.roce"
HARDWARE = ("the HCA takes RoCE's packets off the wire before the host's firewall sees them; the network must let UDP %d pass: ACLs of "
            "switches, and a cloud's security groups (4789 is VXLAN, not RoCE)" % ROCE_PORT)


def judge_firewall(seen: Inspection) -> List[Verdict]:
    node, spec, identity, facts = seen.node, seen.spec, seen.identity, seen.facts
    wanted = openings(spec, identity)
    interface = bootstrap_interface(spec, identity)
    where = VerdictSubject(node, None, None, "TCP on %s" % interface if interface else "TCP")
    mine = [opening for opening in wanted if opening.protocol == "tcp"]
    known = "firewall_peers" if not peers_of(spec) else "rdma_bootstrap_interface" if interface is None else None
    verdicts = [_judge(TCP, where, mine or [Opening(interface or "any interface", "tcp", 0, (ANYWHERE,))], known, facts)]
    if spec.fabric != "roce":
        return verdicts
    if spec.rdma_stack != "soft_roce":
        return verdicts + [verdict(ROCE, VerdictSubject(node, None, None, "rails"), "skipped", None, None, HARDWARE)]
    for target in seen.targets:
        mine = [opening for opening in wanted if opening.protocol == "udp" and opening.interface == target.netdev]
        if target.netdev is not None:
            place = VerdictSubject(node, target.hca.name if target.hca else None, target.port, target.label)
            probe = Opening(target.netdev, "udp", ROCE_PORT, (ANYWHERE,))
            verdicts.append(_judge(ROCE, place, mine or [probe], None if mine else "firewall_peers", facts))
    return verdicts


def _judge(check: str, where: VerdictSubject, wanted: Sequence[Opening], lacking: Optional[str], facts: Mapping[str, Any]) -> Verdict:
    """``lacking``: the key that nobody set and the inventory does not tell. Then only that nobody is stopped at all can be seen."""
    first = wanted[0]
    what = "%s port %d" % (first.protocol.upper(), first.port) if first.port else "all %s" % first.protocol.upper()
    expected = "%s of the cluster's nodes comes in on %s" % (what, first.interface)
    firewall = facts.get("firewall") or {}
    chains = firewall.get("chains")
    if chains is None:
        why = firewall.get("missing") or "they were not observed"
        return unreadable(check, where, expected, "the firewall's rules (%s)" % why)
    found = worst(chains, wanted)
    runs = " and ".join(firewall.get("runs") or []) or "none"
    if found.status == OPEN:
        return verdict(check, where, "pass", expected, runs, "no rule stops it (firewall: %s)" % runs)
    if lacking is not None:
        return verdict(check, where, "unknown", expected, runs, "%s runs, and who comes in where is not known; set %s" % (runs, lacking))
    if found.status == CLOSED:
        return verdict(check, where, "fail", expected, found.by, "%s is stopped on %s by: %s" % (what, first.interface, found.by))
    return verdict(check, where, "unknown", expected, found.by, "whether %s comes in on %s cannot be judged because of: %s" % (
        what, first.interface, found.by))
