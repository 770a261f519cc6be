# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of many nodes as few lines, and node names as ranges."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.drift import fleet, fold


def finding(key: str = "nccl: file /etc/nccl.conf", severity: str = "major", **more: Any) -> dict[str, Any]:
    return {"key": key, "kind": "setting", "severity": severity, "expected": "a", "found": "b", "why": "w", **more}


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu001", "gpu002", "gpu003", "gpu007"], "gpu[001-003,007]"),
        ([f"gpu{number}" for number in range(1, 401)], "gpu[1-400]"),
        ([f"gpu{number:03}" for number in range(1, 401)], "gpu[001-400]"),
        ([f"gpu{number:03}" for number in range(98, 1002)], "gpu[098-999],gpu[1000-1001]"),
        (["gpu9", "gpu10"], "gpu[9-10]"),
        (["gpu9", "gpu10", "gpu08"], "gpu9,gpu[08,10]"),  # 10 is of the width that 08 is written in
        (["gpu100", "gpu101"], "gpu[100-101]"),
        (["a099", "a100", "b99", "b100"], "a[099-100],b[99-100]"),
        (["n0", "n00", "n1", "n01"], "n[0-1],n[00-01]"),
        (["rack1-gpu2.site", "rack1-gpu3.site", "login"], "login,rack1-gpu[2-3].site"),
        (["n1"], "n1"),
        (["n1", "n1"], "n1"),
        (["n0", "n1"], "n[0-1]"),
        ([], ""),
    ],
)
def test_names_fold_into_ranges(names: list[str], folded: str) -> None:
    assert fold(names) == folded


def unfold(folded: str) -> list[str]:
    """As clush and Slurm read it: numbers from first to last, in the width of the first one's digits."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^]]*\][^,]*)?", folded):
        head, bracket, rest = part.partition("[")
        ranges, _bracket, tail = rest.partition("]")
        for item in ranges.split(",") if bracket else ():
            first, _dash, last = item.partition("-")
            names += [f"{head}{number:0{len(first)}d}{tail}" for number in range(int(first), int(last or first) + 1)]
        if not bracket:
            names.append(part)
    return names


@given(st.sets(st.from_regex(r"(gpu|r1-n)(0{0,3}[0-9]{1,2}|9[0-9]{2}|10[0-9]{2})(\.x)?", fullmatch=True), max_size=40))
def test_what_is_printed_names_these_nodes_and_no_other(names: set[str]) -> None:
    assert sorted(unfold(fold(names))) == sorted(names)


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
