# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON and numbers from outside: what is beyond the bounds is the documented error, or None, and never a traceback."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers import nm
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError, UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats import outside
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.formats.versions import compare
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.failure import failures_of
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import json_report
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import parse_json
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.kubernetes import parse_nodes, parse_pods
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import SchedulerError
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import expand

DEEP = "[" * 100_000
values = st.recursive(
    st.none() | st.booleans() | st.integers(outside.LEAST, outside.MOST) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner), max_leaves=20)  # fmt: skip


@given(values)
def test_what_is_within_the_bounds_is_read_as_it_is(value: object) -> None:
    assert outside.read_json(json.dumps(value)) == value
    assert outside.read_json(json.dumps(value, ensure_ascii=False, indent=1)) == value


@pytest.mark.parametrize("text", [
    None, "", "{", "NaN", "[Infinity]", "-Infinity", "[1e999]", "-1e999", "1" + "0" * 400, "1" * 5000, "[18446744073709551616]",
    "-9223372036854775809", DEEP, '{"a":' * 65 + "1" + "}" * 65, "[" * 65 + "]" * 65, '"\\ud800"', '{"\\udfff": 1}', "0." + "1" * 500,
    '["' + "\\" * 7 + '"' + "[" * 65, "\ufeff{}", "{} {}",
])  # fmt: skip
def test_what_is_beyond_them_is_the_one_error(text: str | None) -> None:
    with pytest.raises(UnreadableText):
        outside.read_json(text)


def test_the_error_is_ours_and_a_value_error() -> None:
    assert issubclass(UnreadableText, RailwrightError) and issubclass(UnreadableText, ValueError)


def test_a_limit_is_in_characters() -> None:
    assert outside.read_json("[1,2]", 5) == [1, 2]
    with pytest.raises(UnreadableText, match="more than 4 characters"):
        outside.read_json("[1,2]", 4)


@pytest.mark.parametrize("text", ["[" * 64 + "]" * 64, json.dumps("[" * 500), json.dumps(['\\"[' * 50, "}{" * 500]), '"\\ud83d\\ude00"'])
def test_brackets_in_strings_and_pairs_of_surrogates_are_nothing(text: str) -> None:
    assert outside.read_json(text) == json.loads(text)


@pytest.mark.parametrize("text", ["[" * 2_000_000, '["' + '\\"[' * 700_000, '"' * 1_000_000, "[]," * 700_000])
def test_the_depth_is_told_in_a_time_that_grows_with_the_text(text: str) -> None:
    start = time.process_time()
    with pytest.raises(UnreadableText):
        outside.read_json(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(("value", "whole", "number"), [
    ("12", 12, 12.0), (" -7\n", -7, -7.0), ("+0", 0, 0.0), (5, 5, 5.0), (True, None, None), (None, None, None), ("", None, None),
    ("²", None, None), ("٣", None, None), ("1_000", None, None), ("1" * 5000, None, None), ("0x10", None, None), (1.5, None, 1.5),
    ("1.5", None, 1.5), ("1e3", None, 1000.0), ("1e999", None, None), ("inf", None, None), ("nan", None, None), (float("inf"), None, None),
    (10**400, None, None), (-(10**400), None, None), ("9" * 20, None, 1e20), ([1], None, None), ("1" * 400 + ".0", None, None),
])  # fmt: skip
def test_numbers(value: object, whole: int | None, number: float | None) -> None:
    assert outside.whole(value) == whole
    assert outside.number(value) == number


def test_a_whole_number_has_bounds() -> None:
    assert [outside.whole(value, 1, 65535) for value in ("0", "1", "65535", "65536")] == [None, 1, 65535, None]


@pytest.mark.parametrize("text", ["9" * 19, "²", "٣", "", "1\n", "-1", "1.0"])
def test_digits(text: str) -> None:
    assert outside.is_digits("0") and outside.is_digits("9" * 18)
    assert not outside.is_digits(text)


# Each of these was a traceback.
HUGE = "1" * 5000


def test_a_jobs_numbers_that_no_float_holds() -> None:
    report = {"results": [{"size": 10**400, "count": 1, "type": "float", "out_of_place": {"time": 10**400}}], "end_time": "x"}
    assert json_report.parse_json(json.dumps(report)) == {"rows": [], "avg_busbw": None, "out_of_bounds": None, "complete": False}
    assert failures_of([{"rank": 1, "at": 10**400, "message": "x"}, {"rank": 1, "at": 2, "message": "y"}])[0]["message"] == "y"
    assert parse_json(json.dumps({"results": {"BW_average": 10**400}}), "write_bw") is None
    assert parse_json(DEEP, "write_bw") is None


@pytest.mark.parametrize("family", ["debian", "redhat"])
@pytest.mark.parametrize("version", ["²:1.0", "1.²", HUGE + ":1", "1." + HUGE])
def test_versions_that_no_integer_holds(version: str, family: str) -> None:
    assert compare(version, version, family) == 0
    assert compare("1." + HUGE, "1." + HUGE + "0", family) == -1


def test_a_kernels_release_and_a_priority() -> None:
    assert numbers("5." + HUGE)[0] == 5
    assert numbers(HUGE) == (int("1" * 18),)
    assert nm.whole("--5") is None


@pytest.mark.parametrize("text", [DEEP, "3", "[]", '{"items": 3}', '{"items": [3]}', "", "null"])
def test_a_schedulers_answer_that_is_no_list(text: str) -> None:
    for parse in (parse_nodes, parse_pods):
        with pytest.raises(SchedulerError):
            parse(text)


@pytest.mark.parametrize("text", [
    '{"items": [{"metadata": {"ownerReferences": 3}, "status": {"conditions": 3}}]}',
    '{"items": [{"metadata": {"ownerReferences": [3]}, "status": {"conditions": [3]}, "spec": 4}]}',
    '{"items": [{"metadata": 3, "status": []}]}',
])  # fmt: skip
def test_a_scheduler_with_values_of_other_types(text: str) -> None:
    assert len(parse_nodes(text)) == 1
    assert len(parse_pods(text)) == 1


@pytest.mark.parametrize("text", [",".join(["n[1-60000]"] * 3), "n[" + ",".join(["1-60000"] * 1000) + "]", f"n[1-{HUGE}]", f"n[{HUGE}]"])
def test_a_host_list_that_would_fill_memory(text: str) -> None:
    with pytest.raises(ValueError, match=r"more than 65536 names|is no range"):
        expand(text)
