# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of what sets a NIC's QoS at boot: files, links, the unit; what is no longer wanted; everything undone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import carry_out, fail
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.files import HEADER
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import evidence
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos import boot
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.boot import SCRIPT, SCRIPT_TEXT
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.settings import value
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos_boot import TEMPLATE, device_unit, enable_link, escape, unit_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change

from .conftest import NIC, OTHER, Node

SETTINGS = "/etc/railwright/roce-qos/eth1"
ETH1, ETH2 = "railwright-roce-qos@eth1.service", "railwright-roce-qos@eth2.service"
NAMES = ("eth1", "enp1s0f0np0", "bond-rdma", "eth1.100", "a@b+c", "_x")


def whats(changes: Sequence[Change]) -> list[str]:
    assert {change.area for change in changes} <= {"roce_qos"}
    assert {change.disruption for change in changes} <= {"none"}
    return [change.what for change in changes]


def apply(node: Node, *nics: boot.BootNic) -> Journal:
    journal = Journal(node, "run")
    carry_out(node, node.plan(*nics), journal)
    return journal


def test_a_bare_node_gets_everything_and_then_nothing(node: Node) -> None:
    assert whats(node.plan(NIC)) == [
        "file " + SCRIPT, "file " + boot.UNIT, "file " + boot.RULES, "file " + SETTINGS, f"unit {ETH1} enabled", f"unit {ETH1} running"]
    apply(node, NIC)
    assert whats(node.plan(NIC)) == []
    assert node.mode(SCRIPT) == 0o755
    assert node.readlink(enable_link("eth1")) == boot.UNIT
    assert node.commands == [("systemctl", "enable", ETH1), ("systemctl", "start", ETH1)], "enabling it has reloaded the units"


def test_a_node_without_nics_and_without_our_files_is_left_alone(node: Node) -> None:
    assert node.plan() == []


def test_the_settings_file_has_one_effect_a_line(node: Node) -> None:
    apply(node, NIC)
    assert (node.read(SETTINGS) or "").splitlines()[1:] == [
        "# profile dscp26-prio3: rail0 (eth1), mlx5_0 port 1",
        f"# {SCRIPT} carries this out line by line; one tab stands between two words.",
        "mac\tb8:ce:f6:00:30:01",
        "run\tdcb\tpfc\tset\tdev\teth1\tprio-pfc\tall:off\t3:on",
        "value\t/sys/class/net/eth1/ecn/roce_np/enable/3\t1",
        "mkdir\t/sys/kernel/config/rdma_cm/mlx5_0",
        "value\t/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode\tRoCE v2",
    ]


@pytest.mark.parametrize("content", ["1\t2", "1\nrun\treboot", "", "\x7f"])
def test_an_argument_that_needs_quoting_is_refused_before_any_change(node: Node, content: str) -> None:
    nic = NIC._replace(settings=(value("/sys/class/net/eth1/ecn/roce_np/enable/3", content),))
    with pytest.raises(RailwrightError, match=r"rail0 \(eth1\): .* a word must not be empty"):
        node.plan(nic)


def test_udev_rules_start_the_unit_of_interface_and_rdma_device(node: Node) -> None:
    """Both members of a bond share an RDMA device; the tool has the path that this node has it at."""
    apply(node, NIC, OTHER._replace(hca="mlx5_0"))

    def rows(netdev: str, hca: str) -> list[str]:
        run = 'RUN+="/bin/systemctl --no-block %s railwright-roce-qos@' + netdev + '.service"'
        event = 'ACTION=="add|move", SUBSYSTEM=="%s", KERNEL=="%s", '
        return [event % ("net", netdev) + run % "start", event % ("infiniband", hca) + run % "try-restart" + ", " + run % "start"]

    assert (node.read(boot.RULES) or "").splitlines()[2:] == rows("eth1", "mlx5_0") + rows("eth2", "mlx5_0")


def test_the_network_area_does_not_remove_the_rules_as_its_own_old_file(node: Node) -> None:
    apply(node, NIC)
    node.put("/etc/udev/rules.d/70-railwright-rail0.rules", HEADER)
    found = evidence.observe_files(node)
    assert "/etc/udev/rules.d/70-railwright-rail0.rules" in found
    assert boot.RULES not in found


def test_a_file_that_somebody_edited_is_written_anew_and_nothing_else(node: Node) -> None:
    apply(node, NIC)
    node.put(SETTINGS, (node.read(SETTINGS) or "").replace("3:on", "4:on"))
    (change,) = node.plan(NIC)
    assert change.what == "file " + SETTINGS
    assert "4:on" in change.before
    assert "3:on" in change.after


def test_another_profile_changes_the_file_alone(node: Node) -> None:
    apply(node, NIC)
    assert whats(node.plan(NIC._replace(profile="oci-dscp10"))) == ["file " + SETTINGS]


def test_a_link_that_somebody_removed_and_a_unit_that_failed_are_seen(node: Node) -> None:
    apply(node, NIC, OTHER)
    (node.base / enable_link("eth1").lstrip("/")).unlink()
    node.active.discard(ETH2)
    node.broken.add(ETH2)
    assert whats(node.plan(NIC, OTHER)) == [f"unit {ETH1} enabled", f"unit {ETH2} running"]


def test_without_udev_there_are_no_device_units_and_nothing_is_started(node: Node) -> None:
    (node.base / "run/udev/control").unlink()
    assert whats(node.plan(NIC))[-1] == f"unit {ETH1} enabled"
    apply(node, NIC)
    assert node.plan(NIC) == []


def test_a_nic_that_is_no_rail_any_more_loses_its_settings(node: Node) -> None:
    apply(node, NIC, OTHER)
    node.commands.clear()
    assert whats(node.plan(NIC)) == ["file /etc/railwright/roce-qos/eth2", "file " + boot.RULES]
    apply(node, NIC)
    assert node.commands == [("systemctl", "stop", ETH2), ("systemctl", "disable", ETH2)]
    assert node.read("/etc/railwright/roce-qos/eth2") is None
    assert "eth2" not in (node.read(boot.RULES) or "")
    assert node.active == {ETH1}
    assert node.plan(NIC) == []


def test_what_others_put_beside_ours_stays(node: Node) -> None:
    apply(node, NIC)
    node.put("/etc/railwright/roce-qos/notes", "mine\n")
    assert node.plan(NIC) == []
    apply(node)
    assert node.files()["etc/railwright/roce-qos/notes"] == "mine\n"


def test_without_a_nic_our_files_go_and_foreign_ones_of_those_names_stay(node: Node) -> None:
    before = node.files()
    apply(node, NIC, OTHER)
    apply(node)
    assert node.files() == before
    assert node.active == set()
    node.put(boot.RULES, "# a person's\n")
    assert node.plan() == []


@pytest.mark.parametrize("earlier", [(), (NIC,), (NIC, OTHER)])
def test_a_start_that_fails_takes_everything_back(node: Node, earlier: tuple[boot.BootNic, ...]) -> None:
    """The tree is byte for byte as it was, also where an instance was taken away on the way."""
    apply(node, *earlier)
    files, active = node.files(), set(node.active)
    third = NIC._replace(netdev="eth3", label="rail2 (eth3)")
    node.broken.add("railwright-roce-qos@eth3.service")
    with pytest.raises(ApplyError, match=r"Job for railwright-roce-qos@eth3\.service failed") as caught:
        apply(node, third)
    assert caught.value.args[0].endswith("the node is as it was.")
    assert (node.files(), node.active) == (files, active)


def test_an_apply_that_held_can_be_reverted_later(node: Node) -> None:
    before = node.files()
    journal = apply(node, NIC)
    with pytest.raises(ApplyError, match="Everything was rolled back"):
        fail(node, journal, "a person wants it back")
    assert (node.files(), node.active) == (before, set())


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="needs systemd's tools")
@pytest.mark.parametrize("name", [*NAMES, ".x"])
def test_names_are_escaped_as_systemd_does(name: str) -> None:
    told = subprocess.run(["systemd-escape", "--", name], check=True, capture_output=True, text=True, timeout=30).stdout.strip()
    assert escape(name) == told


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="needs systemd's tools")
@pytest.mark.parametrize("name", NAMES)
def test_the_link_that_is_looked_for_is_the_one_that_systemctl_makes(tmp_path: Path, name: str) -> None:
    place = tmp_path / boot.UNIT.lstrip("/")
    place.parent.mkdir(parents=True)
    place.write_text(boot.UNIT_TEXT)
    subprocess.run(["systemctl", f"--root={tmp_path}", "enable", unit_of(name)], check=True, capture_output=True, timeout=30)
    assert [str(path) for path in tmp_path.rglob("*") if path.is_symlink()] == [str(tmp_path) + enable_link(name)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd's tools")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """The script has its place on a node only; here something else that can be executed stands for it."""
    place = tmp_path / unit_of("bond-rdma")

    def complaints(text: str) -> str:
        place.write_text(text.replace(SCRIPT, "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", place], check=False, capture_output=True, text=True, timeout=60)
        return "\n".join(line for line in done.stderr.splitlines() if str(tmp_path) in line or TEMPLATE.partition("@")[0] in line)

    assert complaints(boot.UNIT_TEXT) == ""
    assert "TimeoutStartSecs" in complaints(boot.UNIT_TEXT.replace("TimeoutStartSec", "TimeoutStartSecs"))


def test_the_unit_is_bound_to_the_device_unit_of_its_interface() -> None:
    assert device_unit("bond-rdma") == r"sys-subsystem-net-devices-bond\x2drdma.device"
    text = boot.UNIT_TEXT
    assert "BindsTo=sys-subsystem-net-devices-%i.device\n" in text
    assert "WantedBy=sys-subsystem-net-devices-%i.device\n" in text
    assert f"ExecStart={SCRIPT} %I\n" in text
    assert SCRIPT_TEXT.startswith("#!/bin/sh\n")
