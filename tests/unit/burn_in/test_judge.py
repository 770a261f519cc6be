# SPDX-License-Identifier: GPL-3.0-or-later
"""What a round of a burn-in shows of GPUs, and which of them it blames."""

from __future__ import annotations

from typing import Any

import pytest

from railwright.burn_in.judge import judge_bits, judge_health, parts_of, sums_of


def gpu(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, "uuid": f"GPU-u{index}", "serial": f"165{index}", "name": "H100", "celsius": 60,
            "margin_celsius": 20, "hw_thermal_us": 0, "sw_thermal_us": 0, "hw_thermal": 0, "sw_thermal": 0,
            "uncorrected": 0, "corrected": 0, **more}


def health(*gpus: dict[str, Any], diag: Any = None) -> dict[str, Any]:
    return {"gpus": list(gpus), "nics": [{"hca": "mlx5_0", "serial": "MT1"}], "diag": diag}


def judged(before: Any, after: Any) -> list[tuple[str, str, str]]:
    return [(item.check, item.subject, item.status) for item in judge_health("n1", before, after)]


GOOD = [("gpu.thermal", "GPU 0", "pass"), ("gpu.ecc", "GPU 0", "pass")]


def test_nothing_grew() -> None:
    assert judged(health(gpu()), health(gpu())) == GOOD


@pytest.mark.parametrize(("before", "after", "thermal", "ecc"), [
    ({}, {"sw_thermal_us": 5}, "fail", "pass"), ({}, {"hw_thermal_us": 5}, "fail", "pass"),
    ({"sw_thermal_us": 9}, {"sw_thermal_us": 9}, "pass", "pass"),
    ({"sw_thermal_us": 9}, {"sw_thermal_us": 3}, "fail", "pass"),  # the driver was loaded again, and counts from 0
    ({"sw_thermal_us": 9}, {"sw_thermal_us": 0}, "pass", "pass"),
    ({"hw_thermal_us": None}, {"hw_thermal_us": None}, "unknown", "pass"),
    ({"hw_thermal_us": None}, {"hw_thermal_us": None, "hw_thermal": 1}, "fail", "pass"),
    ({}, {"uncorrected": 1}, "pass", "fail"), ({}, {"corrected": 1}, "pass", "warn"),
    ({"uncorrected": None}, {"uncorrected": None}, "pass", "unknown"),
])
def test_heat_and_memory(before: dict[str, Any], after: dict[str, Any], thermal: str, ecc: str) -> None:
    assert judged(health(gpu(**before)), health(gpu(**after))) == [("gpu.thermal", "GPU 0", thermal), ("gpu.ecc", "GPU 0", ecc)]


def test_not_read_is_unknown() -> None:
    assert judged(None, health(gpu())) == [("gpu.thermal", "GPU 0", "unknown"), ("gpu.ecc", "GPU 0", "unknown")]
    assert judged(health(gpu()), None) == [("gpu.thermal", "GPUs", "unknown")]


@pytest.mark.parametrize("after", [[], None])
def test_gpus_that_are_gone(after: Any) -> None:
    assert judged(health(gpu()), {"gpus": after, "nics": [], "diag": None}) == [
        ("gpu.thermal", "GPUs", "unknown"), ("gpu.present", "GPU-u0", "fail")]
    assert judged(health(gpu(), gpu(1)), health(gpu())) == [("gpu.present", "GPU-u1", "fail"), *GOOD]


def result(index: int | None, status: str, **more: Any) -> dict[str, Any]:
    return {"test": "memory", "gpu": index, "serial": None, "status": status, "text": "", **more}


@pytest.mark.parametrize(("results", "found"), [
    ([result(0, "pass"), result(0, "fail")], [("GPU 0", "fail")]), ([result(0, "pass"), result(0, "skipped")], [("GPU 0", "pass")]),
    ([result(0, "skipped")], [("GPU 0", "skipped")]), ([result(0, "unknown"), result(0, "pass")], [("GPU 0", "unknown")]),
    ([result(7, "fail", serial="1650")], [("GPU 0", "fail")]), ([result(None, "warn")], [("GPUs", "warn")]), ([], [("GPUs", "unknown")]),
])
def test_a_diagnosis(results: list[Any], found: list[tuple[str, str]]) -> None:
    diag = {"why": "dcgmi is not installed", "results": results}
    assert [row[1:] for row in judged(health(gpu()), health(gpu(), diag=diag)) if row[0] == "gpu.dcgm"] == found


PARTS = parts_of({node: health(*(gpu(at, uuid=f"GPU-{node}{at}", serial=f"{node}{at}") for at in (0, 1))) for node in ("n1", "n2")})


def trained(alone: str = "aaaa", together: str = "tttt", **more: Any) -> dict[str, Any]:
    """A letter is the checksum of a rank."""
    rows = [{"rank": rank, "node": f"n{rank // 2 + 1}", "gpu": rank % 2, "device": "H100", "uuid": None, "together": together[rank],
             "alone": alone[rank]} for rank in range(len(alone))]
    return {"hosts": ["n1", "n2"], "world_size": 4, "backend": "nccl", "steps": 10, "batch": 64, "versions": {}, "checksums": rows, **more}


def bits(now: dict[str, Any] | None, before: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
    first = sums_of(before, None, PARTS)
    found = judge_bits(now, sums_of(now, None, PARTS), None if first is None else first | {"number": 1}, PARTS)
    return [(item.node, item.subject, item.status) for item in found]


JOB = ("", "bits of the training")


def test_the_same_bits() -> None:
    assert bits(trained(), trained()) == [(*JOB, "pass")]
    assert bits(trained()) == [(*JOB, "unknown")], "nothing was compared yet"
    assert bits(None) == bits(trained(alone="aaa")) == [(*JOB, "unknown")]


@pytest.mark.parametrize(("now", "first"), [
    (trained(alone="aaba"), None), (trained(alone="aaba"), trained()), (trained(together="ttut"), trained())])
def test_a_rank_that_differs_is_named(now: dict[str, Any], first: dict[str, Any] | None) -> None:
    assert bits(now, first) == [(*JOB, "fail"), ("n2", "GPU 0", "fail")]


def test_all_differ_from_the_first_round() -> None:
    assert bits(trained(together="uuuu"), trained()) == [(*JOB, "fail")], "who did it is not known: all agree"


def test_two_that_differ_blame_nobody() -> None:
    now = trained(alone="ab", together="tu", world_size=2)
    assert bits(now) == [(*JOB, "fail")]


def test_other_kinds_of_gpus_have_other_bits() -> None:
    now = trained(alone="aabb")
    for row in now["checksums"][2:]:
        row["device"] = "A100"
    assert bits(now) == [(*JOB, "unknown")]


@pytest.mark.parametrize("change", [{"steps": 20}, {"versions": {"n1": {"torch": "2.12"}}}, {"hosts": ["n2", "n1"]}])
def test_another_job_is_another_key(change: dict[str, Any]) -> None:
    one, other = sums_of(trained(), None, PARTS), sums_of(trained(**change), None, PARTS)
    assert one is not None
    assert other is not None
    assert one["key"] != other["key"] != (sums_of(trained(**change), None, {}) or {})["key"], "another part in a place is another job too"


def test_cuda_may_number_otherwise() -> None:
    now = trained(alone="aaba")
    now["checksums"][2]["uuid"] = "n21"
    assert bits(now)[1:] == [("n2", "GPU 1", "fail")]
