# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of all rounds so far, and which of them are slower than their like. Pure.

A scope is a rail, or all rails at once (''), which is what nccl-tests measures first. The like of a figure are those of the same scope.
What counts as normal is what the fast nodes reach: a slow partner makes a figure slow, never fast. So even where more than half of all
pairs hold a slow end, the figures of the good ones are known. Nobody is blamed where fewer than half of the nodes are fast (judge.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from railwright.isolate.model import Fleet, Result, Round

WHOLE = ""
# Below it a figure is suspect: between a healthy part (1) and one at nine tenths, by noise of 3 % and the samples below (docs/isolate.md).
CUT, ONE_WAY = 0.955, 0.94
LOWEST_CUT = 0.8  # however much the figures scatter
WINDOW = 1.1  # figures within a tenth of each other are alike
SAMPLES = {"perftest": 5, "nccl": 9}


class View(NamedTuple):
    """One trial that says something."""

    round: int
    a: str
    b: str
    scopes: Mapping[str, tuple[float | None, float | None, float | None]]  # forth (a to b), back, both; 0.0 of a hang
    hung: bool
    times: Mapping[str, tuple[float, ...]]

    def other(self, node: str) -> str:
        return self.b if node == self.a else self.a


class Like(NamedTuple):
    value: float
    cut: float  # suspect below this share of it
    one_way: float
    fast: frozenset[str]  # the nodes that reach it


class History:
    """Every round so far; a round whose launch hung as a whole says nothing, and is asked again, each trial in a launch of its own."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.views: list[View] = []
        self.by_node: dict[str, list[int]] = defaultdict(list)
        self.failed: dict[str, list[str]] = defaultdict(list)  # node -> how its launches failed
        self.rounds = self.trials = 0
        self.barren = 0  # rounds without a figure, one after the other
        self.apart = False
        self.again: Round | None = None
        self.one_leaf: dict[str, str] = {}  # node -> the leaf of all its rails, where they share one
        self.ends: dict[str, list[tuple[str, str]]] = defaultdict(list)  # leaf -> its (node, scope)
        for node in fleet.nodes:
            found = {fleet.leaves.get((node, rail), "") for rail in fleet.rails}
            self.one_leaf[node] = found.pop() if len(found) == 1 else ""
            self.ends[self.one_leaf[node]].append((node, WHOLE))
        for (node, rail), leaf in fleet.leaves.items():
            self.ends[leaf].append((node, rail))

    def leaf_of(self, node: str, scope: str) -> str:
        return self.fleet.leaves.get((node, scope), "") if scope else self.one_leaf[node]

    def add(self, round_: Round, results: Sequence[Result]) -> None:
        self.rounds, self.again = round_.number, None
        self.trials += len(round_.trials)
        hangs = sum(result.failure == "hang" for result in results)
        if self.fleet.tool == "nccl" and not round_.apart and len(results) > 1 and hangs * 2 > len(results):
            self.apart, self.again = True, round_
            return
        before = len(self.views)
        for trial, result in zip(round_.trials, results, strict=True):
            scopes: dict[str, list[float | None]] = {}
            for ask, samples in zip(trial.asks, result.figures or ((),) * len(trial.asks), strict=True):
                if samples or result.failure == "hang":
                    scope = WHOLE if len(ask.rails) > 1 else ask.rails[0]
                    row = scopes.setdefault(scope, [None, None, None])
                    row[_PLACE[ask.way]] = median(samples) if samples else 0.0
            if not scopes:
                for node in (result.where,) if result.where in trial.nodes else trial.nodes:
                    self.failed[node].append(result.failure)
                continue
            for node in trial.nodes:
                self.by_node[node].append(len(self.views))
            rows = {scope: (row[0], row[1], row[2]) for scope, row in scopes.items()}
            self.views.append(View(round_.number, trial.nodes[0], trial.nodes[1], rows, result.failure == "hang", result.times))
        self.barren = self.barren + 1 if len(self.views) == before else 0

    def crosses(self, a: str, b: str, scope: str) -> bool:
        """Whether this pair's path leaves its leaf."""
        leaves = self.fleet.leaves
        if scope:
            return leaves.get((a, scope)) != leaves.get((b, scope))
        return any(leaves.get((a, rail)) != leaves.get((b, rail)) for rail in self.fleet.rails)


_PLACE = {"forth": 0, "back": 1, "both": 2}


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def single(row: tuple[float | None, float | None, float | None]) -> float:
    """One figure of a scope: both ways at once, else the mean of the ways."""
    forth, back, both = row
    if both is not None:
        return both
    if forth is None or back is None:
        return (forth if back is None else back) or 0.0
    return (forth + back) / 2


def likes(views: Iterable[View]) -> dict[str, Like]:
    """Scope -> its like. Where few nodes were measured, the rails are each other's like."""
    best: dict[str, dict[str, float]] = defaultdict(dict)
    values: dict[str, list[float]] = defaultdict(list)
    for view in views:
        for scope, row in view.scopes.items():
            value = single(row)
            values[scope].append(value)
            reached = best[scope]
            for node in (view.a, view.b):
                if value > reached.get(node, 0.0):
                    reached[node] = value
    found = {}
    pooled = [scope for scope in best if scope and len(best[scope]) < 4]
    for scope, reached in best.items():
        if scope in pooled and len(pooled) > 2:
            found[scope] = _like([top for rail in pooled for top in best[rail].values()], [v for r in pooled for v in values[r]], reached)
        else:
            found[scope] = _like(list(reached.values()), values[scope], reached)
    return {scope: like for scope, like in found.items() if like is not None}


def _like(tops: list[float], values: list[float], reached: Mapping[str, float]) -> Like | None:
    """Where the best figures of the fastest nodes lie, one in a hundred at least, and three."""
    tops = sorted((top for top in tops if top > 0), reverse=True)
    if not tops:
        return None
    need = max(min(3, len(tops)), -(-len(tops) // 100))
    value = next((tops[low] for low in range(len(tops) - need + 1) if tops[low + need - 1] * WINDOW >= tops[low]), tops[0]) / WINDOW**0.5
    alike: list[float] = []
    for _pass in range(3):
        alike = [figure for figure in values if value / WINDOW**0.5 <= figure <= value * WINDOW**0.5]
        value = median(alike) if alike else tops[0]
    cut, one_way = CUT, ONE_WAY
    if len(alike) >= 20:
        spread = 1.4826 * median([abs(figure - value) for figure in alike]) / value
        cut = min(cut, max(LOWEST_CUT, 1 - 3 * spread))
        one_way = min(one_way, cut - (CUT - ONE_WAY))
    return Like(value, cut, one_way, frozenset(node for node, top in reached.items() if top >= value * cut))


def shares(row: tuple[float | None, float | None, float | None], like: float) -> tuple[float, float | None, float | None]:
    """Of its like: the scope, and each way where each was measured alone (with nccl-tests, of the faster way)."""
    forth, back, both = row
    if forth is None or back is None:
        return single(row) / like, None, None
    if both is None:
        return single(row) / like, forth / like, back / like
    top = max(forth, back) or 1.0
    return both / like, forth / top, back / top
