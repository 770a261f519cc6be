# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network is each rail's interface really on? From who reaches whom. Pure.

A place is one rail of one node. Two places that hear each other (a ping, or an answer to an ARP question) are on one
network, so the networks are the connected components of what was heard. A rail's own network is where most of its
places are. Two rails of a node that lie crosswise against the others are swapped; where as many nodes lie one
way as the other, nobody can say which of them are wrong, and nobody is blamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Place = tuple[str, str]  # node, rail


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
