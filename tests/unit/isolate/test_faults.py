# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of fault in a fleet of its own: what is said of it, with which evidence."""

from collections.abc import Collection

import pytest
from tests.lib.isolate_scores import searched
from tests.lib.simulated_fabric import Fabric, Fault, Noise
from tests.lib.small_fleets import fleet_of, run, said

from railwright.isolate.model import TOOLS, Fleet, Options, Result, Round


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_is_slow(tool: str) -> None:
    outcome = run(fleet_of(24, tool, per_leaf=6))
    assert outcome.clean
    assert outcome.rounds == 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("share", [0.3, 0.88])
def test_a_slow_node(tool: str, share: float) -> None:
    outcome = run(fleet_of(24, tool, per_leaf=6), [Fault("node", share, "node5")])
    assert said(outcome) == [("node", ("node5",), "")]
    assert outcome.findings[0].share == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_slow_rail_has_its_evidence(tool: str) -> None:
    outcome = run(fleet_of(24, tool, per_leaf=6), [Fault("rail", 0.1, "node17", "rail2")])
    (found,) = outcome.findings
    assert (found.kind, found.nodes, found.rail) == ("rail", ("node17",), "rail2")
    assert found.text.startswith("rail2 of node17: ")
    assert found.text.endswith(", both directions; node17's other rails are good")
    assert len({row.partner for row in found.evidence if not row.good}) >= 3
    assert all(row.figure < 60 and row.like > 380 for row in found.evidence if not row.good)


@pytest.mark.parametrize("way", ["out", "in"])
@pytest.mark.parametrize("tool", TOOLS)
def test_one_bad_direction(tool: str, way: str) -> None:
    outcome = run(fleet_of(24, tool), [Fault("direction", 0.5, "node3", "rail1", way)])
    assert [(found.kind, found.rail, found.way) for found in outcome.findings] == [("direction", "rail1", way)]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_bad_pair_blames_neither_end(tool: str) -> None:
    """Among four nodes every pair is measured."""
    outcome = run(fleet_of(4, tool), [Fault("pair", 0.5, "node0", "rail1", other="node2")], rounds=10, minutes=40)
    assert [(found.kind, found.nodes) for found in outcome.findings] == [("pair", ("node0", "node2"))]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("by_rail", [False, True])
def test_a_slow_leaf_is_no_slow_nodes(tool: str, by_rail: bool) -> None:
    fleet = fleet_of(32, tool, per_leaf=8, by_rail=by_rail)
    leaf = "leaf1-rail2" if by_rail else "leaf1"
    outcome = run(fleet, [Fault("leaf", 0.6, leaf=leaf)])
    assert [(found.kind, found.leaf) for found in outcome.findings] == [("leaf", leaf)]


def test_a_slow_node_behind_a_slow_leaf() -> None:
    outcome = run(fleet_of(48, per_leaf=8), [Fault("leaf", 0.6, leaf="leaf1"), Fault("node", 0.3, "node9")])
    assert {found.kind for found in outcome.findings} == {"leaf", "node"}
    assert [found.nodes for found in outcome.findings if found.kind == "node"] == [("node9",)]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_slow_plane_blames_no_node(tool: str) -> None:
    outcome = run(fleet_of(48, tool, per_leaf=8, rails=1), [Fault("plane", 0.5, rail="rail0")])
    assert [(found.kind, found.rail) for found in outcome.findings] == [("plane", "rail0")]


def test_one_of_several_spines_blames_no_node() -> None:
    outcome = run(fleet_of(128, per_leaf=8), [Fault("spine", 0.4, planes=4)])
    assert [found.kind for found in outcome.findings] == ["plane"]
    assert "of the paths between leaves are slow" in outcome.findings[0].text


def test_a_link_that_flaps() -> None:
    """Where it was bad when everybody was measured, and good and bad later. One that was bad each time
    is a slow rail, and one that was bad with one partner alone, a bad path: that is all that was seen of it."""
    kinds = [found.kind for seed in range(30) for found in run(fleet_of(24), [Fault("flapping", 0.4, "node3", "rail1")], seed).findings]
    assert kinds.count("flapping") >= 3
    assert set(kinds) <= {"flapping", "unclear", "rail", "pair"}


def test_a_gpu_that_computes_late() -> None:
    outcome = run(fleet_of(24, "nccl"), [Fault("late gpu", 0.7, "node3", gpu=5)])
    assert [(found.kind, found.nodes, found.gpu) for found in outcome.findings] == [("late gpu", ("node3",), 5)]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_hang(tool: str) -> None:
    outcome = run(fleet_of(24, tool), [Fault("hang", 0, "node3")])
    assert said(outcome) == [("hang", ("node3",), "")]


def test_five_at_once() -> None:
    faults = [Fault("node", 0.5, "node1"), Fault("rail", 0.6, "node9", "rail0"), Fault("direction", 0.4, "node20", "rail3", "out"),
              Fault("hang", 0, "node33"), Fault("rail", 0.88, "node40", "rail2")]  # fmt: skip
    outcome = run(fleet_of(64, per_leaf=8), faults)
    assert {(found.kind, *found.nodes) for found in outcome.findings} == {(fault.kind, fault.node) for fault in faults}


def test_outliers_blame_nobody() -> None:
    """One measurement in ten is off: most of these would be somebody's fault if one measurement were enough."""
    for seed in range(10):
        assert {found.kind for found in run(fleet_of(32), (), seed, Noise(outliers=0.1, launches=0)).findings} <= {"unclear"}


def test_a_node_that_cannot_be_launched_is_no_slow_one() -> None:
    outcome = run(fleet_of(8), (), noise=Noise(launches=1))
    assert {found.kind for found in outcome.findings} == {"unmeasured"}
    assert outcome.stopped == "the last 2 rounds gave no figure at all"


@pytest.mark.parametrize(("rounds", "count", "said_of"), [
    (range(1, 99), 4, "node2 was not measured: 3 launches failed (unreachable)"),
    (range(2, 99), 4, "node2 was not measured with more than 1 of the others: 3 launches failed (unreachable)"),
    ((2,), 4, ""), (range(1, 99), 24, "node2 was not measured: 3 launches failed (unreachable)")])  # fmt: skip
def test_a_node_that_is_gone_for_some_rounds(rounds: Collection[int], count: int, said_of: str) -> None:
    """In a small fleet everybody is to meet several others: not those that do not answer."""
    outcome = searched(Gone(fleet_of(count), "node2", rounds), Options(rounds=12, minutes=60))
    assert [found.text for found in outcome.findings] == ([said_of] if said_of else [])
    assert outcome.rounds <= 4


class Gone(Fabric):
    def __init__(self, fleet: Fleet, node: str, rounds: Collection[int]) -> None:
        super().__init__(fleet, (), 3, Noise(outliers=0, launches=0))
        self.node, self.rounds = node, rounds

    def run(self, round_: Round) -> list[Result]:
        found = super().run(round_)
        gone = round_.number in self.rounds
        return [Result((), "unreachable", self.node) if gone and self.node in trial.nodes else one
                for trial, one in zip(round_.trials, found, strict=True)]  # fmt: skip
