# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node without an inventory: health, contradictions, known bad combinations, and each rail by its peer ports. Pure.

The verdicts are those of validate and drift, by the same functions and with the same codes. Checks that only an inventory can decide are
left out (``NEEDS_WISH``); every other check takes part by itself, a new one too. Rails are the ports near GPUs, of each fabric (rails.py);
of the other ports with a link only the link is judged, and their verdicts name them as what they are.
"""

from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..catalogue.stacks import VENDORS
from ..formats.outside import mapping, rows
from ..formats.text import grouped
from ..rules.comparisons import Inspection, VerdictSubject, unreadable, verdict
from ..spec.match import RailTarget
from ..spec.model import Rail, Spec
from ..types import Identity, Verdict
from .node import judge_machine, judge_rails
from .peers import PEERS, SHARE, peer_verdicts, with_peers
from .rails import DARK, RAIL, VIRTUAL, distances, has_link, is_virtual, kind_of, linked_ports, near_classes, ports_in, roles_of

# Without an inventory these can say nothing, or only that it is empty.
NEEDS_WISH = frozenset((
    "erdma.mode", "firewall.roce", "firewall.tcp", "node.hcas", "pci.max_read_request", "port.link_layer", "qos.boot",
    "qos.chain", "rail.address", "rail.device",
))
OF_PEERS = ("rail.gid", "rail.mtu")  # without an inventory only peer ports judge these
OF_LINKS = ("port.state", "port.phys_state", "port.rate")  # of a port that is no rail
LIKE = 2  # so many other ports of the kind must have a link before one without it is a finding away from GPUs
SOFTWARE = ("rdma_rxe", "siw")
FABRICS = ("erdma", "infiniband", "roce")


def judge_without_wish(node: str, values: Mapping[str, Any], identity: Identity, facts: Mapping[str, Any]) -> List[Verdict]:
    """``values``: of a Spec of defaults. The node's own fabrics, stack and MTUs take the place of an inventory's."""
    rails, others = targets_of(identity, facts)
    dark = "erdma" if any(hca.get("driver") == "erdma" for hca in rows(facts.get("hcas"))) else "roce"  # of a node without any link
    fabrics = [name for name in FABRICS if rails.get(name)] or [dark]
    every = [target for name in fabrics for target in rails.get(name, [])]
    found = [item for _area, item in judge_machine(seen_as(node, values, identity, facts, fabrics[0], every))
             if item.check not in OF_PEERS and (every or item.check != "nccl.gid")]
    for name in fabrics:
        seen = seen_as(node, values, identity, facts, name, rails.get(name, []))
        found += _judged_rails(seen)
    for name, targets in sorted(others.items()):
        found += [item for item in judge_rails(seen_as(node, values, identity, facts, name, targets)) if item.check in OF_LINKS]
    found += unlinked_ports(node, facts)
    left_out = NEEDS_WISH if rows(facts.get("hcas")) else NEEDS_WISH | {"node.memlock"}
    kept = [item for item in found if item.check not in left_out and item.status != "skipped"]
    return kept + odd_link_layers(node, facts)


def _judged_rails(seen: Inspection) -> List[Verdict]:
    """By the floors, else by peers: the worse of the two. A rate that cannot be read is a missing answer."""
    peers = peer_verdicts(seen)
    floors = [item for item in judge_rails(seen) if item.check not in OF_PEERS]
    own = with_peers(floors, peers, over=("skipped", "pass"), alone=OF_PEERS + ("port.width", "qos.peers"))
    return [unreadable(item.check, VerdictSubject(item.node, item.hca, item.port, item.subject), None, "the rate")
            if (item.check, item.status, item.found) == ("port.rate", "skipped", None) else item for item in own]


def targets_of(identity: Identity, facts: Mapping[str, Any]) -> Tuple[Dict[str, List[RailTarget]], Dict[str, List[RailTarget]]]:
    """The rails, and the other ports with a link, each by fabric."""
    roles = roles_of(facts)
    found: Tuple[Dict[str, List[RailTarget]], Dict[str, List[RailTarget]]] = ({}, {})
    for hca, port in linked_ports(facts):
        role = roles[(hca.get("name"), port.get("number"))]
        fabric = fabric_of(hca, port)
        if fabric is not None and role not in (VIRTUAL, DARK):
            group = found[0 if role == RAIL else 1].setdefault(fabric, [])
            target = target_of(identity, hca, port, len(group), "" if role == RAIL else role)
            group += [target] if target is not None else []
    return found


def fabric_of(hca: Mapping[str, Any], port: Mapping[str, Any]) -> Optional[str]:
    """None for a link layer of another kind; a port whose link layer cannot be read is judged as RoCE."""
    if hca.get("driver") == "erdma":
        return "erdma"
    layer = port.get("link_layer")
    return {"InfiniBand": "infiniband", "Ethernet": "roce", None: "roce"}.get(layer)


def seen_as(
    node: str, values: Mapping[str, Any], identity: Identity, facts: Mapping[str, Any], fabric: str, targets: Sequence[RailTarget]
) -> Inspection:
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


def target_of(identity: Identity, hca: Mapping[str, Any], port: Mapping[str, Any], index: int, role: str) -> Optional[RailTarget]:
    """A port as the rail that it would be. Its MTU is its interface's: whether the RDMA path holds what that promises can be judged."""
    own = next((item for item in identity.hcas if item.name == hca.get("name")), None)
    if own is None:
        return None
    nic = next((item for item in identity.nics if item.name == port.get("netdev")), None)
    mtu = port.get("netdev_mtu")
    name = own.name if len(own.ports) < 2 else "%s/%s" % (own.name, port.get("number"))
    label = "%s, %s" % (name, role) if role else name
    rail = Rail(label, index, "pci", own.pci or "", None, None, mtu if isinstance(mtu, int) else 1500)
    return RailTarget(rail, nic, own, port.get("number"))


def odd_link_layers(node: str, facts: Mapping[str, Any]) -> List[Verdict]:
    """A port with a link whose peer ports have another link layer: NVIDIA's HCAs forget LINK_TYPE with a reset of their configuration.

    It warns: a site may have set one of eight ports to Ethernet for storage.
    """
    away, found = distances(facts), []
    ports = [(hca, port) for hca, port in linked_ports(facts) if not is_virtual(hca) and port.get("link_layer") is not None]
    for members in grouped((_kind(hca, port, away), (hca, port)) for hca, port in ports).values():
        layers = Counter(port["link_layer"] for _hca, port in members)
        usual, many = layers.most_common(1)[0]
        if len(members) >= PEERS and many >= SHARE * len(members):
            found += [verdict(
                "port.link_layer", VerdictSubject(node, str(hca.get("name")), port.get("number"), str(hca.get("name"))), "warn",
                usual, port["link_layer"], "link layer is %s, on %d of %d peer ports %s; LINK_TYPE_P%s of its firmware decides" % (
                    port["link_layer"], many, len(members), usual, port.get("number")))
                for hca, port in members if port["link_layer"] != usual]
    return found


# Ports without a link.


def unlinked_ports(node: str, facts: Mapping[str, Any]) -> List[Verdict]:
    """One verdict for each port that should have a link, or whose link cannot be judged; a port that nobody uses gets none.

    Beside a GPU a port without a link fails where three quarters of four or more ports of its kind have one, and is ``unknown`` where fewer
    have: only an inventory can tell four rails from eight. The second port of a card only warns then, and only where most of its kind have
    a link: many are used for something else, or not at all. Where no port is near any GPU, as in a virtual machine with a flat PCI tree,
    all are taken for neighbours of GPUs. Away from GPUs a port warns where most of its kind have a link: storage ports may be spare.
    """
    ports = [(hca, port) for hca, port in ports_in(facts) if not is_virtual(hca)]
    away, near = distances(facts), near_classes(facts)
    if ports and not any(has_link(port) or _unread(port) for _hca, port in ports):
        text = "none of the %d RDMA ports has a link: unused, or cut off? An inventory says which" % len(ports)
        return [verdict("port.state", VerdictSubject(node, None, None, "RDMA ports"), "unknown", "ACTIVE", None, text)]
    hidden = bool(rows(facts.get("gpus"))) and not any(path in near for path in away.values())
    found = []
    for members in grouped((_kind(hca, port, away), (hca, port)) for hca, port in ports).values():
        up = sum(has_link(port) for _hca, port in members)
        for hca, port in members:
            if not has_link(port):
                beside = hidden or away.get((hca.get("name"), port.get("number"))) in near
                found += _unlinked(node, hca, port, up, len(members), beside)
    return found


def _kind(hca: Mapping[str, Any], port: Mapping[str, Any], away: Mapping[Any, Any]) -> Tuple[Any, ...]:
    return kind_of(hca, port) + (away.get((hca.get("name"), port.get("number"))),)


def _unread(port: Mapping[str, Any]) -> bool:
    return port.get("state") is None and port.get("phys_state") is None


def _unlinked(node: str, hca: Mapping[str, Any], port: Mapping[str, Any], up: int, many: int, beside: bool) -> List[Verdict]:
    where = VerdictSubject(node, str(hca.get("name")), port.get("number"), str(port.get("netdev") or hca.get("name")))
    state, phys = port.get("state"), port.get("phys_state")
    if _unread(port):
        return [unreadable("port.state", where, "ACTIVE", "the state of the port")]
    first = kind_of(hca, port)[1:] == ("0", 1)
    few = ("unknown" if first else "warn" if 2 * up > many else "") if up else ""
    status = ("fail" if many >= PEERS and up >= SHARE * many else few) if beside else "warn" if up >= LIKE and 2 * up > many else ""
    text = "no link (%s, %s), and %d of %d ports of its kind have one%s" % (
        state or "state unknown", phys or "physical state unknown", up, many,
        ": inspect cable, transceiver and switch port" if status == "fail" else "; is it in use? Only an inventory says so")
    return [verdict("port.state", where, status, "ACTIVE", state, text)] if status else []
