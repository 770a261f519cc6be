# SPDX-License-Identifier: GPL-3.0-or-later
"""Killed at every point, resumed: nothing repeated, nobody skipped, never more away than allowed."""

import hashlib
import shutil
from pathlib import Path

import pytest

from railwright.upgrade.order import Rules
from simulated_cluster import Cluster, Killed, Machine, Switch, again, dying_writes, names_of, new_journal, roll_out

RULES = Rules(2, ("n03",), {"n01": "a", "n02": "a", "n03": "a", "n04": "b"})


def fresh(many: int = 4, other: tuple[str, ...] = ()) -> Cluster:
    return Cluster({name: Machine("other" if name in other else "") for name in names_of(many)})


def lives(cluster: Cluster, rules: Rules, switches: list[Switch], monkeypatch: pytest.MonkeyPatch, other: tuple[str, ...] = ()) -> None:
    """A controller for each switch, and a last one that is not killed."""
    journal = new_journal(list(cluster.machines), rules, dict.fromkeys(other, "drained (bad fan)"))
    for number, switch in enumerate([*switches, Switch()]):
        with monkeypatch.context() as patched:
            dying_writes(switch, patched)
            try:
                through, _playing = roll_out(cluster, journal, rules, switch, resumed=number > 0)
            except Killed:
                pass
            else:
                assert through
                break
        journal = again(journal)
    state = again(journal).state
    assert state.finished
    assert [node.name for node in state.nodes.values() if node.state == "done"] == list(state.nodes)
    for name, machine in cluster.machines.items():
        assert machine.installed == ["new"], f"{name}: {machine}"
        assert machine.drained_by == ("other" if name in other else ""), f"{name}: {machine}"
    assert cluster.drains == [name for name in state.nodes if name not in other], "each once, in the journal's order"
    assert cluster.most_away <= rules.most


def points(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> int:
    switch = Switch()
    with monkeypatch.context() as patched:
        dying_writes(switch, patched)
        cluster = fresh()
        assert roll_out(cluster, new_journal(list(cluster.machines), RULES), RULES, switch)[0]
    shutil.rmtree(state_home)
    return switch.points


def test_killed_at_every_point(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    """Before, within and after every write of the journal, and before and after every effect on every node."""
    total = points(monkeypatch, state_home)
    assert total > 100
    for at in range(total):
        lives(fresh(), RULES, [Switch(at)], monkeypatch)
        shutil.rmtree(state_home)


class Chance:
    """The same throws in every run."""

    def __init__(self, seed: int) -> None:
        self._seed, self._throws = seed, 0

    def below(self, end: int) -> int:
        self._throws += 1
        return int.from_bytes(hashlib.sha256(f"{self._seed} {self._throws}".encode()).digest()[:8], "big") % end


def test_killed_again_and_again(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    for seed in range(60):
        chance = Chance(seed)
        many = 1 + chance.below(9)
        names = names_of(many)
        other = tuple(name for name in names if chance.below(7) == 0)
        most = len(other) + 1 + chance.below(3)
        canary = tuple(name for name in names if chance.below(5) == 0)
        rules = Rules(most, canary, {name: "abc"[chance.below(3)] for name in names})
        switches = [Switch(chance.below(120)) for _life in range(1 + chance.below(8))]
        lives(fresh(many, other), rules, switches, monkeypatch, other)
        shutil.rmtree(state_home)
