# SPDX-License-Identifier: GPL-3.0-or-later
"""A sample of the clusters that `make bench-isolate` draws: nobody is blamed wrongly, nothing slow is missed."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.lib import simulated_fabric
from tests.lib.isolate_scores import false_blame, missed, searched
from tests.lib.simulated_fabric import KINDS, Fabric, drawn_faults, drawn_fleet

from railwright.isolate.judge import judge
from railwright.isolate.model import Options
from railwright.isolate.readings import History
from railwright.isolate.solve import next_round

LIKE = ("node", "rail", "leaf")


@pytest.mark.parametrize(("nodes", "count", "kinds", "clusters", "rounds"), [
    (1024, 1, LIKE, 3, 6),
    (1024, 5, LIKE, 2, 8),
    (64, 3, KINDS, 40, 8),
    (16, 2, KINDS, 60, 8),
])  # fmt: skip
def test_no_false_blame_and_none_missed(nodes: int, count: int, kinds: Sequence[str], clusters: int, rounds: int) -> None:
    for seed in range(clusters):
        draw = random.Random(f"unit {nodes} {count} {seed}")
        fleet = drawn_fleet(draw, nodes)
        faults = drawn_faults(draw, fleet, count, kinds)
        outcome = searched(Fabric(fleet, faults, seed))
        assert false_blame(outcome.findings, faults, fleet) == [], (seed, faults)
        assert missed(outcome.findings, faults, fleet) == [], (seed, faults)
        assert outcome.rounds <= rounds
        assert outcome.seconds <= 20 * 60


@pytest.mark.parametrize(("nodes", "count", "seed"), [
    (16, 2, 5061),  # a flapping link of one rail; another rail had a slow partner once
    (16, 2, 5412),
    (64, 3, 5074),
    (64, 3, 5609),  # a slow direction, after a round in which most pairs hung
])  # fmt: skip
def test_draws_that_blamed_somebody_once(nodes: int, count: int, seed: int) -> None:
    draw = random.Random(f"{nodes} {count} {seed}")
    fleet = drawn_fleet(draw, nodes)
    faults = drawn_faults(draw, fleet, count, KINDS)
    found = searched(Fabric(fleet, faults, seed), Options(seed=seed)).findings
    assert false_blame(found, faults, fleet) == missed(found, faults, fleet) == []


def test_slow_leaves_of_many_nodes_are_no_slow_nodes() -> None:
    """With nccl-tests only suspects are measured on each rail, and most of these are slow: what is fast there, a few good pairs say."""
    draw = random.Random("1024 5 194")
    fleet = drawn_fleet(draw, 1024)
    faults = drawn_faults(draw, fleet, 5, LIKE)
    found = searched(Fabric(fleet, faults, 194)).findings
    assert sorted(finding.leaf for finding in found if finding.kind == "leaf") == ["leaf0", "leaf14", "leaf15", "leaf4"]
    assert [finding.nodes for finding in found if finding.kind != "leaf"] == [("node0757",)]


@pytest.mark.parametrize(("seed", "node"), [(236, "node0505"), (497, "node0057")])
def test_a_slow_leaf_of_one_rail_hides_no_other_rail(seed: int, node: str) -> None:
    """With nccl-tests all rails at once are then as fast as the leaf lets them be, whatever the other rails do."""
    draw = random.Random(f"1024 5 {seed}")
    fleet = drawn_fleet(draw, 1024)
    faults = drawn_faults(draw, fleet, 5, LIKE)
    found = searched(Fabric(fleet, faults, seed)).findings
    assert missed(found, faults, fleet) == false_blame(found, faults, fleet) == []
    assert any(node in finding.nodes for finding in found if finding.kind in ("node", "rail"))


def test_a_finding_has_more_than_one_measurement() -> None:
    for seed in range(20):
        draw = random.Random(f"evidence {seed}")
        fleet = drawn_fleet(draw, 48)
        outcome = searched(Fabric(fleet, drawn_faults(draw, fleet, 3, KINDS), seed))
        for finding in outcome.findings:
            if finding.kind not in ("unclear", "unmeasured"):
                assert sum(not row.good for row in finding.evidence) >= 3, finding


def test_a_round_is_the_same_for_the_same_seed() -> None:
    fleet = drawn_fleet(random.Random(4), 64, leaves="node")
    history = History(fleet)
    one, same, other = (next_round(history, judge(history), Options(seed=seed)) for seed in (1, 1, 2))
    assert one == same != other
    assert one is not None
    assert len({node for trial in one.trials for node in trial.nodes}) == 64
    crossing = [history.crosses(*trial.nodes, "rail0") for trial in one.trials]
    assert 4 <= crossing.count(False) < crossing.count(True)


def test_the_simulator_knows_nothing_of_the_solver() -> None:
    tree = ast.parse(Path(simulated_fabric.__file__).read_text(encoding="utf-8"))
    ours = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("railwright")}
    assert ours == {"railwright.isolate.model"}
