# SPDX-License-Identifier: GPL-3.0-or-later
"""Every figure against its like, and what explains many slow ones at once: a leaf switch, the planes above the leaves. Pure.

A node is only compared with what its leaf lets through: behind a slow leaf its like are the other nodes there.
"""

from collections import defaultdict
from typing import NamedTuple

from railwright.isolate.model import Evidence
from railwright.isolate.readings import WHOLE, WINDOW, History, Like, View, likes, median, shares, single

End = tuple[str, str]  # node, scope
ENOUGH = 4  # slow measurements that a finding takes: an outlier in 200 does not come four times
PARTNERS = 3  # different good partners among them, where there are as many
SURE = 0.945  # a finding's share of its like is below it
SAME = 0.07  # nodes behind one slow leaf are alike within it
ALL = 0.95  # of a leaf's ends; one odd figure does not acquit it
# Pairs between good ends that were never fast, no two of one node: more than a few bad paths are, and this share of all trials.
PATHS, PATH_SHARE = 6, 0.05
AGAIN = 3  # of them were measured twice: an odd figure is none the second time. So many alone are a doubt, and nobody is blamed for a path.


class SlowLeaf(NamedTuple):
    leaf: str
    share: float
    nodes: tuple[str, ...]  # measured
    inside: bool | None  # whether it is slow between two of its own nodes too; None: not measured
    evidence: tuple[Evidence, ...]
    like: float


class SlowPlane(NamedTuple):
    scope: str  # '' of all rails, or of some paths of any
    share: float
    paths: float  # the share of paths that are slow: 1 of a plane, less of one of several that share the load
    evidence: tuple[Evidence, ...]
    known: bool  # the inventory says which paths leave a leaf
    sure: bool = True


class Grades:
    """``bad`` and ``good``: end -> the views that say so, by their place in the history."""

    def __init__(self, history: History) -> None:
        self.history, self.fleet = history, history.fleet
        self.likes = likes(history.views)
        self.by_class: dict[tuple[str, bool], Like] = {}
        self.planes: list[SlowPlane] = []
        self.leaves: dict[str, SlowLeaf] = {}
        self.spine: SlowPlane | None = None
        self.bad: dict[End, list[int]] = {}
        self.good: dict[End, list[int]] = {}
        self._across: dict[str, bool] = {}
        if self.fleet.leaves:
            self._find_planes()
        self._grade()
        self._find_spine()
        if self.fleet.leaves:
            self._find_leaves()

    def like(self, view: View, scope: str) -> Like | None:
        if self.by_class:
            found = self.by_class.get((scope, self.history.crosses(view.a, view.b, scope)))
            if found is not None:
                return found
        return self.likes.get(scope)

    def slow_leaf(self, node: str, scope: str) -> float:
        """What the slow leaf of an end lets through; 1 where it has none."""
        if not self.leaves:
            return 1.0
        rails = (scope,) if scope else self.fleet.rails
        found = [self.leaves[leaf].share for rail in rails if (leaf := self.fleet.leaves.get((node, rail))) in self.leaves]
        return min(found, default=1.0)

    def expected(self, view: View, scope: str) -> float:
        """What the leaves on the way let through."""
        if not self.leaves or self._only_up(view, scope):
            return 1.0
        return min(self.slow_leaf(view.a, scope), self.slow_leaf(view.b, scope))

    def share(self, place: int, scope: str) -> tuple[float, float | None, float | None]:
        """Of its like, and each way."""
        view = self.history.views[place]
        like = self.like(view, scope)
        return shares(view.scopes[scope], like.value * self.expected(view, scope)) if like else (1.0, None, None)

    def evidence(self, node: str, place: int, scope: str) -> Evidence:
        view = self.history.views[place]
        like = self.like(view, scope)
        value = like.value if like else 0.0
        good = place in self.good.get((node, scope), ())
        return Evidence(view.round, view.other(node), round(single(view.scopes[scope]), 1), round(value, 1), good)

    def proven(self, node: str, scope: str) -> bool:
        """All rails at once were fast: then each of them is, unless the slow leaf of one was all that could be seen."""
        return (node, scope) in self.good or ((node, WHOLE) in self.good and not self.by_class and self.slow_leaf(node, WHOLE) == 1)

    def sound(self, node: str, scope: str) -> list[int]:
        """The slow measurements of an end whose partner proved good with another node."""
        views = self.history.views
        return [place for place in self.bad.get((node, scope), ()) if self.proven(views[place].other(node), scope)]

    def hidden(self, view: View, scope: str) -> bool:
        """Its path crosses a slow plane: that it is as fast as others there says nothing about its ends."""
        return bool(self.by_class) and (scope, True) in self.by_class and self.history.crosses(view.a, view.b, scope)

    def veiled(self, scope: str) -> bool:
        """A path to another leaf may be slow whoever is at its ends."""
        return self.spine is not None or (scope, True) in self.by_class or (WHOLE, True) in self.by_class

    def _only_up(self, view: View, scope: str) -> bool:
        """Both behind one leaf that is slow only towards others."""
        if self.history.crosses(view.a, view.b, scope):
            return False
        leaf = self.leaves.get(self.fleet.leaves.get((view.a, scope or self.fleet.rails[0]), ""))
        return leaf is not None and leaf.inside is False

    def _grade(self) -> None:
        bad: dict[End, list[int]] = defaultdict(list)
        good: dict[End, list[int]] = defaultdict(list)
        for place, view in enumerate(self.history.views):
            for scope, row in view.scopes.items():
                like = self.like(view, scope)
                if like is None:
                    continue
                sides: tuple[str, ...] = (view.a, view.b)
                value = like.value
                if self.leaves:
                    value *= self.expected(view, scope)
                    sides = self._seen(view, scope)
                share, forth, back = shares(row, value)
                slow = share < like.cut or (row[2] is None and forth is not None and back is not None and min(forth, back) < like.one_way)
                target = bad if slow else good
                if not slow and self.hidden(view, scope):
                    continue
                for node in sides:
                    target[node, scope].append(place)
        self.bad, self.good = dict(bad), dict(good)

    def _seen(self, view: View, scope: str) -> tuple[str, ...]:
        """The ends that a view says something about: behind a slow leaf a partner hides what the other end could do."""
        if self._only_up(view, scope):
            return (view.a, view.b)
        left, right = self.slow_leaf(view.a, scope), self.slow_leaf(view.b, scope)
        return tuple(node for node, own, other in ((view.a, left, right), (view.b, right, left)) if other >= own * SURE)

    def _find_planes(self) -> None:
        """A rail whose paths between leaves are slow, while those within a leaf are not."""
        views = self.history.views
        sorts: dict[bool, list[View]] = {True: [], False: []}
        for view in views:
            for crossing in (True, False):
                scopes = {scope: row for scope, row in view.scopes.items() if self.history.crosses(view.a, view.b, scope) is crossing}
                if scopes:
                    sorts[crossing].append(view._replace(scopes=scopes) if len(scopes) < len(view.scopes) else view)
        inside, across = likes(sorts[False]), likes(sorts[True])
        for scope, like in across.items():
            other = inside.get(scope)
            if other is None or len(other.fast) < PATHS or like.value >= SURE * other.value:
                continue
            seen = [view for view in sorts[True] if scope in view.scopes]
            same = [view for view in seen if abs(single(view.scopes[scope]) / like.value - 1) <= SAME]
            fast = any(single(view.scopes[scope]) >= other.cut * other.value for view in seen)
            if fast or self._disjoint(same) < ENOUGH or set.intersection(*map(self._leaves_of, same)):
                continue
            for crossing, found in ((True, like), (False, other)):
                self.by_class[scope, crossing] = found
            rows = tuple(Evidence(view.round, f"{view.a} {view.b}", round(single(view.scopes[scope]), 1), round(other.value, 1), False)
                         for view in seen[:PARTNERS])  # fmt: skip
            self.planes = [plane for plane in self.planes if plane.scope]  # one of the rails is what is slow of all
            self.planes.append(SlowPlane(scope, like.value / other.value, 1.0, rows, True))

    def _find_leaves(self) -> None:
        suspects: dict[str, int] = defaultdict(int)
        for node, scope in self.bad:
            leaf = self.history.leaf_of(node, scope)
            if leaf:
                suspects[leaf] += 1
        found = {}
        for leaf, count in suspects.items():
            if count >= 3 and (slow := self._slow_leaf(leaf)):
                found[leaf] = slow
        if found:
            self.leaves = found
            self._grade()
            self.spine = None
            self._find_spine()

    def _slow_leaf(self, leaf: str) -> SlowLeaf | None:
        """Every end at it is slow towards other leaves, and alike, with partners that are good."""
        best: dict[End, float] = {}
        acquitted, sound, within = 0, [], []
        for end in self.history.ends[leaf]:
            if (end[1], True) in self.by_class:
                continue  # behind a slow plane
            slow = [place for place in self.bad.get(end, ()) if self.crosses(place, end[1])]
            within += [(place in self.good.get(end, ()), place) for kind in (self.bad, self.good) for place in kind.get(end, ())
                       if not self.crosses(place, end[1])]  # fmt: skip
            if any(self.crosses(place, end[1]) for place in self.good.get(end, ())):
                acquitted += 1
            elif slow:
                best[end] = max(self.share(place, end[1])[0] for place in slow)
                sound += [(end, place) for place in self.sound(*end) if self.crosses(place, end[1]) and self._good_across(end[1])]
        nodes = tuple(dict.fromkeys(node for node, _scope in best))
        partners = {self.history.views[place].other(end[0]) for end, place in sound}
        proofs = {(end[0], place) for end, place in sound}
        if len(nodes) < 3 or len(best) < ALL * (len(best) + acquitted) or len(proofs) < ENOUGH or len(partners) < PARTNERS:
            return None
        center = median(list(best.values()))
        if center >= SURE or sum(abs(share - center) <= SAME for share in best.values()) * 4 < len(best) * 3:
            return None
        shown = {place: end for end, place in reversed(sound)}
        rows = tuple(self.evidence(end[0], place, end[1]) for place, end in sorted(shown.items())[:6])
        inside = None if not within else sum(good for good, _place in within) * 2 <= len(within)
        if self.spine and (not inside or self._disjoint(self._views([place for good, place in within if not good])) < 2):
            return None
        return SlowLeaf(leaf, center, nodes, inside, rows, rows[0].like)

    def _good_across(self, scope: str) -> bool:
        """Others are good towards each other: below a slow plane everybody is fast within the leaf alone."""
        if scope not in self._across:
            good = {place for (_node, one), places in self.good.items() if one in (scope, WHOLE) for place in places}
            self._across[scope] = sum(self.crosses(place, scope) for place in good) >= PARTNERS
        return self._across[scope]

    def crosses(self, place: int, scope: str) -> bool:
        view = self.history.views[place]
        return self.history.crosses(view.a, view.b, scope)

    def _find_spine(self) -> None:
        """Slow paths between ends that are good with others, too many for bad pairs: some of the paths between leaves share a fault."""
        mixed = {end for end in self.bad if end in self.good}
        if len(mixed) < 2 * AGAIN:
            return
        known = bool(self.fleet.leaves)
        slow: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
        totals = {True: 0, False: 0}
        for place, view in enumerate(self.history.views):
            for scope in view.scopes:
                across = not known or self.history.crosses(view.a, view.b, scope)
                totals[across] += 1
                if (view.a, scope) in mixed and (view.b, scope) in mixed and self._never_fast(place, scope):
                    slow[across].append((place, scope))
        places = list(dict.fromkeys(place for place, _scope in slow[True]))
        rate = len(slow[True]) / max(1, totals[True])
        trials = len(places) / max(1, len(self.history.views))
        disjoint = self._disjoint(self._views(places))
        if disjoint < (AGAIN if known else PATHS) or trials < PATH_SHARE or (known and len(slow[False]) * 3 > rate * totals[False]):
            return
        if known and self._one_leaf(places):
            return
        views = self.history.views
        pairs = [frozenset((views[place].a, views[place].b)) for place in places]
        again = [place for place, pair in zip(places, pairs, strict=True) if pairs.count(pair) > 1]
        share = median([self.share(place, scope)[0] for place, scope in slow[True]])
        rows = tuple(self.evidence(views[place].a, place, scope)._replace(partner=f"{views[place].a} {views[place].b}")
                     for place, scope in slow[True][:6])  # fmt: skip
        self.spine = SlowPlane(WHOLE, share, rate, rows, known, min(disjoint - PATHS, self._disjoint(self._views(again)) - AGAIN) >= 0)

    def _never_fast(self, place: int, scope: str) -> bool:
        view = self.history.views[place]
        good = self.good[view.a, scope]
        return place in self.bad[view.a, scope] and not any(self.history.views[one].other(view.a) == view.b for one in good)

    @staticmethod
    def _disjoint(views: list[View]) -> int:
        used: set[str] = set()
        for view in views:
            if not {view.a, view.b} & used:
                used |= {view.a, view.b}
        return len(used) // 2

    def _one_leaf(self, places: list[int]) -> bool:
        """One leaf's way up explains all of them; where there are few leaves that is chance."""
        return len(set(self.fleet.leaves.values())) > PATHS and bool(set.intersection(*map(self._leaves_of, self._views(places))))

    def _leaves_of(self, view: View) -> set[str]:
        return {self.fleet.leaves.get((node, self.fleet.rails[0]), "") for node in (view.a, view.b)}

    def _views(self, places: list[int]) -> list[View]:
        return [self.history.views[place] for place in places]


def alike(values: list[float]) -> bool:
    return max(values) <= min(values) * WINDOW
