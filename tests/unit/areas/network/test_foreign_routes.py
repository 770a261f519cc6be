# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes of others on a rail's interface: read from rows as ``ip -j`` of iproute2 6.1 prints them, restored, and never lost in an undo."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import routes as foreign_routes
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.model import TABLES
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import recording_name

if TYPE_CHECKING:
    from conftest import Node

DEFAULT = {"dst": "default", "gateway": "10.10.0.1", "flags": []}
DHCP = {"dst": "default", "gateway": "10.10.0.1", "protocol": "dhcp", "prefsrc": "10.10.0.9", "metric": 100, "flags": ["linkdown"]}
SUBNET = {"dst": "10.10.0.0/24", "protocol": "kernel", "scope": "link", "prefsrc": "10.10.0.9", "flags": []}
LOCAL = {"type": "local", "dst": "10.10.0.9", "table": "local", "protocol": "kernel", "scope": "host", "prefsrc": "10.10.0.9", "flags": []}
LINK = {"dst": "172.16.0.0/12", "scope": "link", "table": "100", "flags": []}


@pytest.mark.parametrize(("row", "words"), [
    (DEFAULT, ("default", "via", "10.10.0.1")),
    (DHCP, ("default", "via", "10.10.0.1", "proto", "dhcp", "src", "10.10.0.9", "metric", "100")),
    (LINK, ("172.16.0.0/12", "table", "100", "scope", "link")),
    ({**DEFAULT, "flags": ["onlink"]}, ("default", "via", "10.10.0.1", "onlink")),
    (SUBNET, None),
    (LOCAL, None),
    ({**DEFAULT, "table": str(min(TABLES))}, None),
    ({**DEFAULT, "nexthops": []}, None),
    ({**DEFAULT, "type": "blackhole"}, None),
    ({**DEFAULT, "flags": ["pervasive"]}, None),
    ({**DEFAULT, "dst": "-batch"}, None),
    ({**DEFAULT, "dst": "default dev eth0"}, None),
    ({**DEFAULT, "dst": ""}, None),
])  # fmt: skip
def test_a_route_as_words(row: dict[str, Any], words: tuple[str, ...] | None) -> None:
    assert foreign_routes.route_arguments(row, TABLES) == words


def test_networks_come_before_gateways_and_nonsense_is_nothing() -> None:
    assert [words[0] for words in foreign_routes.parse_foreign([DEFAULT, LINK, 3, SUBNET], TABLES)] == ["172.16.0.0/12", "default"]
    assert foreign_routes.parse_foreign({"dst": "default"}, TABLES) == foreign_routes.parse_foreign(None, TABLES) == ()


@pytest.mark.parametrize(("address", "kept"), [
    ("10.10.0.12/24", ["172.16.0.0/12", "default"]),
    ("10.20.0.12/24", ["172.16.0.0/12"]),
    ("fd00::1/64", []),
    (None, []),
])
def test_what_the_new_address_can_reach(address: str | None, kept: list[str]) -> None:
    routes = foreign_routes.parse_foreign([DEFAULT, DHCP, LINK], TABLES)
    assert [words[0] for words in foreign_routes.reachable(routes, address)] == kept, "the one with the old source address never"


def moving(node: "Node", *rows: dict[str, Any]) -> Any:
    """The rail's address changes from 10.10.0.9 to 10.10.0.11; the first was ours."""
    node.networkd()
    node.rail(address="10.10.0.9/24")
    node.link("eth1", "3", mtu=9000, addresses=["10.10.0.9/24"])
    node.carry_out(node.plan())
    node.rail(address="10.10.0.11/24")
    node.write("/cmd/" + recording_name(foreign_routes.foreign_query("eth1")), json.dumps(rows))
    return next(change for change in node.plan() if change.what.startswith("address of"))


def test_undo_restores_all_foreign_routes_and_the_change_those_that_fit(node: "Node") -> None:
    change = moving(node, DEFAULT, DHCP, SUBNET, LOCAL)
    first, last = change.ops[0], change.ops[-1]
    assert first.argv == ("true",), "nothing on the way forth; undone last"
    assert first.undo == (
        ("ip", "-4", "route", "replace", "default", "via", "10.10.0.1", "dev", "eth1"),
        ("ip", "-4", "route", "replace", *foreign_routes.route_arguments(DHCP, TABLES), "dev", "eth1"),
    )
    assert last.argv == first.undo[0]
    assert last.undo == (("true",),)


def test_without_routes_of_others_there_is_nothing_around_it(node: "Node") -> None:
    change = moving(node, SUBNET, LOCAL)
    assert [op.argv[:3] for op in change.ops] == [("ip", "addr", "del"), ("ip", "addr", "replace")]
