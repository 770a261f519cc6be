# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulator's judge of a search counts as missed."""

import pytest
from tests.lib.isolate_scores import missed
from tests.lib.simulated_fabric import Fault
from tests.lib.small_fleets import fleet_of


@pytest.mark.parametrize(("leaves", "share", "hides"), [
    ({"leaf0-rail0": 0.2, "leaf0-rail1": 0.4}, 0.5, True),  # draw 9211 of 1,024 nodes
    ({"leaf0-rail0": 0.2}, 0.5, False), ({"leaf0-rail0": 0.2, "leaf0-rail1": 0.4}, 0.3, False),
    ({"leaf0-rail0": 0.2, "leaf1-rail1": 0.2}, 0.5, False)])  # fmt: skip
def test_a_node_is_hidden_where_each_rail_is_behind_a_slower_leaf(leaves: dict[str, float], share: float, hides: bool) -> None:
    fleet = fleet_of(16, rails=2, per_leaf=8, by_rail=True)
    node = Fault("node", share, "node3")
    faults = [node, *(Fault("leaf", slow, leaf=leaf) for leaf, slow in leaves.items())]
    assert (node not in missed([], faults, fleet)) is hides
