# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns an interface, what happens when nobody or two do, and what starting a manager may take over."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Node

NETWORKD_FILE = "file /etc/systemd/network/10-railwright-rail0.network"
STANZA = "file /etc/network/interfaces.d/railwright-rail0"
KEYFILE = "file /etc/NetworkManager/system-connections/railwright-rail0.nmconnection"
NETPLAN = "file /etc/netplan/60-railwright.yaml"


def files(node: "Node") -> list[str]:
    return [what for what in node.whats() if what.startswith("file ")]


def test_debian_default_is_ifupdown_though_networkd_is_installed(node: "Node") -> None:
    node.ifupdown()
    node.networkd("inactive", "disabled")
    assert files(node) == [STANZA]


def test_enabled_networkd_comes_before_idle_ifupdown(node: "Node") -> None:
    node.ifupdown()
    node.networkd()
    assert files(node) == [NETWORKD_FILE]


def test_what_networkd_already_configures_stays_with_it(node: "Node") -> None:
    node.networkd()
    node.netplan()
    node.write("/run/systemd/netif/links/3", "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/50-site.network\n")
    assert files(node) == [NETWORKD_FILE]


def test_what_netplan_generated_is_netplans(node: "Node") -> None:
    node.networkd()
    node.netplan()
    node.write("/run/systemd/netif/links/3", "NETWORK_FILE=/run/systemd/network/10-netplan-railwright-rail0.network\n")
    assert files(node) == [NETPLAN]


def test_state_of_a_stopped_networkd_says_nothing(node: "Node") -> None:
    node.networkd("inactive", "disabled")
    node.networkmanager()
    node.write("/run/systemd/netif/links/3", "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/50-site.network\n")
    assert files(node) == [KEYFILE]


def test_networkmanager_that_only_mirrors_does_not_fight(node: "Node") -> None:
    node.networkd()
    node.networkmanager()
    node.write("/run/systemd/netif/links/3", "NETWORK_FILE=/etc/systemd/network/10-railwright-rail0.network\n")
    node.write("/run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=77\n")
    mirror = "[connection]\nuuid=77\ntype=ethernet\ninterface-name=eth1\n[.nmmeta]\nnm-generated=true\nexternal=true\n"
    node.write("/run/NetworkManager/system-connections/eth1.nmconnection", mirror)
    assert node.conflicts() == []
    assert files(node) == [NETWORKD_FILE]
    node.write("/run/NetworkManager/system-connections/eth1.nmconnection", mirror.replace("external=true\n", ""))
    assert "NetworkManager manages it" in node.conflicts()[0].message


def test_unmanaged_by_networkmanager_goes_to_networkd(node: "Node") -> None:
    node.networkmanager(managed=False)
    node.networkd("inactive", "disabled")
    assert NETWORKD_FILE in files(node)
    assert node.conflicts() == []


def test_nothing_there_is_a_problem(node: "Node") -> None:
    assert files(node) == []
    assert "nothing on this node can configure eth1" in node.conflicts()[0].message


def test_masked_networkd_is_not_unmasked(node: "Node") -> None:
    node.networkd("inactive", "masked")
    node.units["systemd-networkd.service"] = ("masked", "inactive", "masked")
    assert "nothing on this node can configure eth1" in node.conflicts()[0].message
    node.values["network_backend"] = "networkd"
    assert "systemd-networkd.service is masked" in node.conflicts()[0].message


@pytest.mark.parametrize(("backend", "words"), [
    ("networkmanager", "NetworkManager.service is not running"), ("ifupdown", "ifupdown is not installed"),
    ("netplan", "netplan is not installed"),
])
def test_chosen_backend_that_is_not_there(node: "Node", backend: str, words: str) -> None:
    node.networkd()
    node.values["network_backend"] = backend
    assert words in node.conflicts()[0].message
    assert files(node) == []


def test_chosen_backend_against_another_owner_is_a_fight(node: "Node") -> None:
    node.networkd()
    node.ifupdown("iface eth1 inet dhcp\n")
    node.values["network_backend"] = "networkd"
    assert "/etc/network/interfaces has a stanza for it" in node.conflicts()[0].message


def test_dormant_networkd_is_enabled_and_started_after_its_files(node: "Node") -> None:
    node.networkd("inactive", "disabled")
    changes = node.plan()
    assert [change.what for change in changes][3:] == [
        "unit systemd-networkd.service enabled", NETWORKD_FILE, "unit systemd-networkd.service running"]
    undo = node.change("unit systemd-networkd.service running").ops[0].undo
    assert undo == (("systemctl", "stop", "systemd-networkd.socket", "systemd-networkd.service"),), "the socket would start it again"
    assert changes[-1].disruption == "none"
    enable = node.change("unit systemd-networkd.service enabled").ops
    assert enable[1].argv == ("systemctl", "disable", "systemd-networkd-wait-online.service"), "it would hold up every boot"
    assert [op.argv for op in node.change(NETWORKD_FILE).ops if op.kind == "run"] == [], "nobody is there to reload"


@pytest.mark.parametrize(("match", "disruption"), [("Name=eth0", "management"), ("Name=eth2", "link"), ("Name=eth9", "none")])
def test_starting_networkd_tells_what_it_would_take_over(node: "Node", match: str, disruption: str) -> None:
    node.networkd("inactive", "disabled")
    node.nics.append(node.nics[1]._replace(name="eth2", mac="02:00:00:00:01:02"))
    node.write("/etc/systemd/network/20-dormant.network", f"[Match]\n{match}\n[Network]\nDHCP=yes\n")
    assert node.change("unit systemd-networkd.service running").disruption == disruption


def test_old_networkd_is_not_asked_to_reload(node: "Node") -> None:
    node.networkd()
    node.record(("networkctl", "--version"), "systemd 239 (239-82.el8)\n")
    assert [op.kind for op in node.change(NETWORKD_FILE).ops] == ["write"]


def test_change_of_backend_takes_the_old_file_away(node: "Node") -> None:
    node.ifupdown()
    node.carry_out(node.plan())
    node.live()
    node.networkd()
    assert files(node) == [], "the stanza still claims the interface"
    node.values["network_backend"] = "networkd"
    assert files(node) == ["file /etc/network/interfaces.d/railwright-rail0", NETWORKD_FILE]
    assert node.change(STANZA).after is None
    node.carry_out(node.plan())
    assert node.conflicts() == []
    assert node.plan() == []
