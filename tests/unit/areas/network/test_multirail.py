# SPDX-License-Identifier: GPL-3.0-or-later
"""Two rails on a node: a table and a rule each, in one flat subnet or two, IPv4 or IPv6, under every manager."""

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers import ini

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Node

FLAT = ("10.10.0.11/24", "10.10.0.12/24")
FLAT_6 = ("fd00:10::11/64", "fd00:10::12/64")
SUBNETS = ("10.10.0.11/24", "10.11.0.11/24")
SUBNETS_6 = ("fd00:10::11/64", "fd00:11::11/64")
WISHES = [FLAT, FLAT_6, SUBNETS, SUBNETS_6]
NETWORKS = {"10.10.0": "10.10.0.0/24", "10.11.0": "10.11.0.0/24", "fd00:10:": "fd00:10::/64", "fd00:11:": "fd00:11::/64"}
KEYFILE = "/etc/NetworkManager/system-connections/railwright-rail1.nmconnection"
NETWORKD = "/etc/systemd/network/10-railwright-rail1.network"
STANZA = "/etc/network/interfaces.d/railwright-rail1"
NETPLAN = "/etc/netplan/60-railwright.yaml"
ROUTE = "route of rail1 (eth2)"


def network_of(address: str) -> str:
    return NETWORKS[address[:8] if ":" in address else address.rpartition(".")[0]]


def host_part(address: str) -> str:
    return address.partition("/")[0]


def family(address: str) -> str:
    return "-6" if ":" in address else "-4"


def live(node: "Node", addresses: tuple[str, ...], devices: tuple[str, ...] = ("eth1", "eth2")) -> None:
    """Both rails as the plan's commands leave them."""
    for place, address in enumerate(addresses):
        node.link(f"eth{place + 1}", str(place + 3), mtu=9000, addresses=[address])
    tables = {47910 + place: [{"dst": network_of(address), "dev": devices[place], "protocol": "static"},
                              {"dst": "fe80::/64", "dev": devices[place], "protocol": "kernel"}]
              for place, address in enumerate(addresses)}
    node.routing(family(addresses[0]), {host_part(address): 47910 + place for place, address in enumerate(addresses)}, tables)


def pair(node: "Node", addresses: tuple[str, ...]) -> None:
    node.rail(address=addresses[0])
    node.second_rail(addresses[1])


def networkd(node: "Node") -> None:
    node.networkd()


def ifupdown(node: "Node") -> None:
    node.ifupdown()


def networkmanager(node: "Node") -> None:
    node.networkmanager()
    node.write("/run/NetworkManager/devices/4", "[device]\nmanaged=true\n")


def netplan(node: "Node") -> None:
    node.networkd()
    node.netplan()


EVERY = [networkd, ifupdown, networkmanager, netplan]


@pytest.mark.parametrize("manager", EVERY)
def test_rails_that_change_places_leave_no_address_behind(node: "Node", manager: "Callable[[Node], None]") -> None:
    """Each finds the other's address on its new interface: ours, by the other one's file, and no site's that is to be kept."""
    pair(node, SUBNETS)
    manager(node)
    node.carry_out(node.plan())
    live(node, SUBNETS)
    first, second = node.values["rails"]
    first["value"], second["value"] = second["value"], first["value"]
    assert [(change.before, change.after) for change in node.plan() if change.what.startswith("address of")] == [
        (SUBNETS[1], SUBNETS[0]), (SUBNETS[0], SUBNETS[1])]
    removed = [op.argv[1:] for change in node.plan() for op in change.ops if "del" in op.argv]
    assert [argv[:2] for argv in removed] == [("-4", "route")] * 2 + [("addr", "del")] * 2, "with the last address the kernel drops routes"
    node.link("eth1", "3", mtu=9000, addresses=[SUBNETS[0], "192.0.2.1/24"])
    assert node.change("address of rail1 (eth1)").after == f"{SUBNETS[1]}, 192.0.2.1/24", "what a site put there stays"


@pytest.mark.parametrize("addresses", WISHES, ids=["flat", "flat6", "subnets", "subnets6"])
@pytest.mark.parametrize("setup", EVERY)
def test_from_nothing_to_nothing_left(node: "Node", setup: "Callable[[Node], None]", addresses: tuple[str, str]) -> None:
    setup(node)
    pair(node, addresses)
    changes = node.plan()
    for place, address in enumerate(addresses):
        route = next(change for change in changes if change.what == f"route of rail{place} (eth{place + 1})")
        version, table = family(address), str(47910 + place)
        assert [op.argv for op in route.ops] == [
            ("ip", version, "route", "replace", network_of(address), "dev", f"eth{place + 1}", "table", table, "proto", "static"),
            ("ip", version, "rule", "add", "from", host_part(address), "lookup", table, "priority", "4791", "protocol", "static")]
    assert {change.disruption for change in changes} == {"none"}, "rails that carry nothing need no consent"
    node.carry_out(changes)
    live(node, addresses)
    assert node.plan() == []
    assert node.conflicts() == []


@pytest.mark.parametrize("addresses", WISHES, ids=["flat", "flat6", "subnets", "subnets6"])
def test_networkd_file_has_table_and_rule(node: "Node", addresses: tuple[str, str]) -> None:
    networkd(node)
    pair(node, addresses)
    entries = [tuple(entry) for entry in ini.parse(node.change("file " + NETWORKD).after)]
    scope = [] if ":" in addresses[1] else [("Route", "Scope", "link")]
    assert entries[-6 - len(scope):] == [
        ("Network", "Address", addresses[1]), ("Route", "Destination", network_of(addresses[1])), *scope, ("Route", "Table", "47911"),
        ("RoutingPolicyRule", "From", host_part(addresses[1])), ("RoutingPolicyRule", "Table", "47911"),
        ("RoutingPolicyRule", "Priority", "4791")]
    assert ("Network", "IPv6AcceptRA", "no") in entries


@pytest.mark.parametrize("addresses", WISHES, ids=["flat", "flat6", "subnets", "subnets6"])
def test_networkmanager_profile_has_table_and_rule(node: "Node", addresses: tuple[str, str]) -> None:
    networkmanager(node)
    pair(node, addresses)
    entries = [tuple(entry) for entry in ini.parse(node.change("file " + KEYFILE).after)]
    mine, other = ("ipv6", "ipv4") if ":" in addresses[1] else ("ipv4", "ipv6")
    assert [entry[1:] for entry in entries if entry[0] == mine] == [
        ("method", "manual"), ("address1", addresses[1]), ("route1", network_of(addresses[1])), ("route1_options", "table=47911"),
        ("routing-rule1", f"priority 4791 from {host_part(addresses[1])} table 47911")]
    assert [entry[1:] for entry in entries if entry[0] == other] == [("method", "disabled" if mine == "ipv6" else "link-local")]


@pytest.mark.parametrize("addresses", WISHES, ids=["flat", "flat6", "subnets", "subnets6"])
def test_ifupdown_stanza_has_table_and_rule(node: "Node", addresses: tuple[str, str]) -> None:
    ifupdown(node)
    pair(node, addresses)
    lines = [line.strip() for line in node.change("file " + STANZA).after.splitlines()]
    version, six = family(addresses[1]), ":" in addresses[1]
    assert f"iface eth2 {'inet6' if six else 'inet'} static" in lines
    assert ("accept_ra 0" in lines) == six
    assert lines[-3:] == [
        f"up ip {version} route replace {network_of(addresses[1])} dev eth2 table 47911 proto static",
        f"up ip {version} rule add from {host_part(addresses[1])} lookup 47911 priority 4791 protocol static",
        f"down ip {version} rule del from {host_part(addresses[1])} lookup 47911 || true"]


@pytest.mark.parametrize("addresses", WISHES, ids=["flat", "flat6", "subnets", "subnets6"])
def test_netplan_file_has_table_and_rule(node: "Node", addresses: tuple[str, str]) -> None:
    netplan(node)
    pair(node, addresses)
    rail = yaml.safe_load(node.change("file " + NETPLAN).after)["network"]["ethernets"]["railwright-rail1"]
    assert rail["addresses"] == [addresses[1]]
    assert rail["accept-ra"] is False
    assert rail["routes"] == [{"to": network_of(addresses[1]), "scope": "link", "table": 47911}]
    assert rail["routing-policy"] == [{"from": host_part(addresses[1]), "table": 47911, "priority": 4791}]


@pytest.mark.parametrize("setup", EVERY)
def test_ipv6_gateway_gets_a_table_of_its_own(node: "Node", setup: "Callable[[Node], None]") -> None:
    setup(node)
    node.rail(address="fd00:10::11/64", gateway="fd00:10::1")
    change = node.change("route of rail0 (eth1)")
    assert change.after == ["default via fd00:10::1", "fd00:10::/64", "from fd00:10::11"]
    assert change.ops[1].argv == ("ip", "-6", "route", "replace", "default", "via", "fd00:10::1", "dev", "eth1", "table", "47910", "proto",
                                  "static")
    content = next(op.content for op in next(item for item in node.plan() if item.what.startswith("file ")).ops if op.kind == "write")
    assert "fd00:10::1" in content
    assert "0.0.0" not in content, "an IPv4 default route"


def test_ipv6_that_is_switched_off_is_a_conflict(node: "Node") -> None:
    networkd(node)
    node.write("/proc/sys/net/ipv6/conf/eth1/disable_ipv6", "1\n")
    assert node.conflicts() == []
    node.rail(address="fd00:10::11/64")
    assert [problem.message for problem in node.conflicts()] == ["eth1 cannot have its IPv6 address: net.ipv6.conf.eth1.disable_ipv6 is 1"]
    node.write("/proc/sys/net/ipv6/conf/eth1/disable_ipv6", "0\n")
    assert node.conflicts() == []


def test_a_kernel_without_ipv6_is_a_conflict(node: "Node") -> None:
    networkd(node)
    node.rail(address="fd00:10::11/64")
    node.write("/proc/sys/net/ipv4/ip_forward", "0\n")
    assert "runs without IPv6" in node.conflicts()[0].message


def ready(node: "Node", addresses: tuple[str, str] = FLAT) -> "Node":
    networkd(node)
    pair(node, addresses)
    node.carry_out(node.plan())
    live(node, addresses)
    assert node.plan() == []
    return node


def test_a_route_by_another_rail_is_no_route_of_this_one(node: "Node") -> None:
    live(ready(node), FLAT, devices=("eth1", "eth1"))
    crossing, missing = node.plan()
    assert (crossing.what, crossing.disruption) == ("route by another interface of rail1 (eth2)", "link")
    assert (crossing.before, crossing.after) == (["10.10.0.0/24 dev eth1"], None)
    assert [(op.argv, op.undo) for op in crossing.ops] == [(
        ("ip", "-4", "route", "del", "10.10.0.0/24", "dev", "eth1", "table", "47911"),
        (("ip", "-4", "route", "replace", "10.10.0.0/24", "dev", "eth1", "table", "47911", "proto", "static"),))]
    assert (missing.what, missing.before) == (ROUTE, ["from 10.10.0.12"])
    assert [op.argv for op in missing.ops] == [
        ("ip", "-4", "route", "replace", "10.10.0.0/24", "dev", "eth2", "table", "47911", "proto", "static")]


@pytest.mark.parametrize("addresses", [FLAT, FLAT_6])
def test_a_lost_rule_alone_is_named_and_restored(node: "Node", addresses: tuple[str, str]) -> None:
    ready(node, addresses)
    node.routing(family(addresses[0]), {host_part(addresses[0]): 47910}, {})
    change, = node.plan()
    assert change.what == ROUTE
    assert [op.argv[2:4] for op in change.ops] == [("rule", "add")]


def test_without_source_routing_rules_and_tables_go(node: "Node") -> None:
    ready(node).values["network_source_routing"] = "false"
    changes = {change.what: change for change in node.plan()}
    assert set(changes) == {"route of rail0 (eth1)", ROUTE, "file /etc/systemd/network/10-railwright-rail0.network", "file " + NETWORKD}
    assert changes[ROUTE].after is None
    assert [op.argv[2:4] for op in changes[ROUTE].ops] == [("rule", "del"), ("route", "del")]
    assert "Table" not in changes["file " + NETWORKD].after


def test_addresses_managed_elsewhere_are_routed_elsewhere(node: "Node") -> None:
    networkd(node)
    pair(node, FLAT)
    node.values["network_manage_addresses"] = False
    assert not [what for what in node.whats() if what.startswith("route")]


def test_a_rail_that_changes_its_family_leaves_no_rule_behind(node: "Node") -> None:
    ready(node)
    for rail, address in zip(node.values["rails"], FLAT_6, strict=True):
        rail["address"] = address
    ops = [op.argv for change in node.plan() if change.what.startswith(("address", "route")) for op in change.ops]
    for place in range(2):
        table, netdev = str(47910 + place), f"eth{place + 1}"
        assert ops.index(("ip", "-4", "rule", "del", "from", host_part(FLAT[place]), "lookup", table)) < ops.index(
            ("ip", "addr", "del", FLAT[place], "dev", netdev))
        words = ("from", host_part(FLAT_6[place]), "lookup", table, "priority", "4791", "protocol", "static")
        assert ("ip", "-6", "rule", "add", *words) in ops


def test_rules_of_a_rail_that_is_gone_are_taken_away(node: "Node") -> None:
    ready(node).values["rails"].pop()
    changes = {change.what: change for change in node.plan()}
    gone = changes["rules of rails that are gone"]
    assert (gone.before, gone.after, gone.disruption) == (["from 10.10.0.12 lookup 47911"], None, "link")
    assert [(op.argv, op.undo) for op in gone.ops] == [(
        ("ip", "-4", "rule", "del", "from", "10.10.0.12", "lookup", "47911"),
        (("ip", "-4", "rule", "add", "from", "10.10.0.12", "lookup", "47911", "priority", "4791", "protocol", "static"),))]
    assert changes["route of rail0 (eth1)"].after is None, "a single rail needs no table"


@pytest.mark.parametrize(("holder", "disruption"), [("eth0", "management"), ("eth2", "link"), (None, "none")])
def test_a_rule_left_behind_touches_who_has_the_address(node: "Node", holder: str | None, disruption: str) -> None:
    ready(node).values["rails"].pop()
    node.link("eth2", "4", mtu=9000, addresses=[FLAT[1]] if holder == "eth2" else [])
    if holder == "eth0":
        node.link("eth0", "2", mtu=1500, addresses=["192.0.2.5/24", FLAT[1]])
    assert node.change("rules of rails that are gone").disruption == disruption


def test_rules_of_strangers_are_nobodys(node: "Node") -> None:
    ready(node)
    rows: list[dict[str, Any]] = [{"priority": 100, "src": "192.0.2.7", "table": "100"}, {"priority": 4791, "src": "all", "table": "47950"}]
    rows += [{"priority": 4791, "src": host_part(address), "table": str(47910 + place)} for place, address in enumerate(FLAT)]
    node.record(("ip", "-j", "-4", "rule", "show"), json.dumps(rows))
    assert node.plan() == []
