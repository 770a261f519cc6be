# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of all rounds so far, and what is normal among them. Pure.

A scope is a rail, or all rails at once (''), which is what nccl-tests measures first. The like of a figure are those of the same scope.
What counts as normal is what the fast nodes reach: a slow partner makes a figure slow, never fast. So even where more than half of all
pairs hold a slow end, the figures of the good ones are known. Nobody is blamed where fewer than half of the nodes are fast (judge.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from railwright.isolate.model import WAYS, Fleet, Result, Round

WHOLE = ""
# Below it a figure is suspect: between a healthy part (1) and one at nine tenths, by noise of 3 % and the samples below (docs/isolate.md).
CUT, ONE_WAY = 0.955, 0.94
SURE = 0.945  # a finding's share of its like is below it
LOWEST_CUT = 0.8  # however much the figures scatter
WINDOW = 1.1  # figures within a tenth of each other are alike
SAMPLES = {"perftest": 5, "nccl": 9}
Row = tuple[float, tuple[str, str], tuple[str, str]]  # a figure and its ends: node, scope


class Figure(NamedTuple):
    """One scope of a trial, in Gb/s; 0 of a hang."""

    value: float  # both ways at once, else the mean of the ways
    ways: tuple[float, ...] = ()  # forth and back, where each was measured


class View(NamedTuple):
    """One trial that says something."""

    round: int
    a: str
    b: str
    scopes: Mapping[str, Figure]
    hung: bool
    times: Mapping[str, tuple[float, ...]]

    def other(self, node: str) -> str:
        return self.b if node == self.a else self.a


class Like(NamedTuple):
    value: float
    cut: float  # suspect below this share of it


class History:
    """Every round so far."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.views: list[View] = []
        self.by_node: dict[str, list[View]] = defaultdict(list)
        self.failed: dict[str, list[str]] = defaultdict(list)  # node -> how its launches failed
        self.rounds = self.trials = 0
        self.barren = 0  # rounds without a figure, one after the other
        self.leaves = dict(fleet.leaves)  # end -> its leaf; of all rails at once, where they share one
        self.ends: dict[str, list[tuple[str, str]]] = defaultdict(list)  # leaf -> its (node, scope)
        for node in fleet.nodes if fleet.leaves else ():
            found = {fleet.leaves.get((node, rail), "") for rail in fleet.rails}
            self.leaves[node, WHOLE] = found.pop() if len(found) == 1 else ""
        for end, leaf in self.leaves.items():
            self.ends[leaf].append(end)

    def add(self, round_: Round, results: Sequence[Result]) -> None:
        self.rounds = round_.number
        self.trials += len(round_.trials)
        before = len(self.views)
        for trial, result in zip(round_.trials, results, strict=True):
            rows: dict[str, dict[str, float]] = defaultdict(dict)
            for ask, samples in zip(trial.asks, result.figures or ((),) * len(trial.asks), strict=True):
                if samples or result.failure == "hang":
                    rows[WHOLE if len(ask.rails) > 1 else ask.rails[0]][ask.way] = median(samples) if samples else 0.0
            if rows:
                scopes = {scope: _figure(row) for scope, row in rows.items()}
                self.views.append(View(round_.number, trial.nodes[0], trial.nodes[1], scopes, result.failure == "hang", result.times))
                for node in trial.nodes:
                    self.by_node[node].append(self.views[-1])
            else:
                for node in (result.where,) if result.where in trial.nodes else trial.nodes:
                    self.failed[node].append(result.failure)
        self.barren = self.barren + 1 if len(self.views) == before else 0

    def leaf_of(self, node: str, scope: str = WHOLE) -> str:
        """Of all rails by the first: where each rail has its own switches, nodes of one row share all of them."""
        return self.fleet.leaves.get((node, scope or self.fleet.rails[0]), "")

    def crosses(self, a: str, b: str, scope: str) -> bool:
        """Whether this pair's path leaves its leaf; where nobody knows, it may."""
        leaves = self.fleet.leaves
        return not leaves or any(leaves.get((a, rail)) != leaves.get((b, rail)) for rail in ((scope,) if scope else self.fleet.rails))


def _figure(row: Mapping[str, float]) -> Figure:
    """With nccl-tests both ways at once are as fast as the slower one, and of the ways alone only their ratio is known."""
    ways = tuple(row[way] for way in WAYS[:2] if way in row)
    value = row.get("both", sum(ways) / max(1, len(ways)))
    if len(ways) < 2:
        return Figure(value)
    return Figure(value, tuple(way * (value / (min(ways) or 1.0) if "both" in row else 1.0) for way in ways))


def likes(views: Iterable[View]) -> dict[str, Like]:
    """Scope -> its like. Where few nodes were measured, the rails are each other's like."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for view in views:
        for scope, figure in view.scopes.items():
            rows[scope].append((figure.value, (view.a, scope), (view.b, scope)))
    few = [scope for scope, found in rows.items() if scope and len({end for row in found for end in row[1:]}) < 4]
    alike = {scope: few if scope in few and len(few) > 2 else [scope] for scope in rows}
    return {scope: like for scope in rows if (like := _like([row for one in alike[scope] for row in rows[one]]))}


def _like(rows: list[Row]) -> Like | None:
    """Where the best figures of the fastest nodes lie: of three at least, and in a large fleet of six."""
    best = {end: value for value, *ends in sorted(rows) for end in ends if value > 0}
    tops = sorted(best.values(), reverse=True)
    if not tops:
        return None
    need = max(min(3, len(tops)), min(6, len(tops) // 100))
    value = next((tops[low] for low in range(len(tops) - need + 1) if tops[low + need - 1] * WINDOW >= tops[low]), tops[0]) / WINDOW**0.5
    alike = tops
    for _pass in range(3):
        alike = [row[0] for row in rows if value / WINDOW**0.5 <= row[0] <= value * WINDOW**0.5]
        value = median(alike) if alike else tops[0]
    spread = 1.4826 * median(abs(figure - value) for figure in alike) / value if len(alike) >= 20 else 0.0
    return Like(value, min(CUT, max(LOWEST_CUT, 1 - 3 * spread)))
