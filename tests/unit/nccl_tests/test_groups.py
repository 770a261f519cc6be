# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench by topology: who runs with whom, from where it is launched, at which sizes and floors, and what cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.baseline import baseline_of, judge_baseline
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.groups import by_leaf, leaf_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, plan_run
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.verdicts import Run, judge
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from bench_documents import document, one_run
from bench_nodes import node
from nccl_tables import table

RUN = "20260101T000000Z-abc123"
LEAVES = {"n1": "rack1", "n2": "rack1", "n3": "rack2", "n4": "rack2"}
NEAR = [{"gpu": "0000:1b:00.0", "hca": "mlx5_0", "port": 1, "path": "PIX", "near": True},
        {"gpu": "0000:2b:00.0", "hca": "mlx5_1", "port": 1, "path": "PIX", "near": True}]
ENDS = {"rail0": "mlx5_0:1", "rail1": "mlx5_1:1"}
GIB = 1 << 30
HALF = {"time_us": 5000.0, "algbw": 45.0, "busbw": 45.0, "wrong": 0}
ROW = {"size": GIB, "count": GIB // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": HALF, "in_place": HALF}


def cluster(*names: str, gpus: int = 2, said: dict[str, Any] | None = None, **inventory: Any) -> list[Node]:
    wanted = {"nccl_tests_purpose": "acceptance", "rails": 2, "rail_names": ["rail0", "rail1"], **inventory}
    return [node(name, gpus, inventory=wanted, **{"ends": ENDS, "affinity": NEAR, **(said or {})}) for name in names or LEAVES]


def planned(nodes: list[Node], leaves: dict[str, str] | None = None, at_once: int = 50) -> dict[str, Any]:
    found = plan_run(nodes, RUN, LEAVES if leaves is None else leaves, at_once)
    assert found["problems"] == []
    return found


def jobs(plan: dict[str, Any]) -> dict[str, Any]:
    return {job["name"]: job for job in plan["jobs"]}


def together(job: dict[str, Any]) -> dict[str, list[str]]:
    return {start: part["nodes"] for start, part in job["parts"].items()}


def after(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def test_acceptance_runs_every_group_from_narrow_to_wide() -> None:
    found = jobs(planned(cluster()))
    assert list(found) == ["all_reduce_node", "all_reduce_leaf", "all_reduce_across", "all_reduce_rail_1", "all_reduce_rail_2",
                           "all_reduce", "alltoall"]
    assert together(found["all_reduce_node"]) == {name: [name] for name in LEAVES}
    assert together(found["all_reduce_leaf"]) == {"n1": ["n1", "n2"], "n3": ["n3", "n4"]}
    assert together(found["all_reduce_across"]) == {"n1": ["n1", "n3"], "n2": ["n2", "n4"]}
    assert together(found["all_reduce_rail_2"]) == {"n1": ["n1", "n2", "n3", "n4"]}
    assert [part["label"] for part in found["all_reduce_leaf"]["parts"].values()] == ["within rack1", "within rack2"]


@pytest.mark.parametrize("purpose", ["quick", "soak"])
def test_other_purposes_run_over_all_nodes_alone(purpose: str) -> None:
    plan = planned(cluster(nccl_tests_purpose=purpose))
    assert (list(jobs(plan)), plan["omitted"]) == (["all_reduce"], [])


def test_named_collectives_are_not_added_to() -> None:
    assert list(jobs(planned(cluster(nccl_tests_collectives=["all_gather"], nccl_tests_groups=["leaf", "all"])))) == [
        "all_gather_leaf", "all_gather"]


def test_each_launch_has_hosts_and_output_of_its_own() -> None:
    job = jobs(planned(cluster()))["all_reduce_leaf"]
    assert job["hosts"] == {"n1": "n1 slots=2\nn2 slots=2\n", "n3": "n3 slots=2\nn4 slots=2\n"}
    argv = job["argv"]["n3"]
    assert (after(argv, "-np"), after(argv, "-J").rpartition("/")[2]) == ("4", "all_reduce_leaf.json")
    assert job["variables"]["n3"]["NCCL_DEBUG_FILE"].endswith("/nccl.all_reduce_leaf.%h.%p.log")
    assert "NCCL_TOPO_DUMP_FILE" not in job["variables"]["n3"], "the topology is that of the run over all nodes"
    assert jobs(planned(cluster()))["all_reduce_node"]["hosts"]["n3"] == "localhost slots=2\n"


@pytest.mark.parametrize(("more", "sizes"), [({}, (str(GIB), str(16 * GIB))), ({"nccl_tests_purpose": "quick"}, (str(1 << 28),) * 2)])
def test_groups_run_at_the_sizes_that_are_judged(more: dict[str, Any], sizes: tuple[str, str]) -> None:
    found = jobs(planned(cluster(nccl_tests_groups=["leaf", "all"], **more)))
    argv = found["all_reduce_leaf"]["argv"]["n1"]
    assert (after(argv, "-b"), after(argv, "-e")) == sizes
    assert after(found["all_reduce"]["argv"]["n1"], "-b") != sizes[0]


def test_a_rail_alone_has_its_device_and_the_gpu_next_to_it() -> None:
    job = jobs(planned(cluster(nccl_tests_ranks="node")))["all_reduce_rail_2"]
    variables, argv = job["variables"]["n1"], job["argv"]["n1"]
    assert (variables["NCCL_IB_HCA"], variables["NCCL_TESTS_DEVICE"]) == ("=mlx5_1:1", "1")
    assert (after(argv, "-np"), after(argv, "-g"), job["parts"]["n1"]["ranks"]) == ("4", "1", 4)
    assert "NCCL_IB_HCA" in [argv[at + 1] for at, word in enumerate(argv) if word == "-x"]


def test_a_floor_is_that_of_the_machines_and_rails_of_its_group() -> None:
    found = jobs(planned(cluster(gpus=8)))
    assert found["all_reduce_node"]["floors"]["n1"].gbs == 431.4
    assert found["all_reduce_across"]["floors"]["n1"].gbs == 80.0, "two nodes: two NICs of 400 Gb/s"
    assert (found["all_reduce_rail_1"]["floors"]["n1"].gbs, found["all_reduce_rail_1"]["floors"]["n1"].ceiling) == (40.0, 50.0)
    assert found["alltoall"]["floors"]["n1"].gbs is None


def test_floors_of_the_inventory_are_by_group() -> None:
    found = jobs(planned(cluster(gpus=8, nccl_tests_min_busbw={"all_reduce": 90, "all_reduce/rail": 45})))
    assert [found[name]["floors"]["n1"].gbs for name in ("all_reduce", "all_reduce_rail_1", "all_reduce_across")] == [90.0, 45.0, 80.0]
    (above,) = plan_run(cluster(gpus=8, nccl_tests_min_busbw={"all_reduce/rail": 51}), RUN, LEAVES)["problems"]
    assert above.startswith("nccl_tests_min_busbw: all_reduce/rail: 51 GB/s is more than these nodes can reach: 50 GB/s, limited by rail")


def omitted(nodes: list[Node], leaves: dict[str, str] | None = None) -> list[str]:
    return [item["why"] for item in planned(nodes, leaves)["omitted"]]


@pytest.mark.parametrize(
    ("nodes", "leaves", "why"),
    [
        (cluster(), {}, ["leaf: no leaf is known: rdma_leaves names no group with these nodes",
                         "across: no leaf is known: rdma_leaves names no group with these nodes"]),
        (cluster(), dict.fromkeys(LEAVES, "rack1"), ["across: all nodes are behind rack1"]),
        (cluster(), {**LEAVES, "n4": "rack3"}, ["leaf: rack2 has one node in this run", "leaf: rack3 has one node in this run",
                                                "across: n2: no partner is left behind another leaf"]),
        (cluster(), {"n1": "rack1", "n2": "rack1", "n3": "rack2"}, [
            "leaf: n4: behind no leaf of rdma_leaves", "leaf: rack2 has one node in this run", "across: n4: behind no leaf of rdma_leaves",
            "across: n2: no partner is left behind another leaf"]),
        (cluster(gpus=1), LEAVES, ["node: one GPU has nobody to talk to"]),
        (cluster(rail_names=["rail0"]), LEAVES, ["rail: there are not two rails"]),
        (cluster(transport="aws-ofi-nccl"), LEAVES, ["rail: aws-ofi-nccl chooses its devices itself, whatever NCCL_IB_HCA says"]),
        (cluster("n1"), LEAVES, ["node: the launcher local runs each node by itself, as group all does", "leaf: one node alone",
                                 "across: one node alone", "rail: one node alone"]),
        (cluster(nccl_tests_launcher="local"), LEAVES, ["node: the launcher local runs each node by itself, as group all does"] + [
            f"{group}: the launcher local runs each node by itself" for group in ("leaf", "across", "rail")]),
    ],
)
def test_what_the_nodes_do_not_have_is_said_and_no_error(nodes: list[Node], leaves: dict[str, str], why: list[str]) -> None:
    assert omitted(nodes, leaves) == why
    assert {"all_reduce", "alltoall"} <= set(jobs(planned(nodes, leaves)))


@pytest.mark.parametrize(("said", "why"), [
    ({"ends": {"rail0": "mlx5_0:1"}}, "n2 has no device"),
    ({"ends": {**ENDS, "rail1": "mlx5_7:1"}}, "n2 has mlx5_7:1 and GPU 0"),
    ({"affinity": NEAR[:1]}, "n2 has mlx5_1:1 and GPU 0"),
])
def test_a_rail_that_should_be_there_and_is_not_is_unknown(said: dict[str, Any], why: str) -> None:
    nodes = cluster("n1") + cluster("n2", said=said)
    plan = planned(nodes, {})
    assert "all_reduce_rail" in jobs(plan), "the other rail is measured all the same"
    found = [item for item in judge(Run(plan, nodes, probed(nodes), {}, {}))[0] if item.status == "unknown"]
    assert (f"rail: rail1 is not measured: one launch has one NCCL_IB_HCA and one GPU number, and n1 has mlx5_1:1 and GPU 1, {why}"
            in [item.message for item in found if item.check == "nccl.complete"])


@pytest.mark.parametrize("group", ["leaf", "across"])
def test_a_group_that_was_named_and_cannot_be_had_stops_the_run(group: str) -> None:
    (problem,) = plan_run(cluster(nccl_tests_groups=[group, "all"]), RUN, {})["problems"]
    assert problem.startswith(f"nccl_tests_groups: {group}: no leaf is known")


def test_no_more_launches_at_once_than_can_be_asked_for() -> None:
    """A launch that nobody asks for is ended as forsaken: Ansible asks as many nodes at once as it has forks."""
    found = jobs(planned(cluster(nccl_tests_groups=["node"]), at_once=3))
    assert [list(job["parts"]) for job in found.values()] == [["n1", "n2", "n3"], ["n4"]]


SRUN = {"slurm": {"srun": "/usr/bin/srun", "sinfo": None, "scancel": None}}


def test_slurm_starts_groups_side_by_side_where_each_has_srun() -> None:
    wanted = {"nccl_tests_launcher": "slurm", "nccl_tests_groups": ["leaf"]}
    beside = jobs(planned(cluster(said=SRUN, **wanted)))
    assert [list(job["argv"]) for job in beside.values()] == [["n1", "n3"]]
    assert after(beside["all_reduce_leaf"]["argv"]["n3"], "--nodelist") == "n3,n4"
    alone = jobs(planned(cluster(said=SRUN, nccl_tests_slurm_host="n2", **wanted)))
    assert [together(job) for job in alone.values()] == [{"n2": ["n1", "n2"]}, {"n2": ["n3", "n4"]}], "one node calls srun for all"


def left(plan: dict[str, Any], log: str = "") -> dict[str, Any]:
    text = table("2.19", [ROW])
    return {name: {"jobs": [{"name": job["name"], "started": name in job["argv"], "rc": 0, "seconds": 2.0, "tail": [], "json": None,
                             "text": text if name in job["argv"] else "", "log": log.replace("HOST", name)} for job in plan["jobs"]]}
            for name in plan["hosts"]}


def probed(nodes: list[Node]) -> dict[str, Any]:
    devices = [["NVIDIA H200", None, 1 << 37]] * 2
    nothing = {"error": None, "cuda": None, "nccl": None}
    said = [{"host": one.name, "rank": 0, "devices": devices, **nothing} for one in nodes for _gpu in one.gpus]
    return {"n1": {"status": 0, "answers": said, "reason": None}}


LOG = ("HOST:1:2 [0] NCCL INFO Using network IB\nHOST:1:2 [0] NCCL INFO NET/IB : Using [0]{}:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\n"
       "HOST:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n")


def judged(log: str) -> tuple[list[Any], list[dict[str, Any]]]:
    nodes = cluster()
    plan = planned(nodes)
    return judge(Run(plan, nodes, probed(nodes), left(plan, log), {}))


def test_verdicts_and_records_name_collective_and_group() -> None:
    verdicts, runs = judged(LOG.format("mlx5_0"))
    speed = [(item.node, item.subject) for item in verdicts if item.check == "nccl.busbw"]
    wide = ("within rack1", "within rack2", "across leaves: n1, n3", "across leaves: n2, n4", "over rail0", "over rail1", "of 8 GPUs")
    assert speed == [*((name, f"all_reduce within {name}") for name in LEAVES), *(("", f"all_reduce {label}") for label in wide),
                     ("", "alltoall of 8 GPUs")]
    leaf = next(run for run in runs if run["label"] == "within rack2")
    assert (leaf["collective"], leaf["group"], leaf["nodes"], leaf["ranks"], leaf["node"]) == ("all_reduce", "leaf", ["n3", "n4"], 4, "")
    assert (leaf["judged_busbw"], leaf["floor"], leaf["ceiling"]) == (45.0, 80.0, 100.0)
    assert leaf["argv"][0] == "/usr/bin/mpirun"


def test_a_rail_that_was_measured_over_another_device_fails() -> None:
    found = {item.subject: item for item in judged(LOG.format("mlx5_0"))[0] if item.check == "nccl.transport"}
    assert found["all_reduce over rail0"].status == "pass"
    assert found["all_reduce over rail1"].status == "fail"
    assert found["all_reduce over rail1"].message.startswith("the run was to use mlx5_1:1 alone; the log names mlx5_0:1")
    blind = {item.subject: item for item in judged(LOG.replace("{}:1/RoCE", "?"))[0] if item.check == "nccl.transport"}
    assert blind["all_reduce over rail0"].status == "unknown", "no device was seen: nothing was proven"
    assert blind["all_reduce within rack1"].status == "pass"


def test_nodes_of_other_launches_have_no_part_in_a_verdict() -> None:
    nodes = cluster(nccl_tests_groups=["leaf"])
    plan = planned(nodes)
    results = left(plan, LOG.format("mlx5_0"))
    results["n4"]["jobs"][0]["log"] = ""
    found = [item.status for item in judge(Run(plan, nodes, probed(nodes), results, {}))[0] if item.check == "nccl.transport"]
    assert found == ["pass", "unknown"]


def test_a_baseline_has_a_figure_of_each_group() -> None:
    racks = [one_run(group="leaf", label=f"within rack{at}", judged_busbw=figure) for at, figure in ((1, 380.0), (2, 390.0))]
    taken = baseline_of(document(*racks, one_run(group="all")), "Jane Doe", "2026-11-26", "r1")
    assert taken["busbw"] == {"all_reduce/leaf": 385.0, "all_reduce": 342.9}
    slow = one_run(group="leaf", label="within rack2", judged_busbw=300.0)
    assert [(item.status, item.subject) for item in judge_baseline(taken, document(slow))] == [
        ("fail", "all_reduce within rack2 against its baseline")]
    _spec, findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "nccl_tests_baseline": taken}, "n1")
    assert not [item for item in findings if "baseline" in item.key]


def test_a_node_in_two_leaves_is_in_the_first() -> None:
    assert leaf_of(["a", "b"], {"a": ["n1"], "b": ["n1", "n2"], "c": ["n3"]}) == {"n1": "a", "n2": "b"}


def test_across_takes_one_node_of_each_leaf_while_there_are_two() -> None:
    leaves = {"n1": "a", "n2": "a", "n3": "a", "n4": "b", "n5": "b", "n6": "c"}
    parts, why = by_leaf("across", list(leaves), leaves)
    assert [part.nodes for part in parts] == [("n1", "n4", "n6"), ("n2", "n5")]
    assert [str(item) for item in why] == ["across: n3: no partner is left behind another leaf"]


@pytest.mark.parametrize(("keys", "message"), [
    ({"nccl_tests_groups": ["leaf"]}, "rdma_leaves names no group"),
    ({"nccl_tests_groups": ["all", "across"], "rdma_leaves": ["rack1"]}, "rdma_leaves names one group"),
    ({"nccl_tests_groups": ["rail"]}, "rdma_rails has fewer than two rails"),
    ({"nccl_tests_groups": ["leaf"], "rdma_leaves": ["rack1"], "nccl_tests_launcher": "local"}, "nccl_tests_launcher is local"),
    ({"nccl_tests_groups": []}, "is empty"),
    ({"nccl_tests_groups": ["leaf", "leaf"], "rdma_leaves": ["rack1"]}, "names leaf twice"),
    ({"nccl_tests_groups": ["racks"]}, "is not a value"),
    ({"nccl_tests_min_busbw": {"all_reduce/rack": 1}}, "is no collective"),
])
def test_what_the_inventory_rules_out_is_its_error(keys: dict[str, Any], message: str) -> None:
    _spec, findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, **keys}, "n1")
    assert [item for item in findings if item.severity == "error" and message in item.message]
