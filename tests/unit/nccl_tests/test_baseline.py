# SPDX-License-Identifier: GPL-3.0-or-later
"""A golden run: written from a whole run alone, judged against the same nodes and versions alone."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.baseline import baseline_of, judge_baseline
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from bench_documents import document, one_run
from railwright.cli.bench import HEAD, keep_baseline, signature
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import CommandError, InputError


def taken(**more: Any) -> dict[str, Any]:
    return baseline_of(document(one_run(), one_run("alltoall", judged_busbw=300.0)), "Jane Doe", "2026-11-26", "r1") | more


def statuses(baseline: dict[str, Any], *runs: dict[str, Any], **more: Any) -> list[str]:
    return [item.status for item in judge_baseline(baseline, document(*runs, **more))]


def test_a_baseline_has_the_figures_and_their_conditions() -> None:
    found = taken()
    assert found["busbw"] == {"all_reduce": 342.9, "alltoall": 300.0}
    assert (found["approved_by"], found["date"], found["run"], found["versions"]["driver"]) == ("Jane Doe", "2026-11-26", "r1", "580.95.05")
    _spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "nccl_tests_baseline": found}, "n1")
    assert not [item for item in findings if "baseline" in item.key]


@pytest.mark.parametrize(("busbw", "status"), [(342.9, "pass"), (330.0, "pass"), (325.0, "fail"), (500.0, "pass"), (None, "unknown")])
def test_a_slower_run_fails(busbw: float | None, status: str) -> None:
    assert statuses(taken(), one_run(judged_busbw=busbw)) == [status]


def test_other_versions_and_other_nodes_are_named_and_not_judged() -> None:
    older = taken(versions={"driver": "575.57.08", "cuda": "13.0", "nccl": "2.30.7", "mpi": "openmpi 4.1.4", "nccl_tests": "2.19.6"})
    (found,) = judge_baseline(older, document(one_run(judged_busbw=1.0)))
    assert found.status == "warn"
    assert "driver was 575.57.08, is 580.95.05" in found.message
    assert "approved by Jane Doe" in found.message
    for change in ({"nodes": 3}, {"gpu": "NVIDIA H100"}, {"ranks": 1}, {"launcher": "local"}):
        assert statuses(taken(**change), one_run()) == ["warn"]


def test_what_a_baseline_does_not_have_is_skipped() -> None:
    assert statuses(taken(), one_run("all_gather")) == ["skipped"]
    assert statuses({}, one_run()) == []


@pytest.mark.parametrize("change", [
    {"busbw": {}}, {"busbw": {"all_reduce": -1}}, {"busbw": {"all_reduce": True}}, {"busbw": {"allreduce": 3}}, {"nodes": "two"},
    {"approved_by": ""}, {"versions": {"driver": 580}}, {"extra": 1}, {"gpu": ["x"]}, {"nodes": 0},
])
def test_half_a_baseline_is_an_error_of_the_inventory(change: dict[str, Any]) -> None:
    _spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "nccl_tests_baseline": taken(**change)}, "n1")
    assert [item.key for item in findings if item.key.startswith("nccl_tests_baseline.") and item.severity == "error"]


def test_a_half_run_is_no_baseline() -> None:
    for runs in ([], [one_run(complete=False)], [one_run(judged_busbw=None)]):
        with pytest.raises(ValueError, match=r"measured|end"):
            baseline_of(document(runs=runs), "Jane", "2026-11-26", "r1")


def outcome(*verdicts: dict[str, Any]) -> RunOutcome:
    found = RunOutcome()
    found.bench, found.verdicts = document(one_run()), list(verdicts)
    found.hosts = {"n1": HostOutcome("n1")}
    return found


def test_a_baseline_goes_into_a_file_of_the_inventory(tmp_path: Path) -> None:
    file = tmp_path / "baseline.yml"
    older = {"check": "nccl.baseline", "status": "fail"}
    for _again in range(2):
        assert signature(file, " Jane Doe ", nccl_tests=True) == "Jane Doe"
        keep_baseline(file, "Jane Doe", outcome(older), "2026-11-26", "r1")
    assert yaml.safe_load(file.read_text())["nccl_tests_baseline"]["busbw"] == {"all_reduce": 342.9}


def test_figures_of_a_run_that_failed_are_no_baseline(tmp_path: Path) -> None:
    file = tmp_path / "baseline.yml"
    with pytest.raises(CommandError, match=r"nccl\.values failed"):
        keep_baseline(file, "Jane", outcome({"check": "nccl.values", "status": "fail"}), "2026-11-26", "r1")
    lost = outcome()
    lost.hosts["n1"].status = "unreachable"
    with pytest.raises(CommandError, match="did not end"):
        keep_baseline(file, "Jane", lost, "2026-11-26", "r1")
    assert not file.exists()


@pytest.mark.parametrize(("name", "approved", "wanted"), [
    ("b.yml", None, "approved-by NAME"), ("b.yml", "  ", "approved-by NAME"), ("b.yml", "a\nb", "approved-by NAME"),
    ("none/b.yml", "Jane", "is no directory"), ("other.yml", "Jane", "holds something else"), (None, "Jane", "give --save-baseline"),
])
def test_nobody_signs_by_accident(tmp_path: Path, name: str | None, approved: str | None, wanted: str) -> None:
    (tmp_path / "other.yml").write_text("rdma_mtu: 9000\n")
    with pytest.raises(InputError, match=wanted):
        signature(tmp_path / name if name else None, approved, nccl_tests=True)


def test_a_baseline_is_of_nccl_tests(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-nccl-tests"):
        signature(tmp_path / "b.yml", "Jane", nccl_tests=False)
    assert HEAD.startswith("#")
