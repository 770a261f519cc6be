# SPDX-License-Identifier: GPL-3.0-or-later
"""A search that was killed at any moment goes on from its journal and comes to the same verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lib.simulated_fabric import Fabric, Fault
from tests.lib.small_fleets import fleet_of

from railwright.exitcodes import InputError, RunError
from railwright.isolate.journal import create, reopen
from railwright.isolate.model import Fleet, Options, Result, Round
from railwright.isolate.solve import Outcome, Search

FLEET = fleet_of(32, per_leaf=8)
FAULTS = [Fault("node", 0.6, "node3"), Fault("rail", 0.5, "node20", "rail1")]


class Killed(BaseException):
    """SIGKILL, or the user's Ctrl-C: nothing of this round is written."""


class Cut(Fabric):
    """A fabric whose launcher is killed in a round."""

    def run(self, round_: Round) -> list[Result]:
        if round_.number == self.seed_of_kill:
            raise Killed
        return super().run(round_)

    seed_of_kill = 0


def go(fabric: Fabric, path: Path, *, resumed: bool = False, told: list[str] | None = None) -> Outcome:
    journal, options = reopen(path, FLEET) if resumed else (create(path, FLEET, Options(seed=3)), Options(seed=3))
    try:
        return Search(FLEET, fabric, journal, options, [].append if told is None else told.append, fabric.clock).run()
    finally:
        journal.close()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_killed_in_a_round(tmp_path: Path, number: int) -> None:
    whole = go(Fabric(FLEET, FAULTS, 5), tmp_path / "whole")
    killed = Cut(FLEET, FAULTS, 5)
    killed.seed_of_kill = number
    with pytest.raises(Killed):
        go(killed, tmp_path / "cut")
    assert killed.stopped == 1, "nothing is left running"
    second = Fabric(FLEET, FAULTS, 5)
    resumed = go(second, tmp_path / "cut", resumed=True)
    assert resumed.findings == whole.findings
    assert (resumed.rounds, resumed.trials) == (whole.rounds, whole.trials)
    assert [round_.number for round_ in second.launched] == list(range(number, whole.rounds + 1)), "no round is measured twice"


def test_cut_after_any_byte(tmp_path: Path) -> None:
    """The last line is torn, a result is missing, a round has begun: the journal's whole rounds count and no more."""
    path = tmp_path / "journal"
    whole = go(Fabric(FLEET, FAULTS, 5), path)
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for size in [first, *range(first + 1, len(data), len(data) // 40), len(data)]:
        path.write_bytes(data[:size])
        assert go(Fabric(FLEET, FAULTS, 5), path, resumed=True).findings == whole.findings


def test_finished_is_only_read(tmp_path: Path) -> None:
    whole = go(Fabric(FLEET, FAULTS, 5), tmp_path / "journal")
    second = Fabric(FLEET, FAULTS, 5)
    assert go(second, tmp_path / "journal", resumed=True) == whole
    assert second.launched == []


@pytest.mark.parametrize(("change", "text"), [
    (lambda data: b"", "is no journal of this version"),
    (lambda data: data.replace(b'"schema":1', b'"schema":2'), "is no journal of this version"),
    (lambda data: b"{}\n" + data, "is no journal of this version"),
    (lambda data: data.replace(b"\n", b"\nnonsense\n", 1), ":2: is damaged"),
    (lambda data: data.replace(b'"samples":5,', b"", 1).replace(b'"asks"', b'"as"', 1), "is damaged"),
])  # fmt: skip
def test_a_damaged_journal_is_refused(tmp_path: Path, change: object, text: str) -> None:
    path = tmp_path / "journal"
    go(Fabric(FLEET, FAULTS, 5), path)
    assert callable(change)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=text):
        reopen(path, FLEET)


OTHERS = (fleet_of(31, per_leaf=8), fleet_of(32), fleet_of(32, rails=2, per_leaf=8), fleet_of(32, "nccl", per_leaf=8))


@pytest.mark.parametrize("other", OTHERS)
def test_another_inventory_is_refused(tmp_path: Path, other: Fleet) -> None:
    create(tmp_path / "journal", FLEET, Options()).close()
    with pytest.raises(InputError, match="is the journal of another inventory"):
        reopen(tmp_path / "journal", other)


def test_no_journal_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        reopen(tmp_path / "none", FLEET)


def test_rounds_are_shown_as_they_run(tmp_path: Path) -> None:
    told: list[str] = []
    go(Fabric(FLEET, FAULTS, 5), tmp_path / "journal", told=told)
    assert told[0] == "round 1: 16 pairs of 32 nodes"
    assert told[1].startswith("round 1: 16 measured, ")


class Interrupted(Fabric):
    def run(self, round_: Round) -> list[Result]:
        raise KeyboardInterrupt


def test_an_interrupt_stops_the_launcher(tmp_path: Path) -> None:
    fabric = Interrupted(FLEET)
    with pytest.raises(KeyboardInterrupt):
        go(fabric, tmp_path / "journal")
    assert fabric.stopped == 1


class Odd(Fabric):
    """A launcher that answers what nobody asked."""

    answer: list[Result]

    def run(self, round_: Round) -> list[Result]:
        return self.answer


NO_FIGURES = [Result(())] * 15


@pytest.mark.parametrize(("answer", "text"), [
    ([], "answered for 0 of 16 pairs"),
    ([*NO_FIGURES, Result(((1.0,),))], "is none"),
    ([*NO_FIGURES, Result((), "it broke")], "is none"),
    ([*NO_FIGURES, Result(((float("nan"),),) * 8)], "is none"),
])  # fmt: skip
def test_an_answer_that_is_none_is_never_written(tmp_path: Path, answer: list[Result], text: str) -> None:
    fabric = Odd(FLEET)
    fabric.answer = answer
    with pytest.raises(RunError, match=text):
        go(fabric, tmp_path / "journal")
    assert b'"result"' not in (tmp_path / "journal").read_bytes()
    assert reopen(tmp_path / "journal", FLEET)[0].begun is not None
