# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a network of links carries from one point to another, and which links hold it up. Pure.

Links carry as much in either direction at once, and what leaves a node mirrors what comes in: a link that a block passes on its way in
carries another block on its way out in the opposite direction. So a flow over links without a direction is what both can have at once.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

UNBOUNDED = float("inf")


class Link(NamedTuple):
    """``gbs`` for each direction; ``what``: as a person calls it."""

    one: str
    other: str
    gbs: float
    what: str = ""


def max_flow(links: Sequence[Link], source: str, sink: str) -> tuple[float, tuple[Link, ...]]:
    """(GB/s, the links that limit it); links of no bound limit nothing. Shortest ways first (Edmonds and Karp)."""
    room: dict[str, dict[str, float]] = {source: {}, sink: {}}
    for link in links:
        for one, other in ((link.one, link.other), (link.other, link.one)):
            ends = room.setdefault(one, {})
            ends[other] = ends.get(other, 0.0) + link.gbs
    total = 0.0
    while True:
        came_from = _ways_from(room, source)
        if sink not in came_from:
            return total, tuple(link for link in links if (link.one in came_from) != (link.other in came_from))
        way = _way(came_from, source, sink)
        least = min(room[one][other] for one, other in way)
        if least == UNBOUNDED:
            return UNBOUNDED, ()
        for one, other in way:
            room[one][other] -= least
            room[other][one] += least
        total += least


def _ways_from(room: dict[str, dict[str, float]], source: str) -> dict[str, str]:
    """Each point that can still be reached, with the one before it."""
    found, pending = {source: source}, deque([source])
    while pending:
        here = pending.popleft()
        for there, free in room[here].items():
            if free > 1e-9 and there not in found:
                found[there] = here
                pending.append(there)
    return found


def _way(came_from: dict[str, str], source: str, sink: str) -> list[tuple[str, str]]:
    found, here = [], sink
    while here != source:
        found.append((came_from[here], here))
        here = came_from[here]
    return found
