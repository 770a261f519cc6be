# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that is only numbers, and a controller that can be killed between any two of its effects.

It knows what real nodes know: who has drained it, what is installed. It does not know the journal, the order or the rules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railwright.events import HostOutcome, RunOutcome
from railwright.upgrade.engine import Engine
from railwright.upgrade.journal import BUSY, Journal, create, read_state, reopen
from railwright.upgrade.order import Rules, canaries, ordered


class Killed(BaseException):
    """SIGKILL: nothing of ours runs after it."""


class Switch:
    """Kills at the n-th point where something has just happened, or is about to."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.points = at, 0

    def tick(self) -> None:
        self.points += 1
        if self.at is not None and self.points > self.at:
            raise Killed


@dataclass
class Machine:
    drained_by: str = ""  # us, other
    version: str = "old"
    installed: list[str] = field(default_factory=list)  # every installation, also one that was none of use
    validated: bool = False


@dataclass
class Cluster:
    """The nodes, and what was ever true of all of them."""

    machines: dict[str, Machine]
    most_away: int = 0
    drains: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.most_away = max(self.most_away, sum(bool(machine.drained_by) for machine in self.machines.values()))


class Playing:
    """The executor. ``wrong``: (step, node) -> status and message of a node that fails there."""

    def __init__(self, cluster: Cluster, switch: Switch, path: Path | None = None) -> None:
        self.cluster, self.switch, self.path = cluster, switch, path
        self.wrong: dict[tuple[str, str], tuple[str, str]] = {}
        self.calls: list[tuple[str, list[str]]] = []
        self.variables: list[Mapping[str, Any]] = []
        self.before_look: Callable[[], None] = lambda: None

    def execute(self, step: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> RunOutcome:
        self.calls.append((step, list(nodes)))
        self.variables.append(variables)
        if step == "inspect":
            self.before_look()
        self._announced(step, nodes)
        outcome = RunOutcome()
        self.switch.tick()
        for name in nodes:
            status, message = self.wrong.get((step, name), ("ok", ""))
            host = outcome.hosts[name] = HostOutcome(name, status, message=message, task="a task" if message else "", judged=True)
            if status == "ok":
                self._effect(step, name, host)
            self.cluster.watch()
            self.switch.tick()
        return outcome

    def _announced(self, step: str, nodes: Sequence[str]) -> None:
        """What is done was written down before, and what is done already is never done again."""
        if self.path is None or step not in BUSY:
            return
        state = read_state(self.path)
        for name in nodes:
            assert state.nodes[name].state == BUSY[step], f"{step} of {name} while the journal says {state.nodes[name].state}"

    def _effect(self, step: str, name: str, host: HostOutcome) -> None:
        machine = self.cluster.machines[name]
        if step == "drain" and not machine.drained_by:
            machine.drained_by = "us"
            self.cluster.drains.append(name)
        elif step == "change":
            assert machine.drained_by, f"{name} changes under its jobs"
            host.drivers = {"kernel": "new"}
            host.restore_point = "RUN"
            if machine.version == "old":
                machine.version = "new"
                machine.installed.append("new")
        elif step in ("validate", "gate"):
            assert machine.drained_by, f"{name} is judged under its jobs"
            machine.validated = machine.version == "new"
        elif step == "undrain":
            assert machine.validated, f"{name} comes back without a proof"
            machine.drained_by = "" if machine.drained_by == "us" else machine.drained_by
        elif step == "hold" and not machine.drained_by:
            host.status, host.message = "failed", f"{name} takes new jobs (available): it is not drained"
        elif step == "rollback":
            assert machine.drained_by, f"{name} is rolled back under its jobs"
            machine.version, machine.validated = "old", False
        if step in ("undrain", "inspect"):
            host.drain = drain_of(machine)


def drain_of(machine: Machine) -> dict[str, Any]:
    by = machine.drained_by or None
    reason = {"us": "railwright upgrade RUN", "other": "bad fan"}.get(machine.drained_by)
    return {"scheduler": "slurm", "state": "drained" if by else "available", "by": by, "reason": reason}


def names_of(many: int) -> list[str]:
    return [f"n{number:02}" for number in range(1, many + 1)]


def new_journal(names: Sequence[str], rules: Rules, away: Mapping[str, str] | None = None) -> Journal:
    """As the verb makes it, after an inspection that found nothing wrong."""
    order = ordered(names, rules)
    head = {"inventory": "/inv", "limit": None, "release": "r", "file": "r.yml", "sha256": "0", "pins": {}, "nodes": order}
    journal = create("RUN", head)
    journal.add({"kind": "away", "nodes": dict(away or {})}, {"kind": "ready", "canary": canaries(order, rules)})
    return journal


def roll_out(cluster: Cluster, journal: Journal, rules: Rules, switch: Switch | None = None, **options: Any) -> tuple[bool, Playing]:
    """One life of a controller."""
    playing = Playing(cluster, switch or Switch(), journal.path)
    playing.wrong.update(options.pop("wrong", {}))
    playing.before_look = options.pop("before_look", playing.before_look)
    resumed = options.pop("resumed", False)
    back = options.pop("back", False)
    gate = options.pop("gate", "nccl_tests")
    told: list[str] = options.pop("told", [])
    engine = Engine(playing, journal, rules, gate, told.append, pause=lambda _seconds: None, **options)
    through = engine.roll_out(resumed=resumed)
    if back and not through:
        engine.roll_back_failed()
    return through, playing


def again(journal: Journal) -> Journal:
    """What the next controller finds on its disk."""
    journal.close()
    return reopen(journal.path)


def dying_writes(switch: Switch, monkeypatch: Any) -> None:
    """Every write of the journal may come before, half-way or after its bytes; the disk itself is not waited for."""

    plain = os.write

    def write(descriptor: int, data: bytes) -> int:
        switch.tick()
        plain(descriptor, data[: len(data) // 2])
        switch.tick()
        plain(descriptor, data[len(data) // 2 :])
        switch.tick()
        return len(data)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
