# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a rail's interface and on the device that must be there: rail.mtu, rail.address, rail.device. Pure."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...formats.text import join_names
from ...rules.comparisons import Inspection, VerdictSubject, equal, no_expectation, unreadable, verdict
from ...rules.path_mtu import netdev_facts, port_facts, same_address
from ...spec.match import RailTarget
from ...spec.model import Spec
from ...types import Verdict

WRONG_MTU = ("eRDMA needs exactly 8500 with jumbo frames and 1400 without: with another one NCCL's LL128 can corrupt data, "
             "and nothing reports it")


def judge_interfaces(seen: Inspection) -> List[Verdict]:
    """MTU and address of every rail that has a device; of one without, ``rail.device`` says all."""
    return [judged for target, where, _port in ports_of(seen)
            for judged in (_netdev_mtu(where, seen.spec, target, seen.facts), _address(where, target, seen.facts))]


def judge_duplicates(seen: Inspection) -> List[Verdict]:
    """``rail.duplicate``, as far as the node itself knows it: an address of a rail that a second interface has, or that IPv6 found in use.

    validate asks the network as well. Nothing is said of an address that is alone on this node.
    """
    failed = (seen.facts.get("health") or {}).get("duplicates") or {}
    # One address with a prefix of its full length on all interfaces is how routed hosts number them (ip unnumbered).
    held = {netdev.get("name"): [address.partition("/")[0] for address in netdev.get("addresses") or []
                                 if not address.endswith(("/32", "/128"))]
            for netdev in seen.facts.get("netdevs") or [] if netdev.get("kind") not in ("loopback", "virtual") or netdev.get("name") in [
                target.netdev for target in seen.targets]}
    found = []
    for target, where, _port in ports_of(seen):
        for address in held.get(target.netdev) or []:
            others = [str(name) for name, addresses in held.items() if name != target.netdev and address in addresses]
            if others and not address.startswith("fe80:"):
                text = "%s is on %s and on %s: answers come back on either of them" % (address, target.netdev, join_names(others))
                found.append(verdict("rail.duplicate", where, "fail", "one interface", others[0], text))
        for address in failed.get(target.netdev) or []:
            text = "another machine has %s, so that the kernel does not use it (duplicate address detection)" % address
            found.append(verdict("rail.duplicate", where, "fail", "nobody else has it", "dadfailed", text))
    return found


def judge_soft_roce(seen: Inspection) -> List[Verdict]:
    """Devices that area rxe makes; those of hardware are nobody's setting."""
    return judge_devices(seen) if seen.spec.rdma_stack == "soft_roce" else []


def ports_of(seen: Inspection) -> List[Tuple[RailTarget, VerdictSubject, Dict[str, Any]]]:
    """Each rail with its place and its port's facts; without those that have no device, or one that the facts do not show."""
    found = []
    for target in seen.targets:
        port = port_facts(seen.facts, target.hca.name, target.port) if target.hca is not None else None
        if target.hca is not None and port is not None:
            found.append((target, VerdictSubject(seen.node, target.hca.name, target.port, target.label), port))
    return found


def judge_devices(seen: Inspection) -> List[Verdict]:
    """One verdict a rail, in the inventory's order."""
    found = {target.rail.name: target for target in seen.targets}
    verdicts = []
    for rail in seen.spec.rails:
        name, port = expected_device(seen.spec, rail.index)
        wanted = "%s %s" % (rail.match, rail.value)
        if rail.name not in found:
            where = VerdictSubject(seen.node, name, port, rail.name)
            verdicts.append(verdict("rail.device", where, "fail", wanted, None, "no device with %s on this node" % wanted))
        else:
            verdicts.append(_device(seen, found[rail.name], wanted))
    if not seen.spec.rails:
        where = VerdictSubject(seen.node, None, None, "rails")
        verdicts.append(verdict("rail.device", where, "skipped", None, None, "the inventory names no rail of this node"))
    return verdicts


def _device(seen: Inspection, target: RailTarget, wanted: str) -> Verdict:
    if target.hca is None:
        return _gone(seen.node, seen.spec, target)
    where, found = VerdictSubject(seen.node, target.hca.name, target.port, target.label), "%s port %s" % (target.hca.name, target.port)
    if port_facts(seen.facts, target.hca.name, target.port) is None:
        return unreadable("rail.device", where, found, "the port")
    return verdict("rail.device", where, "pass", wanted, found, "is %s" % found)


def _gone(node: str, spec: Spec, target: RailTarget) -> Verdict:
    """Name what should be there: Soft-RoCE's link has its name from us, a driver's device only its rail's match."""
    name, port = expected_device(spec, target.rail.index)
    wanted = "%s on %s" % (name or "an RDMA device", target.netdev)
    if name is None:
        wanted += " (%s %s)" % (target.rail.match, target.rail.value)
    return verdict("rail.device", VerdictSubject(node, name, port, target.label), "fail", wanted, None,
                   "%s is there, but no RDMA device is on it" % target.netdev)


def expected_device(spec: Spec, index: int) -> Tuple[Optional[str], Optional[int]]:
    """Name and port of a rail's device where the inventory alone decides it."""
    return ("rxe%d" % index, 1) if spec.rdma_stack == "soft_roce" else (None, None)


def _netdev_mtu(where: VerdictSubject, spec: Spec, target: RailTarget, facts: Mapping[str, Any]) -> Verdict:
    if spec.fabric == "infiniband" and target.rail.address is None:  # nor does apply touch its interface, if it has one
        return verdict("rail.mtu", where, "skipped", None, None, "an InfiniBand rail without an address needs no interface")
    if target.netdev is None:
        return unreadable("rail.mtu", where, target.rail.mtu, "the rail's network interface")
    found = netdev_facts(facts, target.netdev).get("mtu")
    judged = equal("rail.mtu", where, target.rail.mtu, found, "rdma_mtu", "MTU of %s" % target.netdev)
    if spec.fabric == "erdma" and judged.status == "fail":
        return judged._replace(message="%s: %s" % (judged.message, WRONG_MTU))
    return judged


def _address(where: VerdictSubject, target: RailTarget, facts: Mapping[str, Any]) -> Verdict:
    """The rail's address with its prefix length, among whatever else the interface carries."""
    wanted = target.rail.address
    if wanted is None:
        return no_expectation("rail.address", where, "rdma_rails[%d].address" % target.rail.index, None)
    if target.netdev is None:
        return verdict("rail.address", where, "fail", wanted, None, "the rail has no network interface to carry it (IPoIB is not up)")
    found = netdev_facts(facts, target.netdev).get("addresses")
    if found is None:
        return unreadable("rail.address", where, wanted, "the addresses of %s" % target.netdev)
    if same_address(wanted) in [same_address(item) for item in found]:
        return verdict("rail.address", where, "pass", wanted, wanted, "%s is on %s" % (wanted, target.netdev))
    return verdict("rail.address", where, "fail", wanted, ", ".join(found) or "none", "%s is not on %s" % (wanted, target.netdev))
