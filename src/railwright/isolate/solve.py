# SPDX-License-Identifier: GPL-3.0-or-later
"""The search: plan a round, write it down, launch it, judge anew; until nothing is open, or the time or the rounds are spent.

It knows no Ansible: a ``Launcher`` measures. All that it knows of earlier rounds is in the journal, so a search that was killed goes on
from there and comes to the same verdict. A round is disjoint pairs for what is still open, the same for the same seed and history.

The first round pairs everybody, mostly across leaves, so that a slow leaf shows on each of its nodes; some pairs stay within a leaf, which
tells a slow spine from slow nodes. Later rounds measure suspects with partners that proved good, behind other leaves, never met before.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright.exitcodes import RunError
from railwright.isolate.journal import Done, Journal
from railwright.isolate.judge import FEW, Judgement, judge
from railwright.isolate.model import FAILURES, Ask, Finding, Fleet, Launcher, Options, Result, Round, Trial
from railwright.isolate.readings import SAMPLES, History, likes

Pairs = list[tuple[str, str]]
INSIDE = 4  # pairs within leaves that the first round has at least, where there are so many nodes
CONTROLS, NODES_A_CONTROL = 3, 128  # good pairs, so that the suspects' figures of each rail have a like


def next_round(history: History, judgement: Judgement, options: Options) -> Round | None:
    """None when nothing is open that a measurement could close."""
    number = history.rounds + 1
    order = shuffled(history.fleet.nodes, f"{options.seed} {number} ")
    pairs = later_pairs(history, judgement, order) if history.trials else first_pairs(history, order)
    first = not history.trials and len(order) > FEW
    samples = options.samples or SAMPLES[history.fleet.tool]
    trials = tuple(Trial(pair, asks(history.fleet, pair, judgement, first=first), samples) for pair in pairs)
    return Round(number, trials) if trials else None


def asks(fleet: Fleet, pair: tuple[str, str], judgement: Judgement, *, first: bool) -> tuple[Ask, ...]:
    """perftest: each rail, each way. nccl-tests: all rails at once; of suspects each rail too, and slow ones each way."""
    if fleet.tool == "perftest":
        return tuple(Ask((rail,), way) for rail in fleet.rails for way in ("forth", "back"))
    whole = (Ask(fleet.rails, "both"),) if len(fleet.rails) > 1 else ()
    if first and whole:
        return whole
    slow = dict.fromkeys(rail for node in pair for rail in judgement.suspect_rails.get(node, ()))
    ways = (Ask((rail,), way) for rail in slow for way in ("forth", "back"))
    return (*whole, *(Ask((rail,), "both") for rail in fleet.rails), *ways)


def shuffled(nodes: Iterable[str], salt: str) -> list[str]:
    """An order that any Python draws alike, so that a resumed search plans what the first one planned."""
    return sorted(nodes, key=lambda node: hashlib.blake2b((salt + node).encode(), digest_size=8).digest())


def first_pairs(history: History, order: list[str]) -> Pairs:
    """Everybody once (of an odd number all but one)."""
    groups = grouped((history.leaf_of(node), node) for node in order)
    pairs: Pairs = []
    inside = -(-INSIDE // len(groups)) if len(groups) > 1 else 0
    for members in groups.values():
        for _each in range(min(inside, (len(members) - 2) // 2)):
            pairs.append((members.pop(), members.pop()))
    rest = [node for members in sorted(groups.values(), key=len, reverse=True) for node in members]
    return pairs + list(zip(rest[: len(rest) // 2], rest[len(rest) // 2 :], strict=False))


def later_pairs(history: History, judgement: Judgement, order: list[str]) -> Pairs:
    """Each suspect with a good partner that it has not met; else with another suspect, with one that it has met, with anybody."""
    free = dict.fromkeys(order)
    pairs: Pairs = []
    wanted = {want.node: want for want in judgement.wants}
    good = judgement.good - wanted.keys()

    def take(one: str, other: str) -> None:
        pairs.append((one, other))
        del free[one], free[other]

    for want in judgement.wants:
        if want.partner and want.node in free and want.partner in free:
            take(want.node, want.partner)
    for node in sorted((node for node in order if node in wanted), key=lambda node: len(history.by_node.get(node, ()))):
        if node in free and not wanted[node].partner:
            own, met = history.leaf_of(node), {view.other(node) for view in history.by_node.get(node, ())}
            ranks = {other: (other in met, other not in good, bool(own) and (history.leaf_of(other) == own) is not wanted[node].near)
                     for other in free if other != node and (not wanted[node].near or history.leaf_of(other) == own)}  # fmt: skip
            if ranks:
                take(node, min(ranks, key=lambda other: ranks[other]))
    if history.fleet.tool == "nccl" and pairs and all(len(view.scopes) == 1 for view in history.views) and history.fleet.rails[1:]:
        rest = [node for node in free if node in good]
        count = max(CONTROLS, len(order) // NODES_A_CONTROL)
        for one, other in zip(rest[:count], rest[count : 2 * count], strict=False):
            take(one, other)
    return pairs


Tell = Callable[[str], None]
FASTEST = 1e6  # Gb/s; what is beyond is no figure
FIRST_SECONDS = 120.0  # what a round is taken to last before one was measured
BARREN = 2  # rounds without one figure, one after the other


class Outcome(NamedTuple):
    findings: tuple[Finding, ...]
    rounds: int
    trials: int
    seconds: float
    node_minutes: float
    stopped: str  # why it ended before everything was told; '' where it did not

    @property
    def clean(self) -> bool:
        return not self.findings and not self.stopped


class Search:
    def __init__(
        self, fleet: Fleet, launcher: Launcher, journal: Journal, options: Options, tell: Tell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fleet, self._launcher, self._journal = fleet, launcher, journal
        self._options, self._tell, self._clock = options, tell, clock
        self.history = History(fleet)
        self._seconds = self._node_seconds = self._longest = 0.0

    def run(self) -> Outcome:
        """Raises what the launcher raises, KeyboardInterrupt too; the journal then has every round that was whole."""
        try:
            for done in self._journal.done:
                self._take(done.round, done.results, done.seconds)
            if self._journal.begun is not None and not self._spent():
                self._measure(self._journal.begun, known=True)
            stopped = self._rounds()
        finally:
            self._launcher.stop()
        findings = judge(self.history, final=True).findings
        return Outcome(findings, self.history.rounds, self.history.trials, self._seconds, self._node_seconds / 60, stopped)

    def _rounds(self) -> str:
        while (round_ := next_round(self.history, judge(self.history), self._options)) is not None:
            if stopped := self._spent():
                return stopped
            self._measure(round_)
        return ""

    def _spent(self) -> str:
        """Why no further round may begin."""
        if self.history.barren >= BARREN:
            return f"the last {BARREN} rounds gave no figure at all"
        if self.history.rounds >= self._options.rounds:
            return f"{self._options.rounds} rounds were not enough"
        if self._seconds + (self._longest or FIRST_SECONDS) > self._options.minutes * 60:
            return f"{self._options.minutes:g} minutes were not enough for another round"
        return ""

    def _measure(self, round_: Round, *, known: bool = False) -> None:
        nodes = sum(len(trial.nodes) for trial in round_.trials)
        self._tell(f"round {round_.number}: {len(round_.trials)} pairs of {nodes} nodes")
        if not known:
            self._journal.begin(round_)
        began = self._clock()
        results = checked(round_, self._launcher.run(round_))
        seconds = round(self._clock() - began, 3)
        self._journal.end(round_.number, results, seconds)
        self._take(round_, results, seconds)
        failed = [result.failure for result in results if result.failure]
        what = "".join(f", {failed.count(kind)} {kind}" for kind in dict.fromkeys(failed))
        self._tell(f"round {round_.number}: {len(results) - len(failed)} measured{what}, {seconds:.0f} s")

    def _take(self, round_: Round, results: Sequence[Result], seconds: float) -> None:
        self.history.add(round_, results)
        self._seconds += seconds
        self._longest = max(self._longest, seconds)
        self._node_seconds += seconds * sum(len(trial.nodes) for trial in round_.trials)


def checked(round_: Round, results: Sequence[Result]) -> Sequence[Result]:
    """Before they are written: one result a trial, figures that are some, no failure of an unknown kind. Raises RunError."""
    if len(results) != len(round_.trials):
        raise RunError(f"round {round_.number}: the launcher answered for {len(results)} of {len(round_.trials)} pairs")
    for trial, result in zip(round_.trials, results, strict=True):
        figures = [figure for samples in (*result.figures, *result.times.values()) for figure in samples]
        whole = not result.figures or len(result.figures) == len(trial.asks)
        if not whole or result.failure not in FAILURES or not all(0 <= figure < FASTEST for figure in figures):
            raise RunError(f"round {round_.number}: the launcher's answer for {' and '.join(trial.nodes)} is none: {str(result)[:200]}")
    return results


def isolate_document(fleet: Fleet, done: Iterable[Done], outcome: Outcome) -> dict[str, Any]:
    """``done``: every whole round, those of the runs before a resume among them."""
    history, rounds = History(fleet), []
    for one in done:
        history.add(one.round, one.results)
        trials = [_trial(trial, result) for trial, result in zip(one.round.trials, one.results, strict=True)]
        rounds.append({"number": one.round.number, "seconds": one.seconds, "trials": trials})
    findings = [{**found._asdict(), "nodes": list(found.nodes), "share": round(found.share, 4),
                 "evidence": [row._asdict() for row in found.evidence]} for found in outcome.findings]  # fmt: skip
    return {
        "tool": fleet.tool, "nodes": list(fleet.nodes), "rails": list(fleet.rails),
        "leaves": grouped((leaf, list(end)) for end, leaf in fleet.leaves.items()),
        "likes": {scope: round(like.value, 4) for scope, like in likes(history.views).items()}, "rounds": rounds, "findings": findings,
        "stopped": outcome.stopped, "seconds": round(outcome.seconds, 1), "node_minutes": round(outcome.node_minutes, 1),
    }  # fmt: skip


def _trial(trial: Trial, result: Result) -> dict[str, Any]:
    samples = result.figures or ((),) * len(trial.asks)
    figures = [{"rails": list(ask.rails), "way": ask.way, "gbps": round(median(found), 4) if found else None}
               for ask, found in zip(trial.asks, samples, strict=True)]  # fmt: skip
    return {"nodes": list(trial.nodes), "failure": result.failure, "figures": figures}
