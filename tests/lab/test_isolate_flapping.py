# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over real Soft-RoCE: a rail that is slow in every other round flaps, also for a search that was killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolate_lab import RATE, SLOW, Fabric, fabric


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric("test_isolate_flapping", tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.mark.parametrize("resumed", [False, True], ids=["whole", "killed and resumed"])
def test_it_alone_is_named(machines: Fabric, resumed: bool) -> None:
    machines.quiet()

    def flap(number: int) -> None:
        machines.port(2, 1, SLOW if number % 2 else RATE)

    run = machines.search(flap, killed_in=2 if resumed else 0, samples=3)  # of one sample each, one search in four cannot tell
    assert (run.code, run.found) == (1, [("flapping", ("node3",), "rail1", "")]), run.document["isolate"]
    assert machines.strays() == []
