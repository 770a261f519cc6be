# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of many nodes as few lines, and node names as ranges."""

from __future__ import annotations

from typing import Any

import pytest

from railwright.drift.fleet import fleet, fold


def finding(key: str = "nccl: file /etc/nccl.conf", severity: str = "major", **more: Any) -> dict[str, Any]:
    return {"key": key, "kind": "setting", "severity": severity, "expected": "a", "found": "b", "why": "w", **more}


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu001", "gpu002", "gpu003", "gpu007"], "gpu[001-003,007]"),
        ([f"gpu{number}" for number in range(1, 401)], "gpu[1-400]"),
        (["gpu9", "gpu10", "gpu08"], "gpu08,gpu[9-10]"),
        (["rack1-gpu2.site", "rack1-gpu3.site", "login"], "login,rack1-gpu[2-3].site"),
        (["n1"], "n1"),
        (["n1", "n1"], "n1"),
        (["n0", "n1"], "n[0-1]"),
        ([], ""),
    ],
)
def test_names_fold_into_ranges(names: list[str], folded: str) -> None:
    assert fold(names) == folded


def test_the_same_drift_on_400_nodes_is_one_row() -> None:
    (row,) = fleet({f"gpu{number}": [finding()] for number in range(400)})
    assert (len(row.nodes), fold(row.nodes)) == (400, "gpu[0-399]")


def test_other_values_are_other_rows_and_the_worst_comes_first() -> None:
    rows = fleet(
        {
            "n1": [finding(), finding("sysctl: x", found=1)],
            "n2": [finding(), finding("sysctl: x", found=2), finding("hca: dead", "critical")],
        }
    )
    assert [(row.finding["key"], row.nodes) for row in rows] == [
        ("hca: dead", ["n2"]),
        ("nccl: file /etc/nccl.conf", ["n1", "n2"]),
        ("sysctl: x", ["n1"]),
        ("sysctl: x", ["n2"]),
    ]


def test_a_row_has_the_earliest_time_of_its_nodes() -> None:
    (row,) = fleet({"n1": [finding(since=None, first_seen="2026-02")], "n2": [finding(since="2025-12", first_seen="2026-01")]})
    assert (row.finding["since"], row.finding["first_seen"]) == ("2025-12", "2026-01")


def test_a_severity_of_a_newer_node_does_not_hide_at_the_end() -> None:
    assert [row.finding["severity"] for row in fleet({"n": [finding("a", "minor"), finding("b", "fatal")]})] == ["fatal", "minor"]
