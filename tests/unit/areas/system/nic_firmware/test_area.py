# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored configuration and flashing, on the recorded double of mstflint's tools."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.mstflint_double import Card

from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

from .conftest import HCAS, LABELS, Machine, Planner

MakePlanner = Callable[..., Planner]
WANTED = {"ATS_ENABLED": False, "LINK_TYPE_P1": "ETH", "NUM_OF_VFS": 16}
PSID, OLD, NEW = "MT_0000000838", "28.47.1080", "28.48.1000"
IMAGE = f"{PSID} {NEW}"
IMAGE_PATH = f"/var/lib/railwright/firmware/{PSID}-{NEW}.bin"


def test_nothing_named_nothing_asked(planner: MakePlanner, machine: Machine) -> None:
    node = planner()
    assert (node.drift(), node.conflicts(), node.notes()) == ([], [], [])
    assert machine.commands == []


def test_two_changes_a_parameter_and_a_reboot_between(planner: MakePlanner, machine: Machine, card: Card) -> None:
    machine.cards["0000:2b:00"].parameters["NUM_OF_VFS"].current = machine.cards["0000:2b:00"].parameters["NUM_OF_VFS"].next = 16
    node = planner(nic_firmware_config={"NUM_OF_VFS": 16})
    first, second = node.plan()
    assert (first.what, first.before, first.after) == (f"NUM_OF_VFS at next boot on {LABELS[0]}", "0", "16")
    assert (first.disruption, first.external) == ("firmware", False)
    assert (second.what, second.before, second.after) == (f"NUM_OF_VFS in effect on {LABELS[0]}", "0", "16")
    assert (second.disruption, second.needs_reboot) == ("reboot", True)
    machine.apply(node.plan())
    assert (card.parameters["NUM_OF_VFS"].current, card.parameters["NUM_OF_VFS"].next) == (0, 16)
    assert node.drift() == [f"NUM_OF_VFS in effect on {LABELS[0]}"]
    machine.reboot()
    assert node.drift() == []
    assert node.notes() == []


def test_only_named_parameters_are_asked_for(planner: MakePlanner, machine: Machine) -> None:
    planner(nic_firmware_config=WANTED).plan()
    assert machine.commands == [("mstconfig", "-d", address, "-e", "q", *WANTED) for address in HCAS]


def test_the_undo_sets_the_old_next_boot_value(planner: MakePlanner, machine: Machine, card: Card) -> None:
    changes = planner(nic_firmware_config=WANTED).plan()
    before = {name: parameter.next for name, parameter in card.parameters.items()}
    machine.apply(changes)
    assert {name: parameter.next for name, parameter in card.parameters.items()} == before | {
        "ATS_ENABLED": 0,
        "LINK_TYPE_P1": 2,
        "NUM_OF_VFS": 16,
    }
    for op in (op for change in changes for op in change.ops if op.kind == "run"):
        assert all(machine.run(argv).ok for argv in op.undo)
    assert {name: parameter.next for name, parameter in card.parameters.items()} == before


def test_a_reboot_that_did_not_help_is_said_and_not_repeated(planner: MakePlanner, machine: Machine, card: Card) -> None:
    card.sticky = ("NUM_OF_VFS",)
    machine.cards["0000:2b:00"].sticky = ("NUM_OF_VFS",)
    node = planner(nic_firmware_config={"NUM_OF_VFS": 16})
    machine.apply(node.plan())
    assert len(node.drift()) == 2
    machine.reboot()
    assert node.drift() == []
    assert node.notes() == [
        f"NUM_OF_VFS on {label} is set to 16 and still 0 after a reboot: it needs the power off (a cold start), or mstfwreset"
        for label in LABELS
    ]


def test_somebody_elses_change_waits_for_a_reboot_too(planner: MakePlanner, card: Card, machine: Machine) -> None:
    for one in machine.cards.values():
        one.parameters["NUM_OF_VFS"].next = 16
    assert planner(nic_firmware_config={"NUM_OF_VFS": 16}).drift() == [f"NUM_OF_VFS in effect on {label}" for label in LABELS]


def test_an_unknown_parameter_names_nic_and_parameter(planner: MakePlanner, machine: Machine) -> None:
    del machine.cards["0000:2b:00"].parameters["NUM_OF_VFS"]
    node = planner(nic_firmware_config=WANTED)
    found = node.conflicts()
    assert len(found) == 1
    assert found[0].startswith(f"{LABELS[1]}: its firmware, {PSID} {OLD}, has no parameter NUM_OF_VFS (Unknown Parameter NUM_OF_VFS)")
    assert f"ATS_ENABLED at next boot on {LABELS[1]}" in node.drift()  # the others are known all the same


def test_a_nic_that_does_not_answer_is_one_problem(planner: MakePlanner, machine: Machine) -> None:
    del machine.cards["0000:2b:00"]
    found = planner(nic_firmware_config=WANTED).conflicts()
    assert found == [f"{LABELS[1]}: its configuration cannot be read: Failed to open device: 0000:2b:00.0. No such file or directory"]


def test_an_array_wants_an_index(planner: MakePlanner) -> None:
    found = planner(nic_firmware_config={"ESWITCH_HAIRPIN_DESCRIPTORS": 128}).conflicts()
    assert len(found) == 2
    assert "is an array, Array[0..7]; name its elements: ESWITCH_HAIRPIN_DESCRIPTORS[0]" in found[0]


def test_a_device_without_current_values_asks_for_one_reboot(planner: MakePlanner, machine: Machine) -> None:
    for card in machine.cards.values():
        card.tells_current = False
    node = planner(nic_firmware_config={"NUM_OF_VFS": 16})
    assert node.drift() == [f"NUM_OF_VFS {when} on {label}" for label in LABELS for when in ("at next boot", "in effect")]
    machine.apply(node.plan())
    assert node.drift() == []


def test_without_the_tool_the_plan_holds_everything(planner: MakePlanner, machine: Machine) -> None:
    for tool in ("mstconfig", "mstflint"):
        Path(machine.path("/usr/bin/" + tool)).unlink()
    node = planner(nic_firmware_config={"NUM_OF_VFS": 16, "SRIOV_EN": True})
    changes = node.plan()
    assert changes[0].package == "mstflint"
    assert len(changes) == 1 + 2 * 2 * 2
    assert node.conflicts() == []
    assert machine.commands == []
    planned = {change.key for change in changes}
    for tool in ("mstconfig", "mstflint"):
        machine.put("/usr/bin/" + tool, "")
        Path(machine.path("/usr/bin/" + tool)).chmod(0o755)
    assert {change.key for change in node.plan()} <= planned


def test_two_ports_of_a_nic_are_one_device(planner: MakePlanner, machine: Machine, identity: Identity) -> None:
    second = "0000:13:00.1"
    nics = (identity.nics[0], identity.nics[1]._replace(pci=second))
    hcas = (identity.hcas[0], identity.hcas[1]._replace(pci=second))
    assert planner(identity._replace(nics=nics, hcas=hcas), nic_firmware_config={"NUM_OF_VFS": 16}).drift() == [
        f"NUM_OF_VFS at next boot on {LABELS[0]}",
        f"NUM_OF_VFS in effect on {LABELS[0]}",
    ]


def test_virtual_functions_and_containers_are_left_alone(planner: MakePlanner, machine: Machine, identity: Identity) -> None:
    machine.put(f"/sys/devices/pci/{HCAS[0]}/device", "0x101e\n")
    node = planner(nic_firmware_config={"NUM_OF_VFS": 16})
    assert node.drift() == [f"NUM_OF_VFS {when} on {LABELS[1]}" for when in ("at next boot", "in effect")]
    assert node.notes() == [f"firmware of {LABELS[0]} is left alone: it is a virtual function, and the NIC's firmware is the hypervisor's"]
    inside = planner(identity._replace(capabilities=("container",)), nic_firmware_config={"NUM_OF_VFS": 16})
    assert inside.drift() == []
    assert inside.notes() == ["firmware of NICs is left alone: in a container they belong to the machine below"]


def test_no_nvidia_nic_no_change(planner: MakePlanner, identity: Identity) -> None:
    hcas = tuple(hca._replace(driver="irdma") for hca in identity.hcas)
    nics = tuple(nic._replace(driver="ice") for nic in identity.nics)
    node = planner(identity._replace(hcas=hcas, nics=nics), nic_firmware_config={"NUM_OF_VFS": 16})
    assert (node.drift(), node.notes()) == ([], ["firmware of NICs: no rail of this node is on an NVIDIA NIC"])


@pytest.fixture
def flashing() -> dict[str, Any]:
    return {
        "nic_firmware_versions": {PSID: NEW},
        "nic_firmware_images": {PSID: {"url": "file:///srv/fw.bin", "sha256": hashlib.sha256(IMAGE.encode()).hexdigest()}},
    }


def test_firmware_without_an_image_is_never_flashed(planner: MakePlanner) -> None:
    node = planner(nic_firmware_versions={PSID: NEW})
    assert node.drift() == []
    assert node.notes()[0] == (
        f"firmware of {LABELS[0]} is {OLD}, not {NEW}: nic_firmware_images has no image for {PSID}, so it is judged and not flashed"
    )


def test_flashing_keeps_the_old_image_and_asks_for_a_reboot(
    planner: MakePlanner, machine: Machine, card: Card, flashing: dict[str, Any]
) -> None:
    machine.put(IMAGE_PATH, IMAGE)
    node = planner(**flashing)
    changes = node.plan()
    assert [(change.what, change.before, change.after, change.disruption) for change in changes[:2]] == [
        (f"firmware {PSID} in flash on {LABELS[0]}", OLD, NEW, "firmware"),
        (f"firmware {PSID} in effect on {LABELS[0]}", OLD, NEW, "reboot"),
    ]
    assert changes[0].ops[1].argv == ("mstflint", "-d", HCAS[0], "-i", IMAGE_PATH, "-y", "burn")
    machine.apply(changes)
    assert (card.flash, card.running) == (NEW, OLD)
    assert node.drift() == [f"firmware {PSID} in effect on {label}" for label in LABELS]
    for op in reversed(changes[0].ops):
        assert all(machine.run(argv).ok for argv in op.undo)
    assert card.flash == OLD
    machine.apply(node.plan())
    machine.reboot()
    assert node.drift() == []


def test_an_image_with_another_checksum_is_refused(planner: MakePlanner, machine: Machine, flashing: dict[str, Any]) -> None:
    machine.put(IMAGE_PATH, IMAGE + " tampered")
    found = planner(**flashing).conflicts()
    assert len(found) == 2
    assert "of nic_firmware_images; remove it" in found[0]


def test_another_board_is_not_touched(planner: MakePlanner, flashing: dict[str, Any]) -> None:
    other = {key: {"MT_0000000999": value[PSID]} for key, value in flashing.items()}
    assert planner(**other).drift() == []
