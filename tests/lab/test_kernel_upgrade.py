# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel upgrade under a driver stack, on a machine that boots by GRUB: two real kernels, real DKMS, the distribution's own hooks.

What the modules drive is stood in for (modules/README.md). The tests are one story and run in this order.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab_images import DRIVERS, HEADERS_DEB, KERNEL_DEB
from lab_machine import Machine, values_of
from lab_vendor import HCA, SITE, STACK, STACK_DKMS, STACK_VERSION
from railwright import lab

RECIPE = DRIVERS
HARDWARE = lab.Hardware()


@pytest.fixture(scope="module")
def node(machine: Machine, vendor: dict[str, Any]) -> Machine:
    """The stack, built for the kernel that the machine came with, and the HCA that comes with it."""
    machine.stand_in_hardware()
    machine.rails({"name": "rail0", "match": {"pci": HCA}, "address": "10.77.0.11/24"})
    machine.site({**SITE, **values_of(vendor)})
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    machine.bring_hca()
    assert machine.failing(*STACK) == {}
    return machine


def test_a_kernel_without_modules_is_caught_before_the_reboot(node: Machine) -> None:
    """Installed by dpkg with the distribution's hooks, without its headers: DKMS can build nothing, and GRUB boots it next."""
    node.run("dpkg", "-i", KERNEL_DEB, timeout=600)
    said = node.failing(*STACK)
    assert STACK_DKMS in said["kernel.newest"][0], said


def test_and_after_it_by_what_runs(node: Machine) -> None:
    running = node.run("uname", "-r")
    node.reboot()
    assert node.run("uname", "-r") != running, "GRUB took the newer kernel"
    said = node.failing(*STACK)
    assert any(STACK_DKMS in text or "DKMS" in text for text in said["stack.dkms"]), said


def test_apply_is_refused_while_the_headers_are_missing(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "headers" in str(run.document["nodes"]["node1"]), run.document


def test_apply_builds_for_the_kernel_that_runs(node: Machine) -> None:
    """The package's own hook would build too: it is left out here, so that apply has to."""
    node.sh(f"mv /etc/kernel/header_postinst.d/dkms /root/ 2>/dev/null || true; dpkg -i {HEADERS_DEB}", timeout=600)
    first = node.railwright("apply")
    # 2: the HCA comes with the stack, and what it needs is listed and left to the next apply.
    assert first.code in (0, 2), (first.document, first.err)
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    kernel = node.run("uname", "-r").strip()
    assert f"{STACK_DKMS}/{STACK_VERSION}, {kernel}, x86_64: installed" in node.run("dkms", "status")
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    assert node.failing(*STACK) == {}
