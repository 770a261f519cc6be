# SPDX-License-Identifier: GPL-3.0-or-later
"""The metric of an eRDMA rail's own subnet: live, in the file of every manager, and where another interface would lose the subnet."""

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers import ini
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.types import Nic

if TYPE_CHECKING:
    from conftest import Node

ADDRESS = "172.20.20.146/24"
SUBNET, PART = "172.20.20.0/24", "172.20.20.146"
CHANGE = "route metric of rail0 (eth1)"
NETWORKD = "/etc/systemd/network/10-railwright-rail0.network"
DROP_IN = "/etc/systemd/network/10-netplan-railwright-rail0.network.d/railwright.conf"
NETPLAN = "/etc/netplan/60-railwright.yaml"
KEYFILE = "/etc/NetworkManager/system-connections/railwright-rail0.nmconnection"
STANZA = "/etc/network/interfaces.d/railwright-rail0"
REPLACE = ("ip", "addr", "replace", ADDRESS, "broadcast", "+", "metric")


@pytest.fixture
def erdma(node: "Node") -> "Node":
    node.values.update(fabric="erdma", mtu=1400, erdma_route_metric=200)
    node.rail(address=ADDRESS, mtu=1400)
    return node


def main_table(node: "Node", *rows: tuple[str, str, int]) -> None:
    """Routes of the main table: (subnet, interface, metric)."""
    routes = [{"dst": dst, "dev": dev, "protocol": "kernel", "scope": "link", **({"metric": metric} if metric else {})}
              for dst, dev, metric in rows]
    default = {"dst": "default", "gateway": "172.20.20.253", "dev": "eth0", "protocol": "dhcp", "metric": 100}
    node.record(("ip", "-j", "-4", "route", "show", "table", "main"), json.dumps([default, *routes]))


def live(node: "Node", address: str) -> None:
    node.live(mtu=1400, addresses=[address])
    node.routing("-4", {PART: 47910}, {47910: [{"dst": SUBNET, "dev": "eth1", "protocol": "static", "flags": []}]})


def entries(node: "Node", path: str, section: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in ini.parse(node.change("file " + path).after) if entry.section == section]


def test_a_new_address_comes_with_its_metric_and_a_table_of_its_own(erdma: "Node") -> None:
    erdma.networkd()
    ops = [op.argv for op in erdma.change("address of rail0 (eth1)").ops]
    assert ops == [(*REPLACE, "200", "dev", "eth1")]
    assert CHANGE not in erdma.whats()
    rule = ("ip", "-4", "rule", "add", "from", PART, "lookup", "47910", "priority", "4791", "protocol", "static")
    assert rule in [op.argv for op in erdma.change("route of rail0 (eth1)").ops], "one rail alone has its table too"


@pytest.mark.parametrize(("before", "number"), [("", 0), ("@1024", 1024)])
def test_a_metric_is_changed_in_place_and_the_undo_gives_it_back(erdma: "Node", before: str, number: int) -> None:
    erdma.networkd()
    live(erdma, ADDRESS + before)
    change = erdma.change(CHANGE)
    assert (change.before, change.after, change.disruption) == (number, 200, "link")
    (op,) = change.ops
    assert (op.argv, op.undo) == ((*REPLACE, "200", "dev", "eth1"), ((*REPLACE, str(number), "dev", "eth1"),))


def test_networkmanager_has_the_route_beside_the_address(erdma: "Node") -> None:
    erdma.networkmanager()
    live(erdma, "~" + ADDRESS)
    main_table(erdma, (SUBNET, "eth1", 101), (SUBNET, "eth0", 100))
    change = erdma.change(CHANGE)
    route = (SUBNET, "dev", "eth1", "proto", "kernel", "scope", "link", "src", PART, "metric")
    add, take = ("ip", "-4", "route", "replace", *route), ("ip", "-4", "route", "del", *route)
    assert [(op.argv, op.undo) for op in change.ops] == [
        ((*add, "200"), ((*take, "200"),)), ((*take, "101"), ((*add, "101"),))]
    assert (change.before, change.after) == (101, 200)
    main_table(erdma, (SUBNET, "eth1", 200), (SUBNET, "eth0", 100))
    assert CHANGE not in erdma.whats()


@pytest.mark.parametrize("setup", ["networkd", "ifupdown", "networkmanager", "netplan"])
def test_from_nothing_to_nothing_left(erdma: "Node", setup: str) -> None:
    if setup == "netplan":
        erdma.networkd()
    getattr(erdma, setup)()
    main_table(erdma, (SUBNET, "eth0", 100))
    erdma.carry_out(erdma.plan())
    live(erdma, ADDRESS + "@200")
    main_table(erdma, (SUBNET, "eth0", 100), (SUBNET, "eth1", 200))
    assert erdma.whats() == []
    assert erdma.conflicts() == []


def test_networkd(erdma: "Node") -> None:
    erdma.networkd()
    assert entries(erdma, NETWORKD, "Address") == [("Address", ADDRESS), ("RouteMetric", "200")]
    assert "Address" not in dict(entries(erdma, NETWORKD, "Network"))


def test_netplan_with_networkd_has_a_drop_in_that_goes_with_the_metric(erdma: "Node") -> None:
    erdma.networkd()
    erdma.netplan()
    assert entries(erdma, DROP_IN, "Address") == [("Address", ADDRESS), ("RouteMetric", "200")]
    assert yaml.safe_load(erdma.change("file " + NETPLAN).after)["network"]["ethernets"]["railwright-rail0"]["addresses"] == [ADDRESS]
    erdma.carry_out(erdma.plan())
    erdma.values["erdma_route_metric"] = 0
    change = erdma.change("file " + DROP_IN)
    assert change.after is None
    assert ("networkctl", "reload") in [op.argv for op in change.ops]


def test_netplan_with_networkmanager_passes_it_through(erdma: "Node") -> None:
    erdma.netplan()
    erdma.networkmanager()
    rail = yaml.safe_load(erdma.change("file " + NETPLAN).after)["network"]["ethernets"]["railwright-rail0"]
    assert rail["networkmanager"]["passthrough"] == {
        "ipv4.routing-rule1": f"priority 4791 from {PART} table 47910", "ipv4.route-metric": "200"}
    assert "file " + DROP_IN not in erdma.whats()


def test_networkmanager(erdma: "Node") -> None:
    erdma.networkmanager()
    assert ("route-metric", "200") in entries(erdma, KEYFILE, "ipv4")
    assert "route-metric" not in dict(entries(erdma, KEYFILE, "ipv6"))


def test_ifupdown(erdma: "Node") -> None:
    erdma.ifupdown()
    lines = [line.strip() for line in erdma.change("file " + STANZA).after.splitlines()]
    assert f"up ip addr replace {ADDRESS} broadcast + metric 200 dev eth1" in lines
    assert not any(line.startswith("metric") for line in lines), "that would be the default route's"


@pytest.mark.parametrize(("metric", "refused"), [(0, False), (199, False), (200, True), (1024, True)])
def test_an_interface_that_would_lose_its_subnet_refuses_the_plan(erdma: "Node", metric: int, refused: bool) -> None:
    erdma.networkd()
    main_table(erdma, (SUBNET, "eth0", metric), ("10.0.0.0/8", "eth0", 5000))
    messages = [problem.message for problem in erdma.conflicts()]
    assert len(messages) == refused
    for message in messages:
        assert f"eth0 has its route to {SUBNET} with metric {metric}" in message
        assert f"set erdma_route_metric above {metric}" in message


def test_two_rails_in_one_subnet_do_not_fight(erdma: "Node") -> None:
    erdma.networkd()
    erdma.second_rail("172.20.20.147/24")
    main_table(erdma, (SUBNET, "eth1", 200), (SUBNET, "eth2", 200))
    assert erdma.conflicts() == []


def test_an_old_networkd_is_refused_with_both_ways_out(erdma: "Node") -> None:
    erdma.networkd()
    erdma.write("/cmd/" + recording_name(("networkctl", "--version")), "systemd 245 (245.4-4ubuntu3)\n")
    (problem,) = erdma.conflicts()
    assert "erdma_route_metric: 0" in problem.message
    assert "network_manage_addresses: false" in problem.message


def unranked(erdma: "Node", values: dict[str, Any]) -> None:
    """No metric, and everything as it is without eRDMA."""
    erdma.values.update(values)
    erdma.networkd()
    assert [op.argv for op in erdma.change("address of rail0 (eth1)").ops] == [
        ("ip", "addr", "replace", ADDRESS, "broadcast", "+", "dev", "eth1")]
    assert entries(erdma, NETWORKD, "Address") == []
    assert dict(entries(erdma, NETWORKD, "Network"))["Address"] == ADDRESS


@pytest.mark.parametrize("values", [
    {"erdma_route_metric": 0}, {"network_source_routing": "false"}, {"fabric": "roce"}], ids=["zero", "no-table", "roce"])
def test_where_there_is_no_metric(erdma: "Node", values: dict[str, Any]) -> None:
    unranked(erdma, values)


def test_the_interface_that_the_controller_comes_in_by_is_left_alone(erdma: "Node") -> None:
    erdma.nics[1] = Nic("eth1", erdma.nics[1].mac, "0000:1a:00.0", "virtio_net", "ethernet", management=True)
    unranked(erdma, {})
    assert "route of rail0 (eth1)" not in erdma.whats()
