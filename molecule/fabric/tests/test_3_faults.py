# SPDX-License-Identifier: GPL-3.0-or-later
"""Break things by hand, together, spread over the nodes: judged, named exactly, repaired with consent, proved by traffic.

A run on emulated machines takes minutes, so each one here proves several things; the tests of this file build on each other. A package
that is gone would be three minutes more: that is the container scenarios' part.
"""

from __future__ import annotations

from typing import Any

NODE1 = {
    "network: MTU of rail0 (eth1)",
    "nccl: file /etc/nccl.conf",
    "sysctl: sysctl net.ipv4.conf.eth1.rp_filter",
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
    on("node1", "sysctl", "-w", "net.ipv4.conf.eth1.rp_filter=1")
    on("node2", "ip", "link", "set", "dev", "eth1", "down")
    on("node2", "modprobe", "-r", "rdma_rxe")


def test_every_fault_is_judged(railwright: Any, on: Any) -> None:
    _break(on)
    judged = railwright("validate", "--no-perftest")
    assert judged.code == 1
    failing = [verdict for verdict in judged.document["verdicts"] if verdict["status"] == "fail"]
    _named(failing, "node1", "rail.mtu", 9000, 1500)
    assert {verdict["node"] for verdict in failing} >= {"node1", "node2"}
    assert any(verdict["node"] == "node2" and verdict["found"] in (None, "absent", "missing") for verdict in failing), failing


def test_every_fault_is_named_and_a_node_without_consent_is_left_alone(railwright: Any, on: Any) -> None:
    """On node1 one change of three lacks consent, and so nothing is done there; node2 needs none, and is repaired."""
    run = railwright("apply", "--consent", "restart")
    assert run.code == 1, run.document
    nodes = run.document["nodes"]
    found = {name: {change["key"] for change in node["changes"]} for name, node in nodes.items()}
    assert found == {"node1": NODE1, "node2": NODE2}
    assert [(change["key"], change["disruption"]) for change in nodes["node1"]["refused"]] == [("network: MTU of rail0 (eth1)", "link")]
    mtu = next(change for change in nodes["node1"]["changes"] if change["key"] == "network: MTU of rail0 (eth1)")
    assert (mtu["before"], mtu["after"], mtu["disruption"]) == (1500, 9000, "link")
    done = {name: {change["key"] for change in node["changes"] if change["applied"]} for name, node in nodes.items()}
    assert done == {"node1": set(), "node2": NODE2}
    assert on("node1", "cat", "/sys/class/net/eth1/mtu").strip() == "1500"
    assert on("node1", "sh", "-c", "ls /etc/nccl.conf 2>/dev/null || echo none").strip() == "none"
    assert on("node1", "cat", "/proc/sys/net/ipv4/conf/eth1/rp_filter").strip() == "1"


def test_every_fault_is_repaired(railwright: Any, on: Any) -> None:
    """That nothing is left to do is asked after the reboot, in test_4: of node2 it is the second apply of the same boot."""
    repaired = railwright("apply")
    assert repaired.code == 0, repaired.document
    done = {name: {change["key"] for change in node["changes"] if change["applied"]} for name, node in repaired.document["nodes"].items()}
    assert done == {"node1": NODE1, "node2": set()}
    assert on("node1", "cat", "/sys/class/net/eth1/mtu").strip() == "9000"


def _named(failing: list[dict[str, Any]], node: str, check: str, expected: Any, found: Any) -> None:
    match = [verdict for verdict in failing if verdict["node"] == node and verdict["check"] == check]
    assert match, failing
    assert (match[0]["expected"], match[0]["found"]) == (expected, found)
    assert (match[0]["hca"], match[0]["port"]) == ("rxe0", 1)


def test_packets_lost_on_one_nodes_rail_are_named_from_both_ends(railwright: Any, on: Any, lossless: Any) -> None:
    """netem drops what node2, the client of the pair, sends. The queue pairs repeat it, so that perftest ends all the same."""
    on("node2", "tc", "qdisc", "add", "dev", "eth1", "root", "netem", "loss", "1%")
    try:
        judged = railwright("validate")
    finally:
        on("node2", "tc", "qdisc", "del", "dev", "eth1", "root")
    # A warning fails nothing. But a packet that is lost is waited for, and the average of latencies may pass the lab's limit.
    failed = [verdict["check"] for verdict in judged.document["verdicts"] if verdict["status"] == "fail"]
    assert (judged.code, set(failed) - {"perftest.read_lat", "perftest.write_lat"}) == (1 if failed else 0, set())
    found = lossless(judged.document)
    assert {node: (item["status"], item["subject"], item["hca"]) for node, item in found.items()} == {
        "node1": ("warn", "rail0 (eth1) with node2", "rxe0"),
        "node2": ("warn", "rail0 (eth1) with node1", "rxe0"),
    }
    # Who misses packets, and who was told so: together they name the direction.
    assert "out_of_seq_request +" in found["node1"]["found"] and "packets from node2 are missing" in found["node1"]["message"]
    assert "rcvd_seq_err +" in found["node2"]["found"] and "node1 missed packets of this node" in found["node2"]["message"]
    grown = {item["node"]: item["counters"] for item in judged.document["traffic"]}
    assert grown["node1"]["out_of_seq_request"] > 0 and grown["node2"]["rcvd_seq_err"] > 0, grown
