# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over real Soft-RoCE: a path between two nodes that are good with others is named, twice.

The second time the search is killed in its second round and resumed. What slows a link is a shaper (isolate_lab.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolate_lab import Fabric, fabric


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric("test_isolate_path", tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.mark.parametrize("resumed", [False, True], ids=["whole", "killed and resumed"])
def test_it_alone_is_named(machines: Fabric, resumed: bool) -> None:
    machines.quiet()
    machines.path(0, 3, 0)
    machines.path(3, 0, 0)
    run = machines.search(killed_in=2 if resumed else 0)
    assert (run.code, run.found) == (1, [("pair", ("node1", "node4"), "rail0", "")]), run.document["isolate"]
    assert machines.strays() == []
