# SPDX-License-Identifier: GPL-3.0-or-later
"""Two to eight nodes: what can be told, and where it says that it cannot. And what is refused."""

import pytest
from tests.lib.simulated_fabric import Fault
from tests.lib.small_fleets import fleet_of, run, said

from railwright.exitcodes import ExitCode, InputError
from railwright.isolate.model import make_fleet


def test_two_nodes_cannot_tell_which() -> None:
    outcome = run(fleet_of(2), [Fault("rail", 0.2, "node0", "rail1")])
    (found,) = outcome.findings
    assert (found.kind, found.nodes, found.rail) == ("unclear", ("node0", "node1"), "rail1")
    assert "not enough nodes to tell (2)" in found.text


@pytest.mark.parametrize("count", range(3, 9))
def test_more_nodes_can(count: int) -> None:
    outcome = run(fleet_of(count), [Fault("rail", 0.2, "node0", "rail1")], rounds=12, minutes=60)
    assert said(outcome) == [("rail", ("node0",), "rail1")]


@pytest.mark.parametrize("count", range(2, 9))
def test_good_nodes_are_good(count: int) -> None:
    assert run(fleet_of(count), rounds=12, minutes=60).clean


def test_most_nodes_are_slow() -> None:
    """Then nobody is blamed: that the others are too fast would be as good a reading."""
    faults = [Fault("node", share, f"node{number}") for number, share in enumerate((0.3, 0.4, 0.5, 0.6, 0.7))]
    assert {found.kind for found in run(fleet_of(8), faults).findings} <= {"unclear"}


def test_a_node_alone_behind_its_leaf() -> None:
    leaves = {"leaf0": [f"node{number}" for number in range(7)], "leaf1": ["node7"]}
    fleet = make_fleet([f"node{number}" for number in range(8)], ["rail0", "rail1"], leaves, "perftest")
    (found,) = run(fleet, [Fault("node", 0.5, "node7")]).findings
    assert (found.kind, found.nodes, found.leaf) == ("unclear", ("node7",), "leaf1")
    assert "not enough nodes at leaf1 to tell" in found.text


def test_no_time_is_said() -> None:
    outcome = run(fleet_of(24), [Fault("node", 0.5, "node3")], minutes=3)
    assert outcome.stopped == "3 minutes were not enough for another round"
    assert {found.kind for found in outcome.findings} == {"unclear"}


@pytest.mark.parametrize(("nodes", "leaves", "text"), [
    (["one"], {}, "this group has 1 of the two that it takes"),
    (["one", "one"], {}, "this group has 1 of the two"),
    (["one", "two"], {"leaf9": ["three"]}, "leaf leaf9: no node of this group is at it"),
    (["one", "two"], {"leaf1": ["one"], "leaf2": ["one"]}, "leaf leaf2: a node of it is at leaf1 too"),
])  # fmt: skip
def test_bad_input_is_one_line(nodes: list[str], leaves: dict[str, list[str | tuple[str, str]]], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        make_fleet(nodes, ["rail0"], leaves, "perftest")
    assert caught.value.code == ExitCode.USAGE == 64
    assert "\n" not in str(caught.value)
