# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's firewall must let in so that a job runs: the area opens it, verdicts say what is stopped. Pure.

All TCP of the cluster's nodes on the interface of NCCL's bootstrap and of MPI: their ports are whatever the kernel hands
out (NCCL src/misc/socket.cc binds port 0), so no list of ports is enough. Soft-RoCE's packets pass the host's firewall like
any others, so there UDP 4791 on the rails too. A hardware HCA takes its packets off the wire before the kernel sees them.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...rules.comparisons import Inspection, VerdictSubject, unreadable, verdict
from ...rules.packet_filter import ALL_PORTS, CLOSED, OPEN, PROTOCOLS, UNKNOWN, FilterResult, Packets, by_family, fate, merged, span
from ...spec.match import management_interface, match_rails
from ...spec.model import Spec
from ...types import Identity, Verdict

ROCE_PORT = 4791  # IANA: roce; 4789 is VXLAN
ANYWHERE = "0.0.0.0/0"
WHY = "NCCL and MPI use TCP ports that the kernel hands out, so every one of them must be open between the cluster's nodes"
TCP, ROCE = "firewall.tcp", "firewall.roce"
HARDWARE = ("the HCA takes RoCE's packets off the wire before the host's firewall sees them; the network must let UDP %d pass: ACLs of "
            "switches, and a cloud's security groups (4789 is VXLAN, not RoCE)" % ROCE_PORT)


class Opening(NamedTuple):
    """Peers of one family of addresses on one interface. ``port`` 0: all."""

    interface: str
    protocol: str
    port: int
    sources: Tuple[str, ...]

    @property
    def packets(self) -> Packets:
        return Packets(self.interface, self.protocol, (self.port, self.port) if self.port else ALL_PORTS, self.sources)

    @property
    def family(self) -> str:
        return self.packets.family

    def words(self) -> str:
        port = " port %d" % self.port if self.port else ""
        return "%s: %s%s from %s" % (self.interface, self.protocol, port, ", ".join(self.sources))

    def conditions(self) -> List[Dict[str, Any]]:
        """As a rule of ours asks it, in the form of the facts object."""
        asked = [("iif", [self.interface]), ("saddr", list(self.sources)), ("protocol", [self.protocol])]
        if self.port:
            asked.append(("dport", [str(self.port)]))
        return [{"what": what, "not": False, "in": values} for what, values in asked]


def peers_of(spec: Spec) -> Tuple[str, ...]:
    """The inventory's list, else what the controller found in the inventory."""
    return tuple(spec["firewall_peers"] or spec["firewall_derived"]["peers"])


def bootstrap_interface(spec: Spec, identity: Identity) -> Optional[str]:
    """Where NCCL's bootstrap and MPI go; a name that the node has no interface of is none."""
    wanted = spec["bootstrap_interface"] or management_interface(spec, identity)
    return wanted if wanted in [nic.name for nic in identity.nics] else None


def openings(spec: Spec, identity: Identity) -> Tuple[Opening, ...]:
    groups = by_family(peers_of(spec))
    interface = bootstrap_interface(spec, identity)
    found = [Opening(interface, "tcp", 0, group) for group in groups] if interface is not None else []
    rails = {target.netdev for target in match_rails(spec, identity)[0] if target.netdev is not None}
    software = sorted(rails) if spec.rdma_stack == "soft_roce" else []
    return tuple(found + [Opening(rail, "udp", ROCE_PORT, group) for rail in software for group in groups])


def worst(chains: Sequence[Mapping[str, Any]], wanted: Sequence[Opening]) -> FilterResult:
    """What is stopped before what cannot be judged; open when all of it comes in."""
    found = [fate(chains, opening.packets) for opening in wanted]
    return next((item for status in (CLOSED, UNKNOWN) for item in found if item.status == status), FilterResult(OPEN, ""))


def same(conditions: Sequence[Mapping[str, Any]]) -> Tuple[Any, ...]:
    """Equal for conditions that mean the same; the family of addresses follows from the addresses."""
    found = []
    for item in conditions:
        values: List[Any] = list(item["in"])
        if item["what"] == "saddr":
            values = merged([place for place in map(span, values) if place is not None])
        elif item["what"] == "protocol":  # nft prints the number where /etc/protocols is missing (no netbase)
            values = [PROTOCOLS.get(value, value) for value in values]
        if item["what"] != "family":
            found.append((item["what"], item["not"], tuple(sorted(values))))
    return tuple(sorted(set(found)))


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
