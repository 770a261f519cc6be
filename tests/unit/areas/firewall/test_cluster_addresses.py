# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a firewall lets in by default: the addresses that the inventory knows of the cluster's nodes, each alone."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils import cluster_addresses as module
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import cluster_addresses, derive


def test_what_counts() -> None:
    found = derive({
        "node1": {"ansible_host": "192.0.2.11", "rdma_rails": [{"name": "rail0", "address": "198.18.0.11/24"}], "ssh_mesh_addresses": None},
        "node2": {"ansible_host": "node2.example.com", "rdma_rails": [{"name": "rail0", "address": "198.18.0.12/24"}, {"name": "rail1"}]},
        "192.0.2.13": {"ansible_host": None},
        "node4": {"ansible_host": "2001:db8::4", "ssh_mesh_addresses": ["192.0.2.14", "192.0.2.11"]},
    })
    assert found == {"peers": ["192.0.2.11/32", "198.18.0.11/32", "198.18.0.12/32", "192.0.2.13/32", "2001:db8::4/128", "192.0.2.14/32"],
                     "unknown": []}


@pytest.mark.parametrize("host", ["node1", "127.0.0.1", "localhost", "fe80::1%eth0", "fe80::1", "::", "224.0.0.1"])
def test_what_is_no_address_of_a_node(host: str) -> None:
    assert derive({"node1": {"ansible_host": host, "rdma_rails": "none", "ssh_mesh_addresses": "x"}}) == {"peers": [], "unknown": ["node1"]}


class Hosts(dict[str, Any]):
    """Counts how often a host's variables are asked for: that is the dear part."""

    asked = 0

    def __getitem__(self, name: str) -> Any:
        self.asked += 1
        return super().__getitem__(name)


def test_one_look_serves_a_whole_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / "ansible-local-1"
    private.mkdir()
    monkeypatch.setattr(module.constants, "DEFAULT_LOCAL_TMP", str(private))
    hosts = Hosts({name: {"ansible_host": f"192.0.2.{at}"} for at, name in enumerate(("node1", "node2"), 1)})
    variables = {"groups": {"rdma": ["node2", "node1"]}, "hostvars": hosts, "ansible_play_name": "Apply"}
    first = cluster_addresses(variables)
    assert first == {"peers": ["192.0.2.1/32", "192.0.2.2/32"], "unknown": []}
    assert cluster_addresses(variables) == first
    assert hosts.asked == 2
    hosts["node1"] = {"ansible_host": "192.0.2.9"}
    assert cluster_addresses({**variables, "ansible_play_name": "Another"})["peers"] == ["192.0.2.2/32", "192.0.2.9/32"]


def test_many_addresses_are_few_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of a thousand gets what says the same, not a thousand lines."""
    monkeypatch.setattr(module.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    hosts = Hosts({f"node{at}": {"ansible_host": f"192.0.2.{at}"} for at in range(128)})
    assert cluster_addresses({"groups": {"rdma": list(hosts)}, "hostvars": hosts}) == {"peers": ["192.0.2.0/25"], "unknown": []}


def test_who_asks_meanwhile_waits_for_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty forks begin at the same moment; each would read the variables of every node."""
    private = tmp_path / "ansible-local-1"
    private.mkdir()
    monkeypatch.setattr(module.constants, "DEFAULT_LOCAL_TMP", str(private))
    answers = []

    class Slow(Hosts):
        def __getitem__(self, name: str) -> Any:
            if not self.asked:
                self.asked = 1
                other.start()
                other.join(0.3)  # without the lock it has the answer by then, and has asked for it itself
            return super().__getitem__(name)

    hosts = Slow({"node1": {"ansible_host": "192.0.2.1"}})
    variables = {"groups": {"rdma": ["node1"]}, "hostvars": hosts}
    other = Thread(target=lambda: answers.append(cluster_addresses(variables)))
    answers.append(cluster_addresses(variables))
    other.join(60)
    assert answers == [{"peers": ["192.0.2.1/32"], "unknown": []}] * 2
    assert hosts.asked == 2


def test_nothing_is_left_outside_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    assert cluster_addresses({"groups": {"rdma": ["node1"]}, "hostvars": {"node1": {"ansible_host": "192.0.2.1"}}})["peers"]
    assert list(tmp_path.iterdir()) == []


def test_no_group_nobody() -> None:
    assert cluster_addresses({}) == {"peers": [], "unknown": []}
