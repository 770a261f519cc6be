# SPDX-License-Identifier: GPL-3.0-or-later
"""The search: plan a round, write it down, launch it, judge anew; until nothing is open, or the time or the rounds are spent.

It knows no Ansible: a ``Launcher`` measures. All that it knows of earlier rounds is in the journal, so a search that was killed goes on
from there and comes to the same verdict.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from railwright.exitcodes import RunError
from railwright.isolate.journal import Journal
from railwright.isolate.judge import judge
from railwright.isolate.model import FAILURES, Finding, Fleet, Launcher, Options, Result, Round
from railwright.isolate.readings import History
from railwright.isolate.rounds import next_round

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
