# SPDX-License-Identifier: GPL-3.0-or-later
"""What each manager's file says, that a plan of our own result is empty, and what fights it."""

from typing import TYPE_CHECKING

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers.ifupdown import text as ifupdown_text
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.model import DesiredInterface

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Node

NETWORKD = "/etc/systemd/network/10-railwright-rail0.network"
KEYFILE = "/etc/NetworkManager/system-connections/railwright-rail0.nmconnection"
STANZA = "/etc/network/interfaces.d/railwright-rail0"
NETPLAN = "/etc/netplan/60-railwright.yaml"


def networkd(node: "Node") -> None:
    node.networkd()


def ifupdown(node: "Node") -> None:
    node.ifupdown()


def networkmanager(node: "Node") -> None:
    node.networkmanager()


def netplan(node: "Node") -> None:
    node.networkd()
    node.netplan()


EVERY = [(networkd, NETWORKD, 0o644), (ifupdown, STANZA, 0o644), (networkmanager, KEYFILE, 0o600), (netplan, NETPLAN, 0o600)]


@pytest.mark.parametrize(("setup", "path", "mode"), EVERY)
def test_from_nothing_to_nothing_left(node: "Node", setup: "Callable[[Node], None]", path: str, mode: int) -> None:
    setup(node)
    changes = node.plan()
    assert [change.what for change in changes] == [
        "MTU of rail0 (eth1)", "link of rail0 (eth1)", "address of rail0 (eth1)", f"file {path}"]
    assert {change.disruption for change in changes} == {"none"}, "a rail that carries nothing needs no consent"
    assert changes[0][2:4] == (1500, 9000)
    assert changes[2][2:4] == (None, "10.10.0.11/24")
    node.carry_out(changes)
    node.live()
    assert node.plan() == []
    assert (node.root / path.lstrip("/")).stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(("setup", "path", "mode"), EVERY)
def test_each_half_drifts_alone(node: "Node", setup: "Callable[[Node], None]", path: str, mode: int) -> None:
    setup(node)
    node.carry_out(node.plan())
    node.live(mtu=1500)
    assert node.whats() == ["MTU of rail0 (eth1)"]
    assert node.change("MTU of rail0 (eth1)").disruption == "link"
    node.live()
    file = node.root / path.lstrip("/")
    file.write_text(file.read_text().replace("9000", "1500"))
    assert node.whats() == [f"file {path}"]
    node.carry_out(node.plan())
    file.chmod(0o666)
    assert node.change(f"file {path}").before == {"mode": "0666"}
    assert node.change(f"file {path}").after == {"mode": f"0{mode:o}"}


@pytest.mark.parametrize(("setup", "path", "mode"), EVERY)
def test_gateway_gets_a_table_of_its_own(node: "Node", setup: "Callable[[Node], None]", path: str, mode: int) -> None:
    setup(node)
    node.rail(gateway="10.10.0.1")
    change = node.change("route of rail0 (eth1)")
    assert change.after == ["10.10.0.0/24", "default via 10.10.0.1", "from 10.10.0.11"]
    rule = ("ip", "-4", "rule", "add", "from", "10.10.0.11", "lookup", "47910", "priority", "4791", "protocol", "static")
    assert rule in [op.argv for op in change.ops]
    content = next(op.content for op in node.change(f"file {path}").ops if op.kind == "write")
    assert "10.10.0.1" in content
    assert "47910" in content


def test_networkd_file(node: "Node") -> None:
    node.networkd()
    lines = node.change(f"file {NETWORKD}").after.splitlines()
    assert lines[0].startswith("# Managed by railwright")
    assert {"MACAddress=02:00:00:00:01:01", "Type=ether", "MTUBytes=9000", "Address=10.10.0.11/24"} <= set(lines)
    assert "ConfigureWithoutCarrier=yes" in lines, "the address must not come and go with the cable"


def test_virtual_interface_is_matched_by_its_name(node: "Node") -> None:
    node.networkd()
    node.nics[1] = node.nics[1]._replace(name="bond0", kind="virtual")
    node.link("bond0", "3", mtu=1500)
    lines = node.change(f"file {NETWORKD}").after.splitlines()
    assert "Name=bond0" in lines
    assert not any(line.startswith("MACAddress=") for line in lines), "its members have the same MAC"


def test_networkmanager_profile_is_activated_only_with_a_carrier(node: "Node") -> None:
    node.networkmanager()
    ops = node.change(f"file {KEYFILE}").ops
    assert [op.argv for op in ops[1:]] == [("nmcli", "connection", "reload")], "NetworkManager refuses without a carrier"
    node.link("eth1", "3", mtu=1500)
    ops = node.change(f"file {KEYFILE}").ops
    assert ops[-1].argv[:3] == ("nmcli", "connection", "up")
    assert ops[-1].argv[-2:] == ("ifname", "eth1")


def test_networkmanager_rollback_brings_the_earlier_profile_back(node: "Node") -> None:
    node.networkmanager()
    node.write("/run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=1234\n")
    node.write("/etc/NetworkManager/system-connections/site.nmconnection",
               "[connection]\ntype=ethernet\nuuid=1234\nautoconnect=true\n", 0o600)
    node.link("eth1", "3", mtu=1500)
    assert node.conflicts() == [], "a catch-all profile of lower priority loses against ours"
    assert node.change(f"file {KEYFILE}").ops[-1].undo == (("nmcli", "connection", "up", "uuid", "1234", "ifname", "eth1"),)


def test_netplan_is_generated_and_never_applied(node: "Node") -> None:
    netplan(node)
    argvs = [op.argv for op in node.change(f"file {NETPLAN}").ops if op.kind == "run"]
    assert argvs == [("netplan", "generate"), ("networkctl", "reload")]


def test_netplan_follows_the_renderer_that_runs(node: "Node") -> None:
    node.netplan()
    node.networkmanager()
    assert "renderer: NetworkManager" in node.change(f"file {NETPLAN}").after


def test_ifupdown_source_line_is_added_and_the_rest_is_kept(node: "Node") -> None:
    node.ifupdown("auto lo\niface lo inet loopback\n")
    change = node.change("source line in /etc/network/interfaces")
    assert change.ops[0].content == "auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n"
    node.carry_out(node.plan())
    assert "source line in /etc/network/interfaces" not in node.whats()


def test_ifupdown_brings_a_rail_without_an_address_up() -> None:
    """`static` brings the link up itself, `manual` does not."""
    bare = DesiredInterface("rail0", 0, "eth1", "rail0 (eth1)", "02:00:00:00:01:01", "ethernet", None, False, 9000, None, None, None)
    up = "    up ip link set dev eth1 up"
    assert [line for line in ifupdown_text(bare).splitlines() if line.startswith(("iface", up))] == ["iface eth1 inet manual", up]
    assert up not in ifupdown_text(bare._replace(address="10.10.0.11/24"))


def test_source_directory_counts_as_sourced(node: "Node") -> None:
    node.ifupdown("source-directory interfaces.d\n")
    assert "source line in /etc/network/interfaces" not in node.whats()


def foreign_network(node: "Node") -> None:
    networkd(node)
    node.write("/etc/systemd/network/05-site.network", "[Match]\nName=eth*\n[Network]\nDHCP=yes\n")


def foreign_stanza(node: "Node") -> None:
    node.ifupdown("source /etc/network/interfaces.d/*\nauto eth1\niface eth1 inet dhcp\n")


def foreign_sourced_stanza(node: "Node") -> None:
    ifupdown(node)
    node.write("/etc/network/interfaces.d/site", "iface eth1 inet manual\n")


def foreign_profile(node: "Node") -> None:
    networkmanager(node)
    node.write("/etc/NetworkManager/system-connections/site.nmconnection",
               "[connection]\nid=site\nuuid=1\ntype=ethernet\ninterface-name=eth1\n[wifi-security]\npsk=hunter2\n", 0o600)


def foreign_ifcfg(node: "Node") -> None:
    networkmanager(node)
    node.write("/etc/sysconfig/network-scripts/ifcfg-eth1", 'DEVICE="eth1"\nONBOOT=yes\nBOOTPROTO=dhcp\n')


def foreign_netplan(node: "Node") -> None:
    netplan(node)
    node.write("/etc/netplan/50-cloud-init.yaml", "network:\n  version: 2\n  ethernets:\n    rdma:\n      match: {macaddress: x}\n")
    node.write("/run/systemd/network/10-netplan-rdma.network", "[Match]\nPermanentMACAddress=02:00:00:00:01:01\n[Network]\nDHCP=yes\n")


FOREIGN = [
    (foreign_network, "/etc/systemd/network/05-site.network"), (foreign_stanza, "/etc/network/interfaces"),
    (foreign_sourced_stanza, "/etc/network/interfaces.d/site"), (foreign_netplan, "/etc/netplan/50-cloud-init.yaml"),
    (foreign_profile, "/etc/NetworkManager/system-connections/site.nmconnection"),
    (foreign_ifcfg, "/etc/sysconfig/network-scripts/ifcfg-eth1"),
]


@pytest.mark.parametrize(("setup", "path"), FOREIGN)
def test_foreign_configuration_is_a_problem_that_names_its_file(node: "Node", setup: "Callable[[Node], None]", path: str) -> None:
    setup(node)
    found = node.conflicts()
    assert [problem.subject for problem in found] == ["rail0 (eth1)"]
    assert path in found[0].message
    assert not any(op.path == path for change in node.plan() for op in change.ops), "a foreign file is never written"
    assert "hunter2" not in repr((found, node.plan()))


HARMLESS = [
    ("/etc/systemd/network/20-wired.network", "[Match]\nName=e*\n"),  # sorts after ours
    ("/etc/systemd/network/05-other.network", "[Match]\nName=eth0\n"),
    ("/etc/systemd/network/05-not.network", "[Match]\nName=!eth*\n"),
    ("/etc/systemd/network/05-mac.network", "[Match]\nMACAddress=02:00:00:00:00:99 02:00:00:00:00:98\n"),
    ("/etc/systemd/network/05-vlan.network", "[Match]\nType=vlan\n"),
    ("/etc/systemd/network/05-notes.conf", "[Match]\nName=eth1\n"),
]


@pytest.mark.parametrize(("path", "content"), HARMLESS)
def test_other_networkd_files_are_left_in_peace(node: "Node", path: str, content: str) -> None:
    node.networkd()
    node.write(path, content)
    assert node.conflicts() == []


def test_file_in_etc_hides_the_vendor_file_of_the_same_name(node: "Node") -> None:
    node.networkd()
    node.write("/usr/lib/systemd/network/05-all.network", "[Match]\nName=*\n")
    assert len(node.conflicts()) == 1
    node.write("/etc/systemd/network/05-all.network", "")
    assert node.conflicts() == []


def test_networkd_file_of_somebody_else_beats_what_netplan_generates(node: "Node") -> None:
    netplan(node)
    node.write("/etc/systemd/network/05-site.network", "[Match]\nName=eth1\n")
    assert "/etc/systemd/network/05-site.network" in node.conflicts()[0].message


def test_netplan_passes_the_rule_through_to_networkmanager(node: "Node") -> None:
    """netplan 0.106 leaves routing-policy out of the keyfiles that it generates."""
    node.netplan()
    node.networkmanager()
    node.rail(gateway="10.10.0.1")
    content = node.change(f"file {NETPLAN}").after
    assert 'ipv4.routing-rule1: "priority 4791 from 10.10.0.11 table 47910"' in content
    assert "routing-policy" not in content
