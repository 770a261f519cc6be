# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the networks between the nodes, from what every node pinged and heard. Pure; runs on the controller.

``results`` maps a node to what rdma_measure returned for it: ``pings`` (a probe of ping.probes with its answers) and
``rails``. A cause is one finding: the pings that it explains are ``unknown`` and name it. What a node heard
is its own word; with a lie it can get a wrong finding on another node, but make no failed ping a pass.

A place is one rail of one node. Two places that hear each other (a ping, or an answer to an ARP question) are on one
network, so the networks are the connected components of what was heard. A rail's own network is where most of its
places are. Two rails of a node that lie crosswise against the others are swapped; where as many nodes lie one
way as the other, nobody can say which of them are wrong, and nobody is blamed.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import judge_probe, unanswered
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.rules.path_mtu import netdev_facts
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .cluster import CLUSTER, Nodes

Results = Mapping[str, Mapping[str, Any]]
Place = tuple[str, str]  # node, rail
WHERE_TO_LOOK = "cables, switch ports, or the match of the two rails in the inventory"


class Swapped(NamedTuple):
    """``nodes`` have the two rails the other way round than ``others``. Camps of equal size: ``tie``."""

    rails: tuple[str, str]
    nodes: tuple[str, ...]
    others: tuple[str, ...]
    tie: bool


class Misplaced(NamedTuple):
    """A rail of a node that is on the network of another rail."""

    node: str
    rail: str
    network: str  # the rail whose network it is


class Diagnosis(NamedTuple):
    swapped: tuple[Swapped, ...]
    misplaced: tuple[Misplaced, ...]


def judge_reach(nodes: Nodes, results: Results) -> list[Verdict]:
    """Every verdict that the pings of the nodes give together."""
    by_mac = rail_by_mac(nodes)
    verdicts = [_duplicate(node, rail, found, by_mac) for node in sorted(results) for rail in nodes[node]["rails"]
                for found in results[node]["rails"] if found["name"] == rail["name"]]
    causes: dict[Place, str] = {}
    for node in sorted(results):
        for name in sorted({ping["name"] for ping in results[node]["pings"]}):
            found = _route(node, nodes[node], [ping for ping in results[node]["pings"] if ping["name"] == name])
            verdicts.append(found)
            if found.status == "fail":
                # The rail that it leaves by gets ARP entries of two interfaces, and suffers too.
                suffering = [rail["name"] for rail in nodes[node]["rails"] if f"by {rail['netdev']}" == found.found]
                causes.update({(node, rail): f"{name} of {node}: {found.message} (rail.route)" for rail in [name, *suffering]})
    diagnosis = look_across(nodes, results, by_mac)
    verdicts += _crossed(nodes, results, diagnosis)
    causes.update(_explained(diagnosis))
    for node in sorted(results):
        for ping in results[node]["pings"]:
            ends = [causes[place] for place in ((node, ping["name"]), (ping["peer"], ping["name"])) if place in causes]
            verdicts.append(judge_probe(node, ping, ends[0] if ends else None, _hint(ping, by_mac)))
    return verdicts


def look_across(nodes: Nodes, results: Results, by_mac: Mapping[str, Place]) -> Diagnosis:
    """Which rail is on which network: a ping that came back joins two places, an answer by ARP or neighbour discovery too."""
    places: set[Place] = set()
    heard: list[tuple[Place, Place]] = []
    for node in sorted(results):
        for ping in results[node]["pings"]:
            here, there = (node, ping["name"]), (ping["peer"], ping["name"])
            places.update((here, there))
            if ping["full"] or ping["small"]:
                heard.append((here, there))
            heard += [(here, by_mac[mac]) for macs in ping["heard"].values() for mac in macs if mac in by_mac and by_mac[mac][0] != node]
    found = diagnose(rail_names(nodes), sorted(places), heard)
    apart = [item for item in found.misplaced if not _one_subnet(nodes[item.node], item.rail, item.network)]
    return Diagnosis(found.swapped, tuple(apart))


def rail_names(nodes: Nodes) -> list[str]:
    """In the order of the inventories."""
    return list(dict.fromkeys(rail["name"] for node in sorted(nodes) for rail in nodes[node]["rails"]))


def rail_by_mac(nodes: Nodes) -> dict[str, Place]:
    """Whose interface a MAC is. One that several interfaces have (cloned machines) tells nothing."""
    owners: dict[str, set[Place]] = {}
    for node, view in nodes.items():
        for rail in view["rails"]:
            mac = netdev_facts(view["facts"], rail["netdev"]).get("mac")
            if isinstance(mac, str):
                owners.setdefault(mac, set()).add((node, rail["name"]))
    return {mac: next(iter(places)) for mac, places in owners.items() if len(places) == 1}


def _duplicate(node: str, rail: Mapping[str, Any], found: Mapping[str, Any], by_mac: Mapping[str, Place]) -> Verdict:
    """The address of a rail belongs to its interface alone."""
    where = VerdictSubject(node, rail["hca"], rail["port"], rail["label"])
    expected = f"{rail['address']} on this node only"
    say = partial(verdict, "rail.duplicate", where)
    if found["dad_failed"]:
        return say("fail", expected, "dadfailed",
                   f"the kernel found {rail['address']} in use by another device when it was set, and does not use it")
    if found["macs"] is None and not rail["gid_needed"]:
        return say("skipped", expected, None, "InfiniBand: nobody is asked over IPoIB")
    if found["macs"] is None:
        return say("unknown", expected, None, f"nobody could be asked on {rail['netdev']}: it is down, or raw sockets are not allowed")
    if not found["macs"]:
        return say("pass", expected, expected, f"nobody else on {rail['netdev']} answers for it")
    whose = [f"{mac} ({by_mac[mac][1]} of {by_mac[mac][0]})" if mac in by_mac else mac for mac in found["macs"]]
    return say("fail", expected, ", ".join(whose),
               f"address {rail['address']} of {rail['name']} is also held by another device on {rail['netdev']}: {', '.join(whose)}")


def _route(node: str, view: Mapping[str, Any], pings: Sequence[Mapping[str, Any]]) -> Verdict:
    """Where the kernel sends by what nothing binds to an interface: RDMA-CM, and the answers to others' pings."""
    first = pings[0]
    where = VerdictSubject(node, first["hca"], first["port"], first["rail"])
    expected = f"by {first['netdev']}"
    say = partial(verdict, "rail.route", where)
    if ipaddress.ip_address(first["source"]) not in [address.ip for address in _addresses(view, first["netdev"])]:
        return say("unknown", expected, None, f"{first['source']} is not on {first['netdev']}")
    for ping in pings:
        way = f"{ping['source']} to {ping['address']} ({ping['peer']})"
        if ping["device"] is None:
            return say("fail", expected, None, f"no route from {way}: {ping['no_route']}")
        if ping["device"] != ping["netdev"]:
            return say("fail", expected, f"by {ping['device']}", "traffic from %s leaves by %s and not by %s; network_source_routing keeps "
                       "it on the rail" % (way, ping["device"], ping["netdev"]))
    return say("pass", expected, expected, f"to {len(pings)} peer{'' if len(pings) == 1 else 's'}")


def _addresses(view: Mapping[str, Any], netdev: str | None) -> list[Any]:
    """With their prefix lengths; a node may say anything, and what is no address is left out."""
    found: list[Any] = []
    for text in netdev_facts(view["facts"], netdev).get("addresses") or []:
        with suppress(ValueError):
            found.append(ipaddress.ip_interface(str(text)))
    return found


def _subnet(view: Mapping[str, Any], name: str) -> str | None:
    """The subnet of a rail's address, as the interface has it."""
    for rail in view["rails"]:
        for address in _addresses(view, rail["netdev"]) if rail["name"] == name and rail["address"] else []:
            if address.ip == ipaddress.ip_address(rail["address"]):
                return str(address.network)
    return None


def _one_subnet(view: Mapping[str, Any], one: str, other: str) -> bool:
    """One flat subnet: its rails share a network on purpose."""
    return _subnet(view, one) is not None and _subnet(view, one) == _subnet(view, other)


def _crossed(nodes: Nodes, results: Results, diagnosis: Diagnosis) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for item in diagnosis.swapped:
        rails, places = " and ".join(item.rails), (", ".join(item.nodes), ", ".join(item.others))
        expected = f"{rails} each on its own network"
        if item.tie:
            found = "crossed between %s and %s" % places
            verdicts.append(verdict("rail.swapped", VerdictSubject("", None, None, rails), "fail", expected, found, _tie(item)))
            continue
        for node in item.nodes:
            where = VerdictSubject(node, None, None, rails)
            verdicts.append(verdict("rail.swapped", where, "fail", expected, "swapped", _one(nodes[node], node, item)))
    for alone in diagnosis.misplaced:
        rail = next(rail for rail in nodes[alone.node]["rails"] if rail["name"] == alone.rail)
        where = VerdictSubject(alone.node, rail["hca"], rail["port"], rail["label"])
        verdicts.append(verdict("rail.segment", where, "fail", f"{alone.rail}'s network", f"{alone.network}'s network",
                                "%s is cabled to %s's network: it hears %s of other nodes, and no %s" % (
                                    rail["label"], alone.network, alone.network, alone.rail)))
    return verdicts or [_not_crossed(nodes, results)]


def _tie(item: Swapped) -> str:
    return ("%s and %s are the other way round on %s than on %s (%s); as many nodes have them one way as the other, so inspect both" % (
        item.rails[0], item.rails[1], ", ".join(item.nodes), ", ".join(item.others), WHERE_TO_LOOK))


def _one(view: Mapping[str, Any], node: str, item: Swapped) -> str:
    labels = [rail["label"] for name in item.rails for rail in view["rails"] if rail["name"] == name]
    return f"{labels[0]} and {labels[1]} of {node} are swapped: each is on the other's network ({WHERE_TO_LOOK})"


def _not_crossed(nodes: Nodes, results: Results) -> Verdict:
    where = VerdictSubject("", None, None, CLUSTER)
    expected = "every rail on its own network"
    names = sorted({ping["name"] for result in results.values() for ping in result["pings"]})
    if len(names) < 2:
        return verdict("rail.swapped", where, "skipped", expected, None, "fewer than two rails were pinged between nodes")
    if all(_one_subnet(nodes[node], names[0], name) for node in results for name in names[1:]):
        return verdict("rail.swapped", where, "skipped", expected, None,
                       "the rails share one subnet: a swap cannot be seen from who reaches whom, and cuts nobody off")
    if not any(ping["full"] or ping["small"] for result in results.values() for ping in result["pings"]):
        return verdict("rail.swapped", where, "unknown", expected, None, "no ping came back")
    return verdict("rail.swapped", where, "pass", expected, expected, "no rail was heard on the network of another one")


def _explained(diagnosis: Diagnosis) -> dict[Place, str]:
    causes: dict[Place, str] = {}
    for item in diagnosis.swapped:
        rails = " and ".join(item.rails)
        said = f"{rails} are crossed between {', '.join(item.nodes)} and {', '.join(item.others)} (rail.swapped)"
        for node in item.nodes:
            said = said if item.tie else f"{rails} are swapped on {node} (rail.swapped)"
            causes.update({(node, rail): said for rail in item.rails})
    for alone in diagnosis.misplaced:
        # The rail whose network it is suffers too: with arp_ignore 0 either interface answers for the other's address.
        for rail in (alone.rail, alone.network):
            causes.setdefault((alone.node, rail), f"{alone.rail} of {alone.node} is on {alone.network}'s network (rail.segment)")
    return causes


def _hint(ping: Mapping[str, Any], by_mac: Mapping[str, Place]) -> str:
    """What a failed ping's interface heard all the same."""
    if not unanswered(ping):
        return ""
    macs = [mac for found in ping["heard"].values() for mac in found if by_mac.get(mac, ("", ""))[0] == ping["peer"]]
    names = sorted({by_mac[mac][1] for mac in macs})
    if ping["name"] in names:
        return ", but it answers ARP or neighbour discovery on this rail: a firewall or a route is in the way"
    return f", but {', '.join(names)} of {ping['peer']} is heard on {ping['netdev']}" if names else ""


def networks(heard: Iterable[tuple[Place, Place]]) -> dict[Place, Place]:
    """Place -> the representative of its network. A place that nothing was heard of is in none."""
    above: dict[Place, Place] = {}

    def top(place: Place) -> Place:
        above.setdefault(place, place)
        while above[place] != place:
            above[place] = above[above[place]]
            place = above[place]
        return place

    for one, other in heard:
        above[top(one)] = top(other)
    return {place: top(place) for place in sorted(above)}


def diagnose(rails: Sequence[str], places: Sequence[Place], heard: Iterable[tuple[Place, Place]]) -> Diagnosis:
    """``places``: all that were asked, heard or not; ``rails`` in the order in which they are named."""
    network = networks(heard)
    swapped: list[Swapped] = []
    settled: set[Place] = set()
    for at, one in enumerate(rails):
        for other in rails[at + 1:]:
            found = _swapped(one, other, places, network)
            swapped += found
            settled.update((node, rail) for item in found for node in item.nodes + (item.others if item.tie else ()) for rail in item.rails)
    homes = {rail: _home(rail, places, network) for rail in rails}
    misplaced: list[Misplaced] = []
    for node, rail in sorted(set(places) - settled):
        here = network.get((node, rail))
        guests = [other for other in rails if other != rail and here is not None and homes[other] == here and homes[rail] != here]
        misplaced += [Misplaced(node, rail, guests[0])] if guests else []
    return Diagnosis(tuple(swapped), tuple(misplaced))


def _swapped(one: str, other: str, places: Sequence[Place], network: dict[Place, Place]) -> list[Swapped]:
    """Nodes by the networks of their two rails; a group whose mirror image is a group too is crossed with it."""
    groups: dict[tuple[Place, Place], list[str]] = {}
    for node in sorted({node for node, _rail in places}):
        ends = network.get((node, one)), network.get((node, other))
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            groups.setdefault((ends[0], ends[1]), []).append(node)
    found: list[Swapped] = []
    for ends in sorted(groups):
        mirror = groups.get((ends[1], ends[0]))
        if mirror is None or ends > (ends[1], ends[0]):
            continue
        few, many = sorted((groups[ends], mirror), key=lambda nodes: (len(nodes), nodes))
        found.append(Swapped((one, other), tuple(few), tuple(many), len(few) == len(many)))
    return found


def _home(rail: str, places: Sequence[Place], network: dict[Place, Place]) -> Place | None:
    """Where more than half of a rail's places are."""
    mine = [network.get(place) for place in places if place[1] == rail]
    for home in {item for item in mine if item is not None}:
        if mine.count(home) * 2 > len(mine):
            return home
    return None
