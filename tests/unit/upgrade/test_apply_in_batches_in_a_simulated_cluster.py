# SPDX-License-Identifier: GPL-3.0-or-later
"""``apply`` in batches, killed at every point and drawn with every rule: nothing made twice, nobody skipped, no more at once than asked."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railwright.cli.rollout import Asked, Rollout, rules_of, unfinished
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.upgrade.journal import State
from simulated_cluster import Killed, Switch, dying_writes, names_of

INVENTORY = Path("/inv")


class Fleet:
    """Nodes that know what was made on them and no rule. ``wrong``: those that fail, and how often."""

    def __init__(self, names: Sequence[str], wrong: dict[str, int] | None = None) -> None:
        self.made = dict.fromkeys(names, 0)
        self.wrong = dict(wrong or {})
        self.calls: list[list[str]] = []
        self.begun: set[str] = set()
        self.kept: list[Path] = []
        self.switch, self.runs = Switch(), 0

    def work(self, nodes: Sequence[str], begun: Sequence[str]) -> RunOutcome:
        self.calls.append(list(nodes))
        self.begun |= set(begun)
        outcome = RunOutcome()
        for name in nodes:
            self.switch.tick()
            if self.wrong.get(name):
                self.wrong[name] -= 1
                outcome.hosts[name] = HostOutcome(name, "failed", message="no space left")
                continue
            self.made[name] = self.made[name] or 1  # what is made already is no change any more
            outcome.hosts[name] = HostOutcome(name, planned=True)
            self.switch.tick()
        return outcome

    def begin(self, said: Asked, away: dict[str, str] | None = None) -> State:
        self.runs += 1  # each has a name of its own
        return Rollout("apply", INVENTORY, self.work).begin(f"RUN{self.runs}", {}, list(self.made), said, away or {}, self.kept.append)

    def resume(self) -> State:
        return Rollout("apply", INVENTORY, self.work).resume(unfinished("apply", INVENTORY)[0])


def lives(said: Asked, switches: Sequence[Switch], many: int, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A controller for each switch, and a last one that is not killed. One that died before its journal stood begins anew."""
    fleet = Fleet(names_of(many))
    for switch in (*switches, Switch()):
        fleet.switch = switch
        with monkeypatch.context() as patched:
            dying_writes(switch, patched)
            try:
                try:
                    unfinished("apply", INVENTORY)
                    state = fleet.resume()
                except InputError:  # killed after its end, or before its journal stood
                    if all(fleet.made.values()):
                        return fleet
                    state = fleet.begin(said)
            except Killed:
                continue
        assert state.finished
        break
    return fleet


def test_killed_at_every_point_and_resumed(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    said = Asked(batch="2", canary=1)
    counting = Switch()
    lives(said, [counting], 4, monkeypatch)
    shutil.rmtree(state_home)
    assert counting.points > 30
    for at in range(counting.points):
        fleet = lives(said, [Switch(at)], 4, monkeypatch)
        assert set(fleet.made.values()) == {1}, at
        taken = [name for call in fleet.calls for name in call]
        assert {name for name in taken if taken.count(name) > 1} <= fleet.begun, "only who was under way is taken again"
        shutil.rmtree(state_home)


SHARE = st.one_of(st.none(), st.integers(1, 12).map(str), st.integers(1, 100).map(lambda share: f"{share}%"))
ASKED = st.builds(Asked, SHARE, st.one_of(st.none(), st.integers(0, 12)), st.one_of(st.none(), st.integers(0, 12)), SHARE)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=ASKED, many=st.integers(1, 12), data=st.data())
def test_the_rules_hold_whoever_fails(state_home: Path, said: Asked, many: int, data: st.DataObject) -> None:
    shutil.rmtree(state_home, ignore_errors=True)
    names = names_of(many)
    wrong = {name: 1 for name in names if data.draw(st.integers(0, 4)) == 0}
    fleet = Fleet(names, wrong)
    state, rules = fleet.begin(said), rules_of(said, names)
    first, failed = list(rules.canary), 0
    for call in fleet.calls:
        assert len(call) <= min(rules.batch, rules.most)
        assert failed <= rules.failures, "none begins once too many have failed"
        assert set(call) <= set(first) or not first, "canaries go first, and by themselves"
        first = [name for name in first if name not in call]
        failed += sum(name in wrong for name in call)
    touched = {name for call in fleet.calls for name in call}
    assert state.finished == (not wrong), "what failed is to be gone on with"
    assert failed > rules.failures or failed >= rules.most or touched == set(names), "who is not touched waits for a reason"
    assert {name for name, count in fleet.made.items() if count} == touched - wrong.keys()
    done = set(touched - wrong.keys())
    while not state.finished:
        fleet.calls.clear()
        state = fleet.resume()
        assert fleet.calls, "each resume goes on"
        assert done.isdisjoint(name for call in fleet.calls for name in call), "who is done is not touched again"
        done |= {name for name, count in fleet.made.items() if count}
    assert set(fleet.made.values()) == {1}


def test_who_does_not_answer_takes_a_place_of_those_that_may_be_away() -> None:
    fleet = Fleet(names_of(3))
    state = fleet.begin(Asked(unavailable="1"), {"n09": "no route to host"})
    assert (fleet.calls, state.finished) == ([], False)
    assert "--max-unavailable allows 1 away, and away already: n09 no route to host" in state.stopped


def test_the_plan_is_kept_before_the_first_node_is_changed(tmp_path: Path) -> None:
    fleet = Fleet(names_of(2))

    def keep(directory: Path) -> None:
        assert fleet.calls == []
        fleet.kept.append(directory)

    Rollout("apply", INVENTORY, fleet.work).begin("RUN", {}, list(fleet.made), Asked(batch="1"), {}, keep)
    assert len(fleet.kept) == 1
