# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver stack on a machine that boots by GRUB: real apt, real DKMS against real headers, real reboots, two real kernels.

What the modules drive is stood in for (modules/README.md): a GPU and an HCA that nothing can be sent through. The tests are one
story and run in this order.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab_images import DRIVERS, HEADERS_DEB, KERNEL_DEB
from lab_machine import Machine, values_of
from lab_vendor import DRIVER_VERSION, STACK_DKMS, STACK_VERSION
from railwright import lab

RECIPE = DRIVERS
HARDWARE = lab.Hardware()
HCA = "0001:02:00.0"  # the stand-in NIC
STACK = ("kernel.", "stack.")
SITE = {
    "fabric": "roce",
    "rdma_stack": "doca",
    "rdma_stack_version": "3.2.3",
    "mtu": 9000,
    "gpudirect_path": "none",
    "consent": ["link", "restart", "reload"],
    "expect": {"link_layer": "Ethernet"},
    "validate_perftest": False,
}


def failing(machine: Machine, *names: str) -> dict[str, list[str]]:
    """The messages of failing verdicts, by check. validate has more to say about a NIC without a wire; that is not asked here."""
    found: dict[str, list[str]] = {}
    run = machine.railwright("validate")
    for item in run.verdicts(*names):
        if item["status"] == "fail":
            found.setdefault(item["check"], []).append(item["message"])
    assert run.verdicts(*names), "validate has to say something about them"
    return found


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
    assert failing(node, *STACK, "gpudirect.") == {}


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
    said = failing(node, "gpudirect.")
    assert "not" in said["gpudirect.peermem"][0], said
    assert "before OFED" in said["gpudirect.built"][0], "and the order of building is named as the cause"


def test_apply_puts_the_order_right(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert "nvidia_peermem" in node.sh("grep '^ib_core ' /proc/modules")
    assert failing(node, "gpudirect.") == {}


def test_a_reboot_keeps_every_setting(node: Machine) -> None:
    node.reboot()
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    assert failing(node, *STACK, "gpudirect.") == {}
    assert "nvidia_peermem" in node.sh("grep '^ib_core ' /proc/modules")


def test_a_kernel_without_modules_is_caught_before_the_reboot(node: Machine) -> None:
    """Installed by dpkg with the distribution's hooks, without its headers: DKMS can build nothing, and GRUB boots it next."""
    node.run("dpkg", "-i", KERNEL_DEB, timeout=600)
    said = failing(node, *STACK)
    assert STACK_DKMS in said["kernel.newest"][0], said


def test_and_after_it_by_what_runs(node: Machine) -> None:
    running = node.run("uname", "-r")
    node.reboot()
    assert node.run("uname", "-r") != running, "GRUB took the newer kernel"
    said = failing(node, *STACK)
    assert any(STACK_DKMS in text or "DKMS" in text for text in said["stack.dkms"]), said


def test_apply_is_refused_while_the_headers_are_missing(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "headers" in str(run.document["nodes"]["node1"]), run.document


def test_apply_builds_for_the_kernel_that_runs(node: Machine) -> None:
    """The package's own hook would build too: it is left out here, so that apply has to."""
    node.sh(f"mv /etc/kernel/header_postinst.d/dkms /root/ 2>/dev/null || true; dpkg -i {HEADERS_DEB}", timeout=600)
    for _step in ("the stack", "what needs the HCA that comes with it"):
        run = node.railwright("apply")
        assert run.code == 0, (run.document, run.err)
    kernel = node.run("uname", "-r").strip()
    assert f"{STACK_DKMS}/{STACK_VERSION}, {kernel}, x86_64: installed" in node.run("dkms", "status")
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    assert failing(node, *STACK) == {}
