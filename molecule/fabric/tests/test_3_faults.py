# SPDX-License-Identifier: GPL-3.0-or-later
"""Break things by hand, together, spread over the nodes: named exactly, repaired, gone."""

from __future__ import annotations

from typing import Any

NODE1 = {
    "network: MTU of rail0 (eth1)",
    "nccl: file /etc/nccl.conf",
    "packages: package perftest",
}
NODE2 = {
    "network: link of rail0 (eth1)",
    "kernel_modules: module rdma_rxe loaded",
    "rxe: RDMA link rxe0 on rail0 (eth1)",
    "roce_qos: RDMA-CM default of rail0 (eth1)",  # the kernel keeps it with the device
}


def _break(on: Any) -> None:
    on("node1", "ip", "link", "set", "dev", "eth1", "mtu", "1500")
    on("node1", "rm", "/etc/nccl.conf")
    on("node1", "dpkg", "--purge", "perftest")
    on("node2", "ip", "link", "set", "dev", "eth1", "down")
    on("node2", "modprobe", "-r", "rdma_rxe")


def test_every_fault_is_named_exactly_and_repaired(railwright: Any, on: Any) -> None:
    _break(on)
    plan = railwright("plan")
    assert plan.code == 2, plan.document
    found = {name: {change["key"] for change in node["changes"]} for name, node in plan.document["nodes"].items()}
    assert found == {"node1": NODE1, "node2": NODE2}
    mtu = next(change for change in plan.document["nodes"]["node1"]["changes"] if change["key"] == "network: MTU of rail0 (eth1)")
    assert (mtu["before"], mtu["after"], mtu["disruption"]) == (1500, 9000, "link")

    judged = railwright("validate", "--no-perftest")
    assert judged.code == 1
    failing = [verdict for verdict in judged.document["verdicts"] if verdict["status"] == "fail"]
    _named(failing, "node1", "rail.mtu", 9000, 1500)
    assert {verdict["node"] for verdict in failing} >= {"node1", "node2"}
    assert any(verdict["node"] == "node2" and verdict["found"] in (None, "absent", "missing") for verdict in failing), failing

    # No change of a run is made while one of them lacks its consent: not even what needs none.
    refused = railwright("apply", "--consent", "restart")
    assert refused.code == 1
    assert on("node1", "cat", "/sys/class/net/eth1/mtu").strip() == "1500"
    assert on("node1", "sh", "-c", "ls /etc/nccl.conf 2>/dev/null || echo none").strip() == "none"

    repaired = railwright("apply")
    assert repaired.code == 0, repaired.document
    assert on("node1", "cat", "/sys/class/net/eth1/mtu").strip() == "9000"
    assert railwright("plan").code == 0
    proof = railwright("validate")
    assert (proof.code, [verdict for verdict in proof.document["verdicts"] if verdict["status"] == "fail"]) == (0, [])
    passed = {verdict["check"] for verdict in proof.document["verdicts"] if verdict["status"] == "pass"}
    assert {"perftest.write_bw", "perftest.read_lat", "ping.mtu", "port.active_mtu", "rail.gid"} <= passed, passed
    assert {node: item["status"] for node, item in _lossless(proof.document).items()} == {"node1": "pass", "node2": "pass"}


def _named(failing: list[dict[str, Any]], node: str, check: str, expected: Any, found: Any) -> None:
    match = [verdict for verdict in failing if verdict["node"] == node and verdict["check"] == check]
    assert match, failing
    assert (match[0]["expected"], match[0]["found"]) == (expected, found)
    assert (match[0]["hca"], match[0]["port"]) == ("rxe0", 1)


def test_packets_lost_on_one_nodes_rail_are_named_from_both_ends(railwright: Any, on: Any) -> None:
    """netem drops what node2, the client of the pair, sends. The queue pairs repeat it, so that perftest ends all the same."""
    on("node2", "tc", "qdisc", "add", "dev", "eth1", "root", "netem", "loss", "1%")
    try:
        judged = railwright("validate")
    finally:
        on("node2", "tc", "qdisc", "del", "dev", "eth1", "root")
    found = _lossless(judged.document)
    assert {node: (item["status"], item["subject"], item["hca"]) for node, item in found.items()} == {
        "node1": ("warn", "rail0 (eth1) with node2", "rxe0"),
        "node2": ("warn", "rail0 (eth1) with node1", "rxe0"),
    }
    # Who misses packets, and who was told so: together they name the direction.
    assert "out_of_seq_request +" in found["node1"]["found"] and "packets from node2 are missing" in found["node1"]["message"]
    assert "rcvd_seq_err +" in found["node2"]["found"] and "node1 missed packets of this node" in found["node2"]["message"]
    grown = {item["node"]: item["counters"] for item in judged.document["traffic"]}
    assert grown["node1"]["out_of_seq_request"] > 0 and grown["node2"]["rcvd_seq_err"] > 0, grown


def _lossless(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The verdict of each node on lost packets; one rail, and so one of each."""
    found = [item for item in document["verdicts"] if item["check"] == "qos.lossless"]
    assert sorted(item["node"] for item in found) == ["node1", "node2"], found
    return {item["node"]: item for item in found}
