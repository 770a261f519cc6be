# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a run: the largest sizes count, not the average; wrong values fail; what was not checked never passes."""

import json
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.json_report import parse_json, stripped
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.floors import Floor
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.judge import judge_run, judged_busbw

GIB = 1 << 30


def row(size: int, busbw: float, wrong: int | None = 0, second: float | None = None) -> dict[str, Any]:
    half = {"time_us": 1.0, "algbw": 1.0, "busbw": busbw, "wrong": wrong}
    return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": half,
            "in_place": dict(half, busbw=second) if second is not None else None}


def statuses(rows: list[dict[str, Any]], floor: float | None = None, **more: Any) -> dict[str, str]:
    parsed = {"rows": rows, "avg_busbw": 1.0, "out_of_bounds": 0, "complete": True, **more}
    return {item.check: item.status for item in judge_run(parsed, "node1", "all_reduce of 8 ranks", Floor(floor, "here"))}


def test_the_largest_sizes_count_and_not_the_average() -> None:
    rows = [row(8, 0.01), row(GIB, 300.0, second=320.0), row(4 * GIB, 340.0, second=360.0)]
    assert judged_busbw(rows) == 330.0
    assert statuses(rows, 330.0)["nccl.busbw"] == "pass"
    assert statuses(rows, 330.1)["nccl.busbw"] == "fail"


def test_without_a_gibibyte_the_largest_size_counts() -> None:
    assert judged_busbw([row(8, 1.0), row(64, 5.0)]) == 5.0


@pytest.mark.parametrize(("wrong", "bounds", "status"), [(0, 0, "pass"), (3, 0, "fail"), (0, 2, "fail"), (None, 0, "skipped"),
                                                        (None, None, "skipped")])
def test_wrong_values(wrong: int | None, bounds: int | None, status: str) -> None:
    assert statuses([row(8, 1.0, wrong)], out_of_bounds=bounds)["nccl.values"] == status


def test_a_run_that_did_not_end_fails_whatever_it_reached() -> None:
    found = statuses([row(GIB, 400.0)], 100.0, complete=False)
    assert found["nccl.busbw"] == "pass"


def test_no_rows() -> None:
    assert statuses([], 100.0, complete=False) == {"nccl.values": "skipped", "nccl.busbw": "unknown"}


def test_nothing_expected_is_reported_and_not_judged() -> None:
    assert statuses([row(GIB, 400.0)])["nccl.busbw"] == "skipped"


def document(**more: Any) -> str:
    half = {"time": 11.5, "alg_bw": 1.5, "bus_bw": 2.5, "nwrong": 0}
    result = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": half,
              "in_place": {**half, "nwrong": None}}
    return json.dumps({"version": 3, "args": ["a", "--token=x"], "env": ["SECRET=1"], "results": [result], "end_time": "now",
                       "errors": [""],  # NCCL's last message: there is always one, empty when all is well
                       "out_of_bounds": {"count": 0, "okay": "true"},
                       "average_bus_bandwidth": {"bandwidth": 2.5, "okay": "unchecked"}, **more})


def test_the_json_report() -> None:
    found = parse_json(document())
    half = {"time_us": 11.5, "algbw": 1.5, "busbw": 2.5, "wrong": 0}
    assert found == {"rows": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": -1, "out_of_place": half,
                               "in_place": {**half, "wrong": None}}], "avg_busbw": 2.5, "out_of_bounds": 0, "complete": True}


def test_keys_that_some_versions_misspell() -> None:
    text = document().replace("average_bus_bandwidth", "average_bus_bandwidith").replace('"bandwidth"', '"bandwidith"')
    assert parse_json(text)["avg_busbw"] == 2.5


def test_a_warning_that_nccl_gave_once_does_not_make_a_run_incomplete() -> None:
    assert parse_json(document(errors=["Failed to open libibverbs.so[.1]"]))["complete"] is True


def test_an_infinite_bandwidth_is_no_json_and_no_figure() -> None:
    found = parse_json(document().replace('"bus_bw": 2.5', '"bus_bw":inf', 1))
    assert (found["rows"][0]["out_of_place"]["busbw"], found["rows"][0]["in_place"]["busbw"], found["complete"]) == (None, 2.5, True)


def test_the_environment_goes_nowhere() -> None:
    assert "SECRET" not in json.dumps(stripped(document()))
    assert "token" not in json.dumps(stripped(document()))


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", document(end_time=None), document(results=[]),
                                  document(results=[{"size": "x"}]), document(results=None), document(out_of_bounds=None), "[" * 100000])
def test_what_is_no_whole_report_is_not_complete(text: str) -> None:
    assert parse_json(text)["complete"] is False
