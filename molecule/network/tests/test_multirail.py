# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rail leaves and is answered by its own interface: in a subnet each, and in one subnet on one wire, IPv4 and IPv6.

Counters of the kernel say which way packets went, and neighbour tables which MAC the peer learned for an address.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster import Cluster, Node
from harness import Container

NODES = ("node1", "node3", "node5")
COUNT = 20
TABLE = 47910


class Pair:
    """A node, its peer, and what the node's kernel says of its rails."""

    def __init__(self, scenario: str, name: str) -> None:
        cluster = Cluster(scenario)
        place = next(place for place, node in enumerate(cluster.nodes) if node.name == name)
        self.node, self.peer = cluster.nodes[place], cluster.nodes[place ^ 1]
        self.here, self.there = cluster.container(self.node.name), cluster.container(self.peer.name)
        self.family = "-6" if ":" in self.addresses(self.node)[0] else "-4"

    @staticmethod
    def addresses(node: Node) -> list[str]:
        return [str(rail["address"]).partition("/")[0] for rail in node.rails]

    @staticmethod
    def macs(node: Node) -> list[str]:
        return [str(rail["match"]["mac"]) for rail in node.rails]

    def rules(self) -> list[tuple[str, str]]:
        rows = self.here.json("ip", "-j", self.family, "rule", "show")
        return sorted((row["src"], str(row["table"])) for row in rows if row["priority"] == 4791)

    def routes(self, rail: int) -> list[tuple[str, str]]:
        rows = self.here.json("ip", "-j", self.family, "route", "show", "table", str(TABLE + rail))
        return [(row["dst"], row["dev"]) for row in rows if not row["dst"].startswith(("fe80:", "ff00:"))]

    def sent(self) -> list[int]:
        return [int(self.here.out("cat", f"/sys/class/net/eth{rail + 1}/statistics/tx_packets")) for rail in range(2)]

    def ping(self, source: str, target: str, count: int = 1) -> None:
        self.here.run("ping", "-n", "-q", "-c", str(count), "-i", "0.05", "-W", "2", "-I", source, target)


@pytest.fixture(scope="module", params=NODES)
def pair(request: pytest.FixtureRequest, scenario: str) -> Pair:
    return Pair(scenario, request.param)


def test_every_rail_has_a_table_and_a_rule_of_its_own(pair: Pair) -> None:
    networks = {"node1": ["198.18.0.0/24", "198.18.1.0/24"], "node3": ["198.19.0.0/24"] * 2, "node5": ["fd00:19::/64"] * 2}[pair.node.name]
    assert pair.rules() == sorted((address, str(TABLE + rail)) for rail, address in enumerate(pair.addresses(pair.node)))
    assert [pair.routes(rail) for rail in range(2)] == [[(network, f"eth{rail + 1}")] for rail, network in enumerate(networks)]


@pytest.mark.parametrize("rail", [0, 1])
def test_traffic_of_a_rail_leaves_by_that_rail(pair: Pair, rail: int) -> None:
    before = pair.sent()
    pair.ping(pair.addresses(pair.node)[rail], pair.addresses(pair.peer)[rail], COUNT)
    sent = [after - earlier for after, earlier in zip(pair.sent(), before, strict=True)]
    assert sent[rail] >= COUNT
    assert sent[1 - rail] < COUNT, "what else a rail sends is a handful of neighbour and router messages"


def test_a_peer_learns_the_mac_of_the_rail_that_has_the_address(pair: Pair) -> None:
    for container in (pair.here, pair.there):
        for netdev in ("eth1", "eth2"):
            container.run("ip", pair.family, "neigh", "flush", "dev", netdev)
    for mine, theirs in zip(pair.addresses(pair.node), pair.addresses(pair.peer), strict=True):
        pair.ping(mine, theirs)
    learned(pair.there, pair, dict(zip(pair.addresses(pair.node), pair.macs(pair.node), strict=True)))
    learned(pair.here, pair, dict(zip(pair.addresses(pair.peer), pair.macs(pair.peer), strict=True)))


def learned(container: Container, pair: Pair, expected: dict[str, str]) -> None:
    rows = container.json("ip", "-j", pair.family, "neigh", "show")
    found = {(row["dst"], row["lladdr"]) for row in rows if row["dst"] in expected and "lladdr" in row}
    assert found == set(expected.items())


def test_what_was_set_comes_back_with_the_manager_and_with_the_node(pair: Pair, until: Any) -> None:
    rules, routes = pair.rules(), [pair.routes(rail) for rail in range(2)]
    pair.here.run("ip", pair.family, "rule", "del", "priority", "4791")
    assert pair.rules() != rules
    pair.here.run("systemctl", "restart", "systemd-networkd")
    until(lambda: pair.rules() == rules and [pair.routes(rail) for rail in range(2)] == routes)
    pair.here.restart()
    until(lambda: pair.rules() == rules and [pair.routes(rail) for rail in range(2)] == routes)
