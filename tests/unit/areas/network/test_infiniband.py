# SPDX-License-Identifier: GPL-3.0-or-later
"""IPoIB modes and MTUs, and the subnet manager."""

from typing import TYPE_CHECKING, Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import ipoib, network
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers import netplan, networkd, nm
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import opensm
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca, Nic
from inspections import bare_inspection

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.types import Change
    from conftest import Node

GUID = "b8ce:f603:00ab:cdef"
MAC = "00:00:10:49:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:ab:cd:ef"
IPOIB = Nic("ib0", MAC, "0000:1a:00.0", "mlx5_core", "infiniband", management=False)
NETWORKD_FILE = "file /etc/systemd/network/10-railwright-rail0.network"


@pytest.fixture
def fabric(node: "Node") -> "Node":
    """A node with one InfiniBand rail whose interface is up in datagram mode."""
    node.values.update(fabric="infiniband", mtu=65520, network_ipoib_mode="connected")
    node.rail(match="guid", value=GUID, mtu=65520)
    node.nics[1] = IPOIB
    node.hcas = [Hca("mlx5_0", GUID, "0000:1a:00.0", "mlx5_core", ("ib0",), (1,), (GUID,), "InfiniBand")]
    node.link("ib0", "3", mtu=2044, mode="datagram")
    return node


def plan(node: "Node") -> "list[Change]":
    desired = ipoib.desired(node.spec(), node.identity())
    return ipoib.plan(desired, ipoib.observe(node.host(), desired))


def problems(node: "Node") -> list[str]:
    return [item.message for item in ipoib.problems(node.spec(), node.identity(), ipoib.desired(node.spec(), node.identity()))]


def test_mode_comes_before_the_mtu_that_it_bounds(fabric: "Node") -> None:
    mode, mtu = plan(fabric)
    assert (mode.what, mode.before, mode.after, mode.disruption) == ("mode of rail0 (ib0)", "datagram", "connected", "link")
    assert mode.ops[0][:3] == ("value", "/sys/class/net/ib0/mode", "connected")
    assert (mtu.what, mtu.before, mtu.after) == ("MTU of rail0 (ib0)", 2044, 65520)
    fabric.link("ib0", "3", mtu=65520, mode="connected")
    assert plan(fabric) == []


def test_mtu_is_set_again_after_a_mode_change_that_resets_it(fabric: "Node") -> None:
    fabric.values["network_ipoib_mode"] = "datagram"
    fabric.rail(match="guid", value=GUID, mtu=2044)
    fabric.link("ib0", "3", mtu=2044, mode="connected")
    change, = plan(fabric)
    assert change.what == "mode of rail0 (ib0)"
    assert change.ops[1].argv == ("ip", "link", "set", "dev", "ib0", "mtu", "2044")


def test_network_area_leaves_the_live_mtu_to_the_mode(fabric: "Node") -> None:
    fabric.networkd()
    assert "MTU of rail0 (ib0)" not in fabric.whats()
    lines = fabric.change(NETWORKD_FILE).after.splitlines()
    assert {"Path=pci-0000:1a:00.0", "Type=infiniband", "MTUBytes=65520", "[IPoIB]", "Mode=connected"} <= set(lines)


def test_two_ports_of_one_function_are_matched_by_name(fabric: "Node") -> None:
    fabric.networkd()
    fabric.nics.append(IPOIB._replace(name="ib1"))
    assert "Name=ib0" in fabric.change(NETWORKD_FILE).after.splitlines()


def test_other_backends_carry_mode_and_mtu_too(fabric: "Node") -> None:
    rail, = network.desired(fabric.spec(), fabric.identity()).rails
    assert "transport-mode=connected" in nm.text(rail)
    assert f"[infiniband]\nmac-address={MAC.upper()}\nmtu=65520" in nm.text(rail)
    assert "infiniband-mode: connected" in netplan.text((rail,), "networkd")
    assert networkd.match_lines(rail) == ["Path=pci-0000:1a:00.0", "Type=infiniband"]


@pytest.mark.parametrize(("mode", "mtu", "fits"), [
    ("datagram", 4092, True), ("datagram", 4093, False), ("connected", 65520, True), ("connected", 65521, False)])
def test_mtu_bound_by_mode(fabric: "Node", mode: str, mtu: int, *, fits: bool) -> None:
    fabric.values["network_ipoib_mode"] = mode
    fabric.rail(match="guid", value=GUID, mtu=mtu)
    assert (problems(fabric) == []) is fits


def test_port_without_interface_gets_one(fabric: "Node") -> None:
    fabric.nics.pop()
    fabric.hcas[0] = fabric.hcas[0]._replace(netdevs=())
    change, = plan(fabric)
    assert (change.what, change.before, change.after) == ("IPoIB interface of rail0 (mlx5_0)", None, "present")
    assert change.ops[0].argv == ("modprobe", "ib_ipoib")
    fabric.rail(match="guid", value=GUID, address=None)
    assert plan(fabric) == []


def test_a_driver_without_connected_mode_is_in_datagram_mode(fabric: "Node") -> None:
    """No ``mode`` file: nothing could be written to it, and a plan that asks for it would never come to an end."""
    (fabric.root / "sys/class/net/ib0/mode").unlink()
    desired = ipoib.desired(fabric.spec(), fabric.identity())
    conflict, = ipoib.conflicts(desired, ipoib.observe(fabric.host(), desired))
    assert "no connected mode" in conflict.message
    fabric.values["network_ipoib_mode"] = "datagram"
    fabric.rail(match="guid", value=GUID, mtu=2044)
    assert plan(fabric) == []
    desired = ipoib.desired(fabric.spec(), fabric.identity())
    assert ipoib.conflicts(desired, ipoib.observe(fabric.host(), desired)) == []


def test_nothing_on_other_fabrics(node: "Node") -> None:
    assert plan(node) == []


def sm_plan(node: "Node", active: str, enabled: str, load: str = "loaded") -> "list[Change]":
    argv = ("systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState", opensm.UNIT)
    node.record(argv, f"Id={opensm.UNIT}\nLoadState={load}\nActiveState={active}\nUnitFileState={enabled}\n")
    desired = opensm.desired(node.spec(), node.identity())
    return opensm.plan(desired, opensm.observe(node.host(), desired))


def test_subnet_manager_is_enabled_and_running(fabric: "Node") -> None:
    assert sm_plan(fabric, "inactive", "disabled") == [], "not wanted here: not ours to judge"
    fabric.values["network_opensm"] = True
    assert [change.what for change in sm_plan(fabric, "inactive", "disabled")] == [
        "unit opensm.service enabled", "unit opensm.service running"]
    assert [change.what for change in sm_plan(fabric, "failed", "enabled")] == ["unit opensm.service running"]
    assert [change.what for change in sm_plan(fabric, "active", "disabled")] == ["unit opensm.service enabled"]
    assert sm_plan(fabric, "active", "enabled") == []


def test_the_unit_of_a_vendors_package_is_another(fabric: "Node") -> None:
    fabric.values.update(network_opensm=True, rdma_stack="doca", rdma_stack_version=None, rdma_stack_profile=None)
    argv = ("systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState", opensm.VENDORS_UNIT)
    fabric.record(argv, f"Id={opensm.VENDORS_UNIT}\nLoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n")
    wanted = opensm.desired(fabric.spec(), fabric.identity())
    assert (wanted.unit, wanted.unfit) == (opensm.VENDORS_UNIT, False)
    whats = ["unit opensmd.service enabled", "unit opensmd.service running"]
    assert [change.what for change in opensm.plan(wanted, opensm.observe(fabric.host(), wanted))] == whats
    fabric.write("/usr/lib/systemd/system/opensm.service", "[Service]\n")  # the one that is there
    assert opensm.observe(fabric.host(), wanted).name == opensm.UNIT
    fabric.write("/etc/init.d/opensmd", "#!/bin/sh\n")
    assert opensm.observe(fabric.host(), wanted).name == opensm.VENDORS_UNIT


@pytest.mark.parametrize(("states", "idle"), [(("failed",), True), (("failed", "active"), False), (("activating",), False), ((), True)])
def test_an_active_unit_whose_instances_are_gone_is_started_again(fabric: "Node", states: "tuple[str, ...]", idle: bool) -> None:
    """Debian's opensm.service only starts opensm@GUID for each port, and stays active whatever becomes of them."""
    fabric.values["network_opensm"] = True
    for unit in (opensm.UNIT, opensm.TEMPLATE):
        fabric.write(f"/usr/lib/systemd/system/{unit}", "[Service]\n")
    argv = ("systemctl", "show", "--property=ActiveState", opensm.INSTANCES)
    fabric.record(argv, "\n".join(f"ActiveState={state}\n" for state in states))
    changes = sm_plan(fabric, "active", "enabled")
    assert [change.what for change in changes] == ["subnet manager of unit opensm.service running"] * idle
    assert [op.argv for change in changes for op in change.ops] == [("systemctl", "restart", opensm.UNIT)] * idle
    nothing = opensm.Desired(True, False), opensm.Observed(opensm.UnitState("loaded", "active", "enabled"), True, opensm.UNIT, states)
    assert opensm.is_idle(*nothing) == (idle and bool(states)), "without a port there is nothing to start"


def test_instances_that_nobody_tells_of_restart_nothing(fabric: "Node") -> None:
    """The subnet manager may well run: a restart would cost the fabric its master."""
    fabric.values["network_opensm"] = True
    for unit in (opensm.UNIT, opensm.TEMPLATE):
        fabric.write(f"/usr/lib/systemd/system/{unit}", "[Service]\n")
    assert opensm.observe_instances(fabric.host()) is None
    assert sm_plan(fabric, "active", "enabled") == []


def test_one_that_few_boots_start_is_wanted_by_a_target_of_every_boot(fabric: "Node") -> None:
    """Debian enables it for network-online.target alone."""
    fabric.values["network_opensm"] = True
    place = fabric.root / "etc/systemd/system"
    for target, whats in (("network-online", ["unit opensm.service started at every boot"]), ("multi-user", [])):
        (place / f"{target}.target.wants").mkdir(parents=True)
        (place / f"{target}.target.wants/opensm.service").symlink_to("/lib/systemd/system/opensm.service")
        changes = sm_plan(fabric, "active", "enabled")
        assert [change.what for change in changes] == whats
        wants = [("systemctl", "add-wants", "multi-user.target", opensm.UNIT)]
        assert [op.argv for change in changes for op in change.ops] == wants * len(whats)
    ops = sm_plan(fabric, "active", "disabled")[0].ops
    assert [op.argv[1] for op in ops] == ["enable", "add-wants"]


def test_the_distributions_opensm_on_hcas_of_ndr_is_said(fabric: "Node") -> None:
    fabric.values["network_opensm"] = True
    identity = fabric.identity()
    hcas = tuple(hca._replace(device_id="0x1021", link_layer="InfiniBand") for hca in identity.hcas)
    wanted = opensm.desired(fabric.spec(), identity._replace(hcas=hcas))
    assert [note for note in opensm.notes(wanted, opensm.observe(fabric.host(), wanted)) if "NDR" in note and "DOCA" in note]
    older = tuple(hca._replace(device_id="0x101b") for hca in hcas)
    wanted = opensm.desired(fabric.spec(), identity._replace(hcas=older))
    assert opensm.notes(wanted, opensm.observe(fabric.host(), wanted)) == []


@pytest.mark.parametrize(
    ("version", "rates", "status"),
    [
        ("3.3.24-3.el9", [400], "warn"),
        ("3.3.23-2", [200, 800], "warn"),
        ("5.19.0.MLNX20240504.e5ec4d6f-0.1", [400], "pass"),
        ("3.3.24-3.el9", [200], "pass"),
        ("3.3.24-3.el9", [200, None], "unknown"),
        ("3.3.24-3.el9", [], "unknown"),
        (None, [400], "skipped"),
    ],
)
def test_which_opensm_manages_which_fabric(fabric: "Node", version: "str | None", rates: "list[Any]", status: str) -> None:
    fabric.values["network_opensm"] = True
    ports = [{"link_layer": "InfiniBand", "rate_gbps": rate} for rate in rates]
    facts: dict[str, Any] = {"hcas": [{"ports": ports}], "packages": {"opensm": version} if version else {}}
    found, = opensm.judge_opensm(bare_inspection("n1", fabric.spec(), facts))
    assert (found.check, found.status) == ("opensm.build", status)
    assert status != "warn" or "linux-rdma/opensm 38" in found.message
    facts["packages"] = None
    assert [item.status for item in opensm.judge_opensm(bare_inspection("n1", fabric.spec(), facts))] == ["unknown"]
    fabric.values["network_opensm"] = False
    assert opensm.judge_opensm(bare_inspection("n1", fabric.spec(), facts)) == []


def test_a_containers_subnet_manager_needs_the_hosts_umad_device(fabric: "Node") -> None:
    fabric.values["network_opensm"] = True
    sm_plan(fabric, "inactive", "disabled")
    identity = fabric.identity()
    desired = opensm.desired(fabric.spec(), identity._replace(capabilities=(*identity.capabilities, "container")))
    without = opensm.observe(fabric.host(), desired)
    assert [change.what for change in opensm.plan(desired, without)] == ["unit opensm.service enabled"]
    assert [opensm.UMAD in note for note in opensm.notes(desired, without)] == [True]
    fabric.write(opensm.UMAD, "5\n")
    having = opensm.observe(fabric.host(), desired)
    assert [change.what for change in opensm.plan(desired, having)] == ["unit opensm.service enabled", "unit opensm.service running"]
    assert opensm.notes(desired, having) == []


def test_a_masked_subnet_manager_is_planned_and_so_a_problem(fabric: "Node") -> None:
    """Of what it plans: ``plan.obstacles`` says so of every unit."""
    fabric.values["network_opensm"] = True
    planned = [change.what for change in sm_plan(fabric, "inactive", "masked", "masked")]
    assert planned == [f"unit {opensm.UNIT} enabled", f"unit {opensm.UNIT} running"]


def test_a_misplaced_subnet_manager_is_a_problem(fabric: "Node") -> None:
    fabric.values["network_opensm"] = True
    desired = opensm.desired(fabric.spec(), fabric.identity())
    assert opensm.problems(fabric.spec(), fabric.identity(), desired) == []
    fabric.values["fabric"] = "roce"
    assert "fabric is roce" in opensm.problems(fabric.spec(), fabric.identity(), desired)[0].message
