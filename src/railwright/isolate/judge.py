# SPDX-License-Identifier: GPL-3.0-or-later
"""From everything measured: what is found, and what must be measured next to find the rest. Pure; every round judges anew from all rounds.

What is slow is explained from the widest part to the narrowest: planes and leaves (grades.py), ends (a node on a scope), paths, links that
flap. Each is shown by measurements of its own: slow at least four times, with good partners. What an accepted part explains is no evidence
against the next. One good measurement acquits an end; then its path or a flapping link is suspected.
"""

from collections import Counter, defaultdict
from statistics import median
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright.isolate import texts
from railwright.isolate.grades import ENOUGH, PARTNERS, End, Grade, Grades
from railwright.isolate.model import Evidence, Finding
from railwright.isolate.readings import SURE, WHOLE, WINDOW, History

GOOD_IN_A_ROW, GOOD_IN_ALL = 3, 6  # they end the suspicion of a flapping link
LAST_TRY = 6  # rounds; by then a link that flaps has shown it, or cannot be told from odd figures
FLAP_SHARE = 0.915  # of its like, when it is bad
TRIES = 3  # launches of a node that fail; a hang is none
LATE = 0.95  # of the others' time in a collective: who comes last waits for nobody
SMALL, FEW = 8, 16  # nodes: up to so many, three or two measurements of each say who is fast


class Want(NamedTuple):
    """A measurement that an open question needs: with that partner, or with any good one."""

    node: str
    partner: str = ""
    near: bool = False  # only a partner behind the same leaf tells more


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
        self.slow, self.good = self.grades.slow, self.grades.good
        self.several = self.fleet.tool == "nccl" and len(self.fleet.rails) > 1  # all rails at once are measured first
        self.findings: list[Finding] = []
        self.wants: dict[str, Want] = {}
        self.open: dict[str, list[str]] = {}  # node -> scopes that were slow each time, and not often enough
        self.guilty: dict[str, list[str]] = {}  # node -> scopes that explain what is slow with it
        self.doubts: dict[tuple[str, ...], list[str]] = {}  # nodes -> scopes that were slow and good, and nothing was shown

    def judge(self) -> Judgement:
        grades = self.grades
        parts = {scope: part for scope, part in grades.planes.items() if scope or len(grades.planes) == 1}  # else it is a rail's
        spine = grades.spine if grades.spine and grades.spine.sure else None
        self.findings += [part.finding for part in (*parts.values(), *grades.leaves.values(), *((spine,) if spine else ()))]
        for part in grades.leaves.values():
            if part.inside is None:
                self.wants[part.finding.nodes[0]] = Want(part.finding.nodes[0], part.finding.nodes[1])
        steady = grouped(end for end in self.slow if end not in self.good)  # node -> scopes
        for node, scopes in steady.items():
            self._steady(node, scopes)
        if not spine:
            self._unsteady([grade for grade in grades.all if self._unexplained(grade)])
        self._unseen()
        if self.final:
            self._unclear()
        rails = {node: tuple(filter(None, scopes)) for node, scopes in steady.items()}
        few = {node: found for node, found in rails.items() if len(found) <= max(2, (len(self.fleet.rails) - 1) // 2)}
        bad = {end[0] for end in self.slow if not grades.spine or end not in self.good} | {node for node, _scope in grades.behind}
        return Judgement(tuple(self.findings), tuple(self.wants.values()), frozenset({node for node, _scope in self.good} - bad), few)

    # Ends that were slow every time.

    def _steady(self, node: str, scopes: list[str]) -> None:
        shown = [scope for scope in scopes if self._shown((node, scope))]
        doubt = [scope for scope in scopes if scope not in shown and not self.grades.proven((node, scope))]
        measured = any((node, rail) in self.slow or (node, rail) in self.good for rail in self.fleet.rails)
        if self.several and shown == [WHOLE] and (doubt or not measured):  # which rail it is, is not told yet
            doubt, shown = [*doubt, WHOLE], []
        if shown:
            self.guilty[node] = shown
            self._name(node, shown)
        elif doubt:
            self.open[node] = doubt
            partners = {view.other(node) for view in self.history.by_node[node]}  # once all were met, more of the same changes nothing
            if len(partners) < len(self.fleet.nodes) - 1 or any(len(self.slow[node, scope]) < ENOUGH for scope in doubt):
                self._want(node, doubt)

    def _shown(self, end: End) -> bool:
        """Slow in four trials, with three good partners, one of them behind its own leaf; and most nodes are not."""
        grades, (node, scope) = self.grades, end
        sound = grades.sound(end)
        if self.fleet.leaves and grades.veiled(scope):
            sound = [grade for grade in sound if not grade.crosses]
        elif grades.spine or self._needs_near(end):
            return False
        trials = {grade.place for one in ({scope, WHOLE} if self.several else {scope}) for grade in self.slow.get((node, one), ())}
        partners = {grade.far(end) for grade in sound}
        if len(trials) < ENOUGH or len(partners) < 2 or (grades.veiled(scope) and len(sound) < PARTNERS):
            return False
        fast = sum(grades.proven((other, scope)) for other in self.history.by_node)
        enough = len(partners) >= min(PARTNERS, fast) and fast * 2 >= len(self.history.by_node) - 1
        return enough and median(map(grades.share, self.slow[end])) < SURE

    def _want(self, node: str, scopes: list[str]) -> None:
        """A partner of its own leaf, where what leaves the leaf tells little of these scopes."""
        veiled = bool(scopes) and all(map(self.grades.veiled, scopes)) and bool(self._mates((node, WHOLE)))
        near = any(len(self.slow.get((node, scope), ())) > 1 and self._needs_near((node, scope)) for scope in scopes[:1])
        self.wants.setdefault(node, Want(node, "", veiled or near))

    def _needs_near(self, end: End) -> bool:
        """An end that is slow is so within its leaf too; that it was not tried, where there is a good partner, leaves its path in doubt."""
        return any(map(self.grades.proven, self._mates(end))) and all(grade.crosses for grade in self.grades.sound(end))

    def _mates(self, end: End) -> set[End]:
        """Who is behind its leaf too."""
        leaf = self.history.leaf_of(*end)
        return {(mate, end[1]) for mate, _scope in self.history.ends[leaf]} - {end} if leaf else set()

    def _name(self, node: str, scopes: list[str]) -> None:
        """What is said of a node's slow ends: each rail, or the node where that is every rail that could be seen."""
        rails, count = [scope for scope in scopes if scope] or scopes, len(self.fleet.rails)
        share = {rail: median(map(self.grades.share, self.slow[node, rail])) for rail in rails}
        ways = {rail: self._ways((node, rail)) for rail in rails}
        told = {texts.way_of(found) for found in ways.values()}
        way = min(told) if len(told) == 1 else ""
        seen = sum(rail in rails or not (rail in self.grades.planes or (node, rail) in self.grades.behind) for rail in self.fleet.rails)
        every = not rails[0] or len(rails) >= max(seen, min(2, count))
        hung = every and all(grade.view.hung for rail in rails for grade in self.slow[node, rail])
        gpu, center = self._late(node, self.slow[node, scopes[0]]), median(share.values())
        if hung or gpu is not None or (every and not (way and rails[0] and len(rails) == 1)):
            self._blame(texts.node(node, rails, center, way, self._rows((node, rails[0])), hung=hung, gpu=gpu), node)
            rails = [rail for rail in rails if gpu is None and len(rails) > 2 and share[rail] < SURE * center]  # slower than the others
        for rail in rails:
            rows = self._rows((node, rail), texts.way_of(ways[rail]))
            self._blame(texts.rail(node, rail, share[rail], ways[rail], rows, others=len(share) < count), node)

    def _ways(self, end: End) -> dict[str, float]:
        """out and in: each way's share of its like, where each was measured often enough. What nothing hides tells more."""
        grades = [grade for grade in self.slow[end] if grade.view.scopes[end[1]].ways]
        clear = [grade for grade in grades if min(self.grades.expected(grade)) >= SURE]
        rows = [[self._way(end, grade, way) / grade.like.value / min(self.grades.expected(grade)) for way in ("out", "in")]
                for grade in (clear if len(clear) > 1 else grades)]  # fmt: skip
        return dict(zip(("out", "in"), map(median, zip(*rows, strict=True)), strict=True)) if len(rows) > 1 else {}

    def _way(self, end: End, grade: Grade, way: str) -> float:
        figure = grade.view.scopes[end[1]]
        return figure.ways[(grade.ends[0] == end) == (way == "in")] if way and figure.ways else figure.value

    def _rows(self, end: End, way: str = "") -> tuple[Evidence, ...]:
        grades = sorted([*self.slow.get(end, ()), *self.good.get(end, ())])
        return tuple(self.grades.evidence(end, grade)._replace(figure=round(self._way(end, grade, way), 4)) for grade in grades)

    def _blame(self, finding: Finding, node: str) -> None:
        """A node that is alone behind its leaf, or whose leaf's few nodes are all slow alike, cannot be told from the leaf."""
        leaf, rail = self.history.leaves.get((node, finding.rail), ""), finding.rail or self.fleet.rails[0]
        mates = sorted(other for other, scope in self.history.ends[leaf] if scope == finding.rail) if leaf else []
        if len(mates) < min(PARTNERS, len(self.fleet.nodes)) and finding.kind in ("node", "rail") and not finding.way:
            ends = [(other, rail) if (other, rail) in self.slow else (other, WHOLE) for other in mates]
            best = [max(map(self.grades.share, self.slow[end])) for end in ends if end in self.slow and end not in self.good]
            if mates and len(best) == len(mates) and max(best) <= min(best) * WINDOW:
                finding = texts.node_or_leaf(finding, leaf, tuple(mates))
        if finding not in self.findings:
            self.findings.append(finding)

    def _late(self, node: str, grades: list[Grade]) -> int | None:
        """The GPU that spent the least time in the collective, in three of four of the slow measurements: everyone else waited for it."""
        found: Counter[int] = Counter()
        for grade in grades:
            own = grade.view.times.get(node, ())
            if own and min(own) < LATE * median(one for of_node in grade.view.times.values() for one in of_node):
                found[own.index(min(own))] += 1
        return next((gpu for gpu, count in found.items() if count * 4 >= len(grades) * 3), None)

    # Paths and flapping links: slow, and good too.

    def _unexplained(self, grade: Grade) -> bool:
        """Slow, and neither end is guilty or in question."""
        clear = (node not in self.open and scope not in self.guilty.get(node, ()) for node, scope in grade.ends)
        return grade in self.slow.get(grade.ends[0], ()) and all(clear) and all(map(self.grades.proven, grade.ends))

    def _unsteady(self, odd: list[Grade]) -> None:
        """What explains the most of them comes first: a path, or an end that flaps. What it explains is no evidence against the next."""
        votes: dict[tuple[End, ...], list[Grade]] = defaultdict(list)
        for grade in odd:
            for ends in [(end,) for end in grade.ends] + ([tuple(sorted(grade.ends))] if self.grades.never_good(grade) else []):
                votes[ends].append(grade)
        shown: dict[tuple[str, ...], list[str]] = defaultdict(list)
        taken: set[tuple[int, str]] = set()
        for ends, found in sorted(votes.items(), key=lambda item: -len(item[0]) - len(item[1])):
            nodes, scope = tuple(node for node, _scope in ends), ends[0][1]
            grades = [grade for grade in found if (grade.place, scope) not in taken]
            rails = self.several and not scope and any(end[0] == nodes[0] and end[1] for (end, *_rest) in votes)
            if not grades or rails or (len(ends) > 1 and any(len(votes[end,]) > len(found) + 1 for end in ends)):
                continue  # which rail it is, the rails say; what an end explains better, is no path
            verdict = self._path(ends, grades) if len(ends) > 1 else self._flaps(ends[0], grades)
            if verdict:
                shown[nodes].append(scope)
            elif verdict is None:
                self.doubts.setdefault(nodes, []).append(scope)
            if verdict or len(ends) > 1:
                taken |= {(grade.place, scope) for grade in grades}
        for nodes, scopes in shown.items():
            self.findings.append((texts.pair if len(nodes) > 1 else texts.flapping)(nodes, scopes, self._rows((nodes[0], scopes[0]))))

    def _path(self, ends: tuple[End, ...], grades: list[Grade]) -> bool | None:
        """Measured again and again with each other, and meanwhile each with others. None: it cannot be told."""
        one, other = (node for node, _scope in ends)
        short = [end[0] for end in ends if len({grade.far(end) for grade in self.good[end]}) < 2 and len(self.fleet.nodes) > PARTNERS]
        if len(grades) >= ENOUGH and not short:
            return True
        if self.final or (self.history.rounds >= LAST_TRY and len(grades) < ENOUGH - 1):
            return None if len(grades) > 1 else False
        if short and len(grades) >= ENOUGH - 1:
            self.wants.update({node: Want(node) for node in short})
        else:
            self.wants[one] = Want(one, other)
            self.wants.pop(other, None)
        return False

    def _flaps(self, end: End, grades: list[Grade]) -> bool | None:
        """Good and slow by turns, with two partners. While that is open, it is measured again. None: it cannot be told."""
        if self.grades.veiled(end[1]):
            return False
        good, last = self.good.get(end, []), grades[-1]
        deep = median(map(self.grades.share, grades)) < FLAP_SHARE
        slow, fast = ([grade.far(end)[0] for grade in found] for found in (grades, good))
        causes = [node if node in fast else "" for node in slow]  # a partner that flaps; or paths: some of them may share a plane
        alone = max(map(causes.count, causes)) + 1 >= len(slow)  # one other cause explains all but one
        changed = set(slow) & set(fast)  # a path that is slow stays so: with one partner it must have been both
        others = {grade.place for rail in self.fleet.rails if rail != end[1] for grade in self.good.get((end[0], rail), ())}
        lone = deep and all(grade.place in others for grade in grades)  # no more than this rail: nothing that slows a whole trial
        if len(grades) >= ENOUGH - lone and deep and changed and not alone:
            return True
        if sum(grade.place > last.place for grade in good) >= GOOD_IN_A_ROW or len(good) >= GOOD_IN_ALL:
            return False
        if self.final or (self.history.rounds >= LAST_TRY and not (lone and len(grades) > 1)):
            return None if len(grades) >= ENOUGH - 1 else False
        self.wants.setdefault(end[0], Want(end[0], "" if changed or len(set(fast)) < 2 else last.far(end)[0]))
        return False

    # What is left.

    def _unseen(self) -> None:
        """Nodes that were not measured on every rail; in a small fleet, nodes that have not met enough others."""
        scopes = [WHOLE] if self.several else list(self.fleet.rails)
        count = sum(len(self.history.failed.get(node, ())) < TRIES for node in self.fleet.nodes)  # those that may still be met
        meetings = min(count - 1, 3 if count <= SMALL else 2 if count <= FEW else 1)
        for node in self.fleet.nodes:
            met = len(self.history.by_node.get(node, ()))
            hidden = self.grades.planes if met and not self._mates((node, WHOLE)) else ()
            seen = {scope for scope in scopes if (node, scope) in self.good or (node, scope) in self.slow}
            missing = [scope for scope in scopes if scope not in seen and scope not in hidden]
            failed = self.history.failed.get(node, ())
            if missing and (self.final or len(failed) >= TRIES or met > TRIES):
                self.findings.append(texts.unmeasured(node, missing if len(missing) < len(scopes) else [], failed))
            elif met < meetings and len(failed) >= TRIES:  # it was there at first
                self.findings.append(texts.unmeasured(node, [], failed, met))
            elif missing or met < meetings:
                self._want(node, missing)

    def _unclear(self) -> None:
        """What was slow and could not be told. Suspects of one measurement are named together."""
        groups = dict(self.doubts)
        for node, scopes in self.open.items():
            others = {grade.far((node, scope))[0] for scope in scopes for grade in self.slow[node, scope]}
            suspects = {node, *(other for other in others if not any(self.grades.proven((other, scope)) for scope in scopes))}
            groups.setdefault(tuple(sorted(suspects)), scopes)
        for nodes, scopes in groups.items():
            measured = max(len(self.slow.get((node, scopes[0]), ())) for node in nodes)
            self.findings.append(texts.unclear(nodes, scopes, measured, self._rows((nodes[0], scopes[0])), len(self.fleet.nodes)))
