# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a node of which nobody has said what it is to be: health, contradictions, known bad combinations. Pure.

They are those of validate and drift, by the same functions and with the same codes. What only a wish could decide is left out
(``NEEDS_WISH``); everything else comes by itself, a new check too. Rails are the ports that have a link: a port without one is unused,
unless most of its like have one.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..catalogue.stacks import VENDORS
from ..formats.outside import mapping, rows
from ..formats.text import grouped
from ..rules.comparisons import Inspection, VerdictSubject, verdict
from ..spec.match import RailTarget
from ..spec.model import Rail, Spec
from ..types import Identity, Verdict
from .node import judge_node, judge_rails

# Of an empty wish these say nothing, or only that it is empty.
NEEDS_WISH = frozenset((
    "erdma.mode", "firewall.roce", "firewall.tcp", "nccl.gid", "node.hcas", "pci.max_read_request", "port.link_layer", "qos.boot",
    "qos.chain", "rail.address", "rail.device", "rail.gid", "rail.mtu",
))
LINKED = ("ACTIVE", "ARMED", "INIT")
LIKE = 2  # so many others of its like must have a link before a port without one is a finding
SOFTWARE = ("rdma_rxe", "siw")


def judge_without_wish(node: str, values: Mapping[str, Any], identity: Identity, facts: Mapping[str, Any]) -> List[Verdict]:
    """``values``: of a Spec without a wish. What is judged against it is what the node itself has: its fabric, its stack, its MTUs."""
    fabrics = fabrics_of(identity, facts)
    found: List[Verdict] = []
    for index, fabric in enumerate(fabrics):
        seen = seen_without_wish(node, values, identity, facts, fabric)
        found += [item for _area, item in judge_node(seen)] if index == 0 else judge_rails(seen)
    found += idle_ports(node, facts)
    left_out = NEEDS_WISH if rows(facts.get("hcas")) else NEEDS_WISH | {"node.memlock"}
    return [item for item in found if item.check not in left_out and item.status != "skipped"]


def fabrics_of(identity: Identity, facts: Mapping[str, Any]) -> List[str]:
    """Of the ports that have a link; roce where none has, which asks for nothing."""
    if any(hca.driver == "erdma" for hca in identity.hcas):
        return ["erdma"]
    layers = [port.get("link_layer") for _hca, port in linked_ports(facts)]
    found = [fabric for fabric, layer in (("infiniband", "InfiniBand"), ("roce", "Ethernet")) if layer in layers]
    return found or ["roce"]


def linked_ports(facts: Mapping[str, Any]) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    """(HCA, port) of those that are up, or on their way up and stuck."""
    return [(hca, port) for hca in rows(facts.get("hcas")) for port in rows(hca.get("ports"))
            if port.get("state") in LINKED or port.get("phys_state") == "LinkUp"]


def seen_without_wish(
    node: str, values: Mapping[str, Any], identity: Identity, facts: Mapping[str, Any], fabric: str
) -> Inspection:
    layer = "InfiniBand" if fabric == "infiniband" else "Ethernet"
    targets: List[RailTarget] = []
    for hca, port in linked_ports(facts):
        target = target_of(identity, hca, port, len(targets))
        if target is not None and port.get("link_layer") == layer:
            targets.append(target)
    stack = mapping(facts.get("stack")).get("name")
    own = {"fabric": fabric, "rails": [dict(target.rail._asdict()) for target in targets],
           "rdma_stack": stack_of_node(identity, stack if isinstance(stack, str) else "")}
    return Inspection(node, Spec(dict(values, **own)), identity, facts, tuple(targets))


def stack_of_node(identity: Identity, installed: str) -> str:
    """The stack whose modules must run: the one that is installed."""
    drivers = {hca.driver for hca in identity.hcas}
    if drivers and drivers <= set(SOFTWARE):
        return "soft_roce"
    return installed if installed in VENDORS else "inbox"


def target_of(identity: Identity, hca: Mapping[str, Any], port: Mapping[str, Any], index: int) -> Optional[RailTarget]:
    """A port as the rail that it would be. Its MTU is its interface's: whether the RDMA path holds what that promises can be judged."""
    own = next((item for item in identity.hcas if item.name == hca.get("name")), None)
    if own is None:
        return None
    nic = next((item for item in identity.nics if item.name == port.get("netdev")), None)
    mtu = port.get("netdev_mtu")
    name = own.name if len(own.ports) < 2 else "%s/%s" % (own.name, port.get("number"))
    rail = Rail(name, index, "pci", own.pci or "", None, None, mtu if isinstance(mtu, int) else 1500)
    return RailTarget(rail, nic, own, port.get("number"))


def idle_ports(node: str, facts: Mapping[str, Any]) -> List[Verdict]:
    """Ports without a link where the same port of most other HCAs of this kind has one: a cable, rather than a port nobody uses."""
    linked = {(hca.get("name"), port.get("number")) for hca, port in linked_ports(facts)}
    kinds = grouped(((hca.get("board_id"), hca.get("device_id"), port.get("number")), (hca, port))
                    for hca in rows(facts.get("hcas")) for port in rows(hca.get("ports")))
    found = []
    for members in kinds.values():
        up = [hca for hca, port in members if (hca.get("name"), port.get("number")) in linked]
        if len(up) >= LIKE and 2 * len(up) > len(members):
            found += [_idle(node, hca, port, len(up)) for hca, port in members if (hca.get("name"), port.get("number")) not in linked]
    return found


def _idle(node: str, hca: Mapping[str, Any], port: Mapping[str, Any], up: int) -> Verdict:
    where = VerdictSubject(node, str(hca.get("name")), port.get("number"), str(port.get("netdev") or hca.get("name")))
    state, phys = port.get("state"), port.get("phys_state")
    words = "no link (%s, %s), and %d others of its like have one; cable, transceiver, switch port? One that nobody uses is no fault" % (
        state or "state unknown", phys or "physical state unknown", up)
    return verdict("port.state", where, "warn", "ACTIVE", state, words)
