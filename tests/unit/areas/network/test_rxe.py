# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft-RoCE links: on the right interface, at every boot, and only where the stack is soft_roce."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import network, rxe

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.types import Change
    from conftest import Node

LINK = "RDMA link rxe0 on rail0 (eth1)"
UNIT = "/etc/systemd/system/railwright-rxe0.service"
ADD = ("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth1")
MAC = "02:00:00:00:01:01"


@pytest.fixture
def soft(node: "Node") -> "Node":
    node.values["rdma_stack"] = "soft_roce"
    return node


def plan(node: "Node") -> "list[Change]":
    desired = rxe.desired(node.spec(), node.identity())
    return rxe.plan(desired, rxe.observe(node.host(), desired))


def device(node: "Node", name: str, netdev: str) -> None:
    node.write(f"/sys/class/infiniband/{name}/parent", netdev + "\n")


def enable(node: "Node") -> None:
    wants = node.root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "railwright-rxe0.service").symlink_to(UNIT)


def test_from_nothing_to_nothing_left(soft: "Node") -> None:
    changes = plan(soft)
    assert [change.what for change in changes] == [
        f"file {rxe.SCRIPT}", f"file {UNIT}", "unit railwright-rxe0.service enabled", LINK]
    assert {change.disruption for change in changes} == {"none"}
    assert (changes[-1].before, changes[-1].after) == (None, "rxe0 on eth1")
    assert [(op.argv, op.undo) for op in changes[-1].ops] == [(ADD, ((rxe.SCRIPT, "delete", "rxe0"),))]
    [rail] = network.desired(soft.spec(), soft.identity()).rails
    assert changes[-1].needs == (network.mtu_change("network", rail, 1500, "link").key,)
    soft.carry_out(changes)
    enable(soft)
    device(soft, "rxe0", "eth1")
    assert plan(soft) == []
    assert os.access(soft.root / rxe.SCRIPT.lstrip("/"), os.X_OK)


def test_unit_names_the_mac_and_not_the_interface(soft: "Node") -> None:
    content = next(change.after for change in plan(soft) if change.what == f"file {UNIT}")
    assert f"ExecStart={rxe.SCRIPT} add rxe0 mac {MAC}\n" in content
    assert "eth1" not in content


def test_link_on_the_wrong_interface_is_moved(soft: "Node") -> None:
    device(soft, "rxe0", "eth0")
    change = plan(soft)[-1]
    assert (change.before, change.after, change.disruption) == ("rxe0 on eth0", "rxe0 on eth1", "link")
    assert [op.argv for op in change.ops] == [("rdma", "link", "delete", "rxe0"), ADD]
    assert change.ops[0].undo == (("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0"),)


def test_interface_with_a_link_of_another_name_gets_ours(soft: "Node") -> None:
    device(soft, "rxe_eth1", "eth1")
    change = plan(soft)[-1]
    assert [op.argv for op in change.ops] == [("rdma", "link", "delete", "rxe_eth1"), ADD]


class Kernel:
    """rdma_rxe's rules: a name and an interface are taken once, and only what is there can be deleted."""

    def __init__(self, **there: str) -> None:
        self.there = dict(there)

    def run(self, argv: "tuple[str, ...]") -> None:
        verb, name = (argv[1], argv[2]) if argv[0] == rxe.SCRIPT else (argv[2], argv[3])
        if verb == "add":
            assert name not in self.there, argv
            assert argv[-1] not in self.there.values(), argv
            self.there[name] = argv[-1]
        else:
            assert self.there.pop(name, None) is not None, argv


@pytest.mark.parametrize("before", [
    {"rxe0": "eth2", "rxe1": "eth1"},
    {"rxe1": "eth1"},
    {"rxe0": "eth2"},
    {"rxe0": "eth2", "mine": "eth1"},
    {"rxe0": "eth0", "rxe1": "eth1", "mine": "eth2"},
    {"rxe0": "eth1", "rxe1": "eth0"},
    {},
])
def test_rails_that_change_places_stand_in_each_others_way_once(soft: "Node", before: "dict[str, str]") -> None:
    first = soft.values["rails"][0]
    soft.values["rails"] = [first, {**first, "name": "rail1", "index": 1, "match": "mac", "value": "02:00:00:00:01:02"}]
    soft.nics.append(soft.nics[1]._replace(name="eth2", mac="02:00:00:00:01:02", pci="0000:1b:00.0"))
    for name, netdev in before.items():
        device(soft, name, netdev)
    kernel = Kernel(**before)
    done = [op for change in plan(soft) if change.what.startswith("RDMA link ") for op in change.ops]
    for op in done:
        kernel.run(op.argv)
    assert kernel.there == {"rxe0": "eth1", "rxe1": "eth2"}
    for op in reversed(done):
        for argv in op.undo:
            kernel.run(argv)
    assert kernel.there == before


def test_hardware_devices_are_not_rxe(soft: "Node") -> None:
    soft.write("/sys/class/infiniband/mlx5_0/node_guid", "b8ce:f603:00ab:cdef\n")
    assert plan(soft)[-1].before is None


def test_stopped_link_is_named_alone(soft: "Node") -> None:
    soft.carry_out(plan(soft))
    enable(soft)
    assert [change.what for change in plan(soft)] == [LINK]


def test_another_stack_wants_none(node: "Node") -> None:
    assert plan(node) == []


def test_container_gets_the_boot_files_only(soft: "Node") -> None:
    desired = rxe.desired(soft.spec(), soft.identity()._replace(virtual="container"))
    whats = [change.what for change in rxe.plan(desired, rxe.observe(soft.host(), desired))]
    assert LINK not in whats
    assert f"file {UNIT}" in whats


class Boot:
    """The script as it runs at boot, on a tree, with stand-ins for rdma and modprobe that write down their call."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, root / "calls"
        bin_directory = root / "bin"
        bin_directory.mkdir()
        for tool in ("rdma", "modprobe"):
            (bin_directory / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >> {self.calls}\n')
            (bin_directory / tool).chmod(0o755)
        text = rxe.SCRIPT_TEXT.replace("/sys/class", f"{root}/sys/class").replace("PATH=/usr/sbin", f"PATH={bin_directory}:/usr/sbin")
        self.script = root / "rxe-link"
        self.script.write_text(text.replace("WAIT=60", "WAIT=0"))

    def netdev(self, name: str, mac: str, *lower: str) -> None:
        base = self.root / "sys/class/net" / name
        base.mkdir(parents=True)
        (base / "address").write_text(mac + "\n")
        (base / "mtu").write_text("1500\n")
        for item in lower:
            (base / f"lower_{item}").symlink_to(f"../{item}")

    def mtu_changes_while_adding(self, times: int) -> None:
        """As a network manager does that reaches the interface just then: ``rdma link add`` appends a digit to its MTU."""
        rdma = self.root / "bin/rdma"
        change = (f"""[ "$2" != add ] || [ "$(grep -c "link add" {self.calls})" -gt {times} ] || """
                  f"printf 0 >> {self.root}/sys/class/net/eth1/mtu\n")
        rdma.write_text(rdma.read_text() + change)

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        done = subprocess.run(("sh", str(self.script), *arguments), check=False, capture_output=True, text=True)
        return done.returncode, self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def boot(tmp_path: Path) -> Boot:
    return Boot(tmp_path)


def test_script_finds_the_renamed_interface_and_not_the_vlan_on_it(boot: Boot) -> None:
    boot.netdev("a.100", MAC, "enp26s0")  # listed first, same MAC
    boot.netdev("enp26s0", MAC)
    assert boot.run("add", "rxe0", "mac", MAC) == (0, ["modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev enp26s0"])


def test_script_leaves_a_right_link_alone_and_moves_a_wrong_one(boot: Boot) -> None:
    boot.netdev("eth1", MAC)
    parent = boot.root / "sys/class/infiniband/rxe0/parent"
    parent.parent.mkdir(parents=True)
    parent.write_text("eth1\n")
    assert boot.run("add", "rxe0", "mac", MAC) == (0, ["modprobe rdma_rxe"])
    parent.write_text("eth0\n")
    assert boot.run("add", "rxe0", "mac", MAC)[1][1:] == [
        "modprobe rdma_rxe", "rdma link delete rxe0", "rdma link add rxe0 type rxe netdev eth1"]


def test_script_makes_the_link_again_when_the_mtu_changed_meanwhile(boot: Boot) -> None:
    boot.netdev("eth1", MAC)
    boot.mtu_changes_while_adding(times=1)
    add = "rdma link add rxe0 type rxe netdev eth1"
    assert boot.run("add", "rxe0", "mac", MAC) == (0, ["modprobe rdma_rxe", add, "rdma link delete rxe0", add])


def test_script_gives_up_on_an_mtu_that_never_rests(boot: Boot) -> None:
    boot.netdev("eth1", MAC)
    boot.mtu_changes_while_adding(times=99)
    code, calls = boot.run("add", "rxe0", "mac", MAC)
    assert (code, len([call for call in calls if "add" in call]), calls[-1]) == (1, 5, "rdma link delete rxe0")


def test_script_fails_when_the_interface_never_comes(boot: Boot) -> None:
    boot.netdev("eth0", "02:00:00:00:00:01")
    assert boot.run("add", "rxe0", "mac", MAC) == (1, ["modprobe rdma_rxe"])


def test_script_deletes_what_is_there_and_nothing_else(boot: Boot) -> None:
    assert boot.run("delete", "rxe0") == (0, [])
    (boot.root / "sys/class/infiniband/rxe0").mkdir(parents=True)
    assert boot.run("delete", "rxe0") == (0, ["rdma link delete rxe0"])
