# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interface and which HCA port a rail is on this node: identity only."""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ..types import NO_DEVICE, Hca, Identity, Nic, Problem
from .model import Rail, Spec

DEVICE = re.compile(r"[A-Za-z0-9_.-]+")


class RailTarget(NamedTuple):
    """A rail found on a node. ``nic`` is None for an HCA without a netdev (no IPoIB yet)."""

    rail: Rail
    nic: Optional[Nic]
    hca: Optional[Hca]
    port: Optional[int]

    @property
    def netdev(self) -> Optional[str]:
        return self.nic.name if self.nic is not None else None

    @property
    def label(self) -> str:
        """How the rail is named to people: ``rail0 (eth1)``."""
        device = self.nic or self.hca
        return "%s (%s)" % (self.rail.name, device.name if device is not None else "no device")


def match_rails(spec: Spec, identity: Identity) -> Tuple[List[RailTarget], List[Problem]]:
    """Every rail of the host with its device, and a problem for each that has none or shares one."""
    targets: List[RailTarget] = []
    problems: List[Problem] = []
    for rail in spec.rails:
        target = match_rail(rail, identity, spec.fabric)
        if target is None:
            problems.append(Problem("network", rail.name, "no device with %s %s on this node; it has %s" % (
                rail.match, rail.value, _present(rail.match, identity)), NO_DEVICE))
        else:
            targets.append(target)
    seen: Dict[str, str] = {}
    for target in targets:
        if target.netdev is None:
            continue
        if target.netdev in seen:
            problems.append(Problem("network", target.rail.name, "is on %s, and so is %s" % (target.netdev, seen[target.netdev])))
        seen.setdefault(target.netdev, target.rail.name)
    return targets, problems


def match_rail(rail: Rail, identity: Identity, fabric: Optional[str] = None) -> Optional[RailTarget]:
    """The device of one rail, or None. With ``fabric`` a PCI function that has ports of several kinds gives the one that fits."""
    if rail.match == "guid":
        return _by_guid(rail, identity)
    fitting = [nic for nic in identity.nics if (nic.mac if rail.match == "mac" else nic.pci) == rail.value and nic.kind != "loopback"]
    # A bridge or VLAN repeats the MAC of the hardware below it; a sibling of the other kind is another port of the same HCA.
    wanted = "infiniband" if fabric == "infiniband" else "ethernet"
    ranked = sorted(fitting, key=lambda nic: (nic.kind == "virtual", nic.kind != wanted, _port_rank(nic, identity)))
    if ranked:
        nic = _carrier(ranked[0], identity)
        found = _hca_of(nic, identity)
        return RailTarget(rail, nic, found, _port_of(nic, found))
    # InfiniBand without IPoIB, or eRDMA, whose interface is another function.
    whole = next((hca for hca in identity.hcas if rail.match == "pci" and hca.pci == rail.value), None)
    return _on_port(rail, whole, 0, identity)


def _by_guid(rail: Rail, identity: Identity) -> Optional[RailTarget]:
    own = next((hca for hca in identity.hcas if rail.value in hca.port_guids), None)
    if own is not None:
        return _on_port(rail, own, own.port_guids.index(rail.value), identity)
    return _on_port(rail, next((hca for hca in identity.hcas if hca.node_guid == rail.value), None), 0, identity)


def _on_port(rail: Rail, hca: Optional[Hca], at: int, identity: Identity) -> Optional[RailTarget]:
    return None if hca is None else RailTarget(rail, _nic_of_port(hca, at, identity), hca, hca.ports[at] if hca.ports else None)


def _carrier(nic: Nic, identity: Identity) -> Nic:
    """The bond of a member: it has the addresses, and with LAG its HCA has one port for all members."""
    return next((other for other in identity.nics if nic.bond is not None and other.name == nic.bond), nic)


def _port_rank(nic: Nic, identity: Identity) -> Tuple[bool, int]:
    """The interfaces that are ports themselves (not children of one, ib0.8001) by port number."""
    own = (hca.ports[hca.port_netdevs.index(nic.name)] for hca in identity.hcas if nic.name in hca.port_netdevs)
    return next(((False, port) for port in own), (True, 0))


def _hca_of(nic: Nic, identity: Identity) -> Optional[Hca]:
    names = [nic.name] + [other.name for other in identity.nics if other.bond == nic.name]
    return next((hca for name in names for hca in identity.hcas if name in hca.netdevs), None)


def _port_of(nic: Nic, hca: Optional[Hca]) -> Optional[int]:
    """Two ports of one HCA may have an interface each."""
    if hca is None or not hca.ports:
        return None
    return hca.ports[hca.port_netdevs.index(nic.name)] if nic.name in hca.port_netdevs else hca.ports[0]


def _nic_of_port(hca: Hca, at: int, identity: Identity) -> Optional[Nic]:
    """The interface of a port. Where ports are not told apart, any of the HCA's."""
    names = (hca.port_netdevs[at],) if at < len(hca.port_netdevs) else hca.netdevs
    return next((_carrier(nic, identity) for nic in identity.nics if nic.name in names), None)


def _present(kind: str, identity: Identity) -> str:
    if kind == "guid":
        values = list({hca.node_guid for hca in identity.hcas} | {guid for hca in identity.hcas for guid in hca.port_guids})
    elif kind == "mac":
        values = [nic.mac for nic in identity.nics if nic.kind not in ("loopback", "virtual")]
    else:
        values = list({nic.pci for nic in identity.nics} | {hca.pci for hca in identity.hcas})
    return ", ".join(sorted(value for value in values if value)) or "none"


def management_interface(spec: Spec, identity: Identity) -> Optional[str]:
    """The interface of the preferred default route, else of the controller's connection; one that is no rail comes first.

    Only interfaces that carry an address themselves: the members of a bond, bridge or VLAN are management too, but a program cannot
    listen on them.
    """
    rails = {target.netdev for target in match_rails(spec, identity)[0]}
    carrying = [(nic.uplink, nic.name) for nic in identity.nics if nic.uplink is not None and DEVICE.fullmatch(nic.name)]
    names = [name for _uplink, name in sorted(carrying)]
    return next((name for name in names if name not in rails), names[0] if names else None)
