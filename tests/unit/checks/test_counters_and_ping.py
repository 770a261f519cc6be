# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters are judged by growth only; pings by the largest packet that comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.counters import COUNTERS
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.measure.counter_verdicts import LINK, SUSPECT, judge_deltas
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping import ASKED_PEERS, ping_probes
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import judge_probe, payload, peers_of, probes
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.pings import holders, merged

PORT = VerdictSubject("node1", "mlx5_0", 1, "rail0 (eth1)")


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
        ({"out_of_sequence": 1}, {"out_of_sequence": 9}, "warn", "skipped"),  # adaptive routing reorders by design
        ({"out_of_sequence": 1, "packet_seq_err": 0}, {"out_of_sequence": 9, "packet_seq_err": 0}, "warn", "skipped"),
        ({"out_of_sequence": 1, "packet_seq_err": 0}, {"out_of_sequence": 9, "packet_seq_err": 1}, "fail", "skipped"),
        ({"out_of_sequence": 1, "roce_adp_retrans": 0}, {"out_of_sequence": 9, "roce_adp_retrans": 3}, "fail", "skipped"),
        ({"out_of_sequence": 1, "link_downed": 0}, {"out_of_sequence": 9, "link_downed": 1}, "fail", "skipped"),
        ({"symbol_error": 900}, {"symbol_error": 3}, "unknown", "skipped"),  # reset meanwhile: it proves nothing
        ({"symbol_error": 900, "link_downed": 1}, {"symbol_error": 3, "link_downed": 1}, "unknown", "skipped"),
    ],
)
def test_only_growth_is_judged(before: dict[str, Any], after: dict[str, Any], errors: str, discards: str) -> None:
    assert [(item.check, item.status) for item in judge_deltas(PORT, before, after)] == [
        ("port.errors", errors),
        ("port.discards", discards),
    ]


FULL = {row.name: row.ceiling for row in COUNTERS if row.ceiling is not None}


@pytest.mark.parametrize("name", FULL)
def test_a_counter_at_its_ceiling_is_unknown_under_load(name: str) -> None:
    """It cannot grow, so that no growth proves nothing; one that reached its ceiling during the test grew."""
    names = {"port.errors": LINK, "port.discards": SUSPECT}
    check = next((check for check, own in names.items() if name in own), None)
    if check is None:
        assert name in {"port_rcv_remote_physical_errors", "port_xmit_constraint_errors"}, "the agent alone judges these"
        return
    beside = dict.fromkeys(names[check], 0)

    def judged(before: int | None, after: int | None) -> Verdict:
        found = judge_deltas(PORT, {**beside, name: before}, {**beside, name: after})
        return next(item for item in found if item.check == check)

    full = judged(FULL[name], FULL[name])
    assert (full.status, f"{name} is at its ceiling of {FULL[name]}" in full.message, "perfquery -R" in full.message) == (
        "unknown",
        True,
        True,
    )
    assert judged(0, FULL[name]).status == ("fail" if check == "port.errors" else "warn")
    assert judged(0, 0).status == "pass"


def test_the_widths_are_the_kernel_s() -> None:
    """PORT_PMA_ATTR of drivers/infiniband/core/sysfs.c."""
    assert {row.name: row.bits for row in COUNTERS if row.bits} == {
        "symbol_error": 16, "link_error_recovery": 8, "link_downed": 8, "port_rcv_errors": 16, "port_rcv_remote_physical_errors": 16,
        "port_xmit_discards": 16, "port_xmit_constraint_errors": 8, "local_link_integrity_errors": 4, "excessive_buffer_overrun_errors": 4,
    }  # fmt: skip


def test_another_counter_s_growth_is_found_beside_one_at_its_ceiling() -> None:
    found = judge_deltas(PORT, {"symbol_error": 65535, "link_downed": 1}, {"symbol_error": 65535, "link_downed": 2})[0]
    assert (found.status, found.found) == ("fail", "link_downed +1")


def test_a_grown_counter_is_named_with_its_growth() -> None:
    verdict = judge_deltas(PORT, {"symbol_error": 900}, {"symbol_error": 905})[0]
    assert verdict.found == "symbol_error +5"


def test_what_could_not_be_read_is_said_beside_a_pass() -> None:
    verdict = judge_deltas(PORT, {"symbol_error": 0, "link_downed": None}, {"symbol_error": 0, "link_downed": None})[0]
    assert (verdict.status, verdict.message) == ("pass", "read 1, none grew; could not be read: link_downed")


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
    found = [(item["peer"], item["source"], item["address"], item["mtu"], item["others"]) for item in probes(mine, theirs)]
    assert found == [("node2", "10.0.1.1", "10.0.1.2", 4200, ["10.0.2.2", "10.0.9.2"])]


class Network(Host):
    """Answers pings up to a size, and ARP as told; keeps the command lines and what was asked for on which interface."""

    def __init__(self, largest: int, rc: int = 1, installed: bool = True, route: str = "eth1") -> None:
        self.largest, self.rc, self.installed, self.asked = largest, rc, installed, list[tuple[str, ...]]()
        self.route, self.questions, self.addresses = route, dict[str, list[bytes]](), "[]"

    def which(self, tool: str) -> str | None:
        return "/usr/bin/" + tool if self.installed else None

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        if argv[0] == "ip":
            routed = Result(0, json.dumps([{"dev": self.route}]), "") if self.route else Result(2, "", "RTNETLINK answers: No way\n")
            return routed if "route" in argv else Result(0, self.addresses, "")
        self.asked.append(tuple(argv))
        size = int(argv[list(argv).index("-s") + 1])
        return Result(0 if size <= self.largest else self.rc, "", "")

    def read(self, path: str, limit: int = 4096) -> str | None:
        return "02:00:00:00:01:01\n" if path == "/sys/class/net/eth1/address" else None

    def listdir(self, path: str) -> list[str]:
        return []

    def exchange(
        self, netdev: str, protocol: int, frames: Sequence[bytes], seconds: float, limit: int, wanted: Callable[[bytes], bool]
    ) -> list[bytes]:
        self.questions[netdev] = list(frames)
        return []


PROBE = {
    "name": "rail0",
    "rail": "rail0 (eth1)",
    "hca": "mlx5_0",
    "port": 1,
    "peer": "node2",
    "address": "10.0.0.2",
    "source": "10.0.0.1",
    "netdev": "eth1",
    "mtu": 9000,
    "others": ["10.0.1.2"],
}
RAIL = {"name": "rail0", "netdev": "eth1", "address": "10.0.0.1"}


def judged(network: Network, probe: dict[str, Any]) -> Verdict:
    pings = merged([probe], ping_probes(network, [probe], [RAIL], 2, 1)["pings"])
    assert pings is not None
    return judge_probe("node1", pings[0])


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
    verdict = judged(network, PROBE)
    assert (verdict.status, verdict.found, verdict.expected) == (status, found, "8972 bytes unfragmented")
    assert word in verdict.message and verdict.subject == "rail0 (eth1) to node2"
    line = "/usr/bin/ping -4 -n -M do -s 8972 -c 2 -W 1 -i 0.2 -I eth1 -I 10.0.0.1 10.0.0.2"
    assert network.asked[0] == tuple(line.split()), "bound to interface and address"


def test_without_ping_nothing_passes() -> None:
    verdict = judged(Network(9000, installed=False), PROBE)
    assert verdict.status == "unknown" and "not installed" in verdict.message
    assert judged(Network(0, rc=127), PROBE).status == "unknown"


def test_an_ethernet_sized_rail_is_not_asked_twice() -> None:
    network = Network(0)
    judged(network, dict(PROBE, mtu=1500))
    assert len(network.asked) == 1


def test_only_a_rail_without_answers_is_asked_by_arp_for_its_peers() -> None:
    network = Network(1472)
    judged(network, PROBE)
    assert {frame[-4:] for frame in network.questions["eth1"]} == {bytes([10, 0, 0, 1])}, "its own address, for duplicates"
    network = Network(0)
    judged(network, PROBE)
    assert {frame[-4:] for frame in network.questions["eth1"]} == {bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), bytes([10, 0, 1, 2])}


def test_a_rail_asks_for_a_bounded_number_of_peers() -> None:
    network = Network(0)
    many = [dict(PROBE, peer=f"node{number}", address=f"10.0.0.{number}", others=[]) for number in range(2, 30)]
    ping_probes(network, many, [RAIL], 1, 1)
    assert len({frame[-4:] for frame in network.questions["eth1"]}) == 1 + ASKED_PEERS


def test_the_way_that_the_kernel_would_take_is_told() -> None:
    answer = ping_probes(Network(8972, route="eth0"), [PROBE], [RAIL], 1, 1)["pings"][0]
    assert (answer["device"], answer["no_route"]) == ("eth0", None)
    answer = ping_probes(Network(8972, route=""), [PROBE], [RAIL], 1, 1)["pings"][0]
    assert (answer["device"], answer["no_route"]) == (None, "RTNETLINK answers: No way")


def test_dadfailed_is_found_for_any_spelling_of_the_ipv6_address() -> None:
    network = Network(9000)
    network.addresses = json.dumps([{"ifname": "eth1", "addr_info": [{"local": "fd00::1", "dadfailed": True}, {"local": "fd00::3"}]}])
    rails = [dict(RAIL, address="FD00:0::1"), dict(RAIL, address="fd00::3")]
    assert [item["dad_failed"] for item in ping_probes(network, [], rails, 1, 1)["rails"]] == [True, False]


@pytest.mark.parametrize("answers", [None, {}, [], [{}, {}]])
def test_answers_that_belong_to_no_probe_are_none(answers: Any) -> None:
    assert merged([PROBE], answers) is None


def test_a_node_answers_what_it_was_asked_and_nothing_else() -> None:
    forged = {"full": "yes", "small": 1, "peer": "node9", "source": "10.9.9.9", "device": ["eth1"], "no_route": "x" * 999,
              "heard": {"10.0.0.2": ["02:00:00:00:00:01", "<b>", 7] * 9, "10.9.9.9": ["02:00:00:00:00:02"]}}  # fmt: skip
    pings = merged([PROBE], [forged])
    assert pings is not None
    heard = {"10.0.0.2": ["02:00:00:00:00:01"] * 2, "10.0.1.2": []}
    assert pings == [{**PROBE, "full": None, "small": None, "device": None, "why": None, "no_route": "x" * 200, "heard": heard}]
    assert holders([RAIL], [{"name": "rail0", "macs": "02:00:00:00:00:01", "dad_failed": 1}, 7]) == [
        {"name": "rail0", "macs": None, "dad_failed": False}
    ]
