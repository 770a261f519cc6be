# SPDX-License-Identifier: GPL-3.0-or-later
"""From everything measured: what is found, and what must be measured next to find the rest. Pure; every round judges anew from all rounds.

An end (a node on a scope) is slow when it was slow every time, at least four times, with three partners that were good with others (two,
where there are no more), one of them behind its own leaf. One good measurement acquits it; then its path or a flapping link is suspected,
and each has to be shown, too.
"""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from railwright.isolate import texts
from railwright.isolate.grades import ENOUGH, PARTNERS, SURE, End, Grades, alike
from railwright.isolate.model import Evidence, Finding
from railwright.isolate.readings import CUT, WHOLE, History, median

GOOD_IN_A_ROW, GOOD_IN_ALL = 3, 4  # they end the suspicion of a flapping link
FLAP_ROUNDS = 6  # by then a link that flaps has shown it, or cannot be told from odd figures
TRIES = 3  # launches of a node that fail; a hang is none
LATE = 0.95  # of the others' time in a collective: who comes last waits for nobody
SMALL, FEW = 8, 16  # nodes: up to so many, three or two measurements of each say who is fast


class Want(NamedTuple):
    """A measurement that an open question needs: with that partner, or with any good one."""

    node: str
    partner: str = ""
    near: bool = False  # a partner behind the same leaf tells more


class Judgement(NamedTuple):
    findings: tuple[Finding, ...]
    wants: tuple[Want, ...]
    good: frozenset[str]  # partners
    suspect_rails: dict[str, tuple[str, ...]]  # node -> rails to measure each way


def judge(history: History, *, final: bool = False) -> Judgement:
    """``final``: no further round comes, so what is open is said to be unclear."""
    return _Judge(history, final=final).judge()


class _Judge:
    def __init__(self, history: History, *, final: bool) -> None:
        self.history, self.fleet, self.final = history, history.fleet, final
        self.grades = Grades(history)
        self.findings: list[Finding] = []
        self.wants: dict[str, Want] = {}
        self.open: dict[str, list[str]] = defaultdict(list)  # node -> scopes that nothing explains yet
        self.guilty: set[str] = set()
        self.odd: set[str] = set()
        self.flapping: set[End] = set()

    def judge(self) -> Judgement:
        self._big()
        slow, mixed = self._ends()
        self._nodes(slow)
        self._paths(mixed, slow)
        self._unseen()
        if self.final:
            self._unclear()
        return Judgement(tuple(self.findings), tuple(self.wants.values()), self._good(), self._suspect_rails())

    def _big(self) -> None:
        for plane in [*self.grades.planes, *([self.grades.spine] if self.grades.spine and self.grades.spine.sure else [])]:
            self.findings.append(texts.plane(plane))
        for slow in self.grades.leaves.values():
            self.findings.append(texts.leaf(slow))
            if slow.inside is None and not self.final:
                pairs = list(zip(slow.nodes[::2], slow.nodes[1::2], strict=False))[:2]
                self.wants.update({one: Want(one, other) for one, other in pairs})

    def _ends(self) -> tuple[dict[str, list[str]], list[End]]:
        """Nodes with their slow scopes; and the ends that were slow and fast. What is neither yet, is wanted again."""
        slow: dict[str, list[str]] = defaultdict(list)
        mixed = []
        for node, scope in self.grades.bad:
            if (node, scope) in self.grades.good:
                mixed.append((node, scope))
            elif self._slow(node, scope):
                slow[node].append(scope)
            elif not self.grades.proven(node, scope):  # fast on all rails at once, it was slow by its partner
                self.open[node].append(scope)
        if self.fleet.tool == "nccl" and len(self.fleet.rails) > 1:
            for node in [node for node in slow if WHOLE not in slow[node]]:
                self.open[node] += [scope for scope in slow[node] if len(self.grades.bad[node, scope]) < ENOUGH]
                slow[node] = [scope for scope in slow[node] if len(self.grades.bad[node, scope]) >= ENOUGH]
        for node, scopes in self.open.items():
            if not slow.get(node) and self._can_learn(node, scopes):
                self.wants.setdefault(node, Want(node, near=self._near(node, scopes)))
        return {node: scopes for node, scopes in slow.items() if scopes}, mixed

    def _slow(self, node: str, scope: str) -> bool:
        grades, views = self.grades, self.history.views
        bad, sound = grades.bad[node, scope], grades.sound(node, scope)
        if self._needs_near(node, scope):
            return False
        if grades.veiled(scope) and self.fleet.leaves:
            sound = [place for place in sound if not grades.crosses(place, scope)]
            if len(sound) < ENOUGH - 1:
                return False
        fast = sum(grades.proven(other, scope) for other in self.history.by_node) if len(bad) >= ENOUGH - 1 else 0
        enough = ENOUGH - 1 if scope and self.fleet.tool == "nccl" and len(self.fleet.rails) > 1 else ENOUGH
        partners = {views[place].other(node) for place in sound}
        if len(bad) < enough or len(partners) < max(2, min(PARTNERS, fast)) or fast * 2 < len(self.history.by_node) - 1:
            return False
        if grades.spine and not self.fleet.leaves:
            return False
        rows = [grades.share(place, scope) for place in bad]
        series = [[row[0] for row in rows], *self._by_way(node, scope).values()]
        return any(max(values) < CUT and median(values) < SURE for values in series if len(values) == len(rows))

    def _can_learn(self, node: str, scopes: list[str]) -> bool:
        """More of the same changes nothing: every partner has been tried, often enough."""
        views, tried = self.history.views, self.history.by_node[node]
        partners = {views[place].other(node) for place in tried}
        return len(partners) < len(self.fleet.nodes) - 1 or any(len(self.grades.bad[node, scope]) < ENOUGH for scope in scopes)

    def _nodes(self, slow: dict[str, list[str]]) -> None:
        for node, scopes in slow.items():
            self.guilty.add(node)
            rails = [scope for scope in scopes if scope]
            if WHOLE in scopes and not rails and (some := [scope for scope in self.open.get(node, ()) if scope]):
                if not self.final:
                    self.wants[node] = Want(node, near=self._near(node, some))
                    continue
                rails = some
            places = {scope: self.grades.bad[node, scope] for scope in {*scopes, *rails}}
            shares = {scope: median([self.grades.share(place, scope)[0] for place in found]) for scope, found in places.items()}
            seen = sum(rail in rails or not self._behind(node, rail) for rail in self.fleet.rails)
            every = not rails or (len(rails) >= seen and len(rails) >= min(2, len(self.fleet.rails)))
            if all(self.history.views[place].hung for scope in scopes for place in places[scope]) and (len(rails) != 1 or every):
                self._blame(texts.hang(node, self._rows(node, scopes[0])), node)
            elif (gpu := self._late(node, places[scopes[0]])) is not None:
                self._blame(texts.late_gpu(node, gpu, shares[scopes[0]], self._rows(node, scopes[0])), node)
            elif every:
                self._whole_node(node, rails or [WHOLE], shares)
            else:
                for rail in rails:
                    self._blame(self._rail(node, rail, shares[rail], others=len(rails) < len(self.fleet.rails)), node)

    def _behind(self, node: str, rail: str) -> bool:
        """Something slower hides what this end could do."""
        return self.grades.slow_leaf(node, rail) < 1 or (rail, True) in self.grades.by_class

    def _whole_node(self, node: str, scopes: list[str], shares: dict[str, float]) -> None:
        """Every rail is slow: the node, unless its leaf has nobody else. A rail that is slower than the others is said too."""
        ways = {texts.way_of(self._ways(node, scope)) for scope in scopes}
        center = median([shares[scope] for scope in scopes])
        way = ways.pop() if len(ways) == 1 else ""
        if way and len(scopes) == 1:
            self._blame(self._rail(node, scopes[0], center, others=False), node)
            return
        self._blame(texts.node(node, scopes, center, way, self._rows(node, scopes[0])), node)
        for scope in scopes if len(scopes) > 2 else []:
            if shares[scope] < SURE * center:
                self._blame(self._rail(node, scope, shares[scope], others=False), node)

    def _blame(self, finding: Finding, node: str) -> None:
        """A node that is alone behind its leaf, or whose leaf's few nodes are all slow alike, cannot be told from the leaf."""
        leaf = self.history.leaf_of(node, finding.rail)
        if leaf and finding.kind in ("node", "rail") and finding.way == "":
            mates = {other for other, scope in self.history.ends[leaf] if scope == finding.rail}
            if len(mates) < 3 and len(mates) < len(self.fleet.nodes) and self._all_slow(mates, finding.rail or self.fleet.rails[0]):
                finding = texts.node_or_leaf(finding, leaf, tuple(sorted(mates)))
                if finding in self.findings:
                    return
        self.findings.append(finding)

    def _all_slow(self, nodes: set[str], scope: str) -> bool:
        ends = [(node, scope) if (node, scope) in self.grades.bad else (node, WHOLE) for node in nodes]
        if not all(end in self.grades.bad and end not in self.grades.good for end in ends):
            return False
        return alike([max(self.grades.share(place, end[1])[0] for place in self.grades.bad[end]) or 0.01 for end in ends])

    def _rail(self, node: str, rail: str, share: float, *, others: bool) -> Finding:
        ways = self._ways(node, rail)
        way = texts.way_of(ways)
        hung = all(self.history.views[place].hung for place in self.grades.bad[node, rail])
        rows = self._rows(node, rail, way)
        return texts.rail(node, rail, ways[way] if way else share, way, rows, told=bool(ways), others=others, hung=hung)

    def _ways(self, node: str, scope: str) -> dict[str, float]:
        """out and in: each way's share of its like, where each was measured often enough."""
        found = self._by_way(node, scope)
        if len(found["out"]) < 2:
            return {}
        return {way: median(values) if max(values) < CUT else max(values) for way, values in found.items()}

    def _by_way(self, node: str, scope: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {"out": [], "in": []}
        for place in self.grades.bad[node, scope]:
            _share, forth, back = self.grades.share(place, scope)
            if forth is not None and back is not None:
                ahead = self.history.views[place].a == node
                found["out"].append(forth if ahead else back)
                found["in"].append(back if ahead else forth)
        return found

    def _rows(self, node: str, scope: str, way: str = "") -> tuple[Evidence, ...]:
        rows = []
        for place in sorted({*self.grades.bad.get((node, scope), ()), *self.grades.good.get((node, scope), ())}):
            row = self.grades.evidence(node, place, scope)
            view = self.history.views[place]
            forth, back, both = view.scopes[scope]
            one = forth if (view.a == node) == (way == "out") else back
            rows.append(row._replace(figure=round(one, 1)) if way and both is None and one is not None else row)
        return tuple(rows)

    def _late(self, node: str, places: list[int]) -> int | None:
        """The GPU that spent the least time in the collective, in three of four of the slow measurements: everyone else waited for it."""
        found: dict[int, int] = defaultdict(int)
        for place in places:
            times = self.history.views[place].times
            usual = median([one for of_node in times.values() for one in of_node] or [0.0])
            own = times.get(node, ())
            if own and min(own) < LATE * usual:
                found[own.index(min(own))] += 1
        gpu = max(found, key=lambda one: found[one], default=None)
        return gpu if gpu is not None and found[gpu] * 4 >= len(places) * 3 else None

    def _paths(self, mixed: list[End], guilty: dict[str, list[str]]) -> None:
        """Ends that were slow and fast: a bad path, a flapping link, or one odd figure. What a slow or suspect partner explains is none."""
        between = self._between(mixed, guilty)
        pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (node, scope), partners in between.items():
            other = max(partners, key=partners.count)
            back = between.get((other, scope), [])
            alone = all(found.count(one) + 1 >= len(found) for found, one in ((partners, other), (back, node)))
            if node < other and node in back and alone and self._never_good(node, other, scope):
                pairs[node, other].append(scope)
        for (one, other), scopes in pairs.items():
            self._pair(one, other, scopes)
            for scope in scopes:
                between.pop((one, scope), None)
                between.pop((other, scope), None)
        self._flapping(between)

    def _between(self, mixed: list[End], guilty: dict[str, list[str]]) -> dict[End, list[str]]:
        """End -> the good partners that it was slow with, as often as it was."""
        found: dict[End, list[str]] = {}
        for node, scope in mixed:
            partners = [self.history.views[place].other(node) for place in self.grades.sound(node, scope)]
            partners = [other for other in partners if scope not in guilty.get(other, ()) and not self.open.get(other)]
            if partners and not self.open.get(node) and not (self.grades.spine and self.grades.spine.sure) and node not in self.guilty:
                found[node, scope] = partners
        return found

    def _flapping(self, between: dict[End, list[str]]) -> None:
        flapping = defaultdict(list)
        for node, scope in sorted(between, key=lambda end: -len(between[end])):  # the one that others' slow figures lead to comes first
            if self._flaps(node, scope):
                flapping[node].append(scope)
                self.flapping.add((node, scope))
        for node, ends in flapping.items():
            single = [scope for one, scope in self.grades.bad if one == node and scope]  # which rail it is, they say alone
            scopes = single or ends if WHOLE in ends else ends
            every = len(scopes) == len(self.fleet.rails) or scopes == [WHOLE]
            self.guilty.add(node)
            for scope in scopes[:1] if every else scopes:
                self.findings.append(texts.flapping(node, "" if every else scope, self._rows(node, scope)))

    def _never_good(self, one: str, other: str, scope: str) -> bool:
        return not any(self.history.views[place].other(one) == other for place in self.grades.good.get((one, scope), ()))

    def _pair(self, one: str, other: str, scopes: list[str]) -> None:
        """Measured again and again with each other, and meanwhile each with others."""
        views = self.history.views
        times = {scope: sum(views[place].other(one) == other for place in self.grades.bad[one, scope]) for scope in scopes}
        short = [node for node in (one, other) if len({views[place].other(node) for place in self.grades.good[node, scopes[0]]}) < 2]
        found, most = [scope for scope in scopes if times[scope] >= ENOUGH], max(times.values())
        if found and not (short and len(self.fleet.nodes) > 3):
            share = median([self.grades.share(place, found[0])[0] for place in self.grades.bad[one, found[0]]])
            self.guilty |= {one, other}
            self.findings.append(texts.pair(one, other, found, share, self._rows(one, found[0])))
        elif self.final or (self.history.rounds >= FLAP_ROUNDS and most < ENOUGH - 1):
            if self.final and most > 1:
                self.findings.append(texts.unclear((one, other), scopes, most, self._rows(one, scopes[0]), len(self.fleet.nodes)))
        elif short and most >= ENOUGH - 1:
            self.wants.update({node: Want(node) for node in short})
        else:
            self.wants[one] = Want(one, other)
            self.wants.pop(other, None)

    def _flaps(self, node: str, scope: str) -> bool:
        """True when it does; while that is open, it is measured again."""
        views, good = self.history.views, self.grades.good[node, scope]
        bad = [place for place in self.grades.sound(node, scope) if (views[place].other(node), scope) not in self.flapping]
        if not bad:
            return False
        order = sorted([*bad, *good])
        deep = median([self.grades.share(place, scope)[0] for place in bad]) < SURE - 0.03
        turns = sum((one in good) != (other in good) for one, other in pairwise(order))
        if self.grades.veiled(scope):
            return False
        slow, fast = ({views[place].other(node) for place in places} for places in (bad, good))
        changed = slow & fast  # a path that is slow stays so: with one partner it must have been both
        lone = deep and self._lone(node, scope, bad)
        if len(bad) >= ENOUGH - lone and turns > 1 and deep and changed and len(slow) > 1:
            return True
        since = len([place for place in good if place > bad[-1]])
        if since >= GOOD_IN_A_ROW or len(good) >= GOOD_IN_ALL:
            return False
        if (self.history.rounds >= FLAP_ROUNDS and not (lone and len(bad) > 1)) or self.final:
            if len(bad) >= ENOUGH - 1:
                self.odd.add(node)
            return False
        self.wants.setdefault(node, Want(node, "" if changed or len(fast) < 2 else views[bad[-1]].other(node)))
        return False

    def _lone(self, node: str, scope: str, places: list[int]) -> bool:
        """The node's other rails were good in these very measurements, so nothing that slows a whole trial made them slow."""
        good = self.grades.good
        return all(
            any(one not in (scope, WHOLE) and place in good.get((node, one), ()) for one in self.history.views[place].scopes)
            for place in places
        )

    def _unseen(self) -> None:
        """Nodes that were not measured on every rail; in a small fleet, nodes that have not met enough others."""
        scopes = [WHOLE] if self.fleet.tool == "nccl" and len(self.fleet.rails) > 1 else list(self.fleet.rails)
        count = len(self.fleet.nodes)
        meetings = min(count - 1, 3 if count <= SMALL else 2 if count <= FEW else 1)
        for node in self.fleet.nodes:
            met = len(self.history.by_node[node]) if node in self.history.by_node else 0
            missing = [scope for scope in scopes if (node, scope) not in self.grades.good and (node, scope) not in self.grades.bad]
            if met and not self._mates(node):
                missing = [scope for scope in missing if (scope, True) not in self.grades.by_class]
            failed = self.history.failed.get(node, ())
            if missing and (self.final or len(failed) >= TRIES or met > TRIES):
                self.findings.append(texts.unmeasured(node, missing if len(missing) < len(scopes) else [], failed))
            elif missing or met < meetings:
                self.wants.setdefault(node, Want(node, near=self._near(node, missing)))

    def _near(self, node: str, scopes: list[str]) -> bool:
        """What leaves the leaf tells little of these scopes."""
        if scopes and all(self.grades.veiled(scope) for scope in scopes) and self._mates(node):
            return True
        return any(len(self.grades.bad.get((node, scope), ())) > 1 and self._needs_near(node, scope) for scope in scopes[:1])

    def _needs_near(self, node: str, scope: str) -> bool:
        """An end that is slow is so within its leaf too; that it was not tried, where there is a good partner, leaves its path in doubt."""
        if not any(self.grades.proven(mate, scope) for mate in self._mates(node, scope)):
            return False
        return all(self.grades.crosses(place, scope) for place in self.grades.sound(node, scope))

    def _mates(self, node: str, scope: str = WHOLE) -> set[str]:
        """Who is behind its leaf too."""
        leaf = self.history.leaf_of(node, scope or self.fleet.rails[0])
        return {mate for mate, _scope in self.history.ends[leaf]} - {node} if leaf else set()

    def _unclear(self) -> None:
        """What was slow and could not be told. Suspects of one measurement are named together."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for node in [*self.open, *self.odd]:
            if node in self.guilty:
                continue
            scopes = self.open.get(node) or [scope for one, scope in self.grades.bad if one == node]
            others = {self.history.views[place].other(node) for scope in scopes for place in self.grades.bad[node, scope]}
            suspects = sorted({node, *(other for other in others if not any(self.grades.proven(other, scope) for scope in scopes))})
            groups.setdefault(tuple(suspects), scopes)
        for nodes, scopes in groups.items():
            measured = max(len(self.grades.bad.get((node, scopes[0]), ())) for node in nodes)
            self.findings.append(texts.unclear(nodes, scopes, measured, self._rows(nodes[0], scopes[0]), len(self.fleet.nodes)))

    def _good(self) -> frozenset[str]:
        """Fast on everything measured, and behind no slow leaf: who may prove others."""
        bad = {node for node, scope in self.grades.bad if not self.grades.spine or (node, scope) not in self.grades.good}
        behind = {node for leaf in self.grades.leaves for node, _scope in self.history.ends[leaf]}
        found = {node for node, _scope in self.grades.good} - bad - behind
        return frozenset(found)

    def _suspect_rails(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = defaultdict(list)
        for node, scope in self.grades.bad:
            if scope and (node, scope) not in self.grades.good:
                found[node].append(scope)
        return {node: tuple(rails) for node, rails in found.items() if len(rails) <= 2 or len(rails) < len(self.fleet.rails) / 2}

