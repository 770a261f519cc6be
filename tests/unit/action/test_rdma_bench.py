# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side: the plan from registered results, and each node's part in every step, also when nodes are lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

import nccl_logs
from ansible_collections.railwright.rdma.plugins.action.rdma_bench import BENCHMARKS, DDP, NCCL, ddp_judge, nccl_arguments, nccl_plan
from ansible_collections.railwright.rdma.plugins.plugin_utils.bench import failures, judge_bench
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import part_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS
from bench_nodes import seen
from bench_nodes import wishes as wanted
from field_specs import build_spec
from nccl_tables import table

NODES = ("n1", "n2")
LOOK, PROBE, START, POLL, COLLECT = map(NCCL.format, ("inspect", "probe", "start", "poll", "collect"))
HALF = {"time_us": 1.0, "algbw": 400.0, "busbw": 400.0, "wrong": 0}
ROW = {"size": 1 << 30, "count": 1 << 28, "type": "float", "redop": "sum", "root": -1, "out_of_place": HALF, "in_place": HALF}


def looked(name: str, gpus: int = 8, *, inventory: dict[str, Any] | None = None, **said: Any) -> dict[str, Any]:
    return {"seen": seen(name, gpus, **said), "wishes": wanted(**(inventory or {}))}


def variables(registered: dict[str, dict[str, Any]], *, lost: tuple[str, ...] = (), here: str = "n1") -> dict[str, Any]:
    """``registered``: by host, then by name."""
    alive = [name for name in NODES if name not in lost]
    return {"inventory_hostname": here, "hostvars": registered, "ansible_play_hosts_all": list(NODES), "ansible_play_hosts": alive}


def both(**inventory: Any) -> dict[str, dict[str, Any]]:
    return {name: {LOOK: looked(name, inventory=inventory)} for name in NODES}


def answers(gpus: int = 8) -> dict[str, Any]:
    devices = [["NVIDIA H200", None, 1 << 37]] * gpus
    nothing = {"error": None, "cuda": None, "nccl": None}
    said = [{"host": name, "rank": rank, "devices": devices, **nothing} for name in NODES for rank in range(8)]
    return {"status": 0, "answers": said, "reason": None}


def plan(task_vars: dict[str, Any]) -> dict[str, Any]:
    return dict(nccl_plan(task_vars)["plan"])


def test_the_plan_is_made_of_every_look() -> None:
    found = plan(variables(both()))
    assert found["problems"] == []
    assert found["hosts"] == ["n1", "n2"]
    assert plan(variables(both()))["run"] != found["run"]


@pytest.mark.parametrize("other", [{LOOK: {"failed": True}}, {LOOK: {"unreachable": True}}])
def test_a_node_that_did_not_answer_is_named(other: dict[str, Any]) -> None:
    found = plan(variables({**both(), "n2": other}))
    assert found["problems"] == ["n2 did not answer as it should: leave it out with --limit"]


def test_nodes_in_batches_are_refused() -> None:
    with pytest.raises(AnsibleActionFail, match="n2 were not inspected before this: run the play without serial"):
        plan(variables({**both(), "n2": {}}))


def test_every_wish_of_the_role_reaches_the_plan() -> None:
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:aa:bb:01"}, "address": "10.0.0.1/24"}]
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, "expect": {"rate_gbps": 400}}, "n1")
    assert spec is not None, findings
    found = BENCHMARKS["nccl_tests"].wishes(spec)
    assert {key.name for key in KEYS if key.owner == "nccl_tests"} <= set(found)
    assert (found["rails"], found["rate_gbps"], found["fabric"], found["transport"]) == (1, 400, "roce", "")


def step(mode: str, node: str, registered: dict[str, dict[str, Any]] | None = None, **options: Any) -> dict[str, Any] | None:
    hosts = registered or both()
    planned = plan(variables(both(nccl_tests_collectives=["all_reduce", "all_reduce"])))
    found = nccl_arguments(mode, planned, node, variables(hosts), {"job": 0, **options})
    return found and {name: value for name, value in found.items() if name not in ("run", "user")}


def test_every_node_prepares_stops_and_collects() -> None:
    port = {"rail": "rail0 (eth1)", "hca": "mlx5_0", "port": 1, "driver": "mlx5_core", "netdevs": ["eth1"]}
    hosts = {name: {LOOK: looked(name, inventory={"lossless": [3], "why_not": None}, ports=[port])} for name in NODES}
    watch = {"ports": [port], "lossless": [3], "why_not": None}
    for node in NODES:
        assert step("prepare", node, hosts) == {"hosts": "n1 slots=8\nn2 slots=8\n", "watch": watch}
        assert step("stop", node, hosts) == {"cancel": None}
        assert step("collect", node, hosts) == {"names": ["all_reduce", "all_reduce"], "watch": watch}


def test_one_node_launches() -> None:
    probed = {**both(), "n1": {**both()["n1"], PROBE: answers()}}
    for mode in ("probe", "start", "poll"):
        assert step(mode, "n1", probed) is not None
        assert step(mode, "n2", probed) is None


@pytest.mark.parametrize(
    "probe", [{"status": 1, "answers": [], "reason": "x"}, {**answers(), "status": 124}, answers(7), None, {"failed": True}]
)
def test_nothing_is_started_where_the_launcher_or_a_gpu_failed(probe: dict[str, Any] | None) -> None:
    hosts = both()
    hosts["n1"][PROBE] = probe
    assert step("start", "n1", hosts) is None


@pytest.mark.parametrize(
    ("polled", "goes_on"), [({"status": 0}, True), ({"status": 3}, True), ({"status": 124}, False), ({"status": None}, False),
                            ({"failed": True}, False), ({"skipped": True}, False)]
)
def test_after_a_job_that_did_not_end_by_itself_nothing_more_is_started(polled: dict[str, Any], goes_on: bool) -> None:
    hosts = both()
    hosts["n1"] |= {PROBE: answers(), POLL: polled}
    assert ("launch" in (step("start", "n1", hosts, job=1) or {})) is goes_on
    assert step("start", "n1", hosts, job=0) is not None


LEAVES = {"rack1": ["n1", "n2"], "rack2": ["n3", "n4"]}
FOUR = ("n1", "n2", "n3", "n4")


def of_four(results: dict[str, dict[str, Any]], job: int) -> dict[str, dict[str, Any] | None]:
    """What each of four nodes behind two leaves is told when a job is started. ``results``: by node, of the steps before."""
    wanted_here = {"nccl_tests_groups": ["leaf", "across", "all"], "leaves": list(LEAVES)}
    said = {**answers(), "answers": [{**answers()["answers"][0], "host": name} for name in FOUR for _rank in range(8)]}
    registered = {name: {LOOK: looked(name, inventory=wanted_here), PROBE: {"skipped": True}, **results.get(name, {})} for name in FOUR}
    registered["n1"][PROBE] = said
    task_vars = {"inventory_hostname": "n1", "hostvars": registered, "ansible_play_hosts_all": list(FOUR),
                 "ansible_play_hosts": list(FOUR), "groups": {**LEAVES, "all": list(FOUR)}, "ansible_forks": 10}
    planned = plan(task_vars)
    return {name: nccl_arguments("start", planned, name, task_vars, {"job": job}) for name in FOUR}


def started(found: dict[str, dict[str, Any] | None]) -> list[str]:
    return [name for name, item in found.items() if item is not None and "launch" in item]


def test_leaves_begin_at_the_same_time_on_nodes_of_their_own() -> None:
    found = of_four({}, 0)
    assert started(found) == ["n1", "n3"]
    told = found["n3"]
    assert told is not None
    assert told["launch"]["hosts"] == "n3 slots=8\nn4 slots=8\n"
    assert list(told["launch"]["environment"]) == ["n3"], "what others are started with is nothing for this node"


SKIPPED = {START: {"skipped": True}, POLL: {"skipped": True}}


def test_where_a_launch_hung_its_nodes_start_nothing_more() -> None:
    """One leaf hung: the next job runs without its nodes, and the one over all nodes does not run."""
    after_leaf = {"n1": {POLL: {"status": 124}}, "n2": SKIPPED, "n3": {POLL: {"status": 0}}, "n4": SKIPPED}
    across = of_four(after_leaf, 1)
    assert started(across) == []
    assert [name for name, item in across.items() if item] == ["n1", "n2"], "they hand on that they gave up"
    gone = {"n1": {START: across["n1"], POLL: {"skipped": True}}, "n2": {START: across["n2"], POLL: {"skipped": True}}, "n3": SKIPPED,
            "n4": SKIPPED}
    assert started(of_four(gone, 2)) == []


def test_a_launch_that_ended_does_not_hold_up_a_node_that_starts_later() -> None:
    """Node n2 was no start of the first job: its own poll was skipped, and says nothing."""
    after_leaf = {"n1": {POLL: {"status": 0}}, "n2": SKIPPED, "n3": {POLL: {"status": 3}}, "n4": SKIPPED}
    assert started(of_four(after_leaf, 1)) == ["n1", "n2"]


def test_steps_need_the_plan() -> None:
    with pytest.raises(AnsibleActionFail, match="holds no result"):
        part_of(variables(both()), "n1", NCCL.format("plan"), "plan")


def judgement(hosts: dict[str, dict[str, Any]], lost: tuple[str, ...] = ()) -> dict[str, Any]:
    return judge_bench(variables(hosts, lost=lost), plan(variables(both())), NCCL)


def whole() -> dict[str, dict[str, Any]]:
    text = table("2.19", [ROW])
    job = {"name": "all_reduce", "started": True, "rc": 0, "seconds": 3.0, "text": text, "tail": [], "json": None, "log": ""}
    hosts = both()
    hosts["n1"] |= {PROBE: answers(), COLLECT: {"jobs": [job], "ended": 0, "nccl_topo": "<system/>", "nccl_graph": None}}
    hosts["n2"] |= {COLLECT: {"jobs": [{**job, "started": False, "text": ""}], "ended": 2}}
    return hosts


def test_the_document_of_a_run() -> None:
    found = judgement(whole())
    bench = found["bench"]
    assert (bench["purpose"], bench["launcher"], bench["hosts"], bench["ranks"]) == ("quick", "mpi", ["n1", "n2"], 16)
    assert bench["runs"][0]["judged_busbw"] == 400.0
    assert bench["versions"]["n1"]["nccl_tests"] == "2.19.6"
    assert bench["topology"]["n1"] == {"matrix": [], "nccl_topo": "<system/>", "nccl_graph": None}
    assert found["summary"]["n2"]["warn"] == 1, "two processes had to be ended there"
    assert found["failures"] == {"n1": "", "n2": ""}


def test_a_node_that_was_lost_on_the_way_is_judged_all_the_same() -> None:
    hosts = whole()
    hosts["n1"] = {LOOK: hosts["n1"][LOOK], PROBE: answers(), COLLECT: {"unreachable": True}}
    found = judgement(hosts, lost=("n1",))
    assert found["summary"]["n2"]["fail"] == 1
    assert "the node that launched it was lost" in found["failures"]["n2"]


def test_counters_of_the_rails_are_judged() -> None:
    grown = {"check": "port.errors", "node": "n9", "hca": "mlx5_0", "port": 1, "subject": "rail0", "status": "fail",
             "expected": "no growth", "found": "symbol_error +4", "message": "grew"}
    hosts = whole()
    hosts["n2"][COLLECT]["counters"] = [grown]
    found = judgement(hosts)
    assert [item for item in found["verdicts"] if item["check"] == "port.errors"] == [{**grown, "node": "n2"}]
    hosts["n2"][COLLECT] = {"unreachable": True}
    (lost,) = [item for item in judgement(hosts)["verdicts"] if item["check"] == "port.errors"]
    assert (lost["node"], lost["status"]) == ("n2", "unknown")
    hosts["n1"][COLLECT]["jobs"][0]["started"] = False
    assert "port.errors" not in {item["check"] for item in judgement(hosts)["verdicts"]}, "nothing ran: nothing was proven"


def test_the_line_at_the_end_is_bounded() -> None:
    verdicts = [{"node": node, "status": "fail", "message": f"no CUDA device on {node}\x1b[2J"} for node in ("n1", "n2", "n1", "n1", "n1")]
    assert failures("n1", verdicts) == "no CUDA device on n1; no CUDA device on n1; no CUDA device on n1; and 1 more"
    assert failures("n2", verdicts) == "no CUDA device on n2"


@pytest.mark.parametrize(("net", "gdr", "status"), [("IB", True, "pass"), ("Socket", False, "fail"), ("IB", False, "fail")])
def test_the_training_is_judged_by_the_way_its_data_went(net: str, gdr: bool, status: str) -> None:
    planned = {"run": "ddp-x", "hosts": ["n1", "n2"], "processes": {"n1": 2, "n2": 2}, "world_size": 4, "backend": "nccl", "steps": 10,
               "batch": 64, "timeout_s": 900, "port": 29500, "minimum": None, "nodes": {"n1": {"first_rank": 0}, "n2": {"first_rank": 2}},
               "promise": {"fabric": "infiniband", "network": "promised", "gdr": True}}
    left = {"rc": 0, "ranks": [], "failures": [], "result": None, "log": ""}
    results = {name: {DDP.format("collect"): {"counters": [], "traffic": [], "collected": {
        **left, "way": "".join(nccl_logs.rank("2.27.7", rank, net=net, gdr=gdr) for rank in ranks)}}}
        for name, ranks in (("n1", (0, 1)), ("n2", (2, 3)))}
    found = ddp_judge(variables(results), planned)
    assert [item["status"] for item in found["verdicts"] if item["check"] == "nccl.transport"] == [status]
    assert found["ddp"]["transport"]["networks"] == [net]
