# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA and cuDNN: installed where there is a GPU, at one version, and only where the driver is new enough."""

from collections.abc import Callable
from typing import Any

import pytest

CUDA = {"cuda_version": "13.0"}
CUDNN = {**CUDA, "cuda_cudnn_version": "9.13"}


def test_toolkit_and_cudnn(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    plans = planner("cuda", node, **CUDNN)
    assert plans.rows() == [
        ("package cuda-toolkit-13-0", None, "13.0.*", "none"),
        ("package libcudnn9-cuda-13", None, "9.13.*", "none"),
        ("package libcudnn9-headers-cuda-13", None, "9.13.*", "none"),
        ("package libcudnn9-dev-cuda-13", None, "9.13.*", "none"),
    ]
    assert plans.run() == []
    node.packages["libcudnn9-cuda-13"] = "9.14.0.64-1"
    node.write_packages()
    assert plans.rows() == [("package libcudnn9-cuda-13", "9.14.0.64-1", "9.13.*", "downgrade")]


def test_nothing_where_nothing_is_asked_for_or_nothing_would_run(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    assert (planner("cuda", gpu_node()).plan(), planner("cuda", gpu_node()).notes()) == ([], [])
    plans = planner("cuda", gpu_node(gpus=()), **CUDA)
    assert plans.plan() == []
    assert plans.notes() == ["cuda: no NVIDIA GPU on the PCI bus of this node, so CUDA 13.0 is not installed"]


@pytest.mark.parametrize(("driver", "fits"), [("575.57.08", False), ("580.65.06", True), ("595.58.03", True)])
def test_the_driver_that_is_there(gpu_node: Callable[..., Any], planner: Callable[..., Any], driver: str, fits: bool) -> None:
    node = gpu_node()
    node.disk = driver
    said = f"cuda_version: CUDA 13.0 needs driver 580 or newer, this node has {driver}; set gpu_driver_branch to a newer one, or an older "
    expected = [] if fits else [said + "cuda_version"]
    assert planner("cuda", node, **CUDA).problems() == expected


def test_a_driver_that_is_loaded_and_not_on_disk_counts_too(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.load("570.86.15")
    assert "this node has 570.86.15" in planner("cuda", node, **CUDA).problems()[0]


def test_the_wanted_driver_comes_before_the_installed_one(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.disk = "535.1.2"
    node.load("535.1.2")
    assert planner("cuda", node, **CUDA).problems() != []
    assert planner("cuda", node, **CUDA, gpu_driver_branch="580").problems() == []


def test_no_driver_at_all_is_told_and_not_refused(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner("cuda", gpu_node(), **CUDA)
    assert plans.problems() == []
    assert plans.notes() == ["cuda: this node has no NVIDIA driver and the inventory wants none; programs can be built here, not run"]


def test_a_held_package_and_an_unknown_system(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.packages["cuda-toolkit-13-0"] = "12.9.1-1"
    node.write_packages()
    node.hold("cuda-toolkit-13-0")
    (problem,) = planner("cuda", node, **CUDA).problems()
    assert problem.endswith("lift the hold: apt-mark unhold cuda-toolkit-13-0")
    node.put("etc/os-release", 'ID=mint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\nPRETTY_NAME="Mint 22"\n')
    assert planner("cuda", node, **CUDA).problems() == [
        "cuda_version: no packages of CUDA 13.0 are known for Mint 22 (x86_64); allowed: another release, or leave it unset"
    ]
