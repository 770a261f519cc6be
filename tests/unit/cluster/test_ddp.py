# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts and document of a training benchmark: from what the ranks left, and only from what has the right form."""

from __future__ import annotations

from typing import Any

import pytest

import nccl_logs
from ansible_collections.railwright.rdma.plugins.plugin_utils.ddp import ddp_document, judge

PLAN = {"hosts": ["node1", "node2"], "processes": {"node1": 2, "node2": 2}, "world_size": 4, "backend": "nccl", "steps": 100, "batch": 64,
        "timeout_s": 900, "port": 29500, "promise": {"fabric": "roce", "network": "promised", "gdr": True},
        "nodes": {"node1": {"first_rank": 0}, "node2": {"first_rank": 2}}}
RESULT = {"backend": "nccl", "world_size": 4, "steps": 100, "batch": 64, "checks": ["all_reduce", "broadcast", "gradients"], "seconds": 2.0,
          "samples_per_s": 12800.0, "step_ms": {"p50": 20.0, "p75": 21.0, "p90": 22.0, "p95": 23.0}}


def times(late: float = 0.0) -> dict[str, list[float]]:
    """Of a rank that comes so much later than the others of a step of 20 ms."""
    return {"own_ms": [15.0 + late] * 64, "wait_ms": [5.0 - late] * 64}


def rank(number: int, **more: Any) -> dict[str, Any]:
    return {**times(), "rank": number, "torch": "2.11.0+cu130", "cuda": "13.0", "nccl": "2.30.7", "driver": "580.95.05", **more}


def collected(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node1": {"rc": 0, "ranks": [rank(0), rank(1)], "failures": [], "log": "", "result": dict(RESULT)},
        "node2": {"rc": 0, "ranks": [rank(2), rank(3)], "failures": [], "log": "", "result": None},
    }
    for node, values in more.items():
        found[node] = None if values is None else {**found[node], **values}
    return found


def verdicts(found: dict[str, Any], minimum: float | None = None, plan: dict[str, Any] | None = None) -> dict[str, tuple[str, str]]:
    return {item.check: (item.status, item.message) for item in judge(plan or PLAN, found, minimum)}


def statuses(found: dict[str, Any], minimum: float | None = None) -> list[str]:
    said = verdicts(found, minimum)
    return [said[f"ddp.{name}"][0] for name in ("complete", "values", "throughput", "versions")]


def test_a_good_job() -> None:
    assert statuses(collected()) == ["pass", "pass", "skipped", "pass"]
    assert verdicts(collected())["ddp.throughput"][1] == (
        "12800.0 samples/s; step times p50 20.000 ms, p75 21.000 ms, p90 22.000 ms, p95 23.000 ms; "
        "nothing is expected (ddp_benchmark_min_samples_per_s)")
    assert all(item.node == "" for item in judge(PLAN, collected(), None)), "the job is one for all nodes"


@pytest.mark.parametrize(("minimum", "status"), [(12800.0, "pass"), (12800.1, "fail"), (None, "skipped")])
def test_a_threshold(minimum: float | None, status: str) -> None:
    assert verdicts(collected(), minimum)["ddp.throughput"][0] == status


@pytest.mark.parametrize("node2", [{"rc": 1}, {"rc": None}, None])
def test_one_node_that_did_not_end_well_fails_it(node2: dict[str, Any] | None) -> None:
    status, message = verdicts(collected(node2=node2))["ddp.complete"]
    assert (status, message != "") == ("fail", True)


@pytest.mark.parametrize("result", [
    None, [], {}, {**RESULT, "world_size": 2}, {**RESULT, "steps": 10},
    *({**RESULT, "samples_per_s": figure} for figure in ("fast", True, float("nan"), -1.0)),
    {**RESULT, "step_ms": {"p50": 1.0}}, {**RESULT, "step_ms": None},
])
def test_a_result_of_another_form_is_none(result: Any) -> None:
    found = collected(node1={"result": result})
    assert statuses(found, 1.0) == ["fail", "unknown", "unknown", "pass"]
    assert ddp_document(PLAN, found)["samples_per_s"] is None


def test_wrong_values_fail_and_say_where() -> None:
    wrong = {"rank": 3, "kind": "values", "at": 7.0, "message": "WrongValueError: all_reduce on rank 3: 1 of 8 values are wrong"}
    found = collected(node1={"rc": 1, "result": None}, node2={"rc": 1, "failures": [wrong]})
    said = verdicts(found)
    assert said["ddp.values"] == ("fail", "rank 3 on node2: WrongValueError: all_reduce on rank 3: 1 of 8 values are wrong")
    assert said["ddp.complete"][1] == said["ddp.values"][1]


@pytest.mark.parametrize("checks", [None, [], ["all_reduce", "broadcast"], "all_reduce broadcast gradients"])
def test_values_that_were_not_compared_never_pass(checks: Any) -> None:
    assert verdicts(collected(node1={"result": {**RESULT, "checks": checks}}))["ddp.values"][0] == "unknown"


def test_one_rank_exchanges_nothing() -> None:
    plan = {**PLAN, "hosts": ["node1"], "processes": {"node1": 1}, "world_size": 1}
    found = {"node1": {"rc": 0, "ranks": [rank(0)], "failures": [], "log": "", "result": {**RESULT, "world_size": 1}}}
    assert verdicts(found, plan=plan)["ddp.values"] == ("skipped", "one rank exchanges nothing")


@pytest.mark.parametrize(("name", "version"), [("torch", "2.10.0"), ("cuda", None), ("nccl", "2.27.5"), ("driver", "570.1")])
def test_one_version_that_differs_fails_and_names_the_nodes(name: str, version: str | None) -> None:
    status, message = verdicts(collected(node2={"ranks": [rank(2, **{name: version}), rank(3, **{name: version})]}))["ddp.versions"]
    assert status == "fail"
    assert message == f"{name} is {rank(0)[name]} on node1; {version or 'none'} on node2"


def test_two_ranks_of_one_node_that_differ_fail_too() -> None:
    status, message = verdicts(collected(node1={"ranks": [rank(0), rank(1, nccl="2.27.5")]}))["ddp.versions"]
    assert (status, "2.27.5, 2.30.7 on node1" in message) == ("fail", True)


@pytest.mark.parametrize("ranks", [[], [rank(2)]])
def test_a_rank_that_told_nothing_is_unknown(ranks: list[Any]) -> None:
    assert verdicts(collected(node2={"ranks": ranks}))["ddp.versions"] == ("unknown", "not every rank of node2 told its versions")


def test_the_document_has_the_form_of_the_architecture() -> None:
    versions = {"torch": "2.11.0+cu130", "cuda": "13.0", "nccl": "2.30.7", "driver": "580.95.05"}
    assert ddp_document(PLAN, collected()) == {
        "hosts": ["node1", "node2"], "world_size": 4, "backend": "nccl", "steps": 100, "batch": 64, "samples_per_s": 12800.0,
        "step_ms": RESULT["step_ms"], "versions": {"node1": versions, "node2": versions}, "late": [],
        "checksums": [], "transport": {"networks": [], "connections": {}, "hcas": {}}}


def way(ranks: tuple[int, ...] = (0, 1, 2, 3), **more: Any) -> dict[str, Any]:
    """What a good job's nodes left, with NCCL's log of these ranks."""
    logs = {node: "".join(nccl_logs.rank("2.30.7", rank, **more) for rank in ranks if rank // 2 == node - 1) for node in (1, 2)}
    return collected(**{f"node{node}": {"way": text} for node, text in logs.items()})


def test_the_way_of_the_gradients_is_the_promised_one() -> None:
    (found,) = [item for item in judge(PLAN, way(), None) if item.check == "nccl.transport"]
    assert (found.status, found.expected, found.found) == ("pass", "roce with GPUDirect RDMA", "NET/IB/GDRDMA")
    assert found.subject == "training on 4 ranks of 2 nodes (nccl)"
    document = ddp_document(PLAN, way())["transport"]
    assert document["connections"] == {"NET/IB/GDRDMA": 4, "SHM": 2}
    assert document["hcas"][2] == ["n2 mlx5_0:1"]


@pytest.mark.parametrize(("found", "status", "words"), [
    (way(net="Socket", gdr=False), "fail", "the inventory promises roce with GPUDirect RDMA; NCCL went over Socket, and there is mlx5_0:1"),
    (way(gdr=False), "fail", "4 of 4 connections went through host memory"),
    (way(ranks=(0, 1)), "unknown", "only 2 of 4 ranks of a communicator are in the log; of the others: 2 connections"),
    (way(ranks=(0, 1, 2)), "unknown", "only 3 of 4 ranks"),
    (collected(), "unknown", "the log names no network connection"),
    (way() | {"node2": None}, "unknown", "only 2 of 4 ranks"),
    (way(net="Mystery"), "unknown", "does not know"),
])
def test_another_way_fails_and_no_log_is_unknown(found: dict[str, Any], status: str, words: str) -> None:
    said, message = verdicts(found)["nccl.transport"]
    assert said == status
    assert words in message


def test_a_job_larger_than_its_log_is_unknown() -> None:
    assert verdicts(way(), plan={**PLAN, "world_size": 8})["nccl.transport"] == (
        "unknown", "no communicator of 8 ranks is in the log; of the others: " + verdicts(way())["nccl.transport"][1])


def test_no_promise_is_skipped_and_gloo_has_no_way() -> None:
    assert verdicts(way(), plan={**PLAN, "promise": {"fabric": "roce", "network": "any", "gdr": False}})["nccl.transport"][0] == "skipped"
    gloo = {**PLAN, "backend": "gloo"}
    assert "nccl.transport" not in verdicts(way(), plan=gloo)
    assert ddp_document(gloo, way())["transport"] is None


def test_one_node_is_asked_for_no_network() -> None:
    alone = {**PLAN, "hosts": ["node1"], "world_size": 2, "processes": {"node1": 2}}
    inside = {"node1": collected(node1={"way": "n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct\n"})["node1"]}
    assert verdicts(inside, plan=alone)["nccl.transport"][0] == "warn", "host memory between two GPUs"
    assert "nccl.transport" not in verdicts(inside, plan={**alone, "world_size": 1, "processes": {"node1": 1}})
    outside = {"node1": collected(node1={"way": "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n"})["node1"]}
    assert verdicts(outside, plan=alone)["nccl.transport"][0] == "fail"


def test_checksums_of_ranks_that_told_them() -> None:
    own = {"local_rank": 1, "device": "NVIDIA H100", "uuid": "4c95", "together": "aa", "alone": "bb"}
    found = ddp_document(PLAN, collected(node2={"ranks": [rank(2), rank(3, **own)]}))["checksums"]
    assert found == [{"rank": 3, "node": "node2", "gpu": 1, "device": "NVIDIA H100", "uuid": "4c95", "together": "aa", "alone": "bb"}]


def test_a_lost_node_has_no_versions() -> None:
    found = ddp_document(PLAN, collected(node2=None))
    assert found["versions"]["node2"] == {"torch": None, "cuda": None, "nccl": None, "driver": None}
    assert found["samples_per_s"] == 12800.0


def test_what_a_rank_says_is_made_fit_to_be_shown() -> None:
    found = ddp_document(PLAN, collected(node1={"ranks": [rank(0, torch="2.1\x1b[2J" + "x" * 500)] * 2}))
    assert found["versions"]["node1"]["torch"].startswith("2.1x")
    assert len(found["versions"]["node1"]["torch"]) <= 64


def straggler(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item.status, item.node, item.message) for item in judge(PLAN, found, None) if item.check == "ddp.straggler"]


def test_nobody_comes_late() -> None:
    assert straggler(collected()) == [("pass", "", "no rank of 4 comes late again and again")]


def test_a_late_rank_is_named_with_its_node_and_gpu() -> None:
    found = collected(node2={"ranks": [rank(2), rank(3, **times(4.0))]})
    assert straggler(found) == [("warn", "node2", (
        "rank 3 on node2 (GPU 1) comes late to 64 of 64 all-reduces: 4.000 ms in the median, 4.000 at most, 20% of a step; "
        "its own work takes 19.000 ms, 15.000 in the median of all"))]
    assert ddp_document(PLAN, found)["late"] == [
        {"rank": 3, "node": "node2", "gpu": "GPU 1", "collective": "all-reduces", "ms": 4.0, "most_ms": 4.0, "share": 0.2, "late": 64,
         "of": 64, "own_ms": 19.0}]


@pytest.mark.parametrize("told", [
    {"own_ms": None}, {"wait_ms": []}, {"wait_ms": [1.0]}, {"wait_ms": "5"}, {"wait_ms": [5.0] * 63 + [-1.0]},
    {"wait_ms": [5.0] * 63 + [None]}, {"wait_ms": [1e300] * 64}, {"wait_ms": [[5.0]] * 64}, {"rank": 0}, {"rank": "1"},
])
def test_a_rank_that_did_not_tell_when_it_came_is_unknown(told: dict[str, Any]) -> None:
    assert straggler(collected(node1={"ranks": [rank(0), rank(1, **told)]})) in (
        [("unknown", "", f"{many} of 4 ranks did not tell when they came: {who}")] for many, who in ((1, "1"), (2, "0, 1")))


@pytest.mark.parametrize("node2", [None, {"ranks": []}])
def test_a_node_that_is_lost_makes_arrivals_unknown(node2: dict[str, Any] | None) -> None:
    assert straggler(collected(node2=node2)) == [("unknown", "", "2 of 4 ranks did not tell when they came: 2, 3")]


def test_one_rank_waits_for_nobody() -> None:
    plan = {**PLAN, "hosts": ["node1"], "processes": {"node1": 1}, "world_size": 1}
    assert [item.status for item in judge(plan, {"node1": None}, None) if item.check == "ddp.straggler"] == ["skipped"]
