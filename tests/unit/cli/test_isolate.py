# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright isolate` before it measures: what is bad input, and what is left where too few nodes answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railwright.cli.isolate import not_needed
from railwright.cli.main import run
from railwright.isolate.journal import create
from railwright.isolate.model import Options, make_fleet
from railwright.journal import place_of
from railwright.scan import scan
from railwright.scan.faults import Unreachable
from repo import ROOT

SITE = str(ROOT / "inventories/roce")


class Away:
    """Nobody answers."""

    classical: frozenset[str] = frozenset()

    async def hear(self, *_asked: Any) -> Any:
        raise Unreachable("no route to host")

    async def close(self) -> None: ...


@pytest.mark.parametrize(("arguments", "said"), [
    (("--limit", "node1"), "isolate measures nodes against each other, and one node is all that was given"),
    (("--resume",), "--resume: no search of this inventory was interrupted"),
    (("--drain", "--yes"), "upgrade_scheduler of node1, node2 is none: --drain needs a scheduler"),
    (("--job", "12"), "JOB 12: upgrade_scheduler is none; allowed: slurm or kubernetes"),
    (("--job", "12", "--resume"), "--resume goes on with the nodes of the search that was interrupted; allowed: without --job"),
    (("--tool", "iperf"), "--tool iperf: is no such tool; allowed: auto, perftest, nccl"),
])
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run(["isolate", "-i", SITE, *arguments]) == 64
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_journal_of_another_inventory_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("railwright.cli.isolate.measurable", None)
    fleet = make_fleet(["gpu1", "gpu2", "node1"], ["rail0"], {}, "perftest")
    create(place_of("isolate", Path(SITE), "RUN"), fleet, Options()).close()
    assert run(["isolate", "-i", SITE, "--resume"]) == 64
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("is the journal of another inventory, which has gpu1, gpu2")


def test_a_job_has_partners_that_are_idle() -> None:
    nodes = dict.fromkeys(f"n{number}" for number in range(40))
    judged: Any = SimpleNamespace(inventory=SimpleNamespace(hosts=nodes))
    suspects, busy = ["n1", "n2", "n3", "n4", "n5"], {"n7": "jobs run there"}
    left = not_needed(judged, suspects, busy, 1)
    assert len(nodes.keys() - left.keys() - busy.keys()) == 10
    assert left.keys().isdisjoint({*suspects, *busy})
    assert len(nodes.keys() - not_needed(judged, ["n1"], busy, 1).keys() - busy.keys()) == 1 + 3
    assert left != not_needed(judged, suspects, busy, 2)


def test_without_two_nodes_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(scan, "TRANSPORT", lambda _logins, _word: Away())
    assert run(["isolate", "-i", SITE]) == 3
    assert "nothing was measured: 0 of 2 nodes can be measured, and two are needed" in capsys.readouterr().out
    assert list(tmp_path.glob("railwright/isolate/*")) == []
