# SPDX-License-Identifier: GPL-3.0-or-later
"""DKMS modules of the stack and the GPU driver: planned before their packages come, built in order, refused on the wrong kernel."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.fixtures.node_stacks import kernel
from tests.unit.areas.stack.dkms.conftest import DOCA, KERNEL, RELEASE, Node

from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import carry_out
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.modules import BUILD_SECONDS
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import dkms
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import check_expected

WHAT = f"modules of the doca stack built for {KERNEL}"
DOCA_PACKAGE = {"doca_ofed": RELEASE + "-1"}


def test_a_bare_node_plans_what_its_packages_will_need(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    """The plan that is consented to must hold what apply finds after the package step, or it would say "plan diverged"."""
    before = planner().plan()
    assert [(change.what, change.before, change.after, change.disruption) for change in before] == [(WHAT, None, f"doca {RELEASE}", "none")]
    assert before[0].external  # the packages' scripts build; a role that brings other packages must not try
    node.packages(**DOCA_PACKAGE)
    added()
    after = planner().plan()
    assert [(change.what, change.external) for change in after] == [(WHAT, False)]
    check_expected(after, [change.key for change in before])


def test_where_the_packages_scripts_built_everything_nothing_is_left(
    node: Node, planner: Callable[..., Any], added: Callable[..., None]
) -> None:
    node.packages(**DOCA_PACKAGE)
    added(installed=True)
    assert planner().plan() == []
    assert planner().conflicts() == []


@pytest.mark.parametrize(("installed", "pending"), [
    ({"nvidia-open": "580.95.05-1"}, None), ({"nvidia-open": "570.1-1"}, "nvidia-open 580*"), ({}, "nvidia-open 580*"), (None, None)])
def test_what_the_gpu_driver_waits_for(planner: Callable[..., Any], installed: dict[str, str] | None, pending: str | None) -> None:
    """A package database that cannot be read promises nothing: no build is announced for a package that may be there."""
    wanted, observed = planner()._parts
    (found,) = (row for row in dkms.module_sets(wanted._replace(gpu=(("nvidia-open", "580*"),)), observed._replace(installed=installed))
                if row.title == "GPU driver")
    assert found.pending == pending


@pytest.mark.parametrize("how", [{}, {"built": True}])
def test_registered_or_built_is_not_installed(node: Node, planner: Callable[..., Any], added: Callable[..., None], how: Any) -> None:
    node.packages(**DOCA_PACKAGE)
    added(**how)
    change = planner().plan()[0]
    assert change.before == {"mlnx-ofed-kernel": f"{DOCA}, {'built' if how else 'added'}"}
    which = (f"mlnx-ofed-kernel/{DOCA}", "-k", KERNEL)
    assert [op.argv for op in change.ops] == [("dkms", "install", *which)]
    assert [op.undo for op in change.ops] == [(("dkms", "uninstall", *which),)]
    assert change.ops[0].seconds == 1800
    assert all(result.ok for result in planner().apply())
    assert planner().plan() == []


def test_the_files_of_an_installed_module_are_gone(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(**DOCA_PACKAGE)
    added(installed=True)
    (node.tree.root / f"lib/modules/{KERNEL}/updates/dkms/mlnx-ofed-kernel.ko").unlink()
    change = planner().plan()[0]
    assert change.before == {"mlnx-ofed-kernel": f"{DOCA}, broken"}
    assert change.ops[0].argv[-1] == "--force"  # dkms takes it for installed and would refuse without
    planner().apply()
    assert planner().plan() == []


def test_a_module_whose_source_is_gone_is_refused(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(**DOCA_PACKAGE)
    added()
    (node.tree.root / f"usr/src/mlnx-ofed-kernel-{DOCA}/dkms.conf").unlink()
    assert [problem.subject for problem in planner().conflicts()] == [f"DKMS mlnx-ofed-kernel/{DOCA}"]


def test_the_stack_is_built_before_the_driver_and_its_core_first(
    node: Node, planner: Callable[..., Any], added: Callable[..., None]
) -> None:
    node.packages(**DOCA_PACKAGE)
    for name in ("gdrdrv", "iser", "nvidia", "nv_peer_mem", "mlnx-ofed-kernel", "unrelated"):
        added(name, "1.0")
    ops = [op.argv[2] for change in planner().plan() for op in change.ops]
    assert ops == ["mlnx-ofed-kernel/1.0", "iser/1.0", "nvidia/1.0", "gdrdrv/1.0"]


def test_only_the_newest_registered_version_counts(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(**DOCA_PACKAGE)
    added(version="24.10.OFED.24.10.0.7.0.1", installed=True)
    added(version=DOCA)
    assert [op.argv[2] for op in planner().plan()[0].ops] == [f"mlnx-ofed-kernel/{DOCA}"]


def test_a_module_that_is_not_meant_for_this_kernel_is_left_alone(
    node: Node, planner: Callable[..., Any], added: Callable[..., None]
) -> None:
    node.packages(**DOCA_PACKAGE)
    added(installed=True)
    added("iser", "1.0")
    node.tree.write("usr/src/iser-1.0/dkms.conf", 'PACKAGE_NAME=iser\nBUILD_EXCLUSIVE_KERNEL="^5\\.14\\..*el9"\n')
    assert planner().plan() == []
    assert planner().notes() == [f"dkms: iser/1.0 is not meant for kernel {KERNEL} (BUILD_EXCLUSIVE_KERNEL), it is left alone"]


def test_a_pattern_that_python_warns_of_is_left_to_dkms(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(**DOCA_PACKAGE)
    added(installed=True)
    added("iser", "1.0")
    node.tree.write("usr/src/iser-1.0/dkms.conf", 'PACKAGE_NAME=iser\nBUILD_EXCLUSIVE_KERNEL="^[[5]"\n')
    assert [str(item.what) for item in planner().plan()] == [f"modules of the doca stack built for {KERNEL}"]


def test_an_upgrade_is_in_the_plan_before_the_packages_come(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(doca_ofed="3.2.1-044000")
    added(installed=True)
    change = planner().plan()[0]
    assert (change.what, change.before) == (WHAT, {"mlnx-ofed-kernel": f"{DOCA}, installed"})


def test_back_to_inbox_removes_what_stayed_registered(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    added(installed=True)
    change = planner(rdma_stack="inbox").plan()[0]
    assert (change.what, change.after) == ("modules of a vendor's stack removed", None)
    name = f"mlnx-ofed-kernel/{DOCA}"
    assert change.ops[0].argv == ("dkms", "remove", name, "--all")
    assert change.ops[0].undo == (("dkms", "add", name), ("dkms", "install", name, "-k", KERNEL))
    planner(rdma_stack="inbox").apply()
    assert planner(rdma_stack="inbox").plan() == []


def test_a_stack_without_any_module_for_this_kernel_is_refused(node: Node, planner: Callable[..., Any]) -> None:
    node.packages(**DOCA_PACKAGE)
    assert "has no mlx5_core for kernel" in planner().conflicts()[0].message
    kernel(node.tree, "x", "")
    node.tree.write(f"lib/modules/{KERNEL}/modules.dep", "extra/mlnx-ofa_kernel/drivers/net/mlx5_core.ko:\n")
    assert planner().conflicts() == []  # a prebuilt one


def test_a_container_builds_nothing_and_says_so(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.tree.write("run/.containerenv", "")
    added()
    assert planner().plan() == []
    assert planner().conflicts() == []
    assert len(planner().notes()) == 1


def test_keys_are_no_package_keys(planner: Callable[..., Any]) -> None:
    assert all(change.package is None for change in planner().plan())
    assert BUILD_SECONDS >= 1800


def guard(planner: Callable[..., Any], **values: Any) -> list[tuple[str, str]]:
    return [(problem.subject, problem.message) for problem in planner(**values).conflicts()]


def test_a_newer_kernel_that_waits_is_refused_and_named(node: Node, planner: Callable[..., Any]) -> None:
    kernel(node.tree, "6.1.0-30-amd64", "kernel/x.ko:\n")
    assert [subject for subject, _message in guard(planner)] == [f"kernel {KERNEL}"]
    message = guard(planner)[0][1]
    assert "6.1.0-30-amd64 (newest installed kernel)" in message
    assert "reboot the node first" in message
    assert guard(planner, rdma_stack="inbox") == []  # nothing would be built


def test_nothing_to_build_is_nothing_to_refuse(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(**DOCA_PACKAGE)
    added(installed=True)
    kernel(node.tree, "6.1.0-30-amd64", "kernel/x.ko:\n")
    assert guard(planner) == []


def test_a_kernel_that_grub_was_told_to_keep_is_the_one_to_build_for(node: Node, planner: Callable[..., Any]) -> None:
    kernel(node.tree, "6.1.0-30-amd64", "kernel/x.ko:\n")
    node.tree.write("etc/default/grub", "GRUB_DEFAULT=saved\n")
    node.tree.write("boot/grub/grubenv", f"saved_entry=gnulinux-advanced-0a1b>gnulinux-{KERNEL}-advanced-0a1b\n")
    assert guard(planner) == []


def test_a_running_kernel_whose_modules_are_gone_needs_a_reboot(node: Node, planner: Callable[..., Any]) -> None:
    kernel(node.tree, "6.1.0-30-amd64", "kernel/x.ko:\n")
    (node.tree.root / f"boot/vmlinuz-{KERNEL}").unlink()
    (node.tree.root / f"lib/modules/{KERNEL}/modules.dep").unlink()
    assert "not on disk any more (installed: 6.1.0-30-amd64)" in guard(planner)[0][1]


def test_missing_headers_are_a_package_to_come_where_its_name_is_known(node: Node, planner: Callable[..., Any]) -> None:
    (node.tree.root / f"lib/modules/{KERNEL}/build").unlink()
    assert guard(planner) == []  # area packages plans linux-headers-KERNEL
    node.tree.write("etc/os-release", 'ID=sles\nVERSION_ID="15.7"\nID_LIKE=suse\n')
    node.tree.write("cmd/rpm_-qa", "bash-5.2-1.x86_64\n")
    assert "its headers are not installed" in guard(planner)[0][1]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [("is already enrolled", False), ("is not enrolled", True), ("is already in the enrollment request", True), ("", True)],
)
def test_secure_boot_without_an_enrolled_key_is_refused(node: Node, planner: Callable[..., Any], answer: str, refused: bool) -> None:
    node.tree.write("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\x00\x00\x00\x01")
    key = "/var/lib/dkms/mok.pub"
    node.tree.write(key[1:], "")
    node.tree.write("cmd/mokutil_--test-key_-var-lib-dkms-mok.pub", f"{key} {answer}\n" if answer else "")
    assert [subject for subject, _message in guard(planner)] == (["Secure Boot"] if refused else [])


def test_secure_boot_off_is_no_problem_and_without_any_key_it_is(node: Node, planner: Callable[..., Any]) -> None:
    variable = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    node.tree.write(variable, b"\x06\x00\x00\x00\x00")
    assert guard(planner) == []
    node.tree.write(variable, b"\x06\x00\x00\x00\x01")
    assert "no key yet" in guard(planner)[0][1]
    node.tree.write("sys/firmware/efi/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23", b"\x06\x00\x00\x00\x01")
    assert guard(planner) == []  # shim verifies nothing


def test_a_failed_build_says_what_the_compiler_said(node: Node, planner: Callable[..., Any], added: Callable[..., None]) -> None:
    node.packages(**DOCA_PACKAGE)
    added()
    node.broken_build = True
    change = planner().plan()[0]
    journal = Journal(node, "r1")
    with pytest.raises(ApplyError, match="no member named 'x'") as raised:
        carry_out(node, [change], journal)
    assert "The end of its make.log:" in str(raised.value)
    assert raised.value.rolled_back
