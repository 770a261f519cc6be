# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments: the boot loader's configuration decides, only ours are taken away, and a reboot makes them effective."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel.kernel_args import GRUB_FILE, RECORD, grub_text
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

from .conftest import OLD_GRUB, Machine, Planner

QUIET = {"pci_tuning_acs": "keep", "pci_tuning_max_read_request": 0}
BOOT, EFFECT = "kernel arguments at boot", "kernel arguments in effect"
INTEL = ["intel_iommu=on", "iommu=pt"]


@pytest.fixture
def tuned(planner: Callable[..., Planner]) -> Callable[..., Planner]:
    """A planner that wants nothing but kernel arguments."""
    return lambda *identity, **values: planner(*identity, **QUIET, **values)


@pytest.fixture
def with_grubby(machine: Machine) -> Machine:
    machine.put("/usr/sbin/grubby", "", 0o755)
    return machine


def reboot(machine: Machine) -> None:
    line = next(line for line in (machine.read("/boot/grub/grub.cfg") or "").splitlines() if "linux" in line)
    args = machine.read("/boot/args") or line.split(None, 2)[2]
    machine.put("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz {args}\n")


def test_grub_gets_a_file_and_a_reboot_is_asked_for(tuned: Callable[..., Planner], machine: Machine) -> None:
    node = tuned(pci_tuning_iommu="passthrough", pci_tuning_kernel_args=["numa_balancing=disable"])
    at_boot, in_effect = node.plan()
    wanted = [*INTEL, "numa_balancing=disable"]
    assert (at_boot.what, at_boot.before, at_boot.after, at_boot.disruption, at_boot.external) == (BOOT, [], wanted, "none", False)
    assert (in_effect.what, in_effect.before, in_effect.after, in_effect.disruption) == (EFFECT, [], wanted, "reboot")
    assert in_effect.needs_reboot
    machine.apply(node.plan())
    assert ("update-grub",) in machine.commands
    assert node.drift() == [EFFECT]
    reboot(machine)
    assert node.drift() == []


def test_isolated_cpus_and_preemption_are_kernel_arguments(tuned: Callable[..., Planner], machine: Machine) -> None:
    node = tuned(pci_tuning_isolated_cpus="4-31,36-63", pci_tuning_preemption="full", pci_tuning_kernel_args=["numa_balancing=disable"])
    at_boot, in_effect = node.plan()
    words = ["isolcpus=managed_irq,domain,4-31,36-63", "nohz_full=4-31,36-63", "preempt=full", "numa_balancing=disable"]
    assert (at_boot.after, in_effect.after, in_effect.disruption) == (words, words, "reboot")
    machine.apply(node.plan())
    reboot(machine)
    assert node.drift() == []
    assert tuned().plan()[0].after == [], "and taken away again"


def test_amd_needs_no_argument_of_its_own_and_arm_spells_it_otherwise(
    tuned: Callable[..., Planner], machine: Machine, identity: Identity
) -> None:
    machine.put("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n")
    assert tuned(pci_tuning_iommu="passthrough").plan()[0].after == ["iommu=pt"]
    assert tuned(identity._replace(arch="aarch64"), pci_tuning_iommu="passthrough").plan()[0].after == ["iommu.passthrough=1"]


def test_an_intel_iommu_below_another_cpu_is_told_too(tuned: Callable[..., Planner], machine: Machine) -> None:
    machine.put("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n")
    machine.put("/sys/firmware/acpi/tables/DMAR", "")
    assert tuned(pci_tuning_iommu="passthrough").plan()[0].after == INTEL


def test_a_node_without_wishes_is_not_asked(tuned: Callable[..., Planner], with_grubby: Machine) -> None:
    assert tuned().drift() == []
    assert [command for command in with_grubby.commands if command[0] == "grubby"] == []


def test_an_argument_that_somebody_else_sets_is_not_ours(tuned: Callable[..., Planner], machine: Machine) -> None:
    machine.put("/boot/grub/grub.cfg", f"\tlinux\t/vmlinuz {OLD_GRUB} iommu=pt\n")
    machine.put("/proc/cmdline", f"{OLD_GRUB} iommu=pt\n")
    node = tuned(pci_tuning_iommu="passthrough")
    assert [(change.what, change.after) for change in node.plan()] == [(BOOT, ["intel_iommu=on"]), (EFFECT, INTEL)]
    machine.put("/boot/grub/grub.cfg", f"\tlinux\t/vmlinuz {OLD_GRUB} iommu=pt intel_iommu=on\n")
    machine.put("/proc/cmdline", f"{OLD_GRUB} iommu=pt intel_iommu=on\n")
    assert node.drift() == []
    assert not machine.exists(GRUB_FILE)


def test_only_what_we_set_is_taken_away(tuned: Callable[..., Planner], machine: Machine) -> None:
    both = tuned(pci_tuning_kernel_args=["numa_balancing=disable", "init_on_alloc=0"])
    both.converge()
    reboot(machine)
    assert both.drift() == []
    one = tuned(pci_tuning_kernel_args=["init_on_alloc=0"])
    assert [(change.what, change.before, change.after) for change in one.plan()] == [
        (BOOT, ["numa_balancing=disable", "init_on_alloc=0"], ["init_on_alloc=0"])
    ]
    assert one.converge() == []
    none = tuned()
    assert none.drift() == [BOOT]
    assert none.converge() == []
    assert not machine.exists(GRUB_FILE)
    assert OLD_GRUB in (machine.read("/boot/grub/grub.cfg") or "")


def test_a_generated_configuration_that_lacks_them_is_drift(tuned: Callable[..., Planner], machine: Machine) -> None:
    node = tuned(pci_tuning_kernel_args=["init_on_alloc=0"])
    node.converge()
    reboot(machine)
    machine.put("/boot/grub/grub.cfg", f"\tlinux\t/vmlinuz {OLD_GRUB}\n")  # a later file of grub.d undid it
    assert node.drift() == [BOOT]


def test_arguments_that_contradict_are_refused(tuned: Callable[..., Planner], machine: Machine) -> None:
    machine.put("/boot/grub/grub.cfg", f"\tlinux\t/vmlinuz {OLD_GRUB} intel_iommu=off\n")
    found = tuned(pci_tuning_iommu="passthrough").conflicts()
    assert len(found) == 1
    assert found[0].startswith("intel_iommu=on is wanted, but the boot loader's configuration has intel_iommu=off already")
    machine.put("/boot/grub/grub.cfg", f"\tlinux\t/vmlinuz {OLD_GRUB} console=tty0\n")
    assert tuned(pci_tuning_kernel_args=["console=ttyS0"]).conflicts() == []  # the kernel takes several


def test_grubby_adds_and_removes_with_a_record(tuned: Callable[..., Planner], with_grubby: Machine) -> None:
    node = tuned(pci_tuning_iommu="passthrough")
    change = node.plan()[0]
    assert change.ops[0].argv == ("grubby", "--update-kernel=ALL", "--args=intel_iommu=on iommu=pt")
    assert change.ops[0].undo == (("grubby", "--update-kernel=ALL", "--remove-args=intel_iommu=on iommu=pt"),)
    assert node.converge() == [EFFECT]
    reboot(with_grubby)
    assert node.drift() == []
    assert (with_grubby.read(RECORD) or "").splitlines()[-2:] == INTEL
    none = tuned()
    assert none.plan()[0].ops[0].argv == ("grubby", "--update-kernel=ALL", "--remove-args=intel_iommu=on iommu=pt")
    assert none.converge() == []
    assert with_grubby.read("/boot/args") == OLD_GRUB
    assert not with_grubby.exists(RECORD)


def test_grubby_leaves_what_others_added(tuned: Callable[..., Planner], with_grubby: Machine) -> None:
    with_grubby.put("/boot/args", OLD_GRUB + " iommu=pt")
    assert tuned(pci_tuning_iommu="passthrough").plan()[0].ops[0].argv[-1] == "--args=intel_iommu=on"
    assert tuned().drift() == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/boot/loader/loader.conf", "systemd-boot"),
        ("/etc/zipl.conf", "zipl"),
        ("/boot/grub2/grub.cfg", "GRUB without grubby"),
        (None, "unknown"),
    ],
)
def test_another_boot_loader_is_named(tuned: Callable[..., Planner], machine: Machine, path: str | None, name: str) -> None:
    Path(machine.path("/boot/grub/grub.cfg")).unlink()
    if path is not None:
        machine.put(path, "\n")
    node = tuned(pci_tuning_kernel_args=["init_on_alloc=0"])
    assert len(node.conflicts()) == 1
    assert f"the boot loader is {name};" in node.conflicts()[0]
    assert tuned().conflicts() == []
    machine.put("/proc/cmdline", "ro init_on_alloc=0\n")
    assert node.conflicts() == []
    assert node.drift() == []


def test_the_virtual_machine_gets_arguments_but_no_passthrough(tuned: Callable[..., Planner], identity: Identity) -> None:
    node = tuned(identity._replace(virtual="kvm"), pci_tuning_iommu="passthrough", pci_tuning_kernel_args=["init_on_alloc=0"])
    assert node.plan()[0].after == ["init_on_alloc=0"]


def test_a_real_shell_reads_our_file_as_grub_mkconfig_does(tmp_path: Path) -> None:
    """grub-mkconfig is a shell script that sources the file after /etc/default/grub."""
    shell = shutil.which("sh")
    assert shell is not None
    (tmp_path / "railwright.cfg").write_text(grub_text(("iommu=pt", "a.b-c_d=1,2:3;4@5/6+7")))
    script = f'GRUB_CMDLINE_LINUX="console=ttyS0"; . {tmp_path}/railwright.cfg; printf %s "$GRUB_CMDLINE_LINUX"'
    done = subprocess.run([shell, "-euc", script], capture_output=True, text=True, check=True)
    assert done.stdout == "console=ttyS0 iommu=pt a.b-c_d=1,2:3;4@5/6+7"
