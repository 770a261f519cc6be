# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver stack and the GPU driver's modules: real apt, real DKMS against real headers, a real reboot.

What the modules drive is stood in for (modules/README.md): a GPU and an HCA that nothing can be sent through. The tests are one
story and run in this order.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab_images import DRIVERS
from lab_machine import Machine, values_of
from lab_vendor import DRIVER_VERSION, HCA, SITE, STACK, STACK_DKMS, STACK_VERSION
from railwright import lab

RECIPE = DRIVERS
HARDWARE = lab.Hardware()


@pytest.fixture(scope="module")
def node(machine: Machine, vendor: dict[str, Any]) -> Machine:
    """The stand-in hardware is there from every boot on, and the GPU driver was installed before anybody thought of a stack."""
    machine.stand_in_hardware("nvidia")
    machine.rails({"name": "rail0", "match": {"pci": HCA}, "address": "10.77.0.11/24"})
    machine.site({**SITE, **values_of(vendor)})
    early = "/etc/apt/sources.list.d/early.list"
    key = (vendor["directory"] / "doca" / "key.asc").read_text(encoding="ascii")
    source = f"deb [signed-by=/etc/apt/keyrings/early.asc] {vendor['rdma_stack_repository_url']} ./"
    machine.sh(f"install -d /etc/apt/keyrings; echo '{key}' > /etc/apt/keyrings/early.asc; echo '{source}' > {early}; apt-get -q update")
    machine.run("apt-get", "-q", "-y", "install", "nvidia-kernel-open-dkms", timeout=900)
    machine.sh(f"rm {early} /etc/apt/keyrings/early.asc; modprobe nvidia")
    return machine


def test_a_driver_from_before_the_stack_cannot_register(node: Machine) -> None:
    """nvidia_peermem as NVIDIA's: built without the stack's headers it loads nowhere."""
    assert f"nvidia/{DRIVER_VERSION}" in node.run("dkms", "status")
    assert "Invalid argument" in node.fails("modprobe", "nvidia_peermem")


def test_apply_installs_and_builds_the_stack(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    kernel = node.run("uname", "-r").strip()
    assert f"{STACK_DKMS}/{STACK_VERSION}, {kernel}, x86_64: installed" in node.run("dkms", "status")
    assert f"/lib/modules/{kernel}/updates/dkms/" in node.run("modinfo", "-n", "ib_core")
    assert node.run("cat", "/sys/module/ib_core/version").strip() == STACK_VERSION, "it is loaded"


def test_the_peer_memory_module_is_built_again_and_registers(node: Machine, vendor: dict[str, Any]) -> None:
    """The driver was built before the stack: apply builds it anew. (The stand-in HCA comes with the stack, so this is a second step.)"""
    node.bring_hca()
    node.site({**SITE, **values_of(vendor), "gpudirect_path": "nvidia_peermem"})
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert "nvidia_peermem" in node.sh("grep '^ib_core ' /proc/modules")
    assert node.run("cat", "/sys/kernel/mm/memory_peers/nv_mem/version").strip() == DRIVER_VERSION


def test_nothing_is_left_to_do_and_the_stack_is_sound(node: Machine) -> None:
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    assert node.failing(*STACK, "gpudirect.") == {}


def test_pcie_registers_are_the_hypervisors_in_a_machine_that_admits_one(node: Machine) -> None:
    """test_pci.py has the same hardware on bare metal, and there they change."""
    for bridge in ("0001:00:00.0", "0001:00:01.0"):
        assert int(node.run("setpci", "-s", bridge, "ECAP_ACS+6.w"), 16) != 0
    (judged,) = node.railwright("validate").verdicts("pci.acs")
    assert judged["status"] == "skipped"
    assert "virtual machine" in judged["message"], judged


def test_loaded_and_not_registered_is_a_failure(node: Machine) -> None:
    """The module from before the stack, made to load all the same: NCCL would take it for a working path."""
    kernel = node.run("uname", "-r").strip()
    placed = f"/lib/modules/{kernel}/updates/dkms/nvidia-peermem.ko"
    node.sh(
        "mkdir /tmp/early; cp /usr/src/nvidia-*/* /tmp/early/; cd /tmp/early; sed -i 's/^OFED := .*/OFED := none/' Makefile;"
        f"make -s -C /lib/modules/{kernel}/build M=/tmp/early modules; cp nvidia-peermem.ko {placed}; depmod;"
        "modprobe -r nvidia_peermem; modprobe nvidia_peermem standin_load_anyway=1",
        timeout=600,
    )
    said = node.failing("gpudirect.")
    assert "not" in said["gpudirect.peermem"][0], said
    assert "before OFED" in said["gpudirect.built"][0], "and the order of building is named as the cause"


def test_apply_puts_the_order_right(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert "nvidia_peermem" in node.sh("grep '^ib_core ' /proc/modules")
    assert node.failing("gpudirect.") == {}


def test_a_reboot_keeps_every_setting(node: Machine) -> None:
    node.reboot()
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    assert node.failing(*STACK, "gpudirect.") == {}
    assert "nvidia_peermem" in node.sh("grep '^ib_core ' /proc/modules")
