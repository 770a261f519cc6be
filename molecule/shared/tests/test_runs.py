# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every role that plans: check mode tells what apply does, and a second apply does nothing.

A node that the scenario calls idle is one on which the role has nothing to do at all.
"""

from __future__ import annotations

import json
from typing import Any

PACKAGES = "packages"


def changes(run: Any, node: str, *, packages: bool) -> list[list[tuple[str, Any, Any]]]:
    """(key, before, after) of every change, task by task; ``packages`` chooses those of packages, or the others."""
    plans = [item["answer"]["plan"] for item in run.of("rdma_state", node)]
    chosen = [[change for change in plan if (change["area"] == PACKAGES) == packages] for plan in plans]
    return [[(change["key"], change["before"], change["after"]) for change in plan] for plan in chosen]


def flat(plans: list[list[tuple[str, Any, Any]]]) -> list[tuple[str, Any, Any]]:
    return [change for plan in plans for change in plan]


def test_the_runs_were_check_apply_apply(runs: list[Any]) -> None:
    assert [run.kind for run in runs] == ["check", "apply", "apply"]


def test_check_mode_shows_exactly_what_apply_does(runs: list[Any], applied: Any, node: str, idle: bool) -> None:
    shown, done = changes(runs[0], node, packages=False), changes(applied, node, packages=False)
    assert bool(flat(done)) != idle, "a run that has nothing to do proves nothing"
    assert shown == done


def test_check_mode_shows_every_package(runs: list[Any], applied: Any, node: str) -> None:
    """After the package step they are gone from the plans of an apply, so they are compared as a whole."""
    shown, done = flat(changes(runs[0], node, packages=True)), flat(changes(applied, node, packages=True))
    assert {key for key, _before, _after in shown} == {key for key, _before, _after in done}


def test_check_mode_changed_nothing(runs: list[Any], applied: Any, node: str) -> None:
    """What it found is what the apply after it found."""
    found = [[(key, before) for key, before, _after in flat(changes(run, node, packages=False))] for run in (runs[0], applied)]
    assert found[0] == found[1]


def test_a_second_run_finds_nothing_to_do(runs: list[Any], node: str) -> None:
    answers = runs[-1].of("rdma_state", node)
    assert answers
    assert [(item["task"], item["answer"]["plan"]) for item in answers if item["answer"]["plan"] or item["answer"]["changed"]] == []


def test_the_restore_point_holds_what_check_mode_showed(runs: list[Any], applied: Any, host: Any, node: str, idle: bool) -> None:
    """What was done on the node, by its own journal, is what was shown before: change by change."""
    points = [item["answer"]["restore_point"] for item in applied.of("rdma_state", node) if item["answer"].get("restore_point")]
    assert bool(points) != idle
    done = set()
    for point in points:
        with host.sudo():
            file = host.file(point)
            assert (file.user, file.mode) == ("root", 0o600)
            journal = json.loads(file.content_string)
        assert journal["state"] == "applied"
        done |= {entry["change"] for entry in journal["entries"]}
    assert done == {key for key, _before, _after in flat(changes(runs[0], node, packages=False))}
