# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands out among the ranks and nodes of one run, from NCCL's own words about its set-up (2.22 and later)."""

import random
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.collect import _KEPT
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.transport import init_seconds
from ansible_collections.railwright.rdma.plugins.plugin_utils.bench import SETUP_FLOOR_S, judge_alike_runs
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.outliers import outliers
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.verdicts import Run
from bench_nodes import node


def line(rank: int, kernels: float = 0.3, bootstrap: float = 0.9, head: str = " - ncclCommInitRank") -> str:
    total = kernels + bootstrap + 0.08
    return (f"n1:53:267 [0] NCCL INFO Init timings{head}: rank {rank} nranks 16 total {total:.2f} (kernels {kernels:.2f}, alloc 0.04, "
            f"bootstrap {bootstrap:.2f}, allgathers 0.00, topo 0.02, graphs 0.00, connections 0.02, rest 0.00)\n")


def run(logs: dict[str, str], *, local: bool = False, ranks: int = 16) -> Run:
    nodes = [node(name) for name in logs]
    plan = {"jobs": [{"name": "all_reduce", "group": "all"}], "ranks": ranks, "kind": "local" if local else "openmpi4"}
    left = {name: {"jobs": [{"name": "all_reduce", "log": log}]} for name, log in logs.items()}
    return Run(plan, nodes, {}, left, {})


def figures(*busbw: float | None) -> list[dict[str, Any]]:
    return [{"collective": "all_reduce", "node": f"n{at}", "complete": True, "judged_busbw": value} for at, value in enumerate(busbw)]


JOINT = [{"collective": "all_reduce", "node": "", "complete": True, "judged_busbw": 300.0}]


@pytest.mark.parametrize("head", ["", " - ncclCommInitRank", " - ncclCommInitAll", " - ncclCommInitRank_impl"])
def test_both_forms_of_nccls_line(head: str) -> None:
    assert init_seconds(line(3, head=head) + line(11, 0.5, head=head)) == {3: (1.28, 0.38), 11: (1.48, 0.58)}
    assert _KEPT.search(line(3, head=head)), "the collection keeps the line"


@pytest.mark.parametrize("text", [
    "", "NCCL INFO Init timings: rank 1", line(1).replace("total 1.28", "total x"), line(1).replace("(kernels", "kernels"),
    line(1).replace("rank 1 ", f"rank {'9' * 40} "),
])
def test_another_line_tells_nothing(text: str) -> None:
    assert init_seconds(text) == {}


def test_waiting_for_others_is_no_work_of_a_rank() -> None:
    logs = {"n1": "".join(line(rank) for rank in range(8)), "n2": "".join(line(rank, 0.3, 0.1) for rank in range(8, 16))}
    (found,) = judge_alike_runs(run(logs), JOINT)
    assert (found.check, found.status) == ("cluster.outlier", "pass")


def test_a_rank_whose_set_up_is_slow_is_named() -> None:
    logs = {"n1": "".join(line(rank) for rank in range(8)), "n2": "".join(line(rank) for rank in range(8, 15)) + line(15, 2.8)}
    (found,) = judge_alike_runs(run(logs), JOINT)
    assert (found.status, found.node, found.subject, found.found) == ("warn", "n2", "NCCL's set-up on rank 15", 2.88)
    assert found.message == "NCCL's set-up: 2.88 s, 0.38 in the median of 16 alike: where all others are alike"


def test_hundredths_of_a_second_are_nobodys_loss() -> None:
    logs = {"n1": "".join(line(rank, 0.01) for rank in range(15)) + line(15, 0.09)}
    assert [item.status for item in judge_alike_runs(run(logs), JOINT)] == ["pass"]


@pytest.mark.parametrize("seed", range(24))
def test_healthy_ranks_give_no_warning(seed: int) -> None:
    draw = random.Random(f"init {seed}")
    own = [round(draw.gauss(0.5, 0.05), 2) for _rank in range(4000)]
    assert outliers(own, 0.10, low_is_bad=False, floor=SETUP_FLOOR_S) == []
    assert outliers([draw.gauss(345, 345 * 0.01) for _node in range(4000)], 0.03, low_is_bad=True) == []


def test_a_log_without_times_is_unknown() -> None:
    (found,) = judge_alike_runs(run({"n1": "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 16 - Init COMPLETE\n"}), JOINT)
    assert (found.status, "2.22" in found.message) == ("unknown", True)
    assert judge_alike_runs(run({"n1": ""}), []) == [], "nothing ran"
    (few,) = judge_alike_runs(run({"n1": ""}, ranks=2), JOINT)
    assert (few.status, few.message) == ("skipped", "2 ranks: not enough to tell")


def test_a_slow_node_among_those_that_run_by_themselves() -> None:
    logs = {f"n{at}": line(0) for at in range(9)}
    found = judge_alike_runs(run(logs, local=True), figures(*[345.0] * 8, 200.0))
    assert [(item.status, item.node, item.subject) for item in found] == [
        ("pass", "", "NCCL's set-up over ranks on NVIDIA H200"), ("warn", "n8", "all_reduce")]
    few = judge_alike_runs(run(logs, local=True), figures(*[345.0] * 7, None))
    assert [item.status for item in few] == ["pass", "skipped"]
