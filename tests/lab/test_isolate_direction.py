# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over real Soft-RoCE: a rail that is slow one way only is named with its direction, twice.

The second time the search is killed in its second round and resumed. What slows a link is a shaper (isolate_lab.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolate_lab import SLOW, Fabric, fabric


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric("test_isolate_direction", tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.mark.parametrize("resumed", [False, True], ids=["whole", "killed and resumed"])
def test_it_alone_is_named(machines: Fabric, resumed: bool) -> None:
    machines.quiet()
    machines.leaves(1, 0, SLOW)
    run = machines.search(killed_in=2 if resumed else 0)
    assert (run.code, run.found) == (1, [("direction", ("node2",), "rail0", "out")]), run.document["isolate"]
    assert machines.strays() == []
