# SPDX-License-Identifier: GPL-3.0-or-later
"""Who comes late to the collectives of nccl-tests, from lines in the documented format of NCCL's inspector plugin."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.inspector import time_spent
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.bench import judge_late_ranks
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import plan_run
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.verdicts import Run
from bench_nodes import node
from inspector_lines import GIB, entry

LIBRARY = "/opt/nccl/lib/libnccl-profiler-inspector.so"
CALLS = 44  # of nccl-tests at one size: 20 and a comparison, out-of-place and in-place
ROW = {"size": GIB}
LOG = "n2:77:78 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START\n"


def times(ranks: int, late: dict[int, float], seed: int = 0, calls: int = CALLS) -> dict[int, list[str]]:
    """Lines by rank: all leave together, 5 ms after the first came; ``late``: by so many milliseconds a rank is."""
    draw = random.Random(f"arrivals {seed}")
    found: dict[int, list[str]] = {rank: [] for rank in range(ranks)}
    for at in range(calls):
        for rank, lines in found.items():
            lines.append(entry(rank, at, round(5000 - 1000 * late.get(rank, 0.0) + draw.gauss(0, 30))))
    return found


def told(directory: Path, lines: list[str]) -> list[dict[str, Any]]:
    """What a node answers that has these lines in a file."""
    (directory / "n-pid7.log").write_text("\n".join(lines) + "\n" + entry(0, 99, 1)[:200], encoding="utf-8")
    return time_spent(Host(), str(directory), ["n-pid7.log"])


def judged(
    tmp_path: Path, lines: dict[str, list[str]], collective: str = "all_reduce", **wishes: Any
) -> tuple[list[Verdict], dict[str, Any]]:
    """``lines``: by node; two GPUs on each."""
    nodes = [node(name, 2, inventory={"nccl_tests_inspector": LIBRARY, **wishes}) for name in lines]
    left: dict[str, Any] = {}
    for name, own in lines.items():
        (tmp_path / name).mkdir()
        left[name] = {"jobs": [{"name": collective, "log": LOG, "text": ""}], "spent": told(tmp_path / name, own)}
    item = {"collective": collective, "group": "all", "node": "", "rows": [ROW], "late": []}
    return judge_late_ranks(Run({}, nodes, {}, left, {}), [item]), item


def test_a_late_rank_is_named_with_node_gpu_and_by_how_much(tmp_path: Path) -> None:
    own = times(4, {2: 2.0})
    (found,), item = judged(tmp_path, {"n1": own[0] + own[1], "n2": own[2] + own[3]})
    assert (found.check, found.status, found.node) == ("nccl.straggler", "warn", "n2")
    assert found.message.startswith("rank 2 on n2 (GPU 0000:1b:00.0) comes late to 44 of 44 calls of all_reduce: 2.0")
    assert found.message.endswith("40% of a call")
    assert found.found == pytest.approx(2.0, abs=0.05)
    assert found.subject == f"arrivals of 4 ranks at all_reduce, {GIB} bytes each"
    assert [(row["rank"], row["gpu"], row["of"]) for row in item["late"]] == [(2, "GPU 0000:1b:00.0", CALLS)]


def test_two_late_ranks_of_one_node_and_no_gpu_in_the_log(tmp_path: Path) -> None:
    own = times(4, {0: 1.0, 1: 3.0})
    found, _item = judged(tmp_path, {"n1": own[0] + own[1], "n2": own[2] + own[3]})
    assert [item.message.partition(" comes")[0] for item in found] == [
        "rank 1 on n1 (its GPU is not known)", "rank 0 on n1 (its GPU is not known)"]


@pytest.mark.parametrize("seed", range(12))
def test_equal_ranks_name_nobody(tmp_path: Path, seed: int) -> None:
    own = times(4, {}, seed)
    (found,), item = judged(tmp_path, {"n1": own[0] + own[1], "n2": own[2] + own[3]})
    assert (found.status, item["late"]) == ("pass", [])


def test_calls_that_a_rank_lacks_are_left_out(tmp_path: Path) -> None:
    """The plugin of 2.28 keeps the last call alone, and may write over one that it has not written out."""
    own = times(4, {2: 2.0})
    own[0], own[2] = own[0][::2], own[2][:40]
    (found,), _item = judged(tmp_path, {"n1": own[0] + own[1], "n2": own[2] + own[3]})
    assert "rank 2 on n2" in found.message
    assert " to 20 of 20 calls" in found.message


def test_too_few_calls_in_common_are_unknown(tmp_path: Path) -> None:
    own = times(4, {2: 2.0})
    own[0], own[1] = own[0][:30], own[1][20:]
    (found,), _item = judged(tmp_path, {"n1": own[0] + own[1], "n2": own[2] + own[3]})
    assert (found.status, found.message) == ("unknown", "4 ranks told too little of their calls of all_reduce")


@pytest.mark.parametrize(("missing", "words"), [
    ({3}, "the plugin told of 3 of 4 ranks, not of 3"),
    ({2, 3}, "the plugin told of 2 of 4 ranks, not of 2, 3; nothing is from n2"),
    ({0, 1, 2, 3}, "the plugin wrote nothing: NCCL loads it since 2.28"),
])
def test_missing_ranks_are_unknown_never_a_pass(tmp_path: Path, missing: set[int], words: str) -> None:
    own = {rank: [] if rank in missing else lines for rank, lines in times(4, {2: 2.0}).items()}
    (found,), item = judged(tmp_path, {"n1": own[0] + own[1], "n2": own[2] + own[3]})
    assert found.status == "unknown"
    assert found.message.startswith(words)
    assert item["late"] == []


def test_a_node_that_claims_ranks_of_another_one_makes_them_unknown(tmp_path: Path) -> None:
    own = times(4, {2: 2.0})
    (found,), _item = judged(tmp_path, {"n1": [*own[0], *own[1], *own[2]], "n2": own[2] + own[3]})
    assert (found.status, found.message) == ("unknown", "the plugin told of 3 of 4 ranks, not of 2")


def test_another_size_or_communicator_does_not_mix(tmp_path: Path) -> None:
    own = times(4, {2: 2.0})
    more = [entry(0, at, 1, comm="0xbad", size=GIB * 8) for at in range(CALLS)]
    (found,), _item = judged(tmp_path, {"n1": own[0] + own[1] + more, "n2": own[2] + own[3]})
    assert "rank 2 on n2" in found.message


@pytest.mark.parametrize(("collective", "words"), [
    ("broadcast", "a rank may leave broadcast before the last one has come"), ("alltoall", "a rank may leave alltoall before"),
])
def test_what_does_not_wait_for_all_is_skipped(tmp_path: Path, collective: str, words: str) -> None:
    (found,), _item = judged(tmp_path, {"n1": [], "n2": []}, collective)
    assert found.status == "skipped"
    assert found.message.startswith(words)


def test_without_a_plugin_it_is_said_once(tmp_path: Path) -> None:
    (found,), _item = judged(tmp_path, {"n1": [], "n2": []}, nccl_tests_inspector=None)
    assert (found.status, "(nccl_tests_inspector)" in found.message) == ("skipped", True)
    assert judge_late_ranks(Run({}, [], {}, {}, {}), []) == []


def test_a_node_that_was_lost_and_a_job_that_did_not_run() -> None:
    nodes = [node(name, 2, inventory={"nccl_tests_inspector": LIBRARY}) for name in ("n1", "n2")]
    runs = [{"collective": "all_reduce", "group": "all", "node": "", "rows": rows, "late": []} for rows in ([ROW], [])]
    (found,) = judge_late_ranks(Run({}, nodes, {}, {"n1": None}, {}), runs)
    assert found.status == "unknown"


def test_local_runs_are_judged_by_node(tmp_path: Path) -> None:
    nodes = [node(name, 2, inventory={"nccl_tests_inspector": LIBRARY}) for name in ("n1", "n2")]
    left = {}
    for at, name in enumerate(("n1", "n2")):
        (tmp_path / name).mkdir()
        own = times(2, {1: 2.0} if at else {})
        left[name] = {"jobs": [], "spent": told(tmp_path / name, own[0] + own[1])}
    runs = [{"collective": "all_reduce", "group": "all", "node": name, "rows": [ROW], "late": []} for name in ("n1", "n2")]
    assert [(item.node, item.status) for item in judge_late_ranks(Run({}, nodes, {}, left, {}), runs)] == [("n1", "pass"), ("n2", "warn")]


def test_the_plan_sets_the_plugins_variables_for_the_ranks_alone() -> None:
    own = {"nccl_tests_inspector": LIBRARY, "nccl_tests_environment": {"NCCL_INSPECTOR_DUMP_VERBOSE": "1"}}
    plan = plan_run([node(name, inventory=own) for name in ("n1", "n2")], "run-1")
    found = plan["jobs"][0]["variables"]["n1"]
    assert found["NCCL_PROFILER_PLUGIN"] == LIBRARY
    assert found["NCCL_INSPECTOR_DUMP_DIR"] == plan["directory"], "it is there on every node, and goes with the run"
    assert found["NCCL_INSPECTOR_DUMP_VERBOSE"] == "1"
    assert not [name for name in plan["probe"]["environment"]["n1"] if "INSPECTOR" in name]
    bare = plan_run([node("n1")], "run-1")["jobs"][0]["variables"]["n1"]
    assert not [name for name in bare if "INSPECTOR" in name or "PROFILER" in name]
