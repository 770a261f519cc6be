# SPDX-License-Identifier: GPL-3.0-or-later
"""ACS, MaxReadReq and relaxed ordering: what is planned, what setpci makes of it, what undoes it, and where nothing is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.pci import UNIT
from ansible_collections.railwright.rdma.plugins.module_utils.observe.pci import acs_facts
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Nic

from .conftest import BRIDGES, GPUS, HCAS, Machine, Planner

MakePlanner = Callable[..., Planner]
READ = [f"MaxReadReq of rail{i} (eth{i}) at {HCAS[i]}" for i in range(2)]
UNIT_PATH = "/etc/systemd/system/" + UNIT
BOOT = ["file " + UNIT_PATH, f"unit {UNIT} enabled", f"unit {UNIT} running"]


def test_bare_metal_with_gpus_clears_acs_and_raises_reads_now_and_at_boot(planner: MakePlanner, machine: Machine) -> None:
    node = planner()
    changes = {change.what: change for change in node.plan()}
    assert list(changes) == [f"ACS of bridge {bridge}" for bridge in BRIDGES] + READ + BOOT
    assert {change.disruption for change in changes.values()} == {"none"}
    assert changes["ACS of bridge 0000:12:00.0"].before == ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]
    assert (changes[READ[0]].before, changes[READ[0]].after) == (512, 4096)
    assert node.converge() == []
    assert all(row["enabled"] == [] for row in acs_facts(machine, HCAS + GPUS))


def test_every_register_is_restored_by_its_undo(planner: MakePlanner, machine: Machine) -> None:
    names = [f"/sys/bus/pci/devices/{address}/config" for address in BRIDGES + HCAS]
    before = {name: machine.read_bytes(name) for name in names}
    changes = planner(pci_tuning_relaxed_ordering="enable").plan()
    machine.apply(changes)
    assert {name: machine.read_bytes(name) for name in names} != before
    for change in reversed(changes):
        for op in reversed(change.ops):
            for argv in op.undo:
                assert machine.run(argv).ok
    assert {name: machine.read_bytes(name) for name in names} == before


def test_the_unit_sets_the_same_registers_again(planner: MakePlanner, machine: Machine) -> None:
    fresh = {address: machine.read_bytes(f"/sys/bus/pci/devices/{address}/config") for address in BRIDGES + HCAS}
    node = planner()
    assert node.converge() == []
    for address, data in fresh.items():  # a reboot: registers are what the firmware made them
        machine.put(f"/sys/bus/pci/devices/{address}/config", data or b"")
    assert [key for key in node.drift() if not key.startswith("unit")] == [f"ACS of bridge {bridge}" for bridge in BRIDGES] + READ
    lines = [line for line in (machine.read(UNIT_PATH) or "").splitlines() if line.startswith("ExecStart=")]
    for line in lines:
        words = line.removeprefix("ExecStart=-").split()
        assert words[0] == "/usr/bin/setpci"
        assert machine.setpci(words[1:]).ok
    assert node.drift() == []


def test_the_unit_names_the_device_beside_its_address_and_follows_openibd(planner: MakePlanner, machine: Machine) -> None:
    planner().converge()
    text = machine.read(UNIT_PATH) or ""
    assert "ExecStart=-/usr/bin/setpci -s 0000:13:00.0 -d 15b3:1021 CAP_EXP+08.w=5000:7000\n" in text
    assert "ExecStart=-/usr/bin/setpci -s 0000:10:01.0 -d 8086:352a ECAP_ACS+0x6.w=0000\n" in text
    assert "After=systemd-udev-settle.service systemd-modules-load.service openibd.service\nPartOf=openibd.service\n" in text
    assert "RemainAfterExit=yes" in text


def test_one_register_that_changed_is_one_change(planner: MakePlanner, machine: Machine) -> None:
    node = planner()
    assert node.converge() == []
    machine.setpci(["-s", "0000:2a:01.0", "ECAP_ACS+0x6.w=001d"])
    assert node.drift() == ["ACS of bridge 0000:2a:01.0"]
    machine.setpci(["-s", HCAS[1], "CAP_EXP+08.w=2000:7000"])
    assert node.drift() == ["ACS of bridge 0000:2a:01.0", READ[1]]


def test_a_bridge_above_a_passed_through_device_keeps_acs(planner: MakePlanner, machine: Machine) -> None:
    driver = machine.base / "sys/devices/pci0000:28/0000:28:01.0/0000:29:00.0/0000:2a:01.0/0000:2c:00.0/driver"
    driver.symlink_to("../../../../../../bus/pci/drivers/vfio-pci")
    node = planner()
    acs = [key for key in node.drift() if key.startswith("ACS")]
    assert acs == [f"ACS of bridge {bridge}" for bridge in ("0000:10:01.0", "0000:12:00.0", "0000:12:01.0", "0000:2a:00.0")]
    assert "ACS of bridge 0000:2a:01.0 is left alone: 0000:2c:00.0 below it belongs to a virtual machine (vfio-pci)" in node.notes()
    assert any(note.startswith("ACS of bridge 0000:28:01.0 is left alone") for note in node.notes())
    node.converge()
    assert "0000:2a:01.0" not in (machine.read(UNIT_PATH) or "")


def test_config_acs_of_the_kernel_is_respected(planner: MakePlanner, machine: Machine) -> None:
    machine.put("/proc/cmdline", "root=/dev/vda1 pci=config_acs=xx111x0@0008:00:00.0\n")
    node = planner()
    assert not [key for key in node.drift() if key.startswith("ACS")]
    assert node.notes() == ["ACS is left alone: the kernel's argument pci=config_acs says which bits this node wants"]


def test_in_a_container_kernel_arguments_alone_are_noted_too(planner: MakePlanner, identity: Identity) -> None:
    inside = identity._replace(virtual="container", capabilities=("container",), hcas=(), nics=(), gpus=())
    assert planner(inside, pci_tuning_kernel_args=["a=b"]).notes() != []
    assert planner(inside).notes() == []


def test_without_a_gpu_acs_stays(planner: MakePlanner, identity: Identity) -> None:
    node = planner(identity._replace(gpus=()))
    assert node.drift() == READ + BOOT
    assert node.notes() == ["ACS is left alone: no GPU on this node"]


def test_in_a_virtual_machine_registers_are_the_hypervisors(planner: MakePlanner, identity: Identity) -> None:
    node = planner(identity._replace(virtual="kvm"), pci_tuning_iommu="passthrough")
    assert node.drift() == []
    assert [note.split(":")[0] for note in node.notes()] == ["ACS, MaxReadReq and relaxed ordering are left alone", "pci_tuning_iommu"]


def test_in_a_container_nothing_is_done(planner: MakePlanner, identity: Identity) -> None:
    node = planner(identity._replace(virtual="container", capabilities=("container",)), pci_tuning_kernel_args=["a=b"])
    assert node.drift() == []
    assert node.notes() == ["PCIe registers and kernel arguments are left alone: in a container they belong to the machine below"]


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"pci_tuning_acs": "keep", "pci_tuning_max_read_request": 0}, []),
        ({"pci_tuning_acs": "keep", "pci_tuning_max_read_request": 512}, BOOT),
        ({"pci_tuning_acs": "keep"}, READ + BOOT),
    ],
)
def test_what_is_kept_is_not_touched(planner: MakePlanner, values: dict[str, Any], keys: list[str]) -> None:
    assert planner(**values).drift() == keys


def test_relaxed_ordering_is_set_without_touching_the_rest(planner: MakePlanner, machine: Machine) -> None:
    machine.setpci(["-s", HCAS[0], "CAP_EXP+08.w=0000:0010"])
    node = planner(pci_tuning_acs="keep", pci_tuning_max_read_request=0, pci_tuning_relaxed_ordering="enable")
    assert node.drift() == [f"relaxed ordering of rail0 (eth0) at {HCAS[0]}", *BOOT]
    before = machine.read_bytes(f"/sys/bus/pci/devices/{HCAS[1]}/config")
    assert node.converge() == []
    assert machine.read_bytes(f"/sys/bus/pci/devices/{HCAS[1]}/config") == before


def test_our_unit_goes_when_nothing_is_wanted_any_more(planner: MakePlanner, machine: Machine) -> None:
    planner().converge()
    node = planner(pci_tuning_acs="keep", pci_tuning_max_read_request=0)
    assert node.drift() == [f"unit {UNIT} removed"]
    assert node.converge() == []
    assert not machine.exists(UNIT_PATH)


def test_setpci_is_installed_where_it_is_missing(planner: MakePlanner, machine: Machine) -> None:
    Path(machine.path("/usr/bin/setpci")).unlink()
    changes = planner().plan()
    assert (changes[0].what, changes[0].package, changes[0].after) == ("package pciutils", "pciutils", "present")
    assert [change.what for change in changes[1:]] == [f"ACS of bridge {bridge}" for bridge in BRIDGES] + READ + BOOT


def test_lockdown_refuses_before_anything_changes(planner: MakePlanner, machine: Machine) -> None:
    machine.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    found = planner().conflicts()
    assert len(found) == 1
    assert "locked down (Secure Boot)" in found[0]
    node = planner(pci_tuning_acs="keep", pci_tuning_max_read_request=0)
    assert node.conflicts() == []


def test_lockdown_is_no_conflict_where_everything_is_set(planner: MakePlanner, machine: Machine) -> None:
    node = planner()
    assert node.converge() == []
    machine.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    assert node.conflicts() == []


def test_what_cannot_be_read_is_not_changed(planner: MakePlanner, machine: Machine) -> None:
    """64 bytes are all that who is not root gets."""
    for address in BRIDGES + HCAS:
        name = f"/sys/bus/pci/devices/{address}/config"
        machine.put(name, (machine.read_bytes(name) or b"")[:64])
    node = planner()
    assert node.drift() == []
    assert len([note for note in node.notes() if note.endswith("cannot be read")]) == len(BRIDGES)
    assert len([note for note in node.notes() if note.endswith("MaxReadReq is left alone")]) == len(HCAS)


def test_both_functions_of_a_bond_are_set(planner: MakePlanner, identity: Identity) -> None:
    members = [nic._replace(bond="bond0") for nic in identity.nics]
    bond = Nic("bond0", "52:54:00:00:00:00", None, "bonding", "virtual", False)
    hca = identity.hcas[0]._replace(name="mlx5_bond_0", netdevs=("bond0",), port_netdevs=("bond0",))
    rails = [{"name": "rail0", "match": {"pci": HCAS[0]}, "address": "10.0.0.1/24"}]
    node = planner(identity._replace(nics=(*members, bond), hcas=(hca,), gpus=()), rails=rails)
    assert node.drift() == [f"MaxReadReq of rail0 (bond0) at {address}" for address in HCAS] + BOOT
