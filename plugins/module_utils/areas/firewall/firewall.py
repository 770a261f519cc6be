# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's firewall lets the cluster's nodes in: all TCP on the bootstrap interface, and UDP 4791 on rails of Soft-RoCE.

Where no firewall runs, or nothing of it stops them, nothing is changed. No firewall is installed, enabled, flushed or put
into another order; what others wrote stays. Each front end is told in its own words (``firewall_*.py``), the kernel's
chains say whether it is needed (``rules/packet_filter.py``).
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...host.host import Host
from ...observe.firewall import OWNERS, chains_owned, observe_firewall
from ...rules.packet_filter import CLOSED, OPEN, UNKNOWN
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from . import firewalld, nftables, ufw
from .openings import ANYWHERE, Opening, bootstrap_interface, openings, worst

NAME = "firewall"
FRONT_ENDS: Dict[str, Any] = {"nftables": nftables, "firewalld": firewalld, "ufw": ufw}  # those that are written
WAY_OUT = "or set firewall_manage: false"
SAID = {
    "iptables": "railwright does not write iptables rules: let them in there (iptables -I INPUT ... -j ACCEPT, and in the rules that are "
                "loaded at boot), move to nftables, firewalld or ufw, " + WAY_OUT,
}


class Desired(NamedTuple):
    """``openings`` are empty where nothing is to be opened or the peers are not known; ``unknown`` names nodes without an address."""

    manage: bool
    backend: str
    interface: Optional[str]
    openings: Tuple[Opening, ...]
    unknown: Tuple[str, ...]


class Observed(NamedTuple):
    facts: Dict[str, Any]
    states: Dict[str, Any]  # by front end, of those that run: NftState, FirewalldState, UfwState


def desired(spec: Spec, identity: Identity) -> Desired:
    unknown = () if spec["firewall_peers"] else tuple(spec["firewall_derived"]["unknown"])
    return Desired(bool(spec["firewall_manage"]), spec["firewall_backend"], bootstrap_interface(spec, identity), openings(spec, identity),
                   unknown)


def observe(host: Host, desired: Desired) -> Observed:
    if not desired.manage:
        return Observed({"runs": [], "chains": [], "missing": None}, {})
    facts = observe_firewall(host)
    return Observed(facts, {name: FRONT_ENDS[name].observe(host, desired.openings) for name in facts["runs"] if name in FRONT_ENDS})


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes: List[Change] = []
    if not desired.manage or not desired.openings or desired.unknown:
        return changes
    for owner in _chosen(desired):
        chains = chains_owned(observed.facts, owner)
        if owner in observed.states and (chains is not None or owner == "firewalld"):
            changes += FRONT_ENDS[owner].plan(NAME, desired.openings, chains, observed.states[owner])
    return changes


def _chosen(desired: Desired) -> Tuple[str, ...]:
    return tuple(FRONT_ENDS) if desired.backend == "auto" else (desired.backend,)


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if not desired.manage:
        return []
    if not desired.openings or desired.unknown:
        return _unknown_peers(desired, observed)
    found = []
    for owner in OWNERS:
        if owner in _chosen(desired):
            continue
        fate = worst(chains_owned(observed.facts, owner) or [], desired.openings)
        if fate.status == CLOSED:
            how = SAID.get(owner, "firewall_backend is %s: set it to auto or %s, %s" % (desired.backend, owner, WAY_OUT))
            found.append(Problem(NAME, owner, "stops the cluster's nodes (%s); %s" % (fate.by, how)))
    return found


def _unknown_peers(desired: Desired, observed: Observed) -> List[Problem]:
    """Only where a firewall would stop somebody: elsewhere nobody needs to know."""
    probe = Opening(desired.interface or "", "tcp", 0, (ANYWHERE,))
    fate = worst(observed.facts["chains"] or [], (probe,))
    blind = observed.facts["chains"] is None and observed.facts["runs"]
    if fate.status == OPEN and not blind:
        return []
    runs = " and ".join(observed.facts["runs"])
    if desired.interface is None:
        return [Problem(NAME, "rdma_bootstrap_interface", "%s runs on this node, and the interface of NCCL's bootstrap and of MPI is not "
                        "known; set rdma_bootstrap_interface to one that the node has, %s" % (runs, WAY_OUT))]
    whose = " of " + ", ".join(desired.unknown[:5]) if desired.unknown else ""
    return [Problem(NAME, "firewall_peers", "%s runs on this node, and no address%s can be derived from the inventory (ansible_host is an "
                    "IP address, rdma_rails have addresses, ssh_mesh_addresses); set firewall_peers, %s" % (runs, whose, WAY_OUT))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if not desired.manage:
        return ["firewall: left alone (firewall_manage: false)"]
    facts = observed.facts
    said: List[str] = []
    if facts["missing"]:
        said.append("firewall: the kernel's rules cannot be read: %s" % facts["missing"])
    if not facts["runs"]:
        return said or ["firewall: none runs on this node, nothing is to be opened"]
    if desired.backend not in ("auto",) + tuple(facts["runs"]):
        said.append("firewall: firewall_backend is %s, and it does not run on this node" % desired.backend)
    if not desired.openings or desired.unknown:
        return said
    fates = {owner: worst(chains_owned(facts, owner) or [], desired.openings) for owner in facts["runs"] if facts["chains"] is not None}
    if facts["chains"] is not None and all(fate.status == OPEN for fate in fates.values()):
        return said + ["firewall: %s lets the cluster's nodes in" % " and ".join(facts["runs"])]
    said += ["firewall: whether %s lets the cluster's nodes in cannot be judged: %s" % (owner, fate.by)
             for owner, fate in sorted(fates.items()) if fate.status == UNKNOWN and owner not in _chosen(desired)]
    return said + _shared_zones(observed)


def _shared_zones(observed: Observed) -> List[str]:
    """A rich rule holds for a whole zone: firewalld cannot say it of one interface."""
    state: Optional[firewalld.FirewalldState] = observed.states.get("firewalld")
    if state is None:
        return []
    others = {zone: [name for name in names if state.zones.get(name) != zone] for zone, names in state.shared.items()}
    return ["firewall: zone %s of firewalld holds %s too, where the rules for the cluster's nodes hold as well; put the bootstrap "
            "interface into a zone of its own to tell them apart" % (zone, ", ".join(names))
            for zone, names in sorted(others.items()) if names]
