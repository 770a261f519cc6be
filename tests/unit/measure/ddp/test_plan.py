# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is which rank and where they meet; a command line for every node; what a node says is checked before others are told."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.action.rdma_bench import DDP, ddp_plan, finished
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import command, share_from, torchrun_environment
from ansible_collections.railwright.rdma.plugins.plugin_utils.ddp import PlanError, make_plan, rounds, share, wishes
from field_specs import build_spec

LOOK = DDP.format("inspect")
WISHES = {"backend": "nccl", "steps": 100, "warmup": 10, "batch": 64, "port": 29500, "timeout_s": 900, "repeatable": False,
          "min_samples_per_s": None, "environment": {"NCCL_DEBUG": "INFO"},
          "promise": {"fabric": "roce", "network": "promised", "gdr": True}, "root": False}


def look(number: int, **more: Any) -> dict[str, Any]:
    place = {"name": f"eth{number}", "addresses": ["fe80::1", f"2001:db8::{number}", f"192.0.2.{number}"]}
    said = {"user": "train", "python": "/usr/bin/python3", "torch": "2.11.0", "processes": 8, "interface": place, "port_taken": False}
    return {**said, **more}


def made(*looks: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    nodes = {f"node{number}": item for number, item in enumerate(looks, 1)}
    return make_plan("ddp-x", nodes, {name: {**WISHES, **wanted} for name in nodes})


def test_ranks_follow_the_inventory_and_each_nodes_number_of_gpus() -> None:
    found = made(look(1), look(2, processes=4), look(3))
    ranks = [(item["node_rank"], item["first_rank"], item["processes"]) for item in found["nodes"].values()]
    assert ranks == [(0, 0, 8), (1, 8, 4), (2, 12, 8)]
    assert (found["world_size"], found["hosts"]) == (20, ["node1", "node2", "node3"])


def test_the_highest_floor_counts_whichever_node_has_it() -> None:
    nodes = {"node1": look(1), "node2": look(2)}
    wanted = {"node1": {**WISHES, "min_samples_per_s": 1}, "node2": {**WISHES, "min_samples_per_s": 50000}}
    assert make_plan("ddp-x", nodes, wanted)["minimum"] == 50000


def test_they_meet_at_the_first_nodes_bootstrap_address() -> None:
    found = made(look(1), look(2))
    assert (found["master"], found["port"]) == ("192.0.2.1", 29500)
    assert [share(found, node)["interface"] for node in found["hosts"]] == ["eth1", "eth2"], "every node has names of its own"
    only6 = made(look(1, interface={"name": "eth1", "addresses": ["fe80::1", "2001:db8::1"]}), look(2))
    assert only6["master"] == "2001:db8::1"


def test_one_node_needs_no_network() -> None:
    found = made(look(1, interface=None))
    assert (found["master"], found["nodes"]["node1"]["interface"]) == ("127.0.0.1", "lo")


@pytest.mark.parametrize(("second", "words"), [
    ({"interface": None}, "no interface of node2 carries the default route or the controller's connection; set rdma_bootstrap_interface"),
])
def test_a_node_that_cannot_be_part(second: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        made(look(1), look(2, **second))


@pytest.mark.parametrize("addresses", [[], ["127.0.0.1"], ["fe80::1"], [3221225985], ["192.0.2.1; reboot"], ["2001:db8::1%eth0"]])
def test_no_address_that_others_could_reach(addresses: list[Any]) -> None:
    with pytest.raises(PlanError, match="interface eth1 of node1 has no address"):
        made(look(1, interface={"name": "eth1", "addresses": addresses}), look(2))


def test_a_port_that_is_taken() -> None:
    with pytest.raises(PlanError, match="TCP port 29500 on node1 is taken; set ddp_benchmark_port to a free one"):
        made(look(1, port_taken=True), look(2))
    made(look(1), look(2, port_taken=True))  # only the first node listens


@pytest.mark.parametrize(("key", "value"), [("backend", "gloo"), ("steps", 50), ("port", 1234), ("timeout_s", 60), ("repeatable", True)])
def test_one_job_has_one_of_each(key: str, value: Any) -> None:
    with pytest.raises(PlanError, match=f"ddp_benchmark_{key} must be the same on every node: node1 has .*, node2 has {value}"):
        make_plan("ddp-x", {"node1": look(1), "node2": look(2)}, {"node1": WISHES, "node2": {**WISHES, key: value}})


def test_the_command_line_of_a_node() -> None:
    found = command(share_from(share(made(look(1), look(2)), "node2")), "/run/x")
    assert " ".join(found) == (
        "/usr/bin/python3 -m torch.distributed.run --nnodes 2 --node_rank 1 --nproc_per_node 8 --master_addr 192.0.2.1 --master_port 29500 "
        "--max_restarts 0 --monitor_interval 1 --rdzv_conf timeout=300 --log_dir /run/x/ranks "
        "/run/x/ddp_benchmark.py --directory /run/x --backend nccl --steps 100 --warmup 10 --batch 64 --patience 120")


def test_the_same_bits_are_asked_for() -> None:
    plain, asked = (share_from(share(made(look(1), look(2), repeatable=wished), "node1")) for wished in (False, True))
    assert command(asked, "/run/x") == [*command(plain, "/run/x"), "--repeatable"]
    more = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NCCL_NVLS_ENABLE": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert torchrun_environment(asked, "/run/x") == torchrun_environment(plain, "/run/x") | more
    wins = asked._replace(environment={"NCCL_NVLS_ENABLE": "1"})
    assert torchrun_environment(wins, "/run/x")["NCCL_NVLS_ENABLE"] == "1", "the operator's variables win"


def test_debians_old_torch_gets_what_its_defaults_cannot_say() -> None:
    found = command(share_from(share(made(look(1, torch="1.13.0a0")), "node1")), "/run/x")
    assert found[found.index("--redirects"):][:4] == ["--redirects", "9:1", "--tee", "9:1"]


def test_a_short_job_waits_no_longer_than_it_may_take() -> None:
    found = command(share_from(share(made(look(1), look(2), timeout_s=30), "node1")), "/run/x")
    assert found[found.index("--rdzv_conf") + 1] == "timeout=30"
    assert found[found.index("--patience") + 1] == "30"


def test_the_interface_is_exact_for_nccl() -> None:
    found = torchrun_environment(share_from(share(made(look(1), look(2)), "node1")), "/run/x")
    assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"], found["TMPDIR"]) == ("=eth1", "eth1", "/run/x")


def test_nccls_log_goes_where_it_is_read() -> None:
    asked = share_from(share(made(look(1), look(2), environment={}), "node1"))
    found = torchrun_environment(asked, "/run/x")
    assert (found["NCCL_DEBUG"], found["NCCL_DEBUG_FILE"]) == ("INFO", "/run/x/nccl.ddp.%h.%p.log")
    assert {"INIT", "NET"} <= set(found["NCCL_DEBUG_SUBSYS"].split(","))
    assert "NCCL_NET" not in found, "the training uses the network that jobs use"
    assert "NCCL_DEBUG" not in torchrun_environment(asked._replace(backend="gloo"), "/run/x")


def test_what_is_promised_is_that_of_nccl_tests() -> None:
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:aa:bb:01"}, "address": "10.0.0.1/24"}]
    for more, gdr in (({}, True), ({"gpudirect_path": "none"}, False), ({"nccl_tests_network": "rdma"}, False)):
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, **more}, "node1")
        assert spec is not None, findings
        promise = wishes(spec)["promise"]
        assert promise == {"fabric": "roce", "network": more.get("nccl_tests_network", "promised"), "gdr": gdr}
    assert made(look(1), look(2))["promise"] == WISHES["promise"]


def test_the_operators_variables_win() -> None:
    own = share(made(look(1), look(2), environment={"NCCL_SOCKET_IFNAME": "bond0", "NCCL_NVLS_ENABLE": "0"}), "node1")
    found = torchrun_environment(share_from(own), "/run/x")
    assert (found["NCCL_SOCKET_IFNAME"], found["NCCL_NVLS_ENABLE"]) == ("bond0", "0")


@pytest.mark.parametrize("limit", [30, 900, 86400])
def test_rounds_double_and_outlast_the_time_limit(limit: int) -> None:
    found = rounds(limit)
    assert found[-1] == limit + 60
    assert all(second <= 2 * first for first, second in pairwise(found))
    assert len(found) < 15


def variables(**results: Any) -> dict[str, Any]:
    """``node1={"seen": …}``: what each host registered."""
    hosts = list(results)
    return {"inventory_hostname": "node1", "hostvars": results, "ansible_play_hosts_all": hosts, "ansible_play_hosts": hosts}


def test_the_plan_of_a_play() -> None:
    seen = {
        name: {LOOK: {"seen": look(number), "wishes": WISHES}, "ansible_host": f"192.0.2.{number}"}
        for number, name in enumerate(("node1", "node2"), 1)
    }
    first, second = (ddp_plan(variables(**seen))["plan"] for _time in range(2))
    assert first["hosts"] == ["node1", "node2"]
    assert first["run"] != second["run"], "every run has a name of its own"
    assert first["master"] == "192.0.2.1"


def test_all_meet_only_where_the_inventory_knows_the_first_one() -> None:
    """What it says of itself goes to every other node, which connects there."""
    seen = {name: {LOOK: {"seen": look(1), "wishes": WISHES}, "ansible_host": "203.0.113.1"} for name in ("node1", "node2")}
    assert "none that the inventory has of it; name one in ssh_mesh_addresses" in ddp_plan(variables(**seen))["msg"]


def test_a_node_without_an_answer_stops_the_plan() -> None:
    found = ddp_plan(variables(node1={LOOK: {"seen": look(1), "wishes": WISHES}}, node2={LOOK: {"failed": True}}))
    assert (found["failed"], found["msg"].startswith("ddp_benchmark: node2 cannot take part")) == (True, True)
    with pytest.raises(AnsibleActionFail, match="run the play without serial"):
        ddp_plan(variables(node1={LOOK: {"seen": look(1), "wishes": WISHES}}, node2={}))


STARTED = {"process": {"pid": 1, "start_time": "2", "at": 3.0}}


@pytest.mark.parametrize(("node1", "node2", "why"), [
    ({"s": STARTED}, {"s": STARTED}, None),
    ({"s": STARTED, "p": {"done": False, "exit": None}}, {"s": STARTED, "p": {"done": False, "exit": None}}, None),
    ({"s": STARTED, "p": {"done": True, "exit": 0}}, {"s": STARTED, "p": {"done": False}}, "torchrun has ended"),
    ({"s": STARTED, "p": {"done": False}}, {"s": STARTED, "p": {"done": True, "exit": 0}}, None),
    ({"s": STARTED, "p": {"done": False}}, {"s": STARTED, "p": {"done": True, "exit": 1}}, "torchrun ended badly on node2"),
    ({"s": STARTED, "p": {"done": False}}, {"s": STARTED, "p": {"done": True, "exit": None}}, "torchrun ended badly on node2"),
    ({"s": STARTED, "p": {"done": False}}, {"s": STARTED, "p": {"unreachable": True}}, "node2 was lost"),
    ({"s": STARTED}, {"s": {"failed": True}}, "torchrun was not started on node2"),
])
def test_when_there_is_nothing_to_wait_for(node1: dict[str, Any], node2: dict[str, Any], why: str | None) -> None:
    known = {"s": DDP.format("start"), "p": DDP.format("poll")}
    results = [{known[name]: value for name, value in node.items()} for node in (node1, node2)]
    assert finished(variables(node1=results[0], node2=results[1]), "node1", ["node1", "node2"]) == why
