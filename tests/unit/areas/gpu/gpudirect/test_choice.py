# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision table: combinations of kernel, driver, RDMA stack and HCA (domain.md C1, A6), each with its path and the reason."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import join_names, numbers, turing_or_newer
from ansible_collections.railwright.rdma.plugins.module_utils.rules.gpudirect import Choice, Evidence, HcaSeen, choose_path

MLX5 = (HcaSeen("mlx5_0", "mlx5_core"), HcaSeen("mlx5_1", "mlx5_core"))
MODERN = {"CONFIG_DMA_SHARED_BUFFER": "y", "CONFIG_PCI_P2PDMA": "y", "CONFIG_INFINIBAND_ON_DEMAND_PAGING": "y"}


def evidence(**changes: Any) -> Evidence:
    """A modern node: H100s, ConnectX-7, open driver 580, inbox stack on kernel 6.8; a test changes one or two things of it."""
    modern = Evidence(8, MLX5, "6.8.0-85-generic", "580.95.05", "open", "inbox", None, True, None, MODERN)
    return modern._replace(**changes)


def answered(*, said: bool | None, driver: str = "mlx5_core") -> tuple[HcaSeen, ...]:
    return (HcaSeen("hca0", driver, said),)


DOCA = {"stack": "doca", "stack_version": "3.2.3"}
OFED = {"stack": "mlnx_ofed", "stack_version": "24.10-4.1.4.0"}
# What differs from the modern node, the path, words of the reason, and for each path not taken words of why.
TABLE: dict[str, tuple[dict[str, Any], str, str, dict[str, str]]] = {
    "inbox stack, open driver, kernel 6.8": (
        {},
        "dmabuf",
        "open driver 580.95.05 exports GPU memory as dma-buf",
        {"nvidia_peermem": "ib_core of the inbox stack has no peer memory interface", "nv_peer_mem": "obsolete: since R470"},
    ),
    "DOCA-OFED: both work, DMA-BUF is preferred": (
        DOCA,
        "dmabuf",
        "no module has to be loaded",
        {"nvidia_peermem": "possible, but dmabuf is preferred", "nv_peer_mem": "obsolete"},
    ),
    "exactly the oldest of everything: kernel 5.12, R515, Turing": (
        {"kernel": "5.12.0", "driver": "515.43.04"},
        "dmabuf",
        "kernel 5.12.0 can register it",
        {"nvidia_peermem": "inbox"},
    ),
    "EL 9 kernel 5.14": ({"kernel": "5.14.0-570.12.1.el9_6.x86_64"}, "dmabuf", "5.14.0-570", {}),
    "EL 8 kernel 4.18 with DOCA-OFED": (
        {"kernel": "4.18.0-553.el8_10.x86_64", **DOCA},
        "nvidia_peermem",
        "DMA-BUF is out (kernel 4.18.0-553.el8_10.x86_64 is older than 5.12",
        {"dmabuf": "older than 5.12", "nv_peer_mem": "obsolete"},
    ),
    "EL 8 kernel 4.18 with the inbox stack": (
        {"kernel": "4.18.0-553.el8_10.x86_64"},
        "none",
        "no path is known to work here",
        {"dmabuf": "older than 5.12", "nvidia_peermem": "no peer memory interface", "nv_peer_mem": "obsolete"},
    ),
    "EL 8 kernel 4.18 whose HCA was asked and can: the answer counts, not the version": (
        {"kernel": "4.18.0-553.el8_10.x86_64", "hcas": answered(said=True), "cuda_dmabuf": True},
        "dmabuf",
        "the HCAs and CUDA were asked and support it",
        {},
    ),
    "proprietary driver with MLNX_OFED": (
        {"flavour": "proprietary", **OFED},
        "nvidia_peermem",
        "ib_core of mlnx_ofed 24.10-4.1.4.0 takes it as a peer memory client",
        {"dmabuf": "only the open ones export dma-buf"},
    ),
    "proprietary driver with the inbox stack": (
        {"flavour": "proprietary"},
        "none",
        "only the open ones export dma-buf",
        {"nvidia_peermem": "DOCA-OFED and MLNX_OFED have it"},
    ),
    "driver 510: nvidia_peermem is there, open modules are not": (
        {"driver": "510.108.03", "flavour": "proprietary", **OFED},
        "nvidia_peermem",
        "older than R515",
        {"dmabuf": "no CUDA 11.7"},
    ),
    "exactly R470 with MLNX_OFED": (
        {"driver": "470.256.02", "flavour": "proprietary", **OFED},
        "nvidia_peermem",
        "driver 470.256.02 brings nvidia_peermem",
        {"nv_peer_mem": "since R470"},
    ),
    "driver 460 with MLNX_OFED 5.8": (
        {"driver": "460.106.00", "flavour": "proprietary", "stack": "mlnx_ofed", "stack_version": "5.8-6.0.4.2"},
        "nv_peer_mem",
        "nv_peer_mem 1.3-0 is the client for ib_core of mlnx_ofed 5.8",
        {"nvidia_peermem": "older than R470", "dmabuf": "older than R515"},
    ),
    "driver 450 with MLNX_OFED 4.9 LTS": (
        {"driver": "450.248.02", "flavour": "proprietary", "stack": "mlnx_ofed", "stack_version": "4.9-7.1.0.0"},
        "nv_peer_mem",
        "nv_peer_mem 1.0-9",
        {"nvidia_peermem": "older than R470"},
    ),
    "driver 460 with the inbox stack": (
        {"driver": "460.106.00", "flavour": "proprietary"},
        "none",
        "no path is known",
        {"nv_peer_mem": "no peer memory interface"},
    ),
    "a Volta among the GPUs, with DOCA-OFED": (
        {"turing": False, "flavour": "proprietary", **DOCA},
        "nvidia_peermem",
        "DMA-BUF is out",
        {"dmabuf": "older than Turing"},
    ),
    "CUDA 11.4 asked for, with DOCA-OFED": ({"cuda": "11.4", **DOCA}, "nvidia_peermem", "CUDA 11.4 is older than 11.7", {"dmabuf": "11.7"}),
    "kernel without dma-buf": (
        {"options": {**MODERN, "CONFIG_DMA_SHARED_BUFFER": "n"}, **DOCA},
        "nvidia_peermem",
        "CONFIG_DMA_SHARED_BUFFER",
        {"dmabuf": "built without CONFIG_DMA_SHARED_BUFFER"},
    ),
    "kernel without peer-to-peer DMA": (
        {"options": {**MODERN, "CONFIG_PCI_P2PDMA": "n"}},
        "none",
        "CONFIG_PCI_P2PDMA",
        {"dmabuf": "built without CONFIG_PCI_P2PDMA"},
    ),
    "mlx5 in a kernel without on-demand paging": (
        {"options": {**MODERN, "CONFIG_INFINIBAND_ON_DEMAND_PAGING": "n"}, **DOCA},
        "nvidia_peermem",
        "mlx5 takes dma-buf only in a kernel with CONFIG_INFINIBAND_ON_DEMAND_PAGING",
        {},
    ),
    "an HCA was asked and cannot": (
        {"hcas": answered(said=False), **DOCA},
        "nvidia_peermem",
        "hca0 cannot register dma-buf by its own answer",
        {"dmabuf": "ibv_reg_dmabuf_mr"},
    ),
    "CUDA was asked and cannot": ({"cuda_dmabuf": False, **DOCA}, "nvidia_peermem", "DMA_BUF_SUPPORTED is 0", {}),
    "the kind of kernel modules cannot be read": ({"flavour": None, **DOCA}, "nvidia_peermem", "cannot be read", {}),
    "the kind cannot be read, but CUDA says yes": ({"flavour": None, "cuda_dmabuf": True}, "dmabuf", "exports GPU memory", {}),
    "eRDMA with its OFED mode, not asked": (
        {"hcas": answered(said=None, driver="erdma"), **OFED},
        "nvidia_peermem",
        "whether driver erdma registers dma-buf differs by version",
        {"dmabuf": "only hca0 can tell"},
    ),
    "eRDMA without OFED, not asked": (
        {"hcas": answered(said=None, driver="erdma")},
        "none",
        "no path is known to work here: dmabuf: whether driver erdma",
        {"nvidia_peermem": "no peer memory interface"},
    ),
    "eRDMA that was asked and can": (
        {"hcas": answered(said=True, driver="erdma"), "cuda_dmabuf": True, "virtual": "kvm"},
        "dmabuf",
        "the HCAs and CUDA were asked",
        {},
    ),
    "EFA: no peer memory client, whatever the stack": (
        {"hcas": answered(said=None, driver="efa"), **OFED},
        "none",
        "efa",
        {"nvidia_peermem": "driver efa does not use OFED's peer memory"},
    ),
    "ConnectX-3 with driver 460 and MLNX_OFED 4.9": (
        {"hcas": answered(said=None, driver="mlx4_core"), "driver": "460.106.00", "stack": "mlnx_ofed", "stack_version": "4.9-7.1.0.0"},
        "nv_peer_mem",
        "1.0-9",
        {"dmabuf": "older than ConnectX-4"},
    ),
    "Soft-RoCE": ({"hcas": answered(said=None, driver="rdma_rxe"), "stack": "soft_roce"}, "none", "the CPU copies", {}),
    "no GPU": ({"gpus": 0}, "none", "this node has no NVIDIA GPU", {}),
    "no RDMA device": ({"hcas": ()}, "none", "this node has no RDMA device", {}),
    "no driver, and none asked for": (
        {"driver": None, "flavour": None},
        "none",
        "no NVIDIA driver is installed",
        {"dmabuf": "gpu_driver_branch"},
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_every_row_of_the_table(name: str) -> None:
    changes, path, reason, refused = TABLE[name]
    choice = choose_path(evidence(**changes))
    assert choice.path == path, choice.reason
    assert reason in choice.reason
    whys = {item.path: item.why for item in choice.refused}
    assert path not in whys
    for other, words in refused.items():
        assert words in whys[other]
    assert choice.problem is None


def test_the_table_covers_what_was_asked_for() -> None:
    """At least twelve combinations, and every path among the answers."""
    assert len(TABLE) >= 20
    assert {path for _changes, path, _reason, _refused in TABLE.values()} == {"dmabuf", "nvidia_peermem", "nv_peer_mem", "none"}


def test_every_other_path_is_answered_for() -> None:
    for changes, path, _reason, _refused in TABLE.values():
        choice = choose_path(evidence(**changes))
        if choice.refused:
            assert {item.path for item in choice.refused} == {"dmabuf", "nvidia_peermem", "nv_peer_mem"} - {path}
            assert all(item.why for item in choice.refused)


def override(wanted: str, **changes: Any) -> Choice:
    return choose_path(evidence(**changes), wanted)


def test_the_inventory_may_choose_what_is_possible() -> None:
    choice = override("nvidia_peermem", **DOCA)
    assert (choice.path, choice.problem) == ("nvidia_peermem", None)
    assert "the inventory says so" in choice.reason
    assert {item.path: item.why for item in choice.refused}["dmabuf"] == "possible, but the inventory chose otherwise"


@pytest.mark.parametrize(
    ("wanted", "changes", "words"),
    [
        ("nvidia_peermem", {}, "ib_core of the inbox stack has no peer memory interface"),
        ("dmabuf", {"flavour": "proprietary", **DOCA}, "only the open ones export dma-buf"),
        ("dmabuf", {"kernel": "4.18.0-553.el8", **DOCA}, "older than 5.12"),
        ("nv_peer_mem", DOCA, "obsolete: since R470"),
        ("dmabuf", {"driver": None}, "no NVIDIA driver is installed"),
    ],
)
def test_the_inventory_is_refused_what_cannot_work(wanted: str, changes: dict[str, Any], words: str) -> None:
    problem = override(wanted, **changes).problem
    assert problem is not None
    assert problem.startswith(f"{wanted} cannot work on this node: ")
    assert words in problem


def test_what_is_only_unknown_may_be_chosen() -> None:
    """Nobody has asked this HCA: the operator may know better."""
    choice = override("dmabuf", hcas=answered(said=None, driver="erdma"))
    assert (choice.path, choice.problem) == ("dmabuf", None)
    assert override("dmabuf", hcas=answered(said=False, driver="erdma")).problem is not None


def test_none_is_always_possible() -> None:
    choice = override("none", **DOCA)
    assert (choice.path, choice.problem) == ("none", None)
    assert {item.path for item in choice.refused} == {"dmabuf", "nvidia_peermem", "nv_peer_mem"}


def test_words() -> None:
    assert numbers("5.14.0-570.el9") == (5, 14, 0)
    assert numbers("24.10-4.1.4.0")[:2] == (24, 10)
    assert numbers(None) == numbers("unknown") == ()
    assert [join_names(list("abcdef"[:count])) for count in (1, 2, 3, 6)] == ["a", "a and b", "a, b and c", "a, b, c and 3 more"]
    assert turing_or_newer(["0x2330", "0x1e04"]) is True
    assert turing_or_newer(["0x2330", "0x1db4"]) is False  # V100
    assert turing_or_newer([]) is None
    assert turing_or_newer(["junk"]) is None


@pytest.mark.parametrize(("kernel", "refused"), [
    ("5.11.22-generic", True), ("5.4.0-216-generic", True), ("4.18.0", True), ("5.12.0", False), ("5.12.0-rc1", False), ("6.8.0", False)])
def test_dma_buf_begins_with_kernel_5_12(kernel: str, refused: bool) -> None:
    """ib_umem_dmabuf came with Linux 5.12 (April 2021). An HCA that takes a dma-buf proves more than the version."""
    found = choose_path(evidence(kernel=kernel))
    assert any(item.path == "dmabuf" and "is older than 5.12" in item.why for item in found.refused) is refused
    assert found.path == ("none" if refused else "dmabuf")
    proven = choose_path(evidence(kernel=kernel, hcas=answered(said=True)))
    assert (proven.path, [item for item in proven.refused if "older than 5.12" in item.why]) == ("dmabuf", [])
