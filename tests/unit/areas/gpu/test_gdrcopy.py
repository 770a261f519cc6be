# SPDX-License-Identifier: GPL-3.0-or-later
"""GDRCopy: nothing before the driver is there, then packages, module and boot file, and nothing after that."""

from collections.abc import Callable
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import gdrcopy

WANT = {"gpudirect_gdrcopy": True}
DRIVER = "580.95.05"


def test_it_waits_for_the_driver(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner("gdrcopy", gpu_node(), **WANT)
    assert plans.whats() == []
    assert "waits for the GPU driver" in plans.notes()[0]


def test_with_the_driver_all_comes_and_then_nothing(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.disk = DRIVER
    node.load(DRIVER)
    plans = planner("gdrcopy", node, **WANT)
    assert plans.whats() == ["package gdrdrv-dkms", "package libgdrapi", "file " + gdrcopy.BOOT_FILE, "module gdrdrv loaded"]
    assert plans.notes() == plans.problems() == []
    plans.run()
    assert node.read(gdrcopy.BOOT_FILE).splitlines()[-1] == "gdrdrv"
    assert ("modprobe", "gdrdrv") in node.commands
    assert planner("gdrcopy", node).whats() == ["file " + gdrcopy.BOOT_FILE], "nobody asks any more"


def test_neither_without_gpu_nor_unasked(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    assert planner("gdrcopy", gpu_node()).whats() == []
    bare = planner("gdrcopy", gpu_node(gpus=()), **WANT)
    assert (bare.whats(), bare.notes(), bare.problems()) == ([], [], [])


def test_a_system_without_packages_is_refused(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.put("etc/os-release", 'ID=sles\nVERSION_ID="15.7"\nPRETTY_NAME="SUSE Linux Enterprise Server 15 SP7"\n')
    (problem,) = planner("gdrcopy", node, **WANT).problems()
    assert "no packages of GDRCopy are known for SUSE" in str(problem)
