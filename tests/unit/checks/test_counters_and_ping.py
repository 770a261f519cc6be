# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters are judged by growth only; pings by the largest packet that comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.counters import judge_deltas
from ansible_collections.railwright.rdma.plugins.module_utils.checks.judge import Where
from ansible_collections.railwright.rdma.plugins.module_utils.checks.ping import payload, peers_of, probes
from ansible_collections.railwright.rdma.plugins.module_utils.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.ping_node import ping_all

PORT = Where("node1", "mlx5_0", 1, "rail0 (eth1)")


@pytest.mark.parametrize(
    ("before", "after", "errors", "discards"),
    [
        ({"symbol_error": 900, "port_xmit_discards": 5}, {"symbol_error": 900, "port_xmit_discards": 5}, "pass", "pass"),
        ({"symbol_error": 900, "port_xmit_discards": 5}, {"symbol_error": 901, "port_xmit_discards": 5}, "fail", "pass"),
        ({"link_downed": 0, "rnr_nak_retry_err": 0}, {"link_downed": 0, "rnr_nak_retry_err": 4}, "pass", "warn"),
        ({}, {}, "skipped", "skipped"),
        ({"symbol_error": None}, {"symbol_error": 3}, "unknown", "skipped"),
        ({"port_xmit_discards": None}, {"port_xmit_discards": None}, "skipped", "unknown"),
        ({"np_cnp_sent": 1}, {"np_cnp_sent": 900}, "skipped", "skipped"),  # congestion marks are no fault
    ],
)
def test_only_growth_is_judged(before: dict[str, Any], after: dict[str, Any], errors: str, discards: str) -> None:
    assert [(item.check, item.status) for item in judge_deltas(PORT, before, after)] == [
        ("port.errors", errors),
        ("port.discards", discards),
    ]


def test_a_grown_counter_is_named_with_its_growth() -> None:
    verdict = judge_deltas(PORT, {"symbol_error": 900}, {"symbol_error": 905})[0]
    assert verdict.found == "symbol_error +5"


@pytest.mark.parametrize(("mtu", "address", "size"), [(9000, "10.10.0.2", 8972), (1500, "10.10.0.2", 1472), (9000, "fd00::2", 8952)])
def test_the_payload_fills_the_mtu(mtu: int, address: str, size: int) -> None:
    assert payload(mtu, address) == size


def test_peers_form_a_full_mesh_in_small_clusters_and_a_ring_in_large_ones() -> None:
    names = [f"n{i:02d}" for i in range(10)]
    assert peers_of("n01", names[:3], 4) == ["n02", "n00"]
    assert peers_of("n08", names, 3) == ["n09", "n00", "n01"]
    pinged = [peer for name in names for peer in peers_of(name, names, 3)]
    assert {name: pinged.count(name) for name in names} == dict.fromkeys(names, 3)
    assert peers_of("gone", names, 3) == [] and peers_of("n01", ["n01"], 3) == []


def rail(name: str, address: str | None, mtu: int = 9000) -> dict[str, Any]:
    return {"name": name, "label": f"{name} (eth1)", "address": address, "mtu": mtu, "netdev": "eth1", "hca": "mlx5_0", "port": 1}


def test_rails_are_paired_by_name_and_only_with_addresses() -> None:
    mine = [rail("rail0", "10.0.0.1"), rail("rail1", "10.0.1.1"), rail("rail2", None)]
    theirs = {"node2": [rail("rail2", "10.0.2.2"), rail("rail1", "10.0.1.2", 4200), rail("rail9", "10.0.9.2")]}
    assert [(item["peer"], item["source"], item["address"], item["mtu"]) for item in probes(mine, theirs)] == [
        ("node2", "10.0.1.1", "10.0.1.2", 4200)
    ]


class Network(Host):
    """Answers pings up to a size; keeps the command lines."""

    def __init__(self, largest: int, rc: int = 1, installed: bool = True) -> None:
        self.largest, self.rc, self.installed, self.asked = largest, rc, installed, list[tuple[str, ...]]()

    def which(self, tool: str) -> str | None:
        return "/usr/bin/" + tool if self.installed else None

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        self.asked.append(tuple(argv))
        size = int(argv[list(argv).index("-s") + 1])
        return Result(0 if size <= self.largest else self.rc, "", "")


PROBE = {
    "rail": "rail0 (eth1)",
    "hca": "mlx5_0",
    "port": 1,
    "peer": "node2",
    "address": "10.0.0.2",
    "source": "10.0.0.1",
    "netdev": "eth1",
    "mtu": 9000,
}


@pytest.mark.parametrize(
    ("largest", "status", "found", "word"),
    [
        (8972, "pass", "8972 bytes unfragmented", "answers"),
        (1472, "fail", "1472 bytes", "smaller MTU"),
        (0, "fail", "no answer", "any size"),
    ],
)
def test_a_wrong_mtu_is_told_from_an_unreachable_peer(largest: int, status: str, found: str, word: str) -> None:
    network = Network(largest)
    verdict = ping_all(network, "node1", [PROBE], 2, 1)[0]
    assert (verdict.status, verdict.found, verdict.expected) == (status, found, "8972 bytes unfragmented")
    assert word in verdict.message and verdict.subject == "rail0 (eth1) to node2"
    assert network.asked[0] == (
        "/usr/bin/ping",
        "-4",
        "-n",
        "-M",
        "do",
        "-s",
        "8972",
        "-c",
        "2",
        "-W",
        "1",
        "-i",
        "0.2",
        "-I",
        "10.0.0.1",
        "10.0.0.2",
    )


def test_without_ping_nothing_passes() -> None:
    assert ping_all(Network(9000, installed=False), "node1", [PROBE], 2, 1)[0].status == "unknown"
    assert ping_all(Network(0, rc=127), "node1", [PROBE], 2, 1)[0].status == "unknown"


def test_an_ethernet_sized_rail_is_not_asked_twice() -> None:
    network = Network(0)
    ping_all(network, "node1", [dict(PROBE, mtu=1500)], 2, 1)
    assert len(network.asked) == 1
