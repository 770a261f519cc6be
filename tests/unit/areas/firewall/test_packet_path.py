# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a kind of packet: certain only where every rule on its way is understood."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.observe import nftables
from ansible_collections.railwright.rdma.plugins.module_utils.observe.firewall import iptables_chains
from ansible_collections.railwright.rdma.plugins.module_utils.rules.packet_filter import (
    ALL_PORTS,
    Packets,
    by_family,
    covered,
    fate,
    merged,
    span,
)

TCP = Packets("eth0", "tcp", ALL_PORTS, ("192.0.2.11/32", "192.0.2.12/32"))
ROCE = Packets("eth1", "udp", (4791, 4791), ("192.0.2.0/24",))
HEAD = "-P INPUT {}\n-N one\n-N two\n"


def judged(rules: str, packets: Packets = TCP, policy: str = "DROP") -> tuple[str, str]:
    found = fate(iptables_chains(HEAD.format(policy) + "".join(f"-A {line}\n" for line in rules.splitlines() if line), "ip"), packets)
    return found.status, found.by


@pytest.mark.parametrize(("rules", "policy", "status"), [
    ("", "ACCEPT", "open"),
    ("", "DROP", "closed"),
    ("INPUT -s 192.0.2.0/24 -p tcp -j ACCEPT", "DROP", "open"),
    ("INPUT -s 192.0.2.11/32 -p tcp -j ACCEPT", "DROP", "closed"),  # one of the two peers is left
    ("INPUT -s 192.0.2.11/32 -j ACCEPT\nINPUT -s 192.0.2.12/32 -j ACCEPT", "DROP", "closed"),  # parts are not added up: nothing is claimed
    ("INPUT -s 192.0.2.0/24 -p udp -j ACCEPT", "DROP", "closed"),
    ("INPUT -s 192.0.2.0/24 -i eth1 -p tcp -j ACCEPT", "DROP", "closed"),
    ("INPUT -i eth+ -p tcp -j ACCEPT", "DROP", "open"),
    ("INPUT ! -i eth1 -p tcp -j ACCEPT", "DROP", "open"),
    ("INPUT -p tcp -m tcp --dport 1024:65535 -j ACCEPT", "DROP", "closed"),  # ssh between the nodes is TCP too
    ("INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "DROP", "closed"),
    ("INPUT -m conntrack --ctstate NEW -j ACCEPT", "DROP", "open"),
    ("INPUT -m conntrack --ctstate INVALID -j DROP", "ACCEPT", "open"),
    ("INPUT -p tcp -m tcp --dport 23 -j REJECT", "ACCEPT", "closed"),
    ("INPUT -s 203.0.113.0/24 -j DROP", "ACCEPT", "open"),
    ("INPUT -m recent --name bad -j DROP", "ACCEPT", "unknown"),
    ("INPUT -m recent --name good -j ACCEPT", "DROP", "unknown"),
    ("INPUT -m recent --name bad -j DROP", "DROP", "closed"),  # whichever of the two: it is stopped
    ("INPUT -m recent --name bad -j DROP\nINPUT -j ACCEPT", "DROP", "unknown"),
    ("INPUT -j one\none -p tcp -j ACCEPT", "DROP", "open"),
    ("INPUT -j one\none -p tcp -j RETURN\none -j DROP", "ACCEPT", "open"),
    ("INPUT -g one\nINPUT -j ACCEPT\none -p udp -j ACCEPT", "DROP", "closed"),  # a goto does not come back
    ("INPUT -j one\nINPUT -j ACCEPT\none -p udp -j ACCEPT", "DROP", "open"),
    ("INPUT -m recent --name x -j one\nINPUT -j DROP\none -j LOG", "ACCEPT", "closed"),
    ("INPUT -m recent --name x -j one\nINPUT -j DROP\none -j ACCEPT", "ACCEPT", "unknown"),
    ("INPUT -j one\none -j two\ntwo -p tcp -j REJECT", "ACCEPT", "closed"),
    ("INPUT -j NFQUEUE --queue-num 1", "ACCEPT", "unknown"),
    ("INPUT -m addrtype --dst-type LOCAL -j ACCEPT", "DROP", "open"),
    ("INPUT -d 224.0.0.251/32 -j ACCEPT", "DROP", "closed"),
    ("INPUT -d 192.0.2.99/32 -j DROP", "ACCEPT", "unknown"),  # is it an address of this node?
    ("INPUT -p tcp -m tcp --sport 20 -j DROP", "ACCEPT", "unknown"),
    ("INPUT -j one\none -j one", "ACCEPT", "unknown"),  # a loop, which no kernel has, but a captured file may
])
def test_fates(rules: str, policy: str, status: str) -> None:
    assert judged(rules, policy=policy)[0] == status


def test_the_rule_that_stops_it_is_named() -> None:
    assert judged("INPUT -p tcp -m tcp --dport 23 -j REJECT", policy="ACCEPT")[1] == "-A INPUT -p tcp -m tcp --dport 23 -j REJECT"
    assert judged("")[1] == "policy drop of ip filter INPUT"


def test_every_base_chain_must_let_it_in() -> None:
    """An accept ends its own base chain alone."""
    lenient = iptables_chains("-P INPUT ACCEPT\n-A INPUT -p tcp -j ACCEPT\n", "ip")
    strict = [dict(chain, table="site") for chain in iptables_chains("-P INPUT DROP\n", "ip")]
    assert fate(lenient, TCP).status == "open"
    assert fate(lenient + strict, TCP) == ("closed", "policy drop of ip site INPUT")


def test_a_chain_of_the_other_family_is_not_met() -> None:
    six = iptables_chains("-P INPUT DROP\n", "ip6")
    assert fate(six, TCP).status == "open"
    assert fate(six, TCP._replace(sources=("2001:db8::1/128",))).status == "closed"


def test_what_real_ufw_makes(recorded: Callable[[str], str]) -> None:
    chains = iptables_chains(recorded("ufw-0.36-iptables.txt"), "ip")
    assert fate(chains, TCP).by == "-A ufw-skip-to-policy-input -j DROP"  # of port 139
    assert fate(chains, TCP._replace(ports=(1024, 65535))) == ("closed", "policy drop of ip filter INPUT")
    assert fate(chains, TCP._replace(ports=(22, 22))).status == "open"
    assert fate(chains, TCP._replace(ports=(22, 22), sources=("203.0.113.0/24",))).status == "open"  # 22 comes before the deny
    assert fate(chains, TCP._replace(ports=(80, 80), sources=("203.0.113.9/32",))).by == "-A ufw-user-input -s 203.0.113.0/24 -j DROP"
    assert fate(chains, ROCE).status == "closed"


def test_what_real_firewalld_makes(recorded: Callable[[str], str]) -> None:
    chains = nftables.chains_of(recorded("firewalld-1.3.json"))
    assert chains is not None
    assert fate(chains, TCP._replace(ports=(22, 22))).status == "open"
    found = fate(chains, TCP)
    assert found.status == "closed"
    assert "reject" in found.by
    assert "inet firewalld" in found.by


@pytest.fixture
def site(recorded: Callable[[str], str]) -> list[dict[str, Any]]:
    chains = nftables.chains_of(recorded("nft-1.0.json"))
    assert chains is not None
    return chains


@pytest.mark.parametrize(("packets", "status"), [
    (Packets("eth0", "tcp", (30000, 60999), ("192.0.2.11/32", "198.51.100.7/32")), "open"),
    (Packets("eth0", "tcp", (30000, 60999), ("198.51.100.6/32",)), "closed"),
    (Packets("eth1", "tcp", (30000, 60999), ("192.0.2.11/32",)), "closed"),
    (Packets("lo", "tcp", ALL_PORTS, ("192.0.2.11/32",)), "open"),
    (Packets("eth1", "tcp", (22, 22), ("192.0.2.11/32",)), "open"),
    (Packets("eth1", "tcp", (23, 23), ("192.0.2.11/32",)), "closed"),
    (Packets("eth1", "tcp", (8001, 8002), ("192.0.2.11/32",)), "open"),
    (Packets("eth1", "tcp", (8001, 8002), ("2001:db8::1/128",)), "closed"),  # the second base chain is IPv6's
    (Packets("eth1", "udp", (53, 53), ("198.51.100.9/32",)), "open"),
    (Packets("eth1", "udp", (53, 53), ("203.0.113.9/32",)), "closed"),
])
def test_what_nft_lists_of_a_site(site: list[dict[str, Any]], packets: Packets, status: str) -> None:
    """Sets, maps of verdicts, ranges, two families, chains that lead to chains: all of it listed by the real nft."""
    assert fate(site, packets).status == status


def test_only_input_is_read(site: list[dict[str, Any]]) -> None:
    assert [(chain["family"], chain["chain"], chain["hook"]) for chain in site] == [
        ("inet", "input", True), ("ip6", "in6", True), ("inet", "deep", False), ("inet", "deeper", False)]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nftables": 3}', "no json"])
def test_what_is_no_ruleset(text: str) -> None:
    assert not nftables.chains_of(text)


def test_rules_that_are_too_many_are_not_judged() -> None:
    place = {"family": "inet", "table": "t"}
    other = {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 9}}
    rules = [{"rule": {**place, "chain": "c", "handle": number, "expr": [other, {"drop": None}]}} for number in range(2001)]
    chain = {"chain": {**place, "name": "c", "type": "filter", "hook": "input", "prio": 0, "policy": "accept"}}
    found = nftables.chains_of(json.dumps({"nftables": [*rules, chain]}))
    assert found is not None
    assert fate(found, TCP) == ("unknown", "rules beyond the first 2000")


def test_networks() -> None:
    assert by_family(["192.0.2.12/32", "192.0.2.13/32", "2001:db8::1/128", "10.0.0.0/8"]) == [
        ("10.0.0.0/8", "192.0.2.12/31"), ("2001:db8::1/128",)]
    assert merged([(4, 5, 6), (4, 1, 3), (4, 4, 4), (6, 5, 5)]) == [(4, 1, 6), (6, 5, 5)]
    assert span("192.0.2.0-192.0.2.3") == span("192.0.2.0/30")
    assert span("eth0") is None
    assert [covered([(4, 5, 9)], given) for given in ([(4, 1, 9)], [(4, 5, 6), (4, 7, 9)], [(4, 9, 12)], [(4, 10, 12)], [(6, 5, 9)])] == [
        "yes", "yes", "part", "no", "no"]
