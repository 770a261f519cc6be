# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel_version on a machine that boots by GRUB: two real kernels from a signed repository, their own hooks, real DKMS.

Forward and back by `apply`; test_upgrade_kernels.py does it by `upgrade`. The GPU driver is a DKMS module that does nothing
(modules/README.md). The tests are one story and run in this order.
"""

from __future__ import annotations

import pytest

from lab_debs import Keyring
from lab_images import KERNELS
from lab_kernels import CONSENT, SITE, fitted, kernels_of, runs
from lab_machine import Machine, Outcome
from railwright import lab

RECIPE = KERNELS
HARDWARE = lab.Hardware()
DROP_IN = "/etc/default/grub.d/zz-railwright-kernel.cfg"


@pytest.fixture(scope="module")
def node(machine: Machine, keyring: Keyring, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Provisioned, with a DKMS module for the kernel that the machine came with."""
    fitted(machine, keyring, tmp_path_factory.mktemp("kernel"))
    machine.site(SITE)
    done = machine.railwright("apply")
    assert done.code in (0, 2), (done.document, done.err)
    return machine


@pytest.fixture(scope="module")
def kernels(node: Machine) -> tuple[str, str]:
    return kernels_of(node)


def pin(machine: Machine, release: str) -> None:
    machine.site({**SITE, "rdma_kernel_version": release})


def changes(outcome: Outcome) -> list[str]:
    return [change["key"] for change in outcome.document["nodes"]["node1"]["changes"] if change.get("applied", True)]


def test_a_reboot_needs_consent_and_nothing_has_changed_without_it(node: Machine, kernels: tuple[str, str]) -> None:
    _old, new = kernels
    pin(node, new)
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "reboot" in str(run.document["nodes"]["node1"])
    assert new not in node.run("ls", "/boot")


def test_apply_brings_the_pinned_kernel_and_what_is_built_for_it(node: Machine, kernels: tuple[str, str]) -> None:
    _old, new = kernels
    pin(node, new)
    run = node.railwright("apply", *CONSENT)
    assert run.code == 0, (run.document, run.err)
    made = changes(run)
    assert {f"kernel: package linux-image-{new}", f"kernel: package linux-headers-{new}", f"kernel: kernel {new} runs"} <= set(made)
    runs(node, new)
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document


def test_a_pin_to_the_older_kernel_goes_back_to_it_and_stays_there(node: Machine, kernels: tuple[str, str]) -> None:
    old, new = kernels
    pin(node, old)
    run = node.railwright("apply", *CONSENT)
    assert run.code == 0, (run.document, run.err)
    assert "kernel: kernel that the next boot starts" in changes(run)
    runs(node, old)
    assert f"gnulinux-{old}-advanced" in node.run("cat", DROP_IN)
    assert f"vmlinuz-{new}" in node.run("ls", "/boot"), "kernels are never removed"
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
