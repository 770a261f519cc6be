# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules: loaded now, at every boot, and what a kernel or a node does not allow."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel import kernel_modules

FILE = kernel_modules.BOOT_FILE
KERNEL = "6.1.0-26-amd64"


def test_soft_roce_needs_rxe_now_and_at_boot(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    assert plans.keys("kernel_modules") == [
        f"file {FILE}", "module rdma_rxe loaded", "module ib_uverbs loaded", "module rdma_ucm loaded",
    ]  # fmt: skip
    plans.converge("kernel_modules")
    assert node.get(FILE).splitlines()[1:] == ["rdma_rxe", "ib_uverbs", "rdma_ucm"]
    assert ("modprobe", "rdma_rxe") in node.commands


def test_hardware_has_ipoib_only_for_addresses_on_infiniband(planner: Callable[..., Any]) -> None:
    def modules(**values: Any) -> list[str]:
        return [key.split()[1] for key in planner(rdma_stack="inbox", **values).keys("kernel_modules")[1:]]

    assert modules() == ["ib_core", "ib_uverbs", "rdma_ucm", "ib_umad"]
    guid = [{"name": "rail0", "match": {"guid": "b8ce:f603:00ab:0000"}, "address": "10.0.0.1/24"}]
    assert "ib_ipoib" in modules(fabric="infiniband", mtu=2044, rails=guid)
    bare = [{"name": "rail0", "match": {"guid": "b8ce:f603:00ab:0000"}}]
    assert "ib_ipoib" not in modules(fabric="infiniband", mtu=2044, rails=bare)


def test_an_unloaded_module_alone_can_be_undone(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    plans.converge("kernel_modules")
    node.put("/proc/modules", node.get("/proc/modules").replace("rdma_rxe ", "rdma_other "))
    (change,) = plans.plan("kernel_modules")
    assert (change.what, change.before, change.after) == ("module rdma_rxe loaded", False, True)
    assert change.ops[0].undo == (("modprobe", "-r", "rdma_rxe"),)


def test_the_boot_file_alone(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    plans.converge("kernel_modules")
    node.put(FILE, "rdma_rxe\n")
    (change,) = plans.plan("kernel_modules")
    assert change.what == f"file {FILE}"
    assert "not written by railwright" in change.why


def test_built_in_modules_count_as_loaded(planner: Callable[..., Any], node: Any) -> None:
    node.put(f"/lib/modules/{KERNEL}/modules.builtin", "kernel/drivers/infiniband/core/ib-uverbs.ko\n")
    node.put("/sys/module/rdma_ucm/refcnt", "0\n")
    assert planner().keys("kernel_modules")[1:] == ["module rdma_rxe loaded"]


def test_extra_modules_join_under_the_kernel_s_spelling(planner: Callable[..., Any], node: Any) -> None:
    node.put(f"/lib/modules/{KERNEL}/modules.dep", node.get(f"/lib/modules/{KERNEL}/modules.dep") + "extra/nvidia-peermem.ko.xz:\n")
    plans = planner(rdma_stack_extra_modules=["nvidia-peermem", "rdma-rxe"])
    assert plans.keys("kernel_modules")[-1] == "module nvidia_peermem loaded"
    assert len(plans.keys("kernel_modules")) == 5
    assert plans.problems("kernel_modules") == []


def test_a_kernel_without_the_module_is_named(planner: Callable[..., Any], node: Any) -> None:
    node.put(f"/lib/modules/{KERNEL}/modules.dep", "kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\n")
    assert planner().problems("kernel_modules") == [f"module rdma_rxe: the running kernel {KERNEL} has no module rdma_rxe"]


def test_ubuntu_s_extra_package_brings_what_is_missing(planner: Callable[..., Any], node: Any) -> None:
    node.put("/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n')
    node.put(f"/lib/modules/{KERNEL}/modules.dep", "kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\n")
    plans = planner()
    assert plans.problems("kernel_modules") == []
    assert f"package linux-modules-extra-{KERNEL}" in plans.keys("packages")


def test_a_kernel_whose_modules_were_replaced_asks_for_a_reboot(planner: Callable[..., Any], node: Any) -> None:
    node.remove(f"/lib/modules/{KERNEL}/modules.dep")
    assert planner().problems("kernel_modules") == []
    node.put("/lib/modules/6.1.0-30-amd64/modules.dep", "")
    (problem,) = planner().problems("kernel_modules")
    assert problem.startswith(f"kernel {KERNEL}: ")
    assert "6.1.0-30-amd64" in problem
    assert "reboot" in problem


@pytest.mark.parametrize("line", ["blacklist rdma_rxe", "install rdma-rxe /bin/false"])
def test_a_forbidden_module_names_the_file(planner: Callable[..., Any], node: Any, line: str) -> None:
    node.put("/etc/modprobe.d/hardening.conf", f"# CIS\n{line}\n")
    (problem,) = planner().problems("kernel_modules")
    assert problem.startswith("module rdma_rxe: /etc/modprobe.d/hardening.conf forbids")
    node.put("/etc/modprobe.d/hardening.conf", "blacklist floppy\ninstall rdma_rxe /sbin/modprobe --ignore-install rdma_rxe\n")
    assert planner().problems("kernel_modules") == []


def test_a_container_writes_the_file_and_says_why_it_does_not_load(planner: Callable[..., Any], node: Any) -> None:
    node.put("/run/.containerenv", "")
    node.put(f"/lib/modules/{KERNEL}/modules.dep", "")
    plans = planner()
    assert plans.keys("kernel_modules") == [f"file {FILE}"]
    assert plans.problems("kernel_modules") == []
    assert "container" in plans.notes("kernel_modules")[0]
