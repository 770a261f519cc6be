# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections that are really made: the cluster's nodes come in on the bootstrap interface, strangers do not, whatever happens since."""

from __future__ import annotations

from typing import Any

import pytest

GUARDED = ("nft", "fwd", "ufw")
STEPS = ("applied", "reloaded", "restarted", "rebooted", "repaired")
PEERS = ("nft", "fwd", "ufw", "bare")


def answers(moment: Any, source: str, what: str) -> dict[str, bool]:
    return {target: answer for (name, target, asked), answer in moment.reached.items() if (name, asked) == (source, what)}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("source", PEERS)
def test_a_port_that_the_kernel_handed_out_is_open_to_the_nodes(story: Any, step: str, source: str) -> None:
    assert answers(story[step], source, "tcp") == {name: True for name in GUARDED if name != source}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("source", PEERS)
def test_roce_comes_in_on_the_rails(story: Any, step: str, source: str) -> None:
    assert answers(story[step], source, "roce on the rail") == {name: True for name in GUARDED if name != source}


@pytest.mark.parametrize("step", [*STEPS, "left"])
@pytest.mark.parametrize("what", ["tcp", "tcp on the rail", "roce on the rail", "vxlan on the rail", "roce", "vxlan"])
def test_nothing_is_open_to_a_stranger(story: Any, step: str, what: str) -> None:
    assert answers(story[step], "stranger", what) == dict.fromkeys(GUARDED, False)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("source", PEERS)
def test_nothing_more_is_open_to_the_nodes(story: Any, step: str, source: str) -> None:
    """firewalld's rules hold for a whole zone, and both interfaces are in one here, so it can only tell ports."""
    assert not any(answers(story[step], source, "vxlan on the rail").values())
    for what in ("tcp on the rail", "roce"):
        found = answers(story[step], source, what)
        assert not any(found[name] for name in ("nft", "ufw") if name in found)


def test_what_was_taken_away_was_closed(story: Any) -> None:
    """Or the repair would prove nothing."""
    assert answers(story["taken away"], "bare", "tcp") == dict.fromkeys(GUARDED, False)


@pytest.mark.parametrize("name", GUARDED)
def test_the_repair_names_what_was_gone(story: Any, name: str) -> None:
    found = [change["what"] for change in story["repaired"].run[name].plan]
    words = {"nft": "rules for the cluster's nodes in nftables", "fwd": "rules for the cluster's nodes in firewalld at run time",
             "ufw": "ufw's rules loaded"}
    assert words[name] in found


@pytest.mark.parametrize("step", ["repaired", "left"])
@pytest.mark.parametrize("name", GUARDED)
def test_a_look_after_that_finds_nothing(story: Any, step: str, name: str) -> None:
    assert story[step].again[name].failed == []
    assert story[step].again[name].plan == []


def test_a_node_that_left_is_a_stranger(story: Any) -> None:
    assert answers(story["left"], "bare", "tcp") == dict.fromkeys(GUARDED, False)
    assert answers(story["left"], "bare", "roce on the rail") == dict.fromkeys(GUARDED, False)
    for source in GUARDED:
        assert all(answers(story["left"], source, "tcp").values())


@pytest.mark.parametrize("name", GUARDED)
def test_what_the_site_wrote_is_as_it_was(story: Any, name: str) -> None:
    lines = story["site at the end"][name].splitlines()
    expected = {"nft": ['tcp dport 22 accept comment "site"', "policy drop;", "tcp dport @open_ports accept"],
                "fwd": ['source address="203.0.113.7" service name="http" accept', "services: dhcpv6-client ssh"],
                "ufw": ["ufw allow 22/tcp", "ufw deny from 203.0.113.0/24"]}[name]
    for text in expected:
        assert any(text in line for line in lines), text
    if name != "fwd":  # its list holds our rules without a mark
        assert lines == story["site"][name].splitlines()


def test_where_nothing_stops_anybody_nothing_is_done(applied: Any, host: Any, node: str) -> None:
    if node != "bare":
        return
    answer = applied.of("rdma_state", node)[0]["answer"]
    assert answer["plan"] == []
    assert answer["notes"] == ["firewall: none runs on this node, nothing is to be opened"]
    assert not host.file("/etc/railwright").exists
