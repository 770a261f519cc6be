# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over real Soft-RoCE: a quiet fabric has no finding, and a rail that is slow both ways is named, twice.

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


def test_a_quiet_fabric_has_no_finding(machines: Fabric) -> None:
    run = machines.search()
    assert (run.code, run.found) == (0, []), run.err
    assert machines.strays() == []


@pytest.mark.parametrize("resumed", [False, True], ids=["whole", "killed and resumed"])
def test_it_alone_is_named(machines: Fabric, resumed: bool) -> None:
    machines.quiet()
    machines.port(2, 1, SLOW)
    machines.leaves(2, 1, SLOW)
    run = machines.search(killed_in=2 if resumed else 0)
    assert (run.code, run.found) == (1, [("rail", ("node3",), "rail1", "")]), run.document["isolate"]
    assert machines.strays() == []
