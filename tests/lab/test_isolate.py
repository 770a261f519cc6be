# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over real Soft-RoCE: a quiet fabric has no finding; a slowed rail, a slow direction and a slow path are named, twice.

The second time the search is killed in its second round and resumed. What slows a link is a shaper (isolate_lab.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolate_lab import SLOW, Fabric, fabric


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric("test_isolate", tmp_path_factory.mktemp("state")) as made:
        yield made


def slow_rail(made: Fabric) -> None:
    made.port(2, 1, SLOW)
    made.leaves(2, 1, SLOW)


def slow_direction(made: Fabric) -> None:
    made.leaves(1, 0, SLOW)


def slow_path(made: Fabric) -> None:
    made.path(0, 3, 0)
    made.path(3, 0, 0)


FAULTS = {
    "rail": (slow_rail, ("rail", ("node3",), "rail1", "")),
    "direction": (slow_direction, ("direction", ("node2",), "rail0", "out")),
    "pair": (slow_path, ("pair", ("node1", "node4"), "rail0", "")),
}


def test_a_quiet_fabric_has_no_finding(machines: Fabric) -> None:
    run = machines.search()
    assert (run.code, run.found) == (0, []), run.err
    assert machines.strays() == []


@pytest.mark.parametrize("resumed", [False, True], ids=["whole", "killed and resumed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_alone_is_named(machines: Fabric, fault: str, resumed: bool) -> None:
    slowed, expected = FAULTS[fault]
    machines.quiet()
    slowed(machines)
    run = machines.killed_and_resumed() if resumed else machines.search()
    assert run.code == 1, run.err
    assert [(kind, tuple(sorted(nodes)), rail, way) for kind, nodes, rail, way in run.found] == [expected], run.document["isolate"]
    assert machines.strays() == []
