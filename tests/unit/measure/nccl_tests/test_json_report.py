# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests' -J file of each version: what programs wrote that were built from the tags' own src/util.cu, with rows of ours."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.json_report import parse_json, stripped

HEAD = (
    '{"version":%d,"start_time":"2026-11-21 07:23:51","args":["all_reduce_perf","-J","\\/tmp\\/o.json"],"env":["TOKEN=abc","X=a\\"b"],'
    '"nccl_version":23007,"config":{"nthreads":1,"ngpus":2,"minimum_bytes":8,"maximum_bytes":1024,"step_factor":2,"warmup_iters":1,'
    '"iterations":20,"aggregated_iterations":1,"validation":1,"graph":0,"blocking_collectives":"false","parallel_init":"false",'
    '"devices":[{"rank":0,"group":0,"pid":12345,"hostname":"node1","device":0,"device_hex":"0000:1b:00","device_info":"NVIDIA H200"}]},'
    '"results":[')
TAIL = ('],"out_of_bounds":{"count":7,"okay":"false"},"%s":{"%s":12.500000,"okay":"unchecked"},"errors":["%s"],'
        '"end_time":"2026-11-21 07:23:51"}')
ITERATIONS = ('"%s_per_iter":{"skipped_iterations":0,"min_us":10.125000,"max_us":12.375000,"avg_us":11.250000,"p50_us":11.250000,'
              '"p95_us":12.375000,"p99_us":12.375000,"stdev_us":0.918559,"cv_pct":8.164966,"times_us":[11.250000,12.375000,10.125000]},')
ROWS = [
    {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": -1,
     "out_of_place": {"time_us": 11.25, "algbw": 1.5, "busbw": 2.25, "wrong": 0},
     "in_place": {"time_us": 12.5, "algbw": 1.25, "busbw": 2.0, "wrong": 0}},
    {"size": 1048576, "count": 262144, "type": "float", "redop": None, "root": 3,
     "out_of_place": {"time_us": 99.5, "algbw": 10.5, "busbw": 20.25, "wrong": 7},
     "in_place": {"time_us": 98.5, "algbw": 10.75, "busbw": 20.5, "wrong": None}},
]


def half(name: str, values: str, wrong: str, time: str, *, each: bool) -> str:
    microseconds, algbw, busbw = values.split()
    found = f'"{name}":{{"{time}":{microseconds}0000,"alg_bw":{algbw}0000,"bus_bw":{busbw}0000,"nwrong":{wrong}}},'
    return found + (ITERATIONS % name if each else "")


def written(version: int = 3, *, misspelt: bool = False, cpu: bool = False, each: bool = False, message: str = "") -> str:
    time = "cpu_time" if cpu else "time"
    results = [
        '{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",'
        + half("out_of_place", "11.25 1.50 2.25", "0.000000", time, each=each)
        + half("in_place", "12.50 1.25 2.00", "0.000000", time, each=each) + '"actual_iterations":20,"experiment_name":"x"}',
        '{"size":1048576,"count":262144,"type":"float","redop":"none","root":"     3",'
        + half("out_of_place", "99.50 10.50 20.25", "7.000000", time, each=each)
        + half("in_place", "98.50 10.75 20.50", "null", time, each=each) + '"actual_iterations":20,"experiment_name":"x"}']
    average, bandwidth = ("average_bus_bandwidith", "bandwidith") if misspelt else ("average_bus_bandwidth", "bandwidth")
    return HEAD % version + ",".join(results) + TAIL % (average, bandwidth, message)


@pytest.mark.parametrize("text", [
    written(1, misspelt=True), written(1), written(2), written(3), written(3, cpu=True), written(3, each=True),
    written(3, message="Failed to open libibverbs.so[.1]"),
], ids=["2.17.3", "2.17.9", "2.19.1", "2.19.6", "-C", "-I", "last-message"])
def test_each_version(text: str) -> None:
    assert parse_json(text) == {"rows": ROWS, "avg_busbw": 12.5, "out_of_bounds": 7, "complete": True}


def test_cut_off_at_any_byte_it_is_not_complete_and_raises_nothing() -> None:
    text = written(3, each=True)
    for end in range(len(text)):
        found = parse_json(text[:end])
        assert (found["complete"], found["rows"]) == (False, [])


def test_a_run_that_died_has_no_end_time_though_its_file_was_closed() -> None:
    """The program's own clean-up closes what is open and writes no end_time."""
    text = written().partition(',"out_of_bounds"')[0] + "}"
    found = parse_json(text)
    assert (len(found["rows"]), found["complete"], found["avg_busbw"]) == (2, False, None)
    assert parse_json(written().partition(',"end_time"')[0] + "}")["complete"] is False


def test_numbers_that_json_has_not() -> None:
    text = written().replace('"bus_bw":2.250000', '"bus_bw":inf').replace('"alg_bw":1.250000', '"alg_bw":"nan"')
    found = parse_json(text)
    assert found["complete"] is True
    assert found["rows"][0]["out_of_place"]["busbw"] is None
    assert found["rows"][0]["in_place"]["algbw"] is None


def test_neither_environment_nor_command_line_is_kept() -> None:
    kept = json.dumps(stripped(written()))
    assert "TOKEN" not in kept
    assert "o.json" not in kept
    assert "H200" in kept


KEYS = st.sampled_from([
    "results", "size", "count", "type", "root", "out_of_place", "in_place", "time", "nwrong", "out_of_bounds", "end_time"])
SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@given(st.recursive(SCALARS, lambda item: st.lists(item) | st.dictionaries(KEYS, item), max_leaves=20))
@settings(max_examples=300, deadline=None)
def test_any_document_is_answered(document: object) -> None:
    found = parse_json(json.dumps(document))
    assert set(found) == {"rows", "avg_busbw", "out_of_bounds", "complete"}
    json.dumps(found, allow_nan=False)
