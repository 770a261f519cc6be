# SPDX-License-Identifier: GPL-3.0-or-later
"""An address that somebody else has is a conflict before it is set, and nobody is asked about one that is there."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import network
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.types import Problem

if TYPE_CHECKING:
    from conftest import Node

MAC = "02:00:00:00:01:01"
STRANGER = "020000000909"


class Segment(TreeHost):
    """The tree of a node, and a network behind its interfaces on which a stranger answers every question."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: list[tuple[str, bytes]] = []

    def exchange(self, netdev: str, protocol: int, frames: Sequence[bytes], seconds: float, limit: int,
                 wanted: Callable[[bytes], bool]) -> list[bytes]:
        self.asked += [(netdev, frame[38:42]) for frame in sorted(set(frames))]
        reply = bytes.fromhex(f"020000000101 {STRANGER} 0806 0001 0800 06 04 0002 {STRANGER}")
        answers = [reply + frame[38:42] + bytes(10) for frame in frames]
        return [frame for frame in answers if wanted(frame)]


@pytest.fixture
def live(node: "Node") -> "Node":
    node.networkd()
    node.link("eth1", "3", mtu=9000)
    node.write("/sys/class/net/eth1/address", MAC + "\n")
    return node


def looked(node: "Node") -> tuple[list[Problem], list[tuple[str, bytes]]]:
    host = Segment(node.host().root)
    desired = network.desired(node.spec(), node.identity())
    return network.conflicts(desired, network.observe(host, desired)), host.asked


def test_another_devices_answer_is_a_conflict_that_names_everything(live: "Node") -> None:
    problems, asked = looked(live)
    assert asked == [("eth1", bytes([10, 10, 0, 11]))]
    assert [(item.area, item.subject) for item in problems] == [("network", "rail0 (eth1)")]
    assert problems[0].message.startswith(
        "address 10.10.0.11 of rail0 is already held by another device on eth1: MAC 02:00:00:00:09:09 answers for it")


def test_an_address_of_another_interface_of_this_node_is_no_strangers(live: "Node") -> None:
    live.write("/sys/class/net/eth0/address", "02:00:00:00:09:09\n")
    assert looked(live)[0] == []


@pytest.mark.parametrize("there", [["10.10.0.11/24"], ["10.10.0.11/16"]])
def test_nobody_is_asked_about_an_address_that_is_there(live: "Node", there: list[str]) -> None:
    live.link("eth1", "3", mtu=9000, addresses=there)
    assert looked(live) == ([], [])


@pytest.mark.parametrize(("up", "carrier"), [(False, "1"), (True, "0")])
def test_nobody_is_asked_on_a_link_that_is_down(live: "Node", up: bool, carrier: str) -> None:
    live.link("eth1", "3", mtu=9000, up=up, carrier=carrier)
    assert looked(live) == ([], [])


def test_nobody_is_asked_about_what_others_configure(live: "Node") -> None:
    live.values["network_manage_addresses"] = False
    assert looked(live) == ([], [])


def test_a_captured_tree_asks_nobody_and_plans_all_the_same(live: "Node") -> None:
    assert live.conflicts() == []
    assert "address of rail0 (eth1)" in live.whats()
