# SPDX-License-Identifier: GPL-3.0-or-later
"""firewall.tcp and firewall.roce: judged from the rules of the facts, and unknown where those tell nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.firewall.openings import judge_firewall
from ansible_collections.railwright.rdma.plugins.module_utils.observe import firewall
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of

Make = Callable[..., Any]


def judged(made: Any, rules: str | None, missing: str | None = None) -> dict[str, tuple[str, str]]:
    chains = None if rules is None else [dict(chain, owner="iptables") for chain in firewall.iptables_chains(rules, "ip")]
    facts = {"firewall": {"runs": ["iptables"] if chains else [], "chains": chains, "missing": missing}}
    seen = inspection_of("node1", made.spec, made.identity, facts)
    return {item.check: (item.status, item.message) for item in judge_firewall(seen)}


@pytest.mark.parametrize(("rules", "status", "words"), [
    ("", "pass", "firewall: none"),
    ("-P INPUT ACCEPT\n", "pass", "no rule stops it"),
    ("-P INPUT DROP\n", "fail", "is stopped on eth0 by: policy drop of ip filter INPUT"),
    ("-P INPUT DROP\n-A INPUT -s 192.0.2.0/24 -j ACCEPT\n", "fail", "policy drop"),
    ("-P INPUT DROP\n-A INPUT -s 192.0.2.0/24 -j ACCEPT\n-A INPUT -s 198.18.0.11 -j ACCEPT\n", "fail", "policy drop"),
    ("-P INPUT DROP\n-A INPUT -i eth0 -p tcp -j ACCEPT\n", "pass", "no rule stops it"),
    ("-P INPUT DROP\n-A INPUT -m set --match-set cluster src -j ACCEPT\n", "unknown", "cannot be judged because of: policy drop"),
    (None, "unknown", "cannot be read on this node"),
])
def test_tcp(planner: Make, rules: str | None, status: str, words: str) -> None:
    found = judged(planner(), rules)["firewall.tcp"]
    assert found[0] == status
    assert words in found[1]


def test_why_it_cannot_be_read(planner: Make) -> None:
    assert "(nft: Operation not permitted)" in judged(planner(), None, "nft: Operation not permitted")["firewall.tcp"][1]


def test_peers_that_nobody_knows(planner: Make) -> None:
    made = planner(derived={"peers": [], "unknown": ["node1"]})
    assert judged(made, "-P INPUT DROP\n")["firewall.tcp"][0] == "unknown"
    assert "firewall_peers" in judged(made, "-P INPUT DROP\n")["firewall.tcp"][1]
    assert judged(made, "-P INPUT ACCEPT\n")["firewall.tcp"][0] == "pass"


def test_software_roce_meets_the_firewall(planner: Make) -> None:
    made = planner(rdma_stack="soft_roce")
    assert judged(made, "-P INPUT DROP\n-A INPUT -i eth0 -j ACCEPT\n")["firewall.roce"] == (
        "fail", "UDP port 4791 is stopped on eth1 by: policy drop of ip filter INPUT")
    assert judged(made, "-P INPUT DROP\n-A INPUT -p udp -m udp --dport 4789 -j ACCEPT\n")["firewall.roce"][0] == "fail"
    assert judged(made, "-P INPUT DROP\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\n")["firewall.roce"][0] == "pass"


def test_hardware_roce_does_not(planner: Make) -> None:
    status, message = judged(planner(), "-P INPUT DROP\n")["firewall.roce"]
    assert status == "skipped"
    assert "UDP 4791" in message
    assert "4789 is VXLAN" in message


def test_infiniband_has_no_such_port(planner: Make) -> None:
    rails = [{"name": "rail0", "match": {"guid": "b8ce:f603:00ab:cdef"}}]
    assert set(judged(planner(fabric="infiniband", mtu=2044, network_ipoib_mode="datagram", rails=rails), "")) == {"firewall.tcp"}
