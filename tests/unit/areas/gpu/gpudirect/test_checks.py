# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on GPUDirect: the loaded-but-unregistered module fails on every path, and nothing passes that was not asked."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu.gpudirect_evidence import chosen, expects_traffic, judge_gpudirect
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu, Hca, Identity, Platform, Verdict

UBUNTU = Platform("ubuntu", "24.04", "noble", ("debian",), "Ubuntu 24.04", "debian", "apt")
GPUS = (Gpu("0000:1b:00.0", "0x2330", 0),)
HCAS = (Hca("mlx5_0", "b8ce:f603:00ab:0000", "0000:18:00.0", "mlx5_core", (), (1,), (), "Ethernet"),)
IDENTITY = Identity("node1", UBUNTU, "6.8.0-85-generic", "x86_64", "3.12", None, (), HCAS, (), GPUS)
FACTS: dict[str, Any] = {
    "stack": {"name": "inbox", "version": "50.0-2", "source": "package rdma-core"},
    "gpu_driver": {"version": "580.95.05", "flavour": "open", "disk_version": "580.95.05", "disk_flavour": "open"},
    "gpudirect": {
        "peermem_module": None,
        "peermem_registered": False,
        "peermem_build": None,
        "peer_memory_interface": False,
        "nvidia_driver": "580.95.05",
        "nvidia_flavour": "open",
        "kernel_options": {"CONFIG_DMA_SHARED_BUFFER": "y"},
        "dmabuf": {
            "hcas": {"mlx5_0": True},
            "hcas_said": {"mlx5_0": "EBADF"},
            "hcas_error": None,
            "gpus": {"0000:1b:00.0": True},
            "gpus_error": None,
        },
    },
}


class Node:
    """Facts that a test may spoil, and the inventory's wishes."""

    def __init__(self, make_spec: Callable[..., Any], **values: Any) -> None:
        self.spec, self.facts, self.identity = make_spec(**values), copy.deepcopy(FACTS), IDENTITY

    @property
    def gpudirect(self) -> dict[str, Any]:
        found: dict[str, Any] = self.facts["gpudirect"]
        return found

    def ofed(self, module: str | None = "nvidia_peermem", state: str = "fits", *, registered: bool = True) -> None:
        self.facts["stack"] = {"name": "doca", "version": "3.2.3-019000", "source": "package doca-ofed"}
        build = {"module": "nvidia_peermem", "file": "/lib/modules/K/updates/dkms/nvidia-peermem.ko", "state": state}
        self.gpudirect.update(peermem_module=module, peermem_registered=registered and module is not None, peermem_build=build)

    def judge(self) -> list[Verdict]:
        return judge_gpudirect(inspection_of("node1", self.spec, self.identity, self.facts))

    def found(self) -> set[tuple[str, str]]:
        return {(item.check, item.status) for item in self.judge()}


@pytest.fixture
def make(make_spec: Callable[..., Any]) -> Callable[..., Node]:
    return lambda **values: Node(make_spec, **values)


def test_dma_buf_that_was_asked_for_passes(make: Callable[..., Node]) -> None:
    assert make().found() == {("gpudirect.path", "pass"), ("gpudirect.dmabuf", "pass")}


@pytest.mark.parametrize("who", ["hcas", "gpus"])
def test_dma_buf_that_nobody_was_asked_about_does_not_pass(make: Callable[..., Node], who: str) -> None:
    node = make()
    node.gpudirect["dmabuf"].update({who: {}, f"{who}_said": {}, f"{who}_error": "not installed"})
    statuses = node.found()
    assert ("gpudirect.path", "unknown") in statuses
    assert ("gpudirect.dmabuf", "unknown") in statuses
    [unasked] = [item for item in node.judge() if (item.check, item.status) == ("gpudirect.dmabuf", "unknown")]
    assert unasked.message.endswith("could not be asked: not installed")


def test_an_hca_that_cannot_leaves_no_path_with_the_inbox_stack(make: Callable[..., Node]) -> None:
    node = make()
    node.gpudirect["dmabuf"].update(hcas={"mlx5_0": False}, hcas_said={"mlx5_0": "EOPNOTSUPP"})
    [verdict] = node.judge()
    assert (verdict.check, verdict.status) == ("gpudirect.path", "warn")
    assert "mlx5_0 cannot register dma-buf" in verdict.message


def test_dma_buf_by_the_inventory_s_will_fails_where_the_hca_cannot(make: Callable[..., Node]) -> None:
    node = make(gpudirect_path="dmabuf")
    node.gpudirect["dmabuf"].update(hcas={"mlx5_0": False}, hcas_said={"mlx5_0": "EOPNOTSUPP"})
    assert ("gpudirect.path", "fail") in node.found()
    assert ("gpudirect.dmabuf", "fail") in node.found()
    assert any("answered EOPNOTSUPP" in item.message for item in node.judge())


PEERMEM = {"rdma_stack": "doca", "gpudirect_path": "nvidia_peermem"}


def test_peermem_loaded_and_registered_passes(make: Callable[..., Node]) -> None:
    node = make(**PEERMEM)
    node.ofed()
    assert node.found() == {("gpudirect.path", "pass"), ("gpudirect.peermem", "pass"), ("gpudirect.built", "pass")}


@pytest.mark.parametrize("values", [PEERMEM, {}, {"rdma_stack": "doca"}, {"rdma_stack": "doca", "gpudirect_path": "none"}])
def test_peermem_that_is_loaded_and_not_registered_fails_on_every_path(make: Callable[..., Node], values: dict[str, Any]) -> None:
    node = make(**values)
    node.ofed(registered=False)
    [verdict] = [item for item in node.judge() if item.check == "gpudirect.peermem"]
    assert (verdict.status, verdict.found) == ("fail", "loaded, not registered")
    assert "NCCL takes it for a working path" in verdict.message


def test_peermem_that_is_not_loaded_fails_where_it_is_the_path(make: Callable[..., Node]) -> None:
    node = make(**PEERMEM)
    node.ofed(module=None)
    assert {("gpudirect.path", "fail"), ("gpudirect.peermem", "fail")} <= node.found()


@pytest.mark.parametrize("state", ["without_client", "other_stack"])
def test_the_wrong_order_fails_by_what_lies_on_disk(make: Callable[..., Node], state: str) -> None:
    node = make(**PEERMEM)
    node.ofed(module=None, state=state)
    [verdict] = [item for item in node.judge() if item.check == "gpudirect.built"]
    assert (verdict.status, verdict.found) == ("fail", state)


def test_what_cannot_be_read_is_unknown(make: Callable[..., Node]) -> None:
    node = make(**PEERMEM)
    node.ofed(state="unknown")
    assert ("gpudirect.built", "unknown") in node.found()
    node.gpudirect.update(peermem_module=None, peermem_registered=None)
    assert ("gpudirect.peermem", "unknown") in node.found()


def test_a_path_that_cannot_work_fails(make: Callable[..., Node]) -> None:
    node = make(rdma_stack="doca", gpudirect_path="nv_peer_mem")
    [verdict] = [item for item in node.judge() if item.check == "gpudirect.path"]
    assert (verdict.status, verdict.expected) == ("fail", "nv_peer_mem")
    assert "since R470" in verdict.message


def test_without_a_gpu_or_an_hca_there_is_nothing_to_judge(make: Callable[..., Node]) -> None:
    for change in ({"gpus": ()}, {"hcas": ()}):
        node = make()
        node.identity = IDENTITY._replace(**change)
        assert node.judge() == []


def test_answers_of_what_is_about_to_be_replaced_do_not_count(make: Callable[..., Node]) -> None:
    """The driver that is there says no; the one that the inventory asks for is another."""
    node = make(gpu_driver_branch="580", gpu_driver_version="580.126.20")
    node.facts["gpu_driver"].update(version="570.1", flavour="proprietary", disk_version="570.1", disk_flavour="proprietary")
    node.gpudirect.update(nvidia_driver="570.1", nvidia_flavour="proprietary")
    node.gpudirect["dmabuf"].update(gpus={"0000:1b:00.0": False})
    assert chosen(node.spec, node.identity, node.facts)[1].path == "dmabuf"


def test_traffic_is_expected_only_of_a_path_that_is_set_up(make: Callable[..., Node]) -> None:
    node = make()
    choice = chosen(node.spec, node.identity, node.facts)[1]
    assert expects_traffic(node.spec, choice, node.judge()) is None
    for key in ("gpudirect_traffic", "validate_perftest"):
        off = make(**{key: False})
        assert expects_traffic(off.spec, choice, off.judge()) == f"the inventory switches it off ({key}: false)"
    broken = make(**PEERMEM)
    broken.ofed(registered=False)
    choice = chosen(broken.spec, broken.identity, broken.facts)[1]
    assert "gpudirect.path and gpudirect.peermem" in str(expects_traffic(broken.spec, choice, broken.judge()))


def test_facts_of_a_node_in_trouble_crash_nothing_and_pass_nothing(make: Callable[..., Node]) -> None:
    for facts in ({}, {"gpudirect": None, "stack": None, "gpu_driver": None}, {"gpudirect": {"dmabuf": None, "peermem_build": None}}):
        node = make(rdma_stack="doca")
        node.facts = dict(facts)
        assert "pass" not in {item.status for item in node.judge()}
