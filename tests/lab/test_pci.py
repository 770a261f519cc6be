# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe tuning on a machine that looks like bare metal: registers, kernel arguments, and the reboot that apply makes.

The machine is a q35 whose CPU admits no hypervisor. Root ports with ACS, the GPU and the HCA are stood in for (modules/README.md): a
PCI domain whose configuration space lies in memory, fresh at every boot, so a register that is set after a reboot was set by our unit.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab_images import DRIVERS
from lab_machine import Machine, values_of
from railwright import lab

RECIPE = DRIVERS
HARDWARE = lab.Hardware(pcie=True, iommu=True, bare_metal=True)
HCA, BRIDGES = "0001:02:00.0", ("0001:00:00.0", "0001:00:01.0")
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "doca",
    "rdma_stack_version": "3.2.3",
    "rdma_mtu": 9000,
    "rdma_qos_profile": "none",  # the stand-in stack has no rdma_cm; test_qos.py has
    "rdma_consent": ["link", "restart", "reload", "reboot"],
    "gpudirect_path": "none",
    "validate_perftest": False,
}


def read_request(machine: Machine) -> int:
    """MaxReadReq from the configuration space, in bytes."""
    return int(128 << (int(machine.run("setpci", "-s", HCA, "CAP_EXP+8.w"), 16) >> 12 & 7))


def acs(machine: Machine) -> list[int]:
    """ACS Control of the bridges above the GPU and the HCA."""
    return [int(machine.run("setpci", "-s", bridge, "ECAP_ACS+6.w"), 16) for bridge in BRIDGES]


def arguments(machine: Machine) -> list[str]:
    return machine.run("cat", "/proc/cmdline").split()


UNTUNED = {"pci_tuning_acs": "keep", "pci_tuning_max_read_request": 0}
TUNED = {"pci_tuning_iommu": "passthrough"}


@pytest.fixture(scope="module")
def node(machine: Machine, vendor: dict[str, Any]) -> Machine:
    machine.stand_in_hardware()
    machine.rails({"name": "rail0", "match": {"pci": HCA}, "address": "10.77.0.11/24"})
    machine.site({**SITE, **UNTUNED, **values_of(vendor)})
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    machine.bring_hca()
    return machine


def test_the_hardware_is_as_a_bios_leaves_it(node: Machine) -> None:
    assert read_request(node) == 512
    assert all(acs(node)), "ACS is on"
    assert "iommu=pt" not in arguments(node)


def test_without_consent_nothing_reboots(node: Machine, vendor: dict[str, Any]) -> None:
    """Registers are set at once; what only a reboot brings is written down and waits."""
    node.site({**SITE, **TUNED, **values_of(vendor), "rdma_consent": ["link", "restart", "reload"]})
    before = node.boot_id()
    run = node.railwright("apply")
    assert node.boot_id() == before
    assert "iommu=pt" not in arguments(node)
    assert "reboot" in str(run.document), run.document


def test_apply_reboots_with_consent(node: Machine, vendor: dict[str, Any]) -> None:
    node.site({**SITE, **TUNED, **values_of(vendor)})
    before = node.boot_id()
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert node.boot_id() != before
    assert "iommu=pt" in arguments(node)
    assert "iommu=pt" in node.run("cat", "/boot/grub/grub.cfg")
    assert (read_request(node), acs(node)) == (4096, [0, 0]), "the unit has set them again"
    assert "MaxReadReq 4096 bytes" in node.run("lspci", "-vvv", "-s", HCA)


def test_another_reboot_keeps_all_of_it(node: Machine) -> None:
    node.reboot()
    assert (read_request(node), acs(node)) == (4096, [0, 0])
    assert "iommu=pt" in arguments(node)
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    judged = {
        item["check"]: item["status"] for item in node.railwright("validate").verdicts("pci.acs", "pci.max_read_request", "pci.iommu")
    }
    assert judged == {"pci.acs": "pass", "pci.max_read_request": "pass", "pci.iommu": "pass"}
