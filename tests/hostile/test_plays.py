# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook of ours, and roles that no playbook reaches, over liars and two honest nodes.

A liar answers honestly until it is asked for the one thing that it lies about. It is alone with its lie, is named, and nothing of it
happens on the controller. One play each in a normal run, every tenth play with RAILWRIGHT_LIES=0.1; above 1 more lies, and what the honest
ones do is held against a run in which the liars simply fail.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.hostile.cluster import HONEST, Cluster, Outcome, changed_files, unexpected
from tests.hostile.honest import ANSWERS, texts
from tests.hostile.lies import DANGEROUS, Lie, lies
from tests.hostile.modules import tasks
from tests.hostile.scenarios import SCENARIOS, Scenario, answers
from tests.hostile.test_modules import told

ROOT = Path(__file__).resolve().parents[2]
SCALE = float(os.environ.get("RAILWRIGHT_LIES", "1"))
SICK = json.dumps({"failed": True, "changed": False, "msg": "sick"})
MOST = 100  # liars of one play
TURNED = 1 if SCALE <= 1 else int(2 * SCALE)  # lies about an answer beside those with facts; every host of every task is a process
FIRST = 4  # plays for an answer that one node alone is asked for
LONG = ("apply_reboot", "apply_dnf", "nccl_tests_local", "upgrade")  # plays, and
SLOW = ("ping:", "async_status:")  # answers, whose lies are waited out for minutes: in make test-hostile
PLAYED = [item for item in SCENARIOS if SCALE > 1 or item.name not in LONG][:: max(1, round(1 / SCALE))]


class Told(NamedTuple):
    """A lie, and the answer that it stands for."""

    key: str
    lie: Lie


def told_in(scenario: Scenario) -> list[Told]:
    """Of every answer that the play asks for: facts, no JSON, and values of other types; by turns, so that each scenario has others."""
    known = answers(scenario, texts())
    found = []
    for turn, key in enumerate(key for key in scenario.asks if SCALE > 1 or key not in SLOW):
        text = known.get(key) or known[f"{key.partition(':')[0]}:*"]
        text = {"@pings": json.dumps(ANSWERS["rdma_measure:ping"]), "@drains": json.dumps(ANSWERS["rdma_drain:*"])}.get(text, text)
        some = list(lies(key, text, builtin=not key.startswith("rdma_")))
        rest = some[len(DANGEROUS):]
        first = (turn * 7919 + len(scenario.name) * 104729) % max(1, len(rest))
        step = max(1, len(rest) // TURNED)
        turned = (rest[first:] + rest[:first])[::step][:TURNED]
        found += [Told(key, lie) for lie in [*some[: 1 if SCALE <= 1 else len(DANGEROUS)], *turned]]
    return found


def batches(scenario: Scenario) -> list[list[Told]]:
    """In a joint play, a lie about the first step keeps all from the later ones: one play for each answer then."""
    found = told_in(scenario)
    if scenario.joint and SCALE > 1:
        return [[item for item in found if item.key == key] for key in scenario.asks]
    return [found[first : first + MOST] for first in range(0, len(found), MOST)]


def play(cluster: Cluster, scenario: Scenario, told: list[tuple[str, str]], *, first: bool = False) -> Outcome:
    """``told``: by liar the answer that it falsifies, and how. ``first``: the first liar has what the first honest one has otherwise."""
    everybody = {liar(number): {key: text} for number, (key, text) in enumerate(told)}
    variables = {name: liar(0) if first and value == HONEST[0] else value for name, value in scenario.variables.items()}
    return cluster.play(scenario.play, variables, {"": answers(scenario, texts())}, everybody, first=first)


def liar(number: int) -> str:
    return f"liar{number:05}"


def of_honest(outcome: Outcome) -> dict[str, list[tuple[str, bool]]]:
    """By honest node: its tasks in order, and whether each has failed."""
    return {name: [(task, bool(result.get("failed"))) for task, result in outcome.of(name)] for name in HONEST}


@pytest.mark.core
@pytest.mark.parametrize("scenario", PLAYED, ids=lambda item: item.name)
def test_a_liar_stays_alone_and_is_named(scenario: Scenario, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for batch in batches(scenario):
        if not judged(cluster, scenario, batch):
            assert scenario.joint, "nobody was asked"
            for item in batch[:: max(1, len(batch) // FIRST)]:  # one node alone is asked for this
                assert judged(cluster, scenario, [item], first=True), f"nobody was asked for {item.key}"


def judged(cluster: Cluster, scenario: Scenario, batch: list[Told], *, first: bool = False) -> bool:
    """One play, and one in which the liars are sick; False where no liar was asked for what it lies about."""
    before = changed_files(cluster.home)
    outcome = play(cluster, scenario, [(item.key, item.lie.text) for item in batch], first=first)
    assert unexpected(cluster, outcome, before) == []
    asked = {(item.host, item.key) for item in outcome.asked}
    lied = [(number, item) for number, item in enumerate(batch) if (liar(number), item.key) in asked]
    if not lied:
        return False
    assert [item.lie.label for number, item in lied if item.lie.named and not outcome.failures(liar(number))] == []
    assert first or set(outcome.hosts) >= set(HONEST)
    if not scenario.joint:
        for name in HONEST:
            assert bool(outcome.failures(name)) == bool(scenario.ends), outcome.failures(name)
            assert re.search(scenario.ends, " ".join(outcome.failures(name)))
    if SCALE > 1 and all(item.lie.named for item in batch):
        honest = play(cluster, scenario, [(item.key, SICK) for item in batch], first=first)
        assert of_honest(outcome) == of_honest(honest), "a liar is to the others what a node is that fails"
    return True


@pytest.mark.parametrize("scenario", SCENARIOS if SCALE > 1 else SCENARIOS[:2], ids=lambda item: item.name)
def test_the_table_names_what_a_play_asks_for(scenario: Scenario, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    outcome = cluster.play(scenario.play, scenario.variables, {"": answers(scenario, texts())}, {})
    assert {item.key for item in outcome.asked} == set(scenario.asks)


def test_there_are_enough_lies() -> None:
    alone = sum(len(told(key)) for key in tasks())
    assert alone >= 2_000 * min(1, SCALE)
    assert alone + sum(len(told_in(item)) for item in PLAYED) >= 2_000 * SCALE


def test_every_playbook_is_played() -> None:
    names = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert names - {item.play for item in SCENARIOS if isinstance(item.play, str)} == {"site", "final_play"}  # made of others
