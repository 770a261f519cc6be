# SPDX-License-Identifier: GPL-3.0-or-later
"""Which modules run, on a captured node with DOCA-OFED: restart or reboot, whom it cuts, and what has to let go first."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.fixtures.node_stacks import UBUNTU_KERNEL
from tests.fixtures.node_text import dpkg_status
from tests.unit.areas.stack.conftest import IMAGE, Node

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import stack
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import check_expected
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change

IN_USE = "kernel modules of doca in use"
RESTART = ("systemctl", "restart", "openibd.service")


def argv(change: Change) -> list[tuple[str, ...]]:
    return [op.argv for op in change.ops]


def test_a_node_whose_modules_are_those_on_disk_needs_nothing(planner: Callable[..., Any]) -> None:
    assert planner().plan() == []
    assert planner().conflicts() == []
    assert planner().notes() == []


@pytest.mark.parametrize(
    ("version", "before"),
    [("24.10-0.7.0", "doca 24.10-0.7.0; on disk 25.10-2.4.1"), (None, "inbox; on disk 25.10-2.4.1")],
    ids=["upgrade", "from inbox"],
)
def test_new_modules_on_disk_and_old_ones_loaded_need_a_restart(
    node: Node, planner: Callable[..., Any], version: str | None, before: str
) -> None:
    node.load(version)
    change = planner().one(IN_USE)
    assert (change.before, change.after, change.disruption) == (before, "doca 3.2.2", "reload")
    assert argv(change) == [("modprobe", "-r", "nvidia_peermem"), RESTART]
    assert change.ops[0].undo == (("modprobe", "nvidia_peermem"),)


def test_the_same_version_built_anew_is_seen_by_its_srcversion(node: Node, planner: Callable[..., Any]) -> None:
    node.load("25.10-2.4.1")
    assert planner().whats() == [IN_USE]


def test_before_the_packages_come_the_plan_holds_what_they_will_need(node: Node, planner: Callable[..., Any]) -> None:
    """Inbox modules, nothing of the vendor's: the plan and the state step after the packages have the same keys."""
    node.load(None)
    unit = node.base / "usr/lib/systemd/system/openibd.service"
    link = node.base / "etc/systemd/system/sysinit.target.wants/openibd.service"
    text = unit.read_text()
    (node.base / stack.DROPIN[1:]).unlink()
    link.unlink()
    unit.unlink()
    status = (node.base / "var/lib/dpkg/status").read_text()
    node.put("/var/lib/dpkg/status", dpkg_status({"rdma-core": "50.0-2"}))
    before = planner().plan()
    assert [change.what for change in before] == ["file " + stack.DROPIN, "unit openibd.service enabled", IN_USE]
    node.put("/var/lib/dpkg/status", status)
    unit.write_text(text)
    after = planner().plan()
    assert [change.what for change in after] == [change.what for change in before]
    check_expected(after, [change.key for change in before])


def test_an_upgrade_to_come_needs_the_restart_that_follows_it(node: Node, planner: Callable[..., Any]) -> None:
    assert planner(rdma_stack_version="3.2.3").whats() == [IN_USE]


def test_storage_over_rdma_is_a_class_of_its_own_and_is_named(node: Node, planner: Callable[..., Any]) -> None:
    node.load(None)
    node.put("/proc/mounts", "10.0.0.1:/x /mnt/data nfs rw,proto=rdma,port=20049 0 0\n")
    change = planner().one(IN_USE)
    assert change.disruption == "storage"
    assert "NFS over RDMA /mnt/data" in change.why


def test_a_management_interface_on_the_hca_wins_over_storage_and_is_named(node: Node, planner: Callable[..., Any]) -> None:
    node.load(None)
    node.put("/proc/mounts", "10.0.0.1:/x /mnt/data nfs rw,proto=rdma 0 0\n")
    node.put(
        "/proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nens10np0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n",
    )
    change = planner().one(IN_USE)
    assert change.disruption == "management"
    assert "ens10np0" in change.why and "/mnt/data" in change.why


def test_a_reboot_in_place_of_the_restart_is_external(node: Node, planner: Callable[..., Any]) -> None:
    node.load(None)
    change = planner(rdma_stack_activation="reboot").one(IN_USE)
    assert (change.external, change.needs_reboot, change.disruption) == (True, True, "reboot")


def test_without_openibd_only_a_reboot_is_left(node: Node, planner: Callable[..., Any]) -> None:
    node.load(None)
    (node.base / "usr/lib/systemd/system/openibd.service").unlink()
    assert planner().one(IN_USE).needs_reboot


def test_under_nvlink_5_only_a_reboot_is_left(node: Node, planner: Callable[..., Any]) -> None:
    """The fabric manager and what it starts hold ib_umad: openibd could not unload it, or would pull the NVSwitches' manager away."""
    node.load("24.10-0.7.0")
    assert RESTART in argv(planner().one(IN_USE))
    plans = planner()
    plans.desired = plans.desired._replace(identity=plans.desired.identity._replace(switch_functions=("0000:c1:00.0",)))
    change = plans.one(IN_USE)
    assert (change.disruption, change.external, change.ops) == ("reboot", True, ())
    assert "0000:c1:00.0" in change.why
    assert plans.conflicts() == []


def test_gpu_memory_that_is_registered_right_now_forbids_the_restart(node: Node, planner: Callable[..., Any]) -> None:
    node.load(None)
    node.put("/sys/module/nvidia_peermem/refcnt", "3\n")
    assert "nvidia_peermem: is in use (reference count 3)" in planner().conflicts()[0]
    assert planner(rdma_stack_activation="reboot").conflicts() == []
    node.load("25.10-2.4.1", "0123456789ABCDEF012345")
    assert planner().conflicts() == []  # nothing to restart


def test_an_hca_without_a_driver_is_brought_up(node: Node, planner: Callable[..., Any]) -> None:
    node.put("/proc/modules", "ext4 1 0 - Live 0x0\n")
    assert planner().plan() == []  # bound to whatever driver: somebody wants it so
    nic = node.base / "sys/bus/pci/devices/0000:13:00.0"
    (nic / "driver").unlink()
    assert planner().one(IN_USE).before == "not loaded"
    (nic / "physfn").symlink_to("../0000:13:00.1")
    assert planner().plan() == []  # a virtual function waits for its guest


def test_modules_that_dkms_builds_in_the_same_apply_come_into_use_in_it(node: Node, planner: Callable[..., Any]) -> None:
    """After a boot into a kernel without them: the kernel's own run, and the plan holds build and restart."""
    node.load(None)
    node.put(f"/lib/modules/{UBUNTU_KERNEL}/modules.dep", "kernel/drivers/net/mlx5_core.ko:\nkernel/drivers/infiniband/core/ib_core.ko:\n")
    assert planner().plan() == []
    link = node.base / f"var/lib/dkms/mlnx-ofed-kernel/kernel-{UBUNTU_KERNEL}-x86_64"
    link.unlink()
    assert argv(planner().one(IN_USE))[-1] == RESTART


def test_a_node_without_hca_says_what_it_inspected(node: Node, planner: Callable[..., Any]) -> None:
    node.put("/proc/modules", "ext4 1 0 - Live 0x0\n")
    for path in (node.base / "sys/bus/pci/devices").iterdir():
        path.unlink()
    assert planner().plan() == []
    assert planner().notes() == ["stack: no NVIDIA NIC on this node; only loaded modules of doca are inspected"]


def test_modinfo_that_does_not_answer_is_said(node: Node, planner: Callable[..., Any]) -> None:
    for path in (node.base / "cmd").glob("modinfo_*"):
        path.unlink()
    assert planner().plan() == []
    assert "modinfo says nothing about mlx5_core" in planner().notes()[0]


def test_back_to_inbox_takes_a_reboot_and_our_file_goes(node: Node, planner: Callable[..., Any]) -> None:
    inbox = planner(rdma_stack="inbox")
    assert inbox.whats() == ["file " + stack.DROPIN, "kernel modules of inbox in use"]
    assert inbox.one("kernel modules").needs_reboot
    node.load(None)
    for path in (node.base / f"lib/modules/{UBUNTU_KERNEL}/modules.dep",):
        path.write_text("kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst:\n")
    (node.base / stack.DROPIN[1:]).unlink()
    assert planner(rdma_stack="inbox").plan() == []


def test_back_to_inbox_the_vendors_driver_leaves_the_initramfs_too(node: Node, planner: Callable[..., Any]) -> None:
    """Else the reboot that is to bring the kernel's own module back loads the vendor's from the image."""
    node.put(IMAGE, "")
    place = f"usr/lib/modules/{UBUNTU_KERNEL}/%s/mlx5_core.ko.zst\n"
    node.answers["lsinitramfs", IMAGE] = Result(0, place % "updates/dkms", "")
    assert argv(planner(rdma_stack="inbox").one("mlx5_core in ")) == [("update-initramfs", "-u", "-k", UBUNTU_KERNEL)]
    node.answers["lsinitramfs", IMAGE] = Result(0, place % "kernel/drivers/net", "")
    assert not [what for what in planner(rdma_stack="inbox").whats() if what.startswith("mlx5_core in ")]


def test_a_drop_in_of_somebody_else_stays_when_the_stack_goes(node: Node, planner: Callable[..., Any]) -> None:
    inbox = planner(rdma_stack="inbox")
    node.put(stack.DROPIN, "[Unit]\nAfter=x\n")
    assert "file " + stack.DROPIN not in inbox.whats()


@pytest.mark.parametrize(("version", "restarts"), [(239, False), (244, True), (None, False)])
def test_an_old_systemd_refuses_restart_in_a_oneshot_unit(version: int | None, restarts: bool) -> None:
    """EL 8 has 239: a oneshot with Restart= would not load there, and openibd never start again."""
    text = stack.dropin_text(version)
    assert ("Restart=on-failure" in text) is restarts
    assert "After=systemd-udev-settle.service" in text


def test_an_initramfs_with_an_older_driver_is_made_anew(node: Node, planner: Callable[..., Any]) -> None:
    node.put(IMAGE, "")
    os.utime(node.base / IMAGE[1:], (1, 1))
    assert planner().plan() == []  # it does not hold mlx5_core: lsinitramfs says nothing
    node.answers["lsinitramfs", IMAGE] = Result(0, f"usr/lib/modules/{UBUNTU_KERNEL}/kernel/drivers/net/mlx5_core.ko.zst\n", "")
    change = planner().one("mlx5_core in " + IMAGE)
    assert argv(change) == [("update-initramfs", "-u", "-k", UBUNTU_KERNEL)]
    assert change.disruption == "none"
    os.utime(node.base / IMAGE[1:])
    assert planner().plan() == []


def test_a_container_is_left_alone_and_told_so(node: Node, planner: Callable[..., Any]) -> None:
    node.put("/run/.containerenv", "")
    node.load(None)
    assert planner().plan() == []
    assert len(planner().notes()) == 1
