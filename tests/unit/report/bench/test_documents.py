# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a task's result is kept: the documented form, bounded, without variables that may be secrets."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_documents import document, one_run, row, training
from railwright.documents import FILE, HIDDEN, LINES, ROWS, RUNS, bench_document, ddp_document


def kept_run(**more: Any) -> dict[str, Any]:
    found = bench_document(document(one_run(**more)))
    assert found is not None
    [run] = found["runs"]
    assert isinstance(run, dict)
    return run


def test_a_document_of_the_documented_form_stays_as_it_is() -> None:
    one = document()
    found = bench_document(copy.deepcopy(one))
    assert found is not None
    assert {key: found[key] for key in one if key != "runs"} == {key: one[key] for key in one if key != "runs"}
    assert {key: found["runs"][0][key] for key in one["runs"][0] if key != "transport"} == {
        key: value for key, value in one["runs"][0].items() if key != "transport"}
    assert found["runs"][0]["transport"].items() >= one["runs"][0]["transport"].items()
    assert ddp_document(training()) == training()


@pytest.mark.parametrize("value", [None, [], "text", 1, True])
def test_what_is_no_document_is_none(value: Any) -> None:
    assert bench_document(value) is None
    assert ddp_document(value) is None


def test_only_variables_of_nccl_are_kept() -> None:
    run = kept_run(
        environment={"NCCL_DEBUG": "INFO", "HF_TOKEN": "s3cret", "NCCL_BAD NAME": "s3cret", "PATH": "/bin"},
        argv=["env", "HF_TOKEN=s3cret", "LD_LIBRARY_PATH=/opt/nccl", "mpirun", "-x", "WANDB_API_KEY=s3cret", "-x", "NCCL_ALGO=Ring",
              "-genv", "AWS_SECRET", "s3cret", "-genv", "NCCL_NET", "IB", "--partition=gpu", "all_reduce_perf"])
    assert run["environment"] == {"NCCL_DEBUG": "INFO"}
    assert "s3cret" not in json.dumps(run)
    assert run["argv"] == ["env", f"HF_TOKEN={HIDDEN}", "LD_LIBRARY_PATH=/opt/nccl", "mpirun", "-x", f"WANDB_API_KEY={HIDDEN}", "-x",
                           "NCCL_ALGO=Ring", "-genv", "AWS_SECRET", HIDDEN, "-genv", "NCCL_NET", "IB", "--partition=gpu", "all_reduce_perf"]


def test_what_no_key_names_is_not_kept() -> None:
    found = bench_document(document(one_run(inherited="x"), environ={"A": "b"}))
    assert found is not None
    assert "environ" not in found
    assert "inherited" not in found["runs"][0]


def test_sizes_are_bounded() -> None:
    big = document(one_run(tail=["x" * 9000] * 5000, rows=[row(1 << 20, 1.0)] * 5000), *[one_run()] * RUNS)
    big["topology"]["n1"]["nccl_topo"] = "x" * (4 * FILE)
    big["hosts"] = ["n"] * 100000
    found = bench_document(big)
    assert found is not None
    assert len(found["runs"]) == RUNS
    assert len(found["runs"][0]["rows"]) == ROWS
    assert len(found["runs"][0]["tail"]) == LINES
    assert len(found["topology"]["n1"]["nccl_topo"]) < FILE + 20
    assert max(map(len, found["runs"][0]["tail"])) < 1020
    assert len(found["hosts"]) == 4096


HUGE = (pytest.param(10**400, id="huge"), pytest.param(-(10**400), id="-huge"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "1", True, None, [], 1 << 70, *HUGE])
def test_a_malformed_number_is_dropped_and_a_row_without_bandwidth_too(bad: Any) -> None:
    sound, odd = row(8, 1.0), row(16, 2.0)
    odd["out_of_place"] = odd["out_of_place"] | {"busbw": bad if bad != 1 << 70 else None, "wrong": bad}
    assert [item["size"] for item in kept_run(rows=[sound, odd])["rows"]] == [8]
    timeless = row(16, 2.0)
    timeless["out_of_place"]["wrong"] = bad
    assert kept_run(rows=[timeless])["rows"][0]["out_of_place"]["wrong"] is None


KEYS = ["runs", "rows", "collective", "size", "out_of_place", "busbw", "transport", "hosts", "topology", "argv", "step_ms"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


@given(JSON)
def test_nothing_that_a_task_returns_is_too_odd(value: Any) -> None:
    for kept in (bench_document(value), ddp_document(value), bench_document(document(one_run(rows=value, transport=value)))):
        json.dumps(kept, allow_nan=False)
