# SPDX-License-Identifier: GPL-3.0-or-later
"""Who measures whom, on which port, with which options."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import (
    Measurement,
    Options,
    arguments,
    life_time,
    pairs,
    plan_tests,
)

OPTIONS = Options(10, 1000, 1048576, 2, 60)


@pytest.mark.parametrize("count", range(2, 14))
def test_rounds_are_disjoint_and_everybody_is_in_one(count: int) -> None:
    nodes = [f"n{index}" for index in range(count)]
    rounds = pairs(nodes)
    assert len(rounds) == 1 + count % 2
    for current in rounds:
        members = [node for pair in current for node in pair]
        assert len(members) == len(set(members))
    assert {node for current in rounds for pair in current for node in pair} == set(nodes)
    assert sum(len(current) for current in rounds) == (count + 1) // 2  # nobody is measured more often than it takes


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9])
def test_a_whole_tournament_holds_every_pair_once(count: int) -> None:
    nodes = [f"n{index}" for index in range(count)]
    met = [frozenset(pair) for current in pairs(nodes, 99) for pair in current]
    assert sorted(map(sorted, met)) == sorted(map(sorted, (frozenset(pair) for pair in combinations(nodes, 2))))


def test_pairs_do_not_depend_on_the_order_of_the_inventory() -> None:
    assert pairs(["b", "c", "a", "d"]) == pairs(["d", "c", "b", "a"])


@pytest.mark.parametrize("nodes", [[], ["n1"], ["n1", "n1"]])
def test_fewer_than_two_nodes_have_no_round(nodes: list[str]) -> None:
    assert pairs(nodes) == []


def rail(name: str, address: str | None, **more: Any) -> dict[str, Any]:
    view = {"name": name, "label": f"{name} (eth1)", "address": address, "hca": "mlx5_0", "port": 1, "gid_index": 3, "gid_needed": True}
    return {**view, **more}


def test_both_ends_get_the_same_port_and_their_own_device_and_gid() -> None:
    client = [rail("rail0", "10.0.0.1"), rail("rail1", "10.0.1.1", hca="mlx5_1", gid_index=5)]
    server = [rail("rail1", "10.0.1.2", hca="mlx5_7", gid_index=1), rail("rail0", "10.0.0.2")]
    serving, asking, left = plan_tests(client, server, 18515)
    assert left == []
    assert [test.tcp_port for test in serving] == [test.tcp_port for test in asking] == [18515, 18516, 18517, 18519, 18520, 18521]
    assert [(test.name, test.hca, test.gid_index) for test in serving[3:5]] == [("write_bw", "mlx5_7", 1), ("read_lat", "mlx5_7", 1)]
    assert [(test.name, test.hca, test.gid_index, test.address) for test in asking[3:5]] == [
        ("write_bw", "mlx5_1", 5, "10.0.1.2"),
        ("read_lat", "mlx5_1", 5, "10.0.1.2"),
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        (rail("rail0", "10.0.0.1"), rail("rail1", "10.0.0.2"), "no rail of this name"),
        (rail("rail0", "10.0.0.1"), rail("rail0", None), "the peer has no address"),
        (rail("rail0", "10.0.0.1", gid_index=None), rail("rail0", "10.0.0.2"), "this node has no RoCE v2 GID"),
        (rail("rail0", "10.0.0.1"), rail("rail0", "10.0.0.2", gid_index=None), "the peer has no RoCE v2 GID"),
        (rail("rail0", "10.0.0.1"), rail("rail0", "10.0.0.2", hca=None), "the peer has no RDMA device"),
    ],
)
def test_a_rail_that_cannot_be_measured_is_named_with_the_reason(mine: dict[str, Any], theirs: dict[str, Any], why: str) -> None:
    serving, asking, left = plan_tests([mine], [theirs], 18515)
    assert (serving, asking) == ([], [])
    assert left[0][0] == "rail0 (eth1)" and why in left[0][1]


def test_infiniband_rails_without_address_exchange_over_another_rail() -> None:
    plain = {"gid_index": None, "gid_needed": False}
    _serving, asking, left = plan_tests(
        [rail("rail0", None, **plain)], [rail("rail0", None, **plain), rail("ipoib", "10.0.9.2", **plain)], 18515
    )
    assert left == [] and {test.address for test in asking} == {"10.0.9.2"}
    assert "-x" not in arguments(asking[0], OPTIONS, "ib_write_bw")


def test_command_lines() -> None:
    bandwidth = Measurement("write_bw", "rail0 (eth1)", "mlx5_0", 1, 3, 18515, "10.0.0.2")
    server = arguments(bandwidth, OPTIONS, "/usr/bin/ib_write_bw")
    assert server == (
        "/usr/bin/ib_write_bw",
        "-d",
        "mlx5_0",
        "-i",
        "1",
        "-p",
        "18515",
        "-F",
        "-u",
        "18",
        "-x",
        "3",
        "--report_gbits",
        "-s",
        "1048576",
        "-q",
        "2",
        "-D",
        "10",
    )
    assert arguments(bandwidth, OPTIONS, "/usr/bin/ib_write_bw", "10.0.0.2") == (*server, "10.0.0.2")
    assert arguments(bandwidth._replace(tclass=106), OPTIONS, server[0]) == (*server[:12], "--tclass=106", *server[12:])
    latency = bandwidth._replace(name="read_lat", address="fd00::2")
    assert arguments(latency, OPTIONS, "ib_read_lat")[-5:] == ("--ipv6-addr", "-s", "2", "-n", "1000")


def test_a_server_outlives_every_test_before_it_and_not_much_more() -> None:
    tests = [Measurement("write_bw", "r", "mlx5_0", 1, 3, 18515, "10.0.0.2")] * 4
    assert 4 * OPTIONS.timeout < life_time(tests, OPTIONS) <= 4 * OPTIONS.timeout + 60


def test_a_rail_between_different_networks_is_left_out_and_ports_stay() -> None:
    client, server = [[rail("rail0", f"10.0.0.{at}"), rail("rail1", f"10.0.1.{at}")] for at in (1, 2)]
    serving, asking, left = plan_tests(client, server, 18515, ["rail0"])
    whole = plan_tests(client, server, 18515)
    assert [name for name, _why in left] == [client[0]["label"]] and "rail.swapped" in left[0][1]
    assert (serving, asking) == (whole[0][3:], whole[1][3:])


def iwarp(name: str, address: str | None, **more: Any) -> dict[str, Any]:
    return rail(name, address, hca="erdma_0", gid_needed=False, rdma_cm=True, **more)


def test_iwarp_connects_by_rdma_cm_over_the_rails_address() -> None:
    serving, asking, left = plan_tests([iwarp("rail0", "10.0.0.1")], [iwarp("rail0", "10.0.0.2", exchange="192.0.2.2")], 18515)
    assert left == []
    for test in serving + asking:
        argv = arguments(test, OPTIONS, "ib_write_bw")
        assert "-R" in argv
        assert "-x" not in argv
        assert test.address == "10.0.0.2"
    out_of_band = plan_tests([rail("rail0", "10.0.0.1")], [rail("rail0", "10.0.0.2")], 18515)[0]
    assert all("-R" not in arguments(test, OPTIONS, "ib_write_bw") for test in out_of_band)


def test_modes_that_cannot_talk_are_not_measured() -> None:
    for client, server in ((rail, iwarp), (iwarp, rail)):
        _serving, asking, left = plan_tests([client("rail0", "10.0.0.1")], [server("rail0", "10.0.0.2")], 18515)
        assert asking == []
        assert "different modes" in left[0][1]


def test_rdma_cm_needs_the_peers_rail_to_have_an_address() -> None:
    _serving, asking, left = plan_tests([iwarp("rail0", "10.0.0.1")], [iwarp("rail0", None, exchange="192.0.2.2")], 18515)
    assert (asking, "has no address" in left[0][1]) == ([], True)
