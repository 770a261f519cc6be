# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts on nodes without an RDMA device: the missing device is named, what is right passes, nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parents[3] / "build/molecule/validate"
NODES = {"node1", "node2"}


def verdicts(run: Any) -> list[dict[str, Any]]:
    return [verdict for item in run.answers for verdict in item["answer"].get("verdicts", [])]


def of(run: Any, check: str, node: str) -> list[dict[str, Any]]:
    return [verdict for verdict in verdicts(run) if (verdict["check"], verdict["node"]) == (check, node)]


def test_the_missing_device_is_named(applied: Any, node: str) -> None:
    [verdict] = of(applied, "rail.device", node)
    assert (verdict["status"], verdict["subject"]) == ("fail", "rail0 (eth1)")
    assert verdict["expected"].startswith("an RDMA device on eth1 (mac 02:00:00:00:")
    assert (verdict["hca"], verdict["port"], verdict["found"]) == (None, None, None)
    assert "no RDMA device is on it" in verdict["message"]


def test_full_size_pings_pass_between_the_nodes(applied: Any, node: str) -> None:
    [verdict] = of(applied, "ping.mtu", node)
    assert verdict["status"] == "pass", verdict
    assert (NODES - {node}).pop() in verdict["message"] + verdict["subject"]


def test_drift_is_a_verdict_by_its_own_name(applied: Any, node: str) -> None:
    failed = {verdict["subject"] for verdict in of(applied, "config.packages", node) if verdict["status"] == "fail"}
    assert {"package rdma-core", "package perftest"} <= failed
    failed = {verdict["subject"] for verdict in of(applied, "config.network", node) if verdict["status"] == "fail"}
    assert "file /etc/systemd/network/10-railwright-rail0.network" in failed
    assert not [what for what in failed if what.startswith(("MTU of", "address of"))], "those are as the inventory wants them"


def test_bandwidth_is_not_passed_without_a_measurement(applied: Any, node: str) -> None:
    statuses = {verdict["status"] for verdict in verdicts(applied) if verdict["check"].startswith("perftest") and verdict["node"] == node}
    assert "pass" not in statuses


def test_every_node_is_failed_at_the_end_and_not_before(applied: Any, node: str) -> None:
    kept = json.loads((BUILD / f"refused-{node}.json").read_text(encoding="utf-8"))
    assert kept["task"] == "Pass only where no verdict failed"
    summary = applied.of("rdma_cluster")[-1]["answer"]["summary"][node]
    assert kept["message"].startswith(f"{summary['fail']} verdicts on this node failed")
    concerning = [verdict for verdict in verdicts(applied) if verdict["node"] in ("", node)]
    assert summary["fail"] == len([verdict for verdict in concerning if verdict["status"] == "fail"])


def test_every_run_says_the_same(runs: list[Any]) -> None:
    """Check mode starts no server, so it alone has no measurement to tell of."""
    assert [run.kind for run in runs] == ["check", "apply", "apply"]
    told = [sorted((verdict["node"], verdict["check"], verdict["subject"], verdict["status"]) for verdict in verdicts(run)) for run in runs]
    assert told[1] == told[2]
    assert told[0] == [row for row in told[1] if not row[1].startswith("perftest")]


def test_validation_changes_nothing(host: Any) -> None:
    assert not host.file("/var/lib/railwright").exists
    assert not host.package("rdma-core").is_installed
