# SPDX-License-Identifier: GPL-3.0-or-later
"""Every figure against its like, and the wide parts that explain many slow ones at once: a leaf switch, the planes above. Pure.

A part predicts the share of its like that each measurement through it has. A node is then only compared with what the parts on its way let
through: behind a slow leaf its like are the other nodes there.
"""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from railwright.isolate import texts
from railwright.isolate.model import Evidence, Finding
from railwright.isolate.readings import CUT, ONE_WAY, SURE, WHOLE, History, Like, View, likes

End = tuple[str, str]  # node, scope
ENOUGH = 4  # slow measurements that a finding takes: an outlier in 200 does not come four times
PARTNERS = 3  # different good partners among them, where there are as many
SAME = 0.07  # three of four ends of a slow part are alike within it
ALL = 0.95  # of its ends are slow; one odd figure does not acquit it
# Pairs between good ends that were never fast, no two of one node: more than a few bad paths are, and this share of all trials.
PATHS, PATH_SHARE = 6, 0.05
AGAIN = 3  # of them were measured twice: an odd figure is none the second time. So many alone are a doubt, and nobody is blamed for a path.


class Grade(NamedTuple):
    """One trial on one scope, against its like."""

    place: int  # of its view in the history
    ends: tuple[End, End]
    crosses: bool  # its path leaves the leaf
    share: float  # of the slower way, where one is below all doubt
    like: Like
    view: View

    def far(self, end: End) -> End:
        return self.ends[self.ends[0] == end]


class Part(NamedTuple):
    """Many ends, slow alike."""

    share: float
    finding: Finding
    inside: bool | None = None  # whether a leaf is slow between two of its own nodes too; None: not measured
    sure: bool = True


class Grades:
    """``slow`` and ``good``: end -> the grades that say so."""

    def __init__(self, history: History) -> None:
        self.history, self.fleet = history, history.fleet
        self.planes: dict[str, Part] = {}  # by scope
        self.leaves: dict[str, Part] = {}
        self.behind: dict[End, Part] = {}  # end -> its slow leaf
        self.spine: Part | None = None  # one of several planes that share the load
        self.all: list[Grade] = []
        found = likes(history.views)
        for place, view in enumerate(history.views):
            for scope in view.scopes.keys() & found.keys():
                figure, like = view.scopes[scope], found[scope]
                share = min(figure.value / like.value, min(figure.ways, default=figure.value) / like.value + CUT - ONE_WAY)
                ends = ((view.a, scope), (view.b, scope))
                self.all.append(Grade(place, ends, history.crosses(view.a, view.b, scope), share, like, view))
        self.all.sort(key=lambda grade: grade[:2])
        self._grade()
        if self.fleet.leaves:
            self.planes = {scope: part for scope in found if (part := self._plane(scope))}
            self._grade()
            self.spine = self._spine()
            self.leaves = {leaf: part for leaf in history.ends if leaf and (part := self._leaf(leaf))}
            for leaf, part in self.leaves.items():
                for node, scope in history.ends[leaf]:
                    for end in ((node, scope), (node, WHOLE)):
                        self.behind[end] = min(part, self.behind.get(end, part), key=lambda one: one.share)
            self._grade()
        self.spine = self._spine()

    def own(self, end: End) -> float:
        """What the slow leaf of an end lets through; 1 where it has none."""
        return self.behind[end].share if end in self.behind else 1.0

    def expected(self, grade: Grade) -> tuple[float, float]:
        """What the leaves on its way let through, and what the planes do."""
        one, other = grade.ends
        if not grade.crosses:
            part = self.behind.get(one)
            return (1.0, 1.0) if part and not part.inside else (min(self.own(one), self.own(other)), 1.0)
        plane = self.planes.get(one[1])
        return min(self.own(one), self.own(other)), plane.share if plane else 1.0

    def share(self, grade: Grade) -> float:
        """Of what could be expected."""
        return grade.share / min(self.expected(grade))

    def evidence(self, end: End, grade: Grade) -> Evidence:
        figure = round(grade.view.scopes[end[1]].value, 4)
        return Evidence(grade.view.round, grade.far(end)[0], figure, round(grade.like.value, 4), grade in self.good.get(end, ()))

    def proven(self, end: End) -> bool:
        """All rails at once were fast: then each of them is, unless the slow leaf of one was all that could be seen."""
        whole = (end[0], WHOLE)
        return end in self.good or (whole in self.good and not self.planes and whole not in self.behind)

    def sound(self, end: End) -> list[Grade]:
        """The slow ones of an end whose partner proved good with another node."""
        return [grade for grade in self.slow.get(end, ()) if self.proven(grade.far(end))]

    def veiled(self, scope: str) -> bool:
        """A path to another leaf may be slow whoever is at its ends."""
        return self.spine is not None or scope in self.planes or WHOLE in self.planes

    def never_good(self, grade: Grade) -> bool:
        """Slow, and so was this path every time, while both of its ends were good with others."""
        one, other = grade.ends
        slow = one in self.good and other in self.good and grade in self.slow.get(one, ())
        return slow and not any(found.far(one) == other for found in self.good[one])

    def _grade(self) -> None:
        slow: dict[End, list[Grade]] = defaultdict(list)
        good: dict[End, list[Grade]] = defaultdict(list)
        for grade in self.all:
            leaves, plane = self.expected(grade)
            bad = grade.share < grade.like.cut * min(leaves, plane)
            for end in grade.ends if bad or plane >= leaves else ():  # as fast as a slow plane: that says nothing about its ends
                if leaves >= SURE * self.own(end):  # else its partner's leaf hides what it could do
                    (slow if bad else good)[end].append(grade)
        self.slow, self.good = dict(slow), dict(good)

    def _weigh(self, ends: list[End], *, alone: bool) -> tuple[dict[End, float], float, list[tuple[End, Grade]]] | None:
        """Nearly all ends are slow towards other leaves, and alike, in enough measurements. ``alone``: with partners that proved good."""
        best: dict[End, float] = {}
        proofs: dict[tuple[int, End], Grade] = {}
        acquitted = 0
        for end in ends:
            slow = [grade for grade in self.slow.get(end, ()) if grade.crosses]
            if any(grade.crosses for grade in self.good.get(end, ())):
                acquitted += 1
            elif slow:
                best[end] = max(grade.share for grade in slow)
                proofs.update({(grade.place, end): grade for grade in slow if not alone or self.proven(grade.far(end))})
        if len({node for node, _scope in best}) < PARTNERS or len(best) < ALL * (len(best) + acquitted):
            return None
        center = median(best.values())
        if center >= SURE or sum(abs(share - center) <= SAME for share in best.values()) * 4 < len(best) * 3:
            return None
        measured, partners = {(place, end[0]) for place, end in proofs}, {grade.far(end)[0] for (_place, end), grade in proofs.items()}
        if len(measured) < ENOUGH or len(partners) < PARTNERS:
            return None
        shown = {place: (end, proofs[place, end]) for place, end in sorted(proofs, reverse=True)}
        return best, center, list(shown.values())[::-1]

    def _inside(self, ends: list[End]) -> list[list[Grade]]:
        """Slow and good within the leaf."""
        return [[grade for end in ends for grade in found.get(end, ()) if not grade.crosses] for found in (self.slow, self.good)]

    def _plane(self, rail: str) -> Part | None:
        """Of all nodes; that it is none of them, paths within leaves say."""
        ends = [(node, rail) for node in self.fleet.nodes]
        good = {end for grade in self._inside(ends)[1] for end in grade.ends}
        found = self._weigh(ends, alone=False) if len(good) >= PATHS else None
        if not found or len(found[0]) < 2 * ENOUGH:
            return None
        _best, center, shown = found
        if set.intersection(*({self.history.leaf_of(*end) for end in grade.ends} for _end, grade in shown)):
            return None  # it may as well be that leaf
        return Part(center, texts.plane(rail, center, 1.0, self._path_rows([grade for _end, grade in shown[:PARTNERS]]), known=True))

    def _leaf(self, leaf: str) -> Part | None:
        """Others are good towards each other: below a slow plane everybody is fast within the leaf alone."""
        ends = self.history.ends[leaf]
        if not (found := self._weigh(ends, alone=True)):
            return None
        best, center, shown = found
        scopes = {scope for _node, scope in best}
        across = {end for end, grades in self.good.items() if end[1] in (*scopes, WHOLE) and any(grade.crosses for grade in grades)}
        slow, good = self._inside(ends)
        if not (len(across) > PARTNERS or scopes & self.planes.keys()) or (self.spine and (good or disjoint(slow) < 2)):
            return None
        inside = len(good) <= len(slow) if slow or good else None
        rows = tuple(self.evidence(*one) for one in shown[:PATHS])
        return Part(center, texts.leaf(leaf, tuple(dict.fromkeys(node for node, _scope in best)), center, rows, inside=inside), inside)

    def _spine(self) -> Part | None:
        """Slow paths between ends that are good with others, too many for bad pairs: some of the paths between leaves share a fault."""
        known, crossing = bool(self.fleet.leaves), [grade for grade in self.all if grade.crosses]
        slow = [grade for grade in crossing if self.never_good(grade)]
        places = {grade.place: grade for grade in slow}.values()
        apart, rate = disjoint(places), len(slow) / max(1, len(crossing))
        if apart < (AGAIN if known else PATHS) or len(places) < PATH_SHARE * len(self.history.views):
            return None
        pairs = [{grade.view.a, grade.view.b} for grade in places]
        again = disjoint(grade for grade, pair in zip(places, pairs, strict=True) if pairs.count(pair) > 1)
        share = median(map(self.share, slow))
        return Part(share, texts.plane(WHOLE, share, rate, self._path_rows(slow), known=known), sure=apart >= PATHS and again >= AGAIN)

    def _path_rows(self, grades: list[Grade]) -> tuple[Evidence, ...]:
        return tuple(self.evidence(grade.ends[0], grade)._replace(partner=f"{grade.view.a} {grade.view.b}") for grade in grades[:PATHS])


def disjoint(grades: Iterable[Grade]) -> int:
    """How many of them share no node."""
    used: set[str] = set()
    for grade in grades:
        nodes = {grade.view.a, grade.view.b}
        used |= nodes if not used & nodes else set()
    return len(used) // 2
