# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rail's change says: consent, addresses that are ours, other MACs, and rails that are gone."""

from typing import TYPE_CHECKING

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import network
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca

if TYPE_CHECKING:
    from conftest import Node

FILE = "file /etc/systemd/network/10-railwright-rail0.network"
UDEV = "file /etc/udev/rules.d/70-railwright-rail0.rules"


@pytest.fixture
def ready(node: "Node") -> "Node":
    """A node that is as it should be, under networkd."""
    node.networkd()
    node.carry_out(node.plan())
    node.live()
    assert node.plan() == []
    return node


def test_rail_on_the_management_interface_needs_that_consent(ready: "Node") -> None:
    ready.nics = [ready.nics[1]._replace(management=True)]
    ready.live(mtu=1500)
    assert [(change.what, change.disruption) for change in ready.plan()] == [("MTU of rail0 (eth1)", "management")]


def test_every_change_of_a_rail_that_carries_traffic_needs_consent(ready: "Node") -> None:
    ready.rail(address="10.10.0.12/24", gateway="10.10.0.1", mtu=4200)
    assert {change.what: change.disruption for change in ready.plan()} == dict.fromkeys(
        ["MTU of rail0 (eth1)", "address of rail0 (eth1)", "route of rail0 (eth1)", FILE], "link")


def test_only_the_address_that_was_ours_is_taken_off(ready: "Node") -> None:
    ready.live(addresses=["10.10.0.11/24", "192.0.2.99/32"])
    assert ready.plan() == []
    ready.rail(address="10.10.0.12/24")
    change = ready.change("address of rail0 (eth1)")
    assert (change.before, change.after) == ("10.10.0.11/24, 192.0.2.99/32", "10.10.0.12/24, 192.0.2.99/32")
    assert [op.argv for op in change.ops] == [
        ("ip", "addr", "del", "10.10.0.11/24", "dev", "eth1"),  # first: the kernel takes later ones of its subnet off with it
        ("ip", "addr", "replace", "10.10.0.12/24", "broadcast", "+", "dev", "eth1")]
    assert [op.undo for op in change.ops] == [
        (("ip", "addr", "replace", "10.10.0.11/24", "broadcast", "+", "dev", "eth1"),),
        (("ip", "addr", "flush", "dev", "eth1", "to", "10.10.0.12"),)]


def test_an_undo_gives_the_address_the_metric_that_dhcp_gave_it(ready: "Node") -> None:
    ready.live(addresses=["10.10.0.11/24@1024"])
    assert ready.plan() == []
    ready.rail(address="10.10.0.12/24")
    assert ready.change("address of rail0 (eth1)").ops[0].undo == (
        ("ip", "addr", "replace", "10.10.0.11/24", "broadcast", "+", "metric", "1024", "dev", "eth1"),)


def test_same_address_with_another_prefix_is_not_flushed_by_the_undo(ready: "Node") -> None:
    ready.live(addresses=["10.10.0.11/16"])
    op, = ready.change("address of rail0 (eth1)").ops
    assert op.undo == (("ip", "addr", "del", "10.10.0.11/24", "dev", "eth1"),)


def test_address_taken_out_of_the_inventory_is_taken_off(ready: "Node") -> None:
    ready.rail(address=None)
    change = ready.change("address of rail0 (eth1)")
    assert (change.before, change.after) == ("10.10.0.11/24", None)


def test_link_local_addresses_are_nobodys(ready: "Node") -> None:
    ready.live(addresses=["10.10.0.11/24", "fe80::1/64"])
    assert ready.plan() == []


def test_address_is_compared_as_an_address_not_as_text(ready: "Node") -> None:
    ready.rail(address="fd00:0:0:0::B/64")
    ready.live(addresses=["fd00::b/64", "10.10.0.11/24"])
    assert [op.argv[:3] for op in ready.change("address of rail0 (eth1)").ops] == [("ip", "addr", "del")]


def test_replaced_card_gets_the_settings_and_its_mac_into_the_file(ready: "Node") -> None:
    new = "02:00:00:00:01:77"
    ready.nics[1] = ready.nics[1]._replace(mac=new)
    ready.rail(match="pci", value="0000:1a:00.0")
    assert ready.whats() == [FILE]
    assert f"MACAddress={new}" in ready.change(FILE).after


def test_renamed_interface_keeps_its_file(ready: "Node") -> None:
    ready.nics[1] = ready.nics[1]._replace(name="enp26s0")
    ready.link("enp26s0", "3", mtu=9000, addresses=["10.10.0.11/24"])
    assert ready.plan() == []


def test_rail_that_left_the_inventory_loses_its_file_but_not_its_address(ready: "Node") -> None:
    ready.values["rails"] = []
    change, = ready.plan()
    assert (change.what, change.after, change.disruption) == (FILE, None, "link")
    assert [op.argv for op in change.ops[1:]] == [("networkctl", "reload")]


@pytest.mark.parametrize("named", ["Name=eth1", "MACAddress=02:00:00:00:01:01"])
def test_a_removed_rail_stays_management_if_the_controller_uses_it(ready: "Node", named: str) -> None:
    """Its file goes and the manager is told: that may take off the very address that the controller talks to."""
    ready.nics[1] = ready.nics[1]._replace(management=True)
    text = (ready.root / FILE.removeprefix("file /")).read_text()
    ready.write(FILE.removeprefix("file "), text.replace("MACAddress=02:00:00:00:01:01", named))
    ready.values["rails"] = []
    change, = ready.plan()
    assert (change.what, change.after, change.disruption) == (FILE, None, "management")


def test_stranger_with_our_kind_of_name_is_not_removed(ready: "Node") -> None:
    ready.write("/etc/systemd/network/90-railwright-notes.network", "[Match]\nName=eth7\n")
    assert ready.plan() == []


def test_removed_gateway_takes_rule_and_routes_away(ready: "Node") -> None:
    ready.record(("ip", "-j", "-4", "rule", "show"), '[{"priority":4791,"src":"10.10.0.11","table":"47910"}]')
    ready.record(("ip", "-j", "-4", "route", "show", "table", "47910"),
                 '[{"dst":"default","gateway":"10.10.0.1","dev":"eth1"},{"dst":"10.10.0.0/24","dev":"eth1","scope":"link"}]')
    change = ready.change("route of rail0 (eth1)")
    assert change.after is None
    assert [op.argv[2:4] for op in change.ops] == [("rule", "del"), ("route", "del"), ("route", "del")]
    rule = ("ip", "-4", "rule", "add", "from", "10.10.0.11", "lookup", "47910", "priority", "4791", "protocol", "static")
    assert change.ops[0].undo == (rule,)
    ready.rail(gateway="10.10.0.1")
    assert "route of rail0 (eth1)" not in ready.whats()


def test_mtu_beyond_the_driver_is_a_problem(ready: "Node") -> None:
    ready.max_mtu = 1500
    assert "MTU 9000 is above 1500" in ready.conflicts()[0].message


def test_addresses_managed_elsewhere(node: "Node") -> None:
    node.ifupdown("auto eth1\niface eth1 inet dhcp\n")
    node.values["network_manage_addresses"] = False
    node.live(mtu=1500, addresses=["10.20.0.7/24"])
    assert node.conflicts() == [], "who configures it is not our business then"
    assert node.whats() == ["MTU of rail0 (eth1)", UDEV]
    rule = node.change(UDEV).after.splitlines()[1]
    assert rule == ('SUBSYSTEM=="net", ACTION=="add", ATTR{type}=="1", ENV{DEVTYPE}!="?*", ATTR{address}=="02:00:00:00:01:01", '
                    'ATTR{mtu}="9000"')
    node.carry_out(node.plan())
    node.live(addresses=["10.20.0.7/24"])
    assert node.plan() == []


def test_infiniband_rail_without_address_has_no_interface_to_manage(node: "Node") -> None:
    node.values["fabric"] = "infiniband"
    node.networkd()
    node.rail(address=None)
    assert node.plan() == []


def test_device_without_interface_is_a_problem_on_ethernet_only(node: "Node") -> None:
    node.nics.pop()
    node.hcas = [Hca("mlx5_0", "b8ce:f603:00ab:cdef", "0000:1a:00.0", "mlx5_core", (), (1,), ("b8ce:f603:00ab:cdef",), None)]
    node.rail(match="pci", value="0000:1a:00.0")
    problem, = network.problems(node.spec(), node.identity(), network.desired(node.spec(), node.identity()))
    assert "no network interface" in problem.message
    node.values["fabric"] = "infiniband"
    assert network.problems(node.spec(), node.identity(), network.desired(node.spec(), node.identity())) == []


def test_address_without_broadcast_is_put_there_anew(ready: "Node") -> None:
    """networkd 252 hangs on such an address, which is what ``ip addr add`` by hand makes."""
    ready.live(addresses=["10.10.0.11/24!"])
    change, = ready.plan()
    assert (change.what, change.disruption) == ("broadcast address of rail0 (eth1)", "link")
    assert [op.argv for op in change.ops] == [
        ("ip", "addr", "del", "10.10.0.11/24", "dev", "eth1"),
        ("ip", "addr", "replace", "10.10.0.11/24", "broadcast", "+", "dev", "eth1")]
    ready.rail(address="10.10.0.11/31")
    ready.live(addresses=["10.10.0.11/31!"])
    assert ready.whats() == [FILE], "a /31 has no broadcast address"


def test_routes_that_stay_are_restored_after_an_address_change(ready: "Node") -> None:
    """The kernel drops every route of an interface with its last address."""
    ready.record(("ip", "-j", "-4", "rule", "show"), '[{"priority":4791,"src":"10.10.0.11","table":"47910"}]')
    ready.record(("ip", "-j", "-4", "route", "show", "table", "47910"),
                 '[{"dst":"default","gateway":"10.10.0.1","dev":"eth1"},{"dst":"10.10.0.0/24","dev":"eth1","scope":"link"}]')
    ready.rail(address="10.10.0.12/24", gateway="10.10.0.1")
    ops = ready.change("address of rail0 (eth1)").ops
    assert [op.argv[1:5] for op in ops] == [
        ("-4", "rule", "del", "from"), ("addr", "del", "10.10.0.11/24", "dev"), ("addr", "replace", "10.10.0.12/24", "broadcast"),
        ("-4", "route", "replace", "10.10.0.0/24"), ("-4", "route", "replace", "default")]
    assert [argv[3:5] for argv in ops[1].undo[1:]] == [("replace", "10.10.0.0/24"), ("replace", "default")], "and in the undo"
    assert [op.argv[2:5] for op in ready.change("route of rail0 (eth1)").ops] == [("rule", "add", "from")]
