# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and ports."""

from __future__ import annotations

import socket

import pytest

from railwright.lab import net


def test_macs_and_addresses_follow_from_the_index() -> None:
    ports = {f"node{index}": index for index in range(1, net.MAX_NODES + 1)}
    nodes = net.make_nodes(net.MAX_NODES, net.MAX_RAILS, ports)
    assert nodes == net.make_nodes(net.MAX_NODES, net.MAX_RAILS, ports)
    macs = [node.mac for node in nodes] + [rail.mac for node in nodes for rail in node.rails]
    assert len(set(macs)) == len(macs)
    assert nodes[0].rails[0].address == "10.77.0.11/24"
    assert nodes[1].rails[7].address == "10.77.7.12/24"


def test_ports_are_kept_where_they_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "port_is_free", lambda port: port not in (2201, 2203))
    assert net.choose_ports(["node1", "node2"], {}) == {"node1": 2202, "node2": 2204}
    assert net.choose_ports(["node1", "node2"], {"node1": 2210, "node2": 2203}) == {"node1": 2210, "node2": 2202}


def test_a_new_node_does_not_take_a_port_that_another_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "port_is_free", lambda port: True)
    assert net.choose_ports(["node1", "node2"], {"node2": 2201}) == {"node1": 2202, "node2": 2201}


def test_a_port_in_use_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not net.port_is_free(listener.getsockname()[1])
