# SPDX-License-Identifier: GPL-3.0-or-later
"""The rails' interfaces: MTU, address, routes and link, now and after a reboot.

Now: ``ip`` on the live interface. After a reboot: a file of whichever manager owns the
interface (``managers/``). What an interface carries decides how much a change disturbs:
``management`` on the interface that the controller comes in by, ``link`` on one that is
up and has an address (or is meant to have none), else nothing: no traffic is cut.

With ``network_manage_addresses: false`` somebody else configures the interface. Then
no manager's file is written, and a udev rule sets the MTU whenever the device appears.
InfiniBand: only rails with an address have an interface here; ``ipoib`` sets its mode
and its live MTU, which the mode bounds.
"""

import ipaddress
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...host.host import Host
from ...spec.match import RailTarget, match_rails
from ...spec.model import Rail, Spec
from ...types import Change, Identity, Nic, Op, Problem, heaviest, run
from . import evidence, persistent, routes
from .managers import nm
from .model import DesiredInterface, LinkState, Observed, rail_change, recorded_addresses
from .persistent import Owned, carrying, fights, owner

NAME = "network"
SOURCE = "inventory: rdma_rails, rdma_mtu"
WHY_MTU = "all ends of a fabric need one MTU: with different ones small messages pass and large ones hang (NCCL issue 1957)"
WHY_ADDRESS = "the RoCE GID and the connection set-up of RDMA-CM come from the rail's address"
WHY_ROUTE = "traffic from the rail's address must leave by the rail, and over its own gateway if it has one"


class Desired(NamedTuple):
    """``others`` are the interfaces of the node that are no rail: not ours to touch."""

    rails: Tuple[DesiredInterface, ...]
    backend: str
    manage_addresses: bool
    others: Tuple[Nic, ...]


def desired(spec: Spec, identity: Identity) -> Desired:
    targets, _problems = match_rails(spec, identity)
    manage = bool(spec["network_manage_addresses"])
    # RDMA over InfiniBand needs no IP; without an address the IPoIB interface is nobody's business.
    rails = tuple(wish(target, target.nic, spec, identity) for target in targets
                  if target.nic is not None and (spec.fabric != "infiniband" or target.rail.address is not None))
    names = [rail.netdev for rail in rails]
    others = tuple(nic for nic in identity.nics if nic.name not in names and nic.kind != "loopback")
    return Desired(rails, spec["network_backend"], manage, others)


def wish(target: RailTarget, nic: Nic, spec: Spec, identity: Identity) -> DesiredInterface:
    rail = target.rail
    manage = bool(spec["network_manage_addresses"])
    metric = route_metric(spec, rail, nic, identity)
    siblings = [other for other in identity.nics if other.pci == nic.pci and other.kind == nic.kind]
    return DesiredInterface(
        rail.name, rail.index, nic.name, target.label, nic.mac, nic.kind, nic.pci if len(siblings) == 1 else None, nic.management, rail.mtu,
        str(ipaddress.ip_interface(rail.address)) if rail.address is not None and manage else None,
        rail.gateway if manage else None, spec["network_ipoib_mode"] if nic.kind == "infiniband" else None,
        manage and (spec.source_routed(rail) or metric is not None), metric,
    )


def route_metric(spec: Spec, rail: Rail, nic: Nic, identity: Identity) -> Optional[int]:
    """Only together with a table of the rail's own: what leaves from its address would go by the other interface otherwise."""
    if spec.fabric != "erdma" or rail.address is None or nic.management or not spec["network_manage_addresses"]:
        return None
    if spec["network_source_routing"] == "false" or not routes.kernel_can(identity.kernel):
        return None
    return spec["erdma_route_metric"] or None


def observe(host: Host, desired: Desired) -> Observed:
    return observe_holders(host, desired.rails, evidence.observe(host, desired.rails))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    """Live values before the files: a manager that is told about a file takes off by itself what is no longer in it."""
    changes = [change for rail in desired.rails for change in routes.crossing_changes(rail, observed, carrying(rail, observed))]
    recorded = recorded_addresses(observed)
    for rail in desired.rails:
        if observed.link(rail).mtu is not None:
            changes += live_changes(rail, observed, recorded)
    if not desired.manage_addresses:
        return changes + persistent.udev_changes(desired.rails, desired.others, observed)
    changes += stale_rule_changes(desired, observed)
    owned = owners(desired, observed)
    changes += persistent.before_files(owned, observed)
    changes += persistent.file_changes(owned, desired.others, observed)
    return changes + persistent.after_files(owned, desired.others, observed)


def owners(desired: Desired, observed: Observed) -> List[Owned]:
    """The rails by the manager that owns them; rails without one are a conflict, not a change."""
    groups: Dict[str, Owned] = {}
    for rail in desired.rails:
        backend, why = owner(rail, desired.backend, observed)
        if backend is not None:
            known = groups.setdefault(backend, Owned(backend, (), why))
            groups[backend] = known._replace(rails=known.rails + (rail,))
    return [groups[backend] for backend in sorted(groups)]


def live_changes(rail: DesiredInterface, observed: Observed, recorded: List[str]) -> List[Change]:
    link = observed.link(rail)
    disruption = carrying(rail, observed)
    changes: List[Change] = []
    if rail.kind != "infiniband" and link.mtu != rail.mtu:
        changes.append(mtu_change(NAME, rail, link.mtu, disruption))
    if not link.up:
        device = ("ip", "link", "set", "dev", rail.netdev)
        changes.append(rail_change(NAME, "link", rail, "down", "up", "management" if rail.management else "none",
                                   "a rail that is down has no GID", SOURCE, (run((*device, "up"), ((*device, "down"),)),)))
    if rail.address in link.bare:
        changes.append(broadcast_change(rail, link, disruption))
    stale = [address for address in recorded if address != rail.address and address in link.addresses]
    moving = bool(stale) or (rail.address is not None and rail.address not in link.addresses)
    found = [route for route in (tuple(words.split()) for words in link.routes) if "dev" not in route]  # its own
    if moving:
        kept = [address for address in link.addresses if address not in stale and address != rail.address]
        after = ([rail.address] if rail.address is not None else []) + kept
        changes.append(rail_change(NAME, "address", rail, ", ".join(link.addresses) or None, ", ".join(after) or None,
                                   disruption, WHY_ADDRESS, SOURCE, address_ops(rail, stale, link, found)))
    words, wanted = routes.route_words(found), routes.route_words(routes.wanted_routes(rail))
    if words != wanted:
        ops = routes.missing_routes(rail, found) if moving else routes.extra_routes(rail, found) + routes.missing_routes(rail, found)
        changes.append(rail_change(NAME, "route", rail, words or None, wanted or None, disruption, WHY_ROUTE,
                                   "inventory: rdma_rails (gateway), network_source_routing", ops))
    return changes + routes.metric_changes(rail, observed, disruption)


def stale_rule_changes(desired: Desired, observed: Observed) -> List[Change]:
    """What is left of a rail that is gone or was another one of the list. The table goes unused with its last rule."""
    if not observed.stale_rules:
        return []
    management = [nic.netdev for nic in desired.rails if nic.management] + [nic.name for nic in desired.others if nic.management]
    classes = ["none" if rule.netdev is None else "management" if rule.netdev in management else "link" for rule in observed.stale_rules]
    rules = [(rule.address, str(rule.table)) for rule in observed.stale_rules]
    ops = tuple(run(routes.del_rule(*rule), (routes.add_rule(*rule),)) for rule in rules)
    return [Change(NAME, "rules of rails that are gone", ["from %s lookup %s" % rule for rule in rules], None, heaviest(classes),
                   "no rail of this host has this table any more", "inventory: rdma_rails", ops)]


def mtu_change(area: str, rail: DesiredInterface, before: object, disruption: str) -> Change:
    device = ("ip", "link", "set", "dev", rail.netdev, "mtu")
    return rail_change(area, "MTU", rail, before, rail.mtu, disruption, WHY_MTU, SOURCE,
                       (run(device + (str(rail.mtu),), (device + (str(before),),)),))


def foreign_ops(rail: DesiredInterface, link: LinkState) -> Tuple[Tuple[Op, ...], Tuple[Op, ...]]:
    """(first, last) around a change that may take off the last address. The first is undone last: it restores all routes of others."""
    back = tuple(routes.restored(rail.netdev, words) for words in link.foreign)
    if not back:
        return (), ()
    kept = tuple(run(routes.restored(rail.netdev, words), (("true",),)) for words in routes.reachable(link.foreign, rail.address))
    return (run(("true",), back),), kept


def address_ops(rail: DesiredInterface, stale: List[str], link: LinkState, found: List[Tuple[str, ...]]) -> Tuple[Op, ...]:
    """Our old address off, the new one on, and the rail's routes through it all.

    In this order, since the kernel takes off with an address those of its subnet that were
    added later, and with the last address all routes of the interface. So routes that go
    are taken away before, those that stay are restored after, here and in the undo alike.
    """
    device, present = ("dev", rail.netdev), link.addresses
    first, last = foreign_ops(rail, link) if stale else ((), ())
    # The default route after its subnet's: the kernel takes no gateway that it cannot reach yet.
    staying = [route for route in routes.wanted_routes(rail) if route in found and route[0] != "from"]
    back = tuple(routes.add_argv(rail, route) for route in staying)
    ops = list(first) + list(routes.extra_routes(rail, found))
    metrics = dict(link.metrics)
    ops += [run(("ip", "addr", "del", address, *device), (add_address(address, rail.netdev, metrics.get(address)), *back))
            for address in stale]
    if rail.address is not None and rail.address not in present:
        host_part = bare_address(rail.address)
        # flush and not del: it is no error when the address never got there, and it takes off this address alone.
        undo: Tuple[str, ...] = ("ip", "addr", "flush", *device, "to", host_part)
        if host_part in map(bare_address, present):
            undo = ("ip", "addr", "del", rail.address, *device)  # the same address with another prefix is not ours
        ops.append(run(add_address(rail.address, rail.netdev, rail.metric), (undo,)))
    return tuple(ops) + tuple(run(argv, (("true",),)) for argv in back) + last


def broadcast_change(rail: DesiredInterface, link: LinkState, disruption: str) -> Change:
    """For an address that somebody added by hand: the kernel cannot give it its broadcast address later."""
    address = rail.address or ""
    first, last = foreign_ops(rail, link)
    device = ("dev", rail.netdev)
    ops = (
        run(("ip", "addr", "del", address, *device), (("ip", "addr", "replace", address, *device),)),
        run(add_address(address, rail.netdev, rail.metric), (("ip", "addr", "flush", *device, "to", address.partition("/")[0]),)),
    )
    return rail_change(NAME, "broadcast address", rail, None, "of " + address, disruption,
                       "managers add addresses with one, and networkd 252 hangs on the same address without it", "seen: systemd 252",
                       first + ops + last)


def add_address(address: str, netdev: str, metric: Optional[object] = None) -> Tuple[str, ...]:
    """With its broadcast address, as every manager adds it, and in an undo with the metric that it had.

    networkd 252 takes the same address without one for another, fails with ERANGE and then
    answers nobody (seen with Debian 12's; an address with its broadcast it adopts).
    """
    broadcast: Tuple[str, ...] = () if ":" in address else ("broadcast", "+")
    own_metric: Tuple[str, ...] = () if metric is None else ("metric", str(metric))
    return ("ip", "addr", "replace", address, *broadcast, *own_metric, "dev", netdev)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    targets, found = match_rails(spec, identity)
    for target in targets:
        if target.nic is None and spec.fabric != "infiniband":
            found.append(Problem(NAME, target.label, "the device has no network interface on this node; is its driver loaded?"))
    return found


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """What was found that fights a rail's settings; nothing of others is overwritten."""
    found: List[Problem] = []
    for rail in desired.rails:
        link = observed.link(rail)
        messages: List[str] = []
        if link.max_mtu is not None and rail.kind != "infiniband" and rail.mtu > link.max_mtu:
            messages.append("MTU %d is above %d, the largest that the driver of %s takes" % (rail.mtu, link.max_mtu, rail.netdev))
        if link.ipv6_off is not None and ":" in (rail.address or ""):
            messages.append("%s cannot have its IPv6 address: %s" % (rail.netdev, link.ipv6_off))
        if desired.manage_addresses:
            backend, why = owner(rail, desired.backend, observed)
            messages += routes.metric_conflicts(rail, desired.rails, observed)
            if backend is None:
                messages.append("nothing on this node can configure %s: %s" % (rail.netdev, why))
            else:
                messages += persistent.MODULES[backend].conflicts(rail, observed) + fights(rail, backend, observed)
            if backend == nm.NAME and link.ifindex is not None and not link.nm_managed:
                messages.append("NetworkManager is told to leave %s unmanaged; manage it, or set network_backend" % rail.netdev)
        found += [Problem(NAME, rail.label, message) for message in messages]
    return found + held_addresses(desired.rails, observed)


# Is an address free before it is set? Once it is taken twice, both holders lose packets at random and nobody says why. Asked are only
# the addresses that are not set yet, on interfaces that are up and have a link: a plan of a node that is as it should be asks nothing.
# What cannot be asked (a link that is still down, IPoIB) is judged by ``rail.duplicate`` of validate afterwards.
HELD = ("address %s of %s is already held by another device on %s: MAC %s answers for it; "
        "take it off there, or give the rail another one")


def observe_holders(host: Host, rails: Sequence[DesiredInterface], observed: Observed) -> Observed:
    """With the MACs of others that answer for the address which a rail is to get."""
    wanted: Dict[str, List[str]] = {}
    for rail in rails:
        link, own = observed.link(rail), bare_address(rail.address) if rail.address is not None else None
        # An address that is there with another prefix has long been in use here.
        if own is not None and link.up and link.carrier and own not in map(bare_address, link.addresses):
            wanted[rail.netdev] = [own]
    if not wanted:
        return observed
    from ...observe.arp import who_has  # its sockets are for who is about to give an address

    answers = who_has(host, wanted)
    found = [(netdev, mac) for netdev in sorted(answers) for macs in (answers[netdev] or {}).values() for mac in macs]
    return observed._replace(holders=tuple(found))


def bare_address(cidr: str) -> str:
    return str(ipaddress.ip_interface(cidr).ip)


def held_addresses(rails: Sequence[DesiredInterface], observed: Observed) -> List[Problem]:
    found: List[Problem] = []
    for rail in rails:
        macs = ", ".join(mac for netdev, mac in observed.holders if netdev == rail.netdev)
        if rail.address is not None and macs:
            held = (bare_address(rail.address), rail.rail, rail.netdev, macs)
            found.append(Problem(NAME, rail.label, HELD % held))
    return found
