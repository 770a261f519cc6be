# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright bench --purpose burn-in``: rounds of all benchmarks until the time is spent, counted by serial number."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from railwright.burn_in import rounds
from railwright.burn_in.judge import Part, judge_bits, judge_health, parts_of, sums_of
from railwright.cli import console, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.session import Conclusion, Judged, Session, concluded, failed_headings, node_counts
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import ExitCode
from railwright.inventories import quoted
from railwright.journal import Lines, last_of, place_of
from railwright.report import burn_in as shown

DIAG_S = 900.0  # what dcgmi diag -r 3 takes, about (dcgmi-diag(8)); a round that is given less leaves it out
PAUSE_S = 150.0  # behind a round without any result; what an interrupted run left on the nodes ends within five minutes
FRUITLESS = 3  # rounds in a row without any result, after which it ends
Bench = Callable[[dict[str, Any]], RunOutcome]
Health = dict[str, dict[str, Any]]


def trains(judged: Judged) -> bool:
    """Whether the inventory says where torch is."""
    return all(variables.get("ddp_benchmark_python") is not None or judged.specs[name]["ai_environment_kind"] != "none"
               for name, variables in judged.inventory.hosts.items())


class BurnIn:
    """One process's part of it: rounds before it may lie in the journal."""

    def __init__(self, session: Session, judged: Judged, bench: Callable[..., RunOutcome], asked: rounds.Options, *, resume: bool) -> None:
        self.session, hosts, inventory = session, judged.inventory.hosts, session.inventory
        self.place = last_of(rounds.WORK, inventory, rounds.WORK) if resume else place_of(rounds.WORK, inventory, session.id)
        self.book: Lines
        if resume:
            self.book, self.options, self.done = rounds.reopen(self.place, hosts)
        else:
            self.book, self.options, self.done = rounds.create(self.place, hosts, asked), asked, []
        self._bench: Bench = partial(bench, session, nccl_tests=self.options.nccl_tests, ddp=self.options.ddp)
        self._settings = {key: value for key, value in next(iter(judged.specs.values())).as_dict().items()
                          if key.startswith("ddp_benchmark_") or key == "nccl_tests_environment"}
        self.parts: dict[tuple[str, str], Part] = {}
        self.last = RunOutcome()
        self.patience = FRUITLESS - 1 if resume else 0  # what was interrupted may still run on the nodes
        self.fruitless = ""  # why the last try measured nothing
        self.stopped = ""

    @property
    def left(self) -> float:
        return self.options.hours * 3600 - rounds.spent(self.done)

    def go(self) -> None:
        """Rounds until the time is spent; the one that has begun is finished."""
        before = self._health(RunOutcome(), diag=False)
        while self.left > 0 and not self.stopped:
            if self.fruitless:
                console.note(f"nothing was measured: {self.fruitless}; the next try is in {PAUSE_S:.0f} s")
                time.sleep(PAUSE_S)
            before = self._round(before)
            if len(self.done) >= FRUITLESS and not any(round_["result"] for round_ in self.done[-FRUITLESS:]):
                self.stopped = f"{FRUITLESS} rounds in a row gave no result"

    def _round(self, before: Health) -> Health:
        number, began, clock = len(self.done) + 1, datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        outcome = self._bench(self.options.extra)
        self.fruitless = "" if rounds.measured(outcome) else rounds.why_not(outcome)
        if self.fruitless:
            self.patience -= 1
            if self.patience >= 0:
                return before
        self.patience = 0
        diag = self.left - (time.monotonic() - clock) >= DIAG_S
        health = self._health(outcome, diag=diag)
        found = [verdict for name in self.session.nodes or [] for verdict in judge_health(name, before.get(name), health.get(name))]
        sums = sums_of(outcome.ddp, self._settings, self.parts)
        same = [row["sums"] | {"number": row["number"]} for row in self.done if sums and row["sums"] and row["sums"]["key"] == sums["key"]]
        first = same[0] if same else None
        found += judge_bits(outcome.ddp, sums, first, self.parts)
        outcome.verdicts = outcome.verdicts + as_dicts(found)
        round_ = rounds.round_of(number, began, time.monotonic() - clock, outcome, health, self.parts)
        round_["sums"] = sums if first is None else None  # of the first round alone: later ones are held against it
        self.book.add({"kind": "round", **round_})
        self.done.append(round_)
        self.last = outcome
        if number == 1:
            unknown = {verdict.check: verdict.message for verdict in found if verdict.status == "unknown"}
            for check, line in unknown.items():
                console.note(f"unknown, and no pass: {check}: {line}")
        if not diag:
            console.note("dcgmi diag was left out of this round: less than a quarter of an hour was left")
        end = "failed" if round_["failed"] else "ended well"
        console.note(f"round {number} {end} after {round_['seconds'] / 60:.1f} min: {verdicts.line(verdicts.counts(outcome.verdicts))}; "
                     f"{max(self.left, 0) / 3600:.2f} h are left")
        return health

    def _health(self, outcome: RunOutcome, *, diag: bool) -> Health:
        """Of every node that tells; who does not has the round failed."""
        told = self.session.run("part_health", {"burn_in_diag": diag})
        for name, host in told.hosts.items():
            own = outcome.hosts.setdefault(name, host)
            if rounds.STATUSES.index(host.status) < rounds.STATUSES.index(own.status):
                outcome.hosts[name] = host
        found = {name: host.health for name, host in told.hosts.items() if host.health is not None}
        seen = parts_of(found)
        self.parts = {key: part for key, part in self.parts.items() if key not in seen} | seen
        return found

    def end(self) -> tuple[Conclusion, RunOutcome, dict[str, Any]]:
        whole = RunOutcome(verdicts=rounds.folded(self.done))
        for name, (status, message) in rounds.worst_hosts(self.done, self.session.nodes or []).items():
            whole.hosts[name] = HostOutcome(name, status, message=message)
        failed = bool(self.stopped) or any(round_["failed"] for round_ in self.done)
        document = rounds.document_of(self.options, self.done, dict.fromkeys(self.parts.values()), self.stopped)
        totals = {"rounds": len(self.done), "verdicts": verdicts.counts(whole.verdicts)}
        return concluded(whole, lambda _host: {}, lambda _nodes: totals, codes=[ExitCode.FAILED] if failed else []), whole, document


def burn_in(session: Session, judged: Judged, bench: Callable[..., RunOutcome], asked: rounds.Options, *, resume: bool) -> Any:
    """The stored run, or None, and the code to end with."""
    one = BurnIn(session, judged, bench, asked._replace(ddp=asked.ddp or trains(judged)), resume=resume)
    try:
        one.go()
    except BaseException:
        again = f"railwright bench -i {quoted(session.inventory)} --purpose {rounds.WORK} --resume"
        console.note(f"{len(one.done)} whole rounds are kept: {again} goes on")
        raise
    finally:
        one.book.close()
    end, outcome, document = one.end()
    stored = session.store(end, outcome.verdicts, burn_in=document, bench=one.last.bench, ddp=one.last.ddp)
    if stored is not None:
        one.place.unlink(missing_ok=True)
    session.show(end, lambda: show(outcome, document), burn_in=document, verdicts=verdicts.ordered(outcome.verdicts))
    return stored, end.code


def show(outcome: RunOutcome, document: dict[str, Any]) -> None:
    failed_headings(outcome)
    console.table(shown.ROUNDS, shown.round_rows(document))
    console.table(shown.PARTS, shown.part_rows(document))
    verdicts.show_verdicts(outcome.verdicts, passes=False)
    console.say(shown.summary(document))
    console.say(nodes_line(node_counts(outcome)))
