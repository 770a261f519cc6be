# SPDX-License-Identifier: GPL-3.0-or-later
"""Canaries first, one failure domain at a time, never more away than allowed."""

import pytest

from railwright.upgrade.order import Rules, batches, canaries, next_batch, ordered, share_of

NAMES = [f"n{number}" for number in range(1, 7)]
DOMAINS = {"n1": "a", "n2": "b", "n3": "a", "n4": "b", "n5": "a", "n6": "b"}


@pytest.mark.parametrize(
    ("text", "nodes", "most"), [("1", 400, 1), ("4", 2, 4), ("10%", 400, 40), ("10%", 9, 1), ("15%", 19, 2), ("100%", 7, 7)]
)
def test_a_share_is_rounded_down_but_is_one_at_least(text: str, nodes: int, most: int) -> None:
    assert share_of(text, nodes) == most


def test_canaries_then_one_domain_after_the_other() -> None:
    rules = Rules(2, ("n4", "n1"), DOMAINS)
    order = ordered(NAMES, rules)
    assert order == ["n1", "n4", "n3", "n5", "n2", "n6"]
    # Two canaries of two domains are two batches.
    assert batches(order, canaries(order, rules), rules, {}) == [["n1"], ["n4"], ["n3", "n5"], ["n2", "n6"]]


def test_without_a_canary_the_first_node_goes_alone() -> None:
    rules = Rules(3, (), {})
    assert batches(ordered(NAMES, rules), ["n1"], rules, {}) == [["n1"], ["n2", "n3", "n4"], ["n5", "n6"]]


def test_a_canary_that_is_not_among_the_nodes_is_none() -> None:
    assert canaries(["n2", "n3"], Rules(1, ("n1",), {})) == ["n2"]


def test_who_is_away_already_takes_a_place() -> None:
    rules = Rules(3, (), {})
    assert next_batch(NAMES, [], rules, {"x": "down", "y": "down"}) == ["n1"]
    assert next_batch(NAMES, [], rules, {"x": "down", "y": "down", "z": "down"}) == []


def test_to_upgrade_who_is_away_takes_nothing_from_anybody() -> None:
    rules = Rules(2, (), {})
    assert next_batch(NAMES, [], rules, {"n2": "drained"}) == ["n1", "n2"]
    assert next_batch(NAMES[1:], [], rules, {"n2": "drained", "n3": "down"}) == ["n2", "n3"]


def test_nobody_overtakes_the_one_that_has_no_place() -> None:
    rules = Rules(2, (), {})
    assert next_batch(NAMES, [], rules, {"n2": "drained", "n3": "down"}) == []
    assert batches(NAMES[1:], [], rules, {"n2": "drained", "n3": "down"}) == [["n2", "n3"]], "the others can never go"
