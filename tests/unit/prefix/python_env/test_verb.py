# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright env make`` over outcomes as a run gives them: which playbook, what is shown, which exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railwright.cli.main import run
from railwright.events import HostOutcome, RunOutcome
from railwright.runs import load_run

CHANGE = {
    "key": "ai_environment: environment below /opt/railwright/ai", "area": "ai_environment", "what": "environment below /opt/railwright/ai",
    "before": None, "after": "torch-2.9.1-py3.12-0123456789ab", "disruption": "none", "why": "the inventory asks for it",
    "source": "inventory",
}
SITE = "rdma_fabric: roce\nrdma_mtu: 9000\n"


class Runs:
    """Stands in for run_playbook."""

    def __init__(self, *hosts: HostOutcome) -> None:
        self.hosts, self.played = hosts, ""

    def __call__(self, playbook: str, *_others: Any) -> RunOutcome:
        self.played = playbook
        return RunOutcome({host.name: host for host in self.hosts})


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "inv" / "group_vars").mkdir(parents=True)
    (tmp_path / "inv" / "hosts.yml").write_text("rdma:\n  hosts:\n    node1:\n    node2:\n")
    (tmp_path / "inv" / "group_vars" / "all.yml").write_text(SITE)
    return tmp_path / "inv"


Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, inventory: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def called(runs: Runs, *options: str) -> tuple[int, str]:
        monkeypatch.setattr("railwright.run.run_playbook", runs)
        code = run(["env", "make", "-i", str(inventory), *options])
        return code, capsys.readouterr().out

    return called


def node(name: str, *, changes: bool = True, **more: Any) -> HostOutcome:
    return HostOutcome(name, planned=True, changes=[dict(CHANGE)] if changes else [], **more)


def test_check_shows_and_ends_2_and_is_stored_as_a_plan(call: Call) -> None:
    runs = Runs(node("node1"), node("node2", changes=False, drivers={"torch": "2.9.1+cu128, CUDA 12.8, 8 CUDA devices when it was made"}))
    code, said = call(runs, "--check")
    assert (runs.played, code) == ("ai_environment_plan", 2)
    assert "torch-2.9.1-py3.12-0123456789ab" in said
    assert "torch: 2.9.1+cu128, CUDA 12.8, 8 CUDA devices when it was made" in said
    assert "2 nodes: 1 to make" in said
    assert (load_run().verb, load_run().exit_code) == ("plan", 2)


def test_a_run_ends_0_with_what_was_made_and_1_where_a_node_failed(call: Call) -> None:
    good = Runs(node("node1"), node("node2", changes=False))
    code, said = call(good, "--format", "json")
    document = json.loads(said)
    assert (good.played, code, document["summary"]["made"]) == ("ai_environment", 0, 1)
    assert document["nodes"]["node1"]["changes"] == [CHANGE | {"applied": True}]
    failed = node("node2", status="failed", message="ERROR: No matching distribution found for absent==1", task="Run pip and conda")
    code, said = call(Runs(node("node1"), failed), "--format", "json")
    document = json.loads(said)
    assert (code, document["summary"]["made"], document["summary"]["changes"]) == (1, 1, 2)
    assert document["nodes"]["node2"]["changes"][0]["applied"] is False
    assert load_run().verb == "environment"


def test_a_node_that_was_not_inspected_has_not_passed(call: Call) -> None:
    code, said = call(Runs(HostOutcome("node1"), node("node2", changes=False)), "--check", "--format", "json")
    assert code == 1
    assert json.loads(said)["nodes"]["node1"]["message"] == "the run ended before this node's environment"


def test_a_wrong_inventory_starts_nothing(call: Call, inventory: Path) -> None:
    (inventory / "group_vars" / "all.yml").write_text(SITE + "ai_environment_kind: venv\n")
    runs = Runs()
    assert (call(runs)[0], runs.played) == (64, "")


def test_a_problem_of_a_node_is_shown(call: Call) -> None:
    """The heading of such a node has no message: the table of its problems says why."""
    problem = {"area": "ai_environment", "subject": "torch", "message": "no wheel for Python 3.9"}
    code, said = call(Runs(node("node1", changes=False, status="failed", message="refused", problems=[problem])), "--check")
    assert code == 1
    assert "no wheel for Python 3.9" in said
