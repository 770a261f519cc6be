# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made of pings and answers: swapped and misplaced rails, leaks, duplicates, and pings that they explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.action.rdma_cluster import PAIRS, reachability, reachability_lines
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import peers_of, probes
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.reach import Place, diagnose, judge_reach, networks, rail_by_mac


class Cluster:
    """Nodes with rails, and which network each rail is really on: pings and ARP answers follow from that alone."""

    def __init__(self, nodes: int, rails: int = 2, limit: int = 4, prefix: int = 24) -> None:
        self.nodes, self.rails, self.limit, self.prefix = [f"n{number}" for number in range(1, nodes + 1)], rails, limit, prefix
        self.network: dict[Place, Any] = {(node, f"rail{at}"): at for node in self.nodes for at in range(rails)}
        self.deaf: set[Place] = set()  # drop pings, answer ARP

    def swap(self, node: str, one: int = 0, other: int = 1) -> None:
        self.network[node, f"rail{one}"], self.network[node, f"rail{other}"] = other, one

    def views(self) -> dict[str, dict[str, Any]]:
        return {node: self._view(int(node[1:])) for node in self.nodes}

    def _view(self, number: int) -> dict[str, Any]:
        rails = [{"name": f"rail{at}", "label": f"rail{at} (eth{at + 1})", "address": f"10.10.{at}.{number}", "netdev": f"eth{at + 1}",
                  "mtu": 9000, "hca": f"mlx5_{at}", "port": 1, "gid_needed": True} for at in range(self.rails)]  # fmt: skip
        netdevs = [{"name": f"eth{at + 1}", "mac": f"02:00:00:00:{number:02x}:{at:02x}",
                    "addresses": [f"10.10.{at}.{number}/{self.prefix}"]}
                   for at in range(self.rails)]  # fmt: skip
        return {"facts": {"netdevs": netdevs}, "rails": rails}

    def results(self) -> dict[str, dict[str, Any]]:
        views = self.views()
        found = {}
        for node in self.nodes:
            asked = probes(views[node]["rails"], {peer: views[peer]["rails"] for peer in peers_of(node, self.nodes, self.limit)})
            found[node] = {
                "pings": [{**probe, **self._answer(node, probe)} for probe in asked],
                "rails": [{"name": rail["name"], "macs": [], "dad_failed": False} for rail in views[node]["rails"]],
            }
        return found

    def _answer(self, node: str, probe: dict[str, Any]) -> dict[str, Any]:
        here, there = (node, probe["name"]), (probe["peer"], probe["name"])
        full = self.network[here] == self.network[there] is not None and there not in self.deaf
        heard = {}
        for address in [] if full else [probe["address"], *probe["others"]]:
            _ten, _more, at, number = address.split(".")
            if self.network[here] is not None and self.network[f"n{number}", f"rail{at}"] == self.network[here]:
                heard[address] = [f"02:00:00:00:{int(number):02x}:{int(at):02x}"]
        return {"full": full, "small": None if full else False, "device": probe["netdev"], "no_route": None, "why": None, "heard": heard}

    def judge(self) -> list[Verdict]:
        return judge_reach(self.views(), self.results())


def failed(verdicts: Sequence[Verdict]) -> list[tuple[str, str, str]]:
    return [(item.check, item.node, item.subject) for item in verdicts if item.status == "fail"]


def of(verdicts: Sequence[Verdict], check: str) -> list[Verdict]:
    return [item for item in verdicts if item.check == check]


def test_a_healthy_cluster_passes() -> None:
    assert {item.status for item in Cluster(4).judge()} == {"pass"}


@pytest.mark.parametrize(("nodes", "rails", "limit"), [(3, 2, 4), (4, 8, 2), (40, 8, 4), (5, 2, 1)])
def test_a_swap_is_one_finding_and_explains_its_pings(nodes: int, rails: int, limit: int) -> None:
    cluster = Cluster(nodes, rails, limit)
    cluster.swap("n2")
    verdicts = cluster.judge()
    assert failed(verdicts) == [("rail.swapped", "n2", "rail0 and rail1")]
    message = of(verdicts, "rail.swapped")[0].message
    assert message.startswith("rail0 (eth1) and rail1 (eth2) of n2 are swapped")
    lost = [item for item in of(verdicts, "ping.mtu") if item.status != "pass"]
    assert {item.message for item in lost} == {"not judged: rail0 and rail1 are swapped on n2 (rail.swapped)"}
    assert {item.status for item in lost} == {"unknown"} and all("n2" in (item.node, item.subject.split()[-1]) for item in lost)


def test_several_swaps_are_a_finding_each() -> None:
    cluster = Cluster(6, rails=4)
    cluster.swap("n1")
    cluster.swap("n4")
    cluster.swap("n5", 2, 3)
    assert failed(cluster.judge()) == [
        ("rail.swapped", "n1", "rail0 and rail1"), ("rail.swapped", "n4", "rail0 and rail1"), ("rail.swapped", "n5", "rail2 and rail3")
    ]  # fmt: skip


def test_two_camps_of_equal_size_blame_nobody() -> None:
    cluster = Cluster(4)
    cluster.swap("n1")
    cluster.swap("n2")
    verdicts = cluster.judge()
    assert failed(verdicts) == [("rail.swapped", "", "rail0 and rail1")]
    assert of(verdicts, "rail.swapped")[0].found == "crossed between n1, n2 and n3, n4"


def test_three_rails_in_a_circle_are_three_findings() -> None:
    cluster = Cluster(4, rails=3)
    for at in range(3):
        cluster.network["n4", f"rail{at}"] = (at + 1) % 3
    verdicts = cluster.judge()
    assert failed(verdicts) == [("rail.segment", "n4", f"rail{at} (eth{at + 1})") for at in range(3)]
    assert [item.found for item in of(verdicts, "rail.segment")] == ["rail1's network", "rail2's network", "rail0's network"]


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_one_rail_alone_on_anothers_network(nodes: int) -> None:
    cluster = Cluster(nodes)
    cluster.network["n2", "rail0"] = 1
    verdicts = cluster.judge()
    assert failed(verdicts) == [("rail.segment", "n2", "rail0 (eth1)")]
    assert "is cabled to rail1's network" in of(verdicts, "rail.segment")[0].message


def test_cables_that_are_out_are_no_swap() -> None:
    cluster = Cluster(3)
    cluster.network["n2", "rail0"] = cluster.network["n2", "rail1"] = None
    verdicts = cluster.judge()
    assert {check for check, _node, _subject in failed(verdicts)} == {"ping.mtu"} and len(failed(verdicts)) == 8


def test_a_firewall_is_no_swap_and_is_hinted_at() -> None:
    cluster = Cluster(2)
    cluster.deaf = {("n2", "rail0")}
    verdicts = cluster.judge()
    assert failed(verdicts) == [("ping.mtu", "n1", "rail0 (eth1) to n2")]
    assert "a firewall or a route is in the way" in next(item.message for item in verdicts if item.status == "fail")


def test_rails_that_share_one_network_are_not_taken_for_swapped() -> None:
    cluster = Cluster(3)
    cluster.network = dict.fromkeys(cluster.network, 0)
    cluster.deaf = {("n2", "rail0"), ("n2", "rail1")}
    assert {check for check, _node, _subject in failed(cluster.judge())} == {"ping.mtu"}


def test_in_one_subnet_nothing_is_said_of_swaps() -> None:
    cluster = Cluster(2, prefix=16)
    assert [item.status for item in of(cluster.judge(), "rail.swapped")] == ["skipped"]
    cluster.network = dict.fromkeys(cluster.network, 0)
    cluster.network["n1", "rail0"] = None
    assert of(cluster.judge(), "rail.segment") == []


def test_with_no_answer_at_all_nothing_is_known_of_swaps() -> None:
    cluster = Cluster(2)
    cluster.network = dict.fromkeys(cluster.network, None)
    assert [item.status for item in of(cluster.judge(), "rail.swapped")] == ["unknown"]
    assert [item.status for item in of(Cluster(2, rails=1).judge(), "rail.swapped")] == ["skipped"]


def test_a_mac_that_two_machines_have_proves_nothing() -> None:
    views = Cluster(2).views()
    views["n1"]["facts"]["netdevs"][0]["mac"] = views["n2"]["facts"]["netdevs"][1]["mac"]
    assert rail_by_mac(views) == {"02:00:00:00:01:01": ("n1", "rail1"), "02:00:00:00:02:00": ("n2", "rail0")}


def changed(
    cluster: Cluster, node: str, change: Callable[[dict[str, Any]], None], where: str = "pings", rails: str = "rail1"
) -> list[Verdict]:
    results = cluster.results()
    for item in results[node][where]:
        if item["name"] in rails:
            change(item)
    return judge_reach(cluster.views(), results)


def test_traffic_by_another_rail_is_named_and_explains_lost_pings() -> None:
    cluster = Cluster(2)
    cluster.network["n1", "rail1"] = None
    verdicts = changed(cluster, "n1", lambda ping: ping.update(device="eth1"))
    assert failed(verdicts) == [("rail.route", "n1", "rail1 (eth2)")]
    found = next(item for item in verdicts if item.status == "fail")
    assert (found.expected, found.found) == ("by eth2", "by eth1")
    assert "traffic from 10.10.1.1 to 10.10.1.2 (n2) leaves by eth1" in found.message
    assert [item.status for item in of(verdicts, "ping.mtu")] == ["pass", "unknown", "pass", "unknown"]


def lose(ping: dict[str, Any]) -> None:
    ping.update(full=False, small=False, heard={})


def test_the_rail_that_others_leak_into_is_explained_too() -> None:
    """With arp_ignore 0 both interfaces answer for both addresses: peers learn the wrong MAC (seen in namespaces)."""

    def leak(ping: dict[str, Any]) -> None:
        ping["device"] = "eth1"
        lose(ping)

    verdicts = changed(Cluster(2), "n1", leak, rails="rail0 rail1")
    assert failed(verdicts) == [("rail.route", "n1", "rail1 (eth2)")]
    cluster = Cluster(3)
    cluster.network["n3", "rail0"] = 1
    assert failed(changed(cluster, "n3", lose)) == [("rail.segment", "n3", "rail0 (eth1)")]


def test_no_route_and_an_address_that_is_not_there_are_not_the_same() -> None:
    def strand(ping: dict[str, Any]) -> None:
        ping.update(device=None, no_route="RTNETLINK answers: Network is unreachable")

    cluster = Cluster(2)
    assert "Network is unreachable" in next(item.message for item in changed(cluster, "n1", strand) if item.status == "fail")
    results, views = cluster.results(), cluster.views()
    views["n1"]["facts"]["netdevs"][1]["addresses"] = ["fe80::1/64", "nonsense"]
    assert {item.status for item in of(judge_reach(views, results), "rail.route")} == {"pass", "unknown"}


def test_duplicates_name_the_other_holder() -> None:
    def hold(rail: dict[str, Any]) -> None:
        rail["macs"] = ["02:00:00:00:02:01", "de:ad:00:00:00:01"]

    verdict = next(item for item in changed(Cluster(2), "n1", hold, "rails") if item.status == "fail")
    assert (verdict.check, verdict.node, verdict.hca, verdict.subject) == ("rail.duplicate", "n1", "mlx5_1", "rail1 (eth2)")
    assert verdict.found == "02:00:00:00:02:01 (rail1 of n2), de:ad:00:00:00:01"
    assert "10.10.1.1 of rail1" in verdict.message and "on eth2" in verdict.message


def test_what_nobody_could_be_asked_is_unknown_and_the_kernels_word_counts() -> None:
    verdicts = changed(Cluster(2), "n1", lambda rail: rail.update(macs=None), "rails")
    assert [item.status for item in of(verdicts, "rail.duplicate")] == ["pass", "unknown", "pass", "pass"]
    verdicts = changed(Cluster(2), "n1", lambda rail: rail.update(macs=None, dad_failed=True), "rails")
    assert failed(verdicts) == [("rail.duplicate", "n1", "rail1 (eth2)")]


def test_over_ipoib_nobody_is_asked() -> None:
    cluster = Cluster(2)
    views, results = cluster.views(), cluster.results()
    for node in cluster.nodes:
        for rail, found in zip(views[node]["rails"], results[node]["rails"], strict=True):
            rail["gid_needed"], found["macs"] = False, None
    assert {item.status for item in of(judge_reach(views, results), "rail.duplicate")} == {"skipped"}


def test_networks_are_what_hears_each_other() -> None:
    a, b, c, d = ("n1", "a"), ("n2", "a"), ("n3", "a"), ("n1", "b")
    found = networks([(a, b), (c, b), (d, d)])
    assert found[a] == found[b] == found[c] != found[d]
    assert diagnose(["a", "b"], [a, b, c, d], []).swapped == ()


def test_the_matrix_shows_what_each_rail_saw_of_each_rail() -> None:
    cluster = Cluster(3)
    cluster.swap("n2")
    found = reachability(cluster.views(), cluster.results())
    assert found["rails"][0] == {"rail": "rail0", "asked": 6, "full": 2, "small": 0, "none": 4, "unknown": 0}
    pair = next(pair for pair in found["pairs"] if (pair["node"], pair["peer"]) == ("n1", "n2"))
    assert [(cell["rail"], cell["peer_rail"], cell["seen"]) for cell in pair["cells"]] == [
        ("rail0", "rail0", "none"), ("rail0", "rail1", "heard"), ("rail1", "rail1", "none"), ("rail1", "rail0", "heard")
    ]  # fmt: skip
    assert reachability_lines(found)[0] == "rail0: 2 of 6 pings between nodes came back at full MTU"


def test_the_matrix_of_a_large_cluster_is_bounded_and_failures_come_first() -> None:
    cluster = Cluster(40)
    cluster.swap("n25")
    found = reachability(cluster.views(), cluster.results())
    assert len(found["pairs"]) == PAIRS and found["pairs_left_out"] == 160 - PAIRS
    assert all("n25" in (pair["node"], pair["peer"]) for pair in found["pairs"][:8])
    assert reachability(cluster.views(), {}) == {"rails": [], "pairs": [], "pairs_left_out": 0}
