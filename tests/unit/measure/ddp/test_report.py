# SPDX-License-Identifier: GPL-3.0-or-later
"""Percentiles and throughput of the training benchmark, and that its files are what the oldest supported Python reads."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_report import figures, line, percentile
from repo import ROOT

FILES = sorted((ROOT / "roles" / "ddp_benchmark" / "files").glob("*.py"))
SECONDS = st.floats(min_value=1e-6, max_value=1e3)


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (25, 1.75), (50, 2.5), (75, 3.25), (90, 3.7), (95, 3.85), (100, 4.0)])
def test_between_two_values_it_is_interpolated_as_numpy_does(percent: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == pytest.approx(expected)


def test_one_value_is_every_percentile() -> None:
    assert [percentile([7.0], percent) for percent in (0, 50, 95, 100)] == [7.0] * 4


def test_no_value_has_none() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@given(st.lists(SECONDS, min_size=2, max_size=200))
def test_the_standard_library_says_the_same(values: list[float]) -> None:
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    assert percentile(values, 50) == pytest.approx(cuts[9])
    assert percentile(values, 95) == pytest.approx(cuts[18])


def test_five_of_a_hundred_steps_are_slower_than_p95() -> None:
    """What the inventory's documentation says of the default number of steps."""
    values = [float(number) for number in range(100)]
    assert sum(value > percentile(values, 95) for value in values) == 5


def test_throughput_is_of_the_whole_job_and_of_the_whole_time() -> None:
    found = figures([0.1, 0.1, 0.2, 0.2], elapsed=0.8, world_size=16, batch=64)
    assert found["samples_per_s"] == pytest.approx(16 * 64 * 4 / 0.8), "0.2 s between the steps count too"
    assert found["step_ms"] == pytest.approx({"p50": 150.0, "p75": 200.0, "p90": 200.0, "p95": 200.0})
    assert found["step_samples_per_s"]["p95"] == pytest.approx(16 * 64 / 0.2)


def test_the_line_reads_as_the_documents_benchmark_does() -> None:
    """004_ef36f584565cda0e: `p50: 0.098s 1306/s p75: 0.098s 1304/s …`."""
    found = figures([0.098] * 10, elapsed=0.98, world_size=16, batch=8)
    expected = "16 ranks:  p50: 0.0980s 1306/s  p75: 0.0980s 1306/s  p90: 0.0980s 1306/s  p95: 0.0980s 1306/s"
    assert line(found, "16 ranks") == expected


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_python_38_reads_it(file: Path) -> None:
    assert "from __future__ import annotations" in file.read_text(encoding="utf-8"), "list[str] in an annotation is from 3.9"
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_both_files_are_there() -> None:
    assert [file.name for file in FILES] == ["ddp_benchmark.py", "ddp_report.py"]
