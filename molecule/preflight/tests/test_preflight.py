# SPDX-License-Identifier: GPL-3.0-or-later
"""A node without Python gets it, and one that must not be worked on is refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

JUDGE, AFTER = "Judge the inventory and the node", "Judge the Python that came"


def answers(run: Any, node: str) -> list[tuple[str, str, Any]]:
    return [(item["task"], item["status"], item["answer"].get("python_missing")) for item in run.of("rdma_preflight", node)]


def test_python_is_there(host: Any) -> None:
    assert host.check_output("python3 -c 'import sys; print(sys.version_info[0])'") == "3"


def test_check_mode_told_of_the_missing_python_and_brought_none(runs: list[Any]) -> None:
    assert [run.kind for run in runs] == ["check", "apply", "apply"]
    assert answers(runs[0], "node1") == [(JUDGE, "ok", True)]
    assert answers(runs[1], "node1") == [(JUDGE, "ok", True), (AFTER, "ok", False)], "still missing, then brought and judged"


def test_a_second_run_finds_python_and_brings_nothing(runs: list[Any]) -> None:
    assert answers(runs[2], "node1") == [(JUDGE, "ok", False)]


def test_the_verdict_on_a_fit_node_has_its_evidence(runs: list[Any]) -> None:
    answer = runs[2].of("rdma_preflight", "node1")[0]["answer"]
    assert answer["problems"] == []
    assert answer["platform"]["id"] == "debian"
    assert answer["python"].startswith("Python 3.")


def test_a_node_without_space_is_refused_in_every_run_and_told_why(runs: list[Any]) -> None:
    for run in runs:
        assert answers(run, "node2") == [(JUDGE, "failed", False)]
    kept = json.loads((Path(__file__).parents[3] / "build/molecule/preflight/refused-node2.json").read_text(encoding="utf-8"))
    assert kept["task"] == JUDGE
    assert "disk /" in kept["message"] and "preflight_min_free_mb" in kept["message"]


def test_nobody_else_was_refused() -> None:
    assert [path.name for path in (Path(__file__).parents[3] / "build/molecule/preflight").glob("refused-*")] == ["refused-node2.json"]


def test_a_preflight_leaves_nothing_on_the_node(host: Any) -> None:
    assert not host.file("/var/lib/railwright").exists
