# SPDX-License-Identifier: GPL-3.0-or-later
"""From what nodes left behind to verdicts: tables of tests/lib/nccl_tables.py, NCCL's lines as its source has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.judge import how_it_ended, why
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, plan_run
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.verdicts import Run, judge
from bench_nodes import node
from nccl_tables import table

RUN = "run-1"
GIB = 1 << 30
ACCEPTANCE = {"nccl_tests_purpose": "acceptance", "nccl_tests_groups": ["all"], "nccl_tests_collectives": ["all_reduce"]}


def row(busbw: float, size: int = GIB, wrong: int | None = 0) -> dict[str, Any]:
    half = {"time_us": 5000.0, "algbw": busbw, "busbw": busbw, "wrong": wrong}
    return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": half, "in_place": half}


def answer(host: str, rank: int, gpus: int = 8, **said: Any) -> dict[str, Any]:
    devices = [["NVIDIA H200", f"0000:{index + 1:x}b:00.0", 1 << 37] for index in range(gpus)]
    found = {"host": host, "rank": rank, "devices": devices, "error": None if gpus else "cuInit says 100", "cuda": "13.0", "nccl": "2.30.7"}
    return {**found, **said}


def left(text: str, rc: int | None = 0, *, log: str = "", started: bool = True, **said: Any) -> dict[str, Any]:
    job = {"name": "all_reduce", "started": started, "rc": rc, "seconds": 12.5, "text": text, "tail": [], "too_much": False, "json": None,
           "log": log}
    return {"jobs": [{**job, **said}], "nccl_topo": None, "nccl_graph": None}


def alone(result: dict[str, Any] | None, *, gpus: int = 8, probe: dict[str, Any] | None = None, **inventory: Any) -> Run:
    one = node("n1", gpus, inventory={**ACCEPTANCE, **inventory})
    probed = {"status": 0, "answers": [answer("n1", 0, gpus)], "reason": None} if probe is None else probe
    return Run(plan_run([one], RUN), [one], {"n1": probed}, {"n1": result}, {"n1": 0})


def pair(
    result: dict[str, Any] | None, *, nodes: tuple[Node, Node] | None = None, log: str | None = None, probe: Any = None, **inventory: Any
) -> Run:
    """``log``: of the second node; None: as the first one's."""
    both = nodes or (node("n1", inventory=inventory), node("n2", inventory=inventory))
    said = [answer(name, rank) for name in ("n1", "n2") for rank in range(8)]
    probed = probe if probe is not None else {"status": 0, "answers": said, "reason": None}
    mirrored = result["jobs"][0]["log"].replace("n1:", "n2:") if result is not None else ""
    other = left("", started=False, log=mirrored if log is None else log)
    return Run(plan_run(both, RUN), both, {"n1": probed}, {"n1": result, "n2": other}, {"n1": 0, "n2": 0})


def of(run: Run, check: str) -> list[Verdict]:
    return [item for item in judge(run)[0] if item.check == check]


def only(run: Run, check: str) -> Verdict:
    (found,) = of(run, check)
    return found


def statuses(run: Run) -> dict[str, str]:
    return {item.check: item.status for item in judge(run)[0]}


GOOD = table("2.19", [row(470.0)])
INSIDE = "".join(
    f"n1:1:2 [{at}] NCCL INFO ncclCommInitRank comm 0x{at}a rank {at} nranks 8 cudaDev {at} busId {at}000 commId 0x1 - Init COMPLETE\n"
    f"n1:1:2 [{at}] NCCL INFO Channel 00/0 : {at}[{at}] -> {(at + 1) % 8}[{(at + 1) % 8}] via P2P/CUMEM\n" for at in range(8))  # fmt: skip


def test_a_good_run_on_one_node() -> None:
    found = statuses(alone(left(GOOD, log=INSIDE)))
    assert found == {"nccl.launch": "pass", "nccl.devices": "pass", "nccl.complete": "pass", "nccl.values": "pass", "nccl.busbw": "pass",
                     "nccl.transport": "pass"}  # fmt: skip


def test_the_record_of_a_run() -> None:
    (record,) = judge(alone(left(GOOD)))[1]
    assert (record["collective"], record["rc"], record["seconds"], record["complete"]) == ("all_reduce", 0, 12.5, True)
    assert (record["judged_busbw"], record["floor"]) == (470.0, 431.4)
    assert record["rows"][0]["size"] == GIB
    assert record["environment"]["NCCL_DEBUG"] == "INFO"
    assert "/opt/nccl-tests/all_reduce_perf" in record["argv"]


def test_below_the_floor() -> None:
    found = only(alone(left(table("2.19", [row(429.0)]))), "nccl.busbw")
    assert (found.status, found.expected, found.found) == ("fail", 431.4, 429.0)
    assert found.message.endswith("below 431.4; ceiling 490.3 by NVLink (18 links a GPU), added up in the switches")
    assert only(alone(left(GOOD), nccl_tests_min_busbw={"all_reduce": 480}), "nccl.busbw").status == "fail"


def test_without_a_floor_speed_is_reported() -> None:
    found = only(alone(left(GOOD), nccl_tests_purpose="quick"), "nccl.busbw")
    assert found.status == "skipped"
    assert "ceiling 490.3 by NVLink" in found.message
    assert "nccl_tests_min_busbw" in found.message


def test_json_is_preferred_where_it_is_whole() -> None:
    half = {"time": 5000.0, "alg_bw": 470.123456, "bus_bw": 470.123456, "nwrong": 0}
    results = [{"size": GIB, "count": GIB // 4, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": half, "in_place": half}]
    footer = {"out_of_bounds": {"count": 0}, "average_bus_bandwidth": {"bandwidth": 470.1}, "end_time": "x", "errors": []}
    document: dict[str, Any] = {"results": results, **footer}
    run = alone(left(GOOD, json=json.dumps(document)))
    assert judge(run)[1][0]["judged_busbw"] == 470.123456
    cut = {key: value for key, value in document.items() if key != "end_time"}
    assert judge(alone(left(GOOD, json=json.dumps(cut))))[1][0]["judged_busbw"] == 470.0


def test_no_gpu_is_one_clear_line() -> None:
    run = alone(left("", started=False), gpus=0)
    assert [item.message for item in judge(run)[0]] == ["no CUDA device on n1: libcuda.so.1 is not there"]
    assert judge(run)[1] == []


def test_no_gpu_behind_a_launcher_that_works() -> None:
    both = (node("n1", 0), node("n2", 0))
    probe = {"status": 0, "answers": [answer("n1", 0, 0), answer("n2.example.com", 1, 0)], "reason": None}
    run = pair(None, nodes=both, probe=probe)
    assert only(run, "nccl.launch").status == "pass"
    assert [item.message for item in of(run, "nccl.devices")] == [
        "no CUDA device on n1: libcuda.so.1 is not there", "no CUDA device on n2: libcuda.so.1 is not there"]
    assert of(run, "nccl.complete") == []


def test_gpus_that_only_the_probe_sees_are_none() -> None:
    """Nothing was planned for them: a run without a single job must not pass."""
    run = alone(None, gpus=0)
    probed = run._replace(plan={**run.plan, "probe": {"name": "probe"}}, probes={"n1": {"status": 0, "answers": [answer("n1", 0, 8)]}})
    assert only(probed, "nccl.devices").status == "fail"


def test_fewer_devices_than_ranks() -> None:
    said = [answer("n1", rank) for rank in range(8)] + [answer("n2", rank, 7) for rank in range(8)]
    found = of(pair(None, probe={"status": 0, "answers": said, "reason": None}), "nccl.devices")
    assert [(item.node, item.status) for item in found] == [("n1", "pass"), ("n2", "fail")]
    assert found[1].message == "7 CUDA devices on n2 for 8 ranks"


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ({"status": 1, "answers": [], "reason": "Host key verification failed."},
         "the launcher failed (exit 1: a failure), no rank answered: Host key verification failed."),
        ({"status": 0, "answers": [answer("n1", 0)], "reason": None}, "1 of 16 ranks answered, none of n2"),
        ({"status": 124, "answers": [], "reason": "srun: job 7 queued and waiting for resources"}, "exit 124: its time was over"),
        ({"status": None, "answers": [], "reason": None}, "killed from outside"),
        ({"status": 1, "answers": [], "reason": "srun: error: Unable to allocate resources: Invalid node name specified"},
         "Invalid node name specified; a node's name there is upgrade_node_name, else its name in the inventory"),
    ],
)
def test_a_launcher_that_fails_is_told_from_a_missing_gpu(probe: dict[str, Any], words: str) -> None:
    run = pair(None, probe=probe)
    found = only(run, "nccl.launch")
    assert found.status == "fail"
    assert words in found.message
    assert of(run, "nccl.devices") == []
    assert of(run, "nccl.complete") == []


def test_a_launch_node_that_was_lost() -> None:
    run = pair(None)._replace(probes={})
    assert only(run, "nccl.launch").message == "n1 was lost before it had started the ranks"
    later = only(pair(None)._replace(left={"n1": None, "n2": None}), "nccl.complete")
    assert (later.status, later.message) == ("fail", "the node that launched it was lost")


CUT = GOOD[:GOOD.index("# Out of bounds")]


@pytest.mark.parametrize(
    ("text", "rc", "log", "words"),
    [
        (CUT, 137, "", "exit 137: killed by SIGKILL after 1 rows"),
        (CUT, 124, "", "exit 124: its time was over after 1 rows"),
        (CUT, None, "", "killed from outside after 1 rows"),
        ("", 0, "", "exit 0 after 0 rows"),
        ("USAGE: all_reduce_perf\n", 0, "", "exit 0 after 0 rows: USAGE: all_reduce_perf"),
        (CUT + "n1: Test CUDA failure common.cu:12 'out of memory'\n", 2, "",
         "exit 2: a CUDA failure after 1 rows: n1: Test CUDA failure common.cu:12 'out of memory'"),
        (CUT + "n1: Test NCCL failure x.cu:1 'remote error'\n", 3, "n1:1:1 [0] net.cc:349 NCCL WARN Failed to initialize any NET plugin\n",
         "NCCL WARN Failed to initialize any NET plugin"),
        (GOOD, 7, "", "exit 7: wrong values, or less than NCCL_TESTS_MIN_BW after 1 rows"),
    ],
)
def test_a_run_that_ended_badly(text: str, rc: int | None, log: str, words: str) -> None:
    run = alone(left(text, rc, log=log))
    found = only(run, "nccl.complete")
    assert found.status == "fail"
    assert words in found.message
    assert judge(run)[1][0]["complete"] is False
    assert ("nccl.busbw" in statuses(run)) is ("after 1 rows" in found.message), "nothing is said of rows that are not there"


def test_wrong_values_fail() -> None:
    assert only(alone(left(table("2.19", [row(470.0, wrong=3)], bounds=1), 7)), "nccl.values").status == "fail"
    assert only(alone(left(table("2.19", [row(470.0, wrong=None)]))), "nccl.values").status == "skipped"


def test_what_was_not_run_says_why() -> None:
    run = alone(left("", None, started=False))
    found = [item for item in judge(run)[0] if item.check.startswith("nccl.") and item.status == "fail"]
    assert [(item.check, item.message) for item in found] == [("nccl.complete", "not run: the one before it did not end by itself")]


IB = ("n1:1:2 [0] NCCL INFO Using network IB\nn1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\n"
      "n1:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n")
SOCKET = ("n1:1:2 [0] NCCL INFO NET/IB : No device found.\nn1:1:2 [0] NCCL INFO Using network Socket\n"
          "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n")
FLOOR = {"all_reduce": 300}


def test_the_promised_transport() -> None:
    found = only(pair(left(GOOD, log=IB), nccl_tests_min_busbw=FLOOR), "nccl.transport")
    assert (found.status, found.expected, found.found) == ("pass", "roce with GPUDirect RDMA", "NET/IB/GDRDMA")


def test_a_node_whose_log_is_missing_passes_nothing() -> None:
    found = only(pair(left(GOOD, log=IB), log=""), "nccl.transport")
    assert (found.status, found.found) == ("unknown", "NET/IB/GDRDMA")
    assert found.message.startswith("the logs of n2 name no network connection; of the others: 1 connections")


def test_the_verdict_says_what_carried_the_bytes_and_who_chose_it() -> None:
    plugin = IB.replace("network IB", "network IBext_v9").replace("NET/IB/0", "NET/IBext_v9/0")
    nodes = tuple(node(name, inventory={"nccl_tests_min_busbw": FLOOR}, net_plugins=["/usr/lib/libnccl-net.so"]) for name in ("n1", "n2"))
    found = only(pair(left(GOOD, log=plugin), nodes=(nodes[0], nodes[1])), "nccl.transport")
    assert (found.status, found.found) == ("pass", "NET/IBext_v9/GDRDMA")
    assert "IBext_v9 is NVIDIA's nccl-rdma-sharp-plugins (HPC-X); NCCL chose, and tries /usr/lib/libnccl-net.so first" in found.message
    own = only(pair(left(GOOD, log=IB)), "nccl.transport").message
    assert own.endswith("all NET/IB/GDRDMA over RoCE: IB is NCCL's own InfiniBand and RoCE transport")
    set_here = only(pair(left(GOOD, log=IB), nccl_tests_environment={"NCCL_NET": "ib"}), "nccl.transport").message
    assert set_here.endswith("; NCCL_NET=ib is nccl_tests_environment's: other jobs may use another network")


def test_logs_of_every_node_count() -> None:
    run = pair(left(GOOD, log=IB), log=SOCKET.replace("n1:", "n2:"), nccl_tests_min_busbw=FLOOR)
    assert only(run, "nccl.transport").status == "fail"


@pytest.mark.parametrize(
    ("log", "inventory", "status"),
    [
        (SOCKET, {}, "fail"),
        (SOCKET, {"nccl_tests_network": "any"}, "skipped"),
        (IB.replace("/GDRDMA", ""), {}, "fail"),
        (IB.replace("/GDRDMA", ""), {"nccl_tests_network": "rdma"}, "pass"),
        (IB.replace("/GDRDMA", ""), {"gpudirect_path": "none"}, "pass"),
        ("", {}, "unknown"),
    ],
)
def test_what_was_promised_decides(log: str, inventory: dict[str, Any], status: str) -> None:
    assert only(pair(left(GOOD, log=log), nccl_tests_min_busbw=FLOOR, **inventory), "nccl.transport").status == status


def test_within_a_node_data_goes_from_gpu_to_gpu() -> None:
    quiet = "n1:1:2 [0] NCCL INFO NET/IB : No device found.\nn1:1:2 [0] NCCL INFO Using network Socket\n"
    found = only(alone(left(GOOD, log=quiet + INSIDE)), "nccl.transport")
    assert (found.status, found.found, found.message) == ("pass", "P2P", "8 connections inside the node, all P2P")
    shared = INSIDE.replace("2[2] -> 3[3] via P2P/CUMEM", "2[2] -> 3[3] via SHM/direct/direct")
    staged = only(alone(left(GOOD, log=shared)), "nccl.transport")
    assert (staged.status, staged.found) == ("warn", "P2P, SHM")
    assert "1 of 8 connections inside the node go through host memory (SHM), such as of ranks 2 and 3" in staged.message
    for part in ("", quiet, INSIDE.partition("rank 7")[0]):
        assert only(alone(left(GOOD, log=part)), "nccl.transport").status == "unknown", "what the log does not tell"
    assert of(alone(left(GOOD, log=quiet), gpus=1), "nccl.transport") == [], "one GPU sends nothing"


def test_ranks_of_one_node_that_talk_over_sockets_fail() -> None:
    """P2P and SHM do not work, or are off: what is left is the network, and it is not the one that was promised."""
    assert only(alone(left(GOOD, log=SOCKET)), "nccl.transport").status == "fail"


def test_versions_agree_or_are_named() -> None:
    found = of(pair(left(GOOD, log=IB)), "nccl.versions")
    assert {item.subject: item.status for item in found} == {
        "GPU driver": "pass", "CUDA of the driver": "pass", "NCCL": "pass", "MPI": "pass", "all_reduce_perf": "pass"}
    said = [answer("n1", rank) for rank in range(8)] + [answer("n2", rank, nccl="2.18.3") for rank in range(8)]
    nodes = (node("n1"), node("n2", driver="570.1"))
    probe = {"status": 0, "answers": said, "reason": None}
    other = {item.subject: item for item in of(pair(None, nodes=nodes, probe=probe), "nccl.versions")}
    assert other["NCCL"].message == "NCCL differs: n1 has 2.30.7, n2 has 2.18.3"
    assert other["GPU driver"].status == "fail"


def test_a_version_that_one_node_does_not_tell_is_unknown() -> None:
    found = {item.subject: item for item in of(pair(None, nodes=(node("n1"), node("n2", driver=None))), "nccl.versions")}
    assert (found["GPU driver"].status, found["GPU driver"].message) == ("unknown", "GPU driver is not known on n2")


def test_what_had_to_be_ended_is_told() -> None:
    run = alone(left(GOOD))._replace(ended={"n1": 2})
    assert only(run, "nccl.leftovers").status == "warn"


def test_a_node_that_left_no_job_fails() -> None:
    assert only(alone({"jobs": []}), "nccl.complete").status == "fail"


@pytest.mark.parametrize(("rc", "words"), [(None, "killed from outside"), (0, "exit 0"), (129, "the controller was gone"), (143, "SIGTERM"),
                                           (255, "an option was refused"), (42, "exit 42")])
def test_exit_statuses_in_words(rc: int | None, words: str) -> None:
    assert words in how_it_ended(rc)


def test_rows_are_no_reason() -> None:
    assert why("   1024   256  float  sum  -1  1.0 1.0 1.0 0 1.0 1.0 1.0 0\n# Avg bus bandwidth : 1\n", "") is None


@pytest.mark.parametrize("said", [[7, None, {}, {"host": ["n1"]}], [{"host": "n1", "devices": [[1, 2, 3]]}]])
def test_a_probe_that_answers_nonsense_fails_and_breaks_nothing(said: Any) -> None:
    run = pair(None, probe={"status": 0, "answers": said, "reason": None})
    assert only(run, "nccl.launch").status == "fail"
