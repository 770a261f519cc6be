# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over real Soft-RoCE, and a machine that stops (SIGSTOP for its QEMU).

Gone for a round, nobody is blamed; gone for good, it is said that it was not measured.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolate_lab import Fabric, fabric


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric("test_isolate_stopped", tmp_path_factory.mktemp("state")) as made:
        yield made


def test_gone_for_a_round_blames_nobody(machines: Fabric) -> None:
    with machines.stopped(2) as stop:
        run = machines.search(lambda number: stop(number == 2))
    assert (run.code, run.found) == (0, []), run.document["isolate"]
    assert any(trial["failure"] for round_ in run.document["isolate"]["rounds"] for trial in round_["trials"])
    assert machines.strays() == []


def test_gone_for_good_was_not_measured(machines: Fabric) -> None:
    with machines.stopped(2) as stop:
        run = machines.search(lambda number: stop(number > 1))
    assert run.found == [("unmeasured", ("node3",), "", "")], run.document["isolate"]
    assert run.code == 1
    assert machines.strays() == []
