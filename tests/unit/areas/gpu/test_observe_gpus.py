# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and driver as facts, from files in the form that a real node with driver 580 prints (UUIDs invented), and from damaged ones."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import node_gpu
from tests.fixtures.node_tree import Device, Port

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import BLACKWELL
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.devices import NVLINK5
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpu_driver import loaded_driver, observe_gpu_driver
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.modules import running_modules
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nvidia_smi import smi_rows
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu
from field_specs import build_spec

INFORMATION = "proc/driver/nvidia/gpus/0000:1b:00.0/information"
GPUS = ("0000:1b:00.0", "0000:3b:00.0")
QUERY = "cmd/nvidia-smi_--query-gpu=pci.bus_id,persistence_mode_--format=csv,noheader"


def test_only_gpus_are_gpus(nodes: Path) -> None:
    """Neither the audio function nor the virtual one of the captured board; NVSwitches apart."""
    identity = observe_identity(TreeHost(str(nodes / "hgx-skew")))
    assert identity.gpus == (
        Gpu("0000:1b:00.0", "0x2330", 0),
        Gpu("0000:3b:00.0", "0x2330", 0),
        Gpu("0000:5b:00.0", "0x2330", 1),
        Gpu("0000:7b:00.0", "0x2330", 1),
    )
    assert identity.nvswitches == ("0000:06:00.0", "0000:07:00.0")


def test_a_gpu_without_a_driver_is_there_and_nameless(gpu_node: Callable[..., Any]) -> None:
    facts = facts_of_tree(str(gpu_node().base))
    assert [(gpu["pci"], gpu["driver"], gpu["name"], gpu["uuid"]) for gpu in facts["gpus"]] == [
        ("0000:1b:00.0", None, None, None),
        ("0000:3b:00.0", None, None, None),
    ]
    assert (facts["gpu_driver"]["version"], facts["gpu_driver"]["modules"]) == (None, [])


def test_cards_of_others_and_odd_files_are_no_gpus(gpu_node: Callable[..., Any]) -> None:
    node = gpu_node(gpus=())
    base = node_gpu.nvidia_function(node.tree, "0000:44:00.0", node_gpu.GPU_CLASS, "0x2330")
    node.put(base + "/vendor", "0x1002\n")
    node_gpu.nvidia_function(node.tree, "0000:45:00.0", "", "0x2330")
    node_gpu.nvidia_function(node.tree, "0000:46:00.0", "0x060400", "0x22d1")
    node.put("sys/bus/pci/devices/README", "not a function\n")
    assert observe_identity(node).gpus == ()
    assert facts_of_tree(str(node.base))["gpu_driver"] is None


def test_numa_node_and_id_that_cannot_be_read(gpu_node: Callable[..., Any]) -> None:
    node = gpu_node(gpus=())
    base = node_gpu.nvidia_function(node.tree, "0000:1b:00.0", node_gpu.GPU_CLASS, "garbage", numa="-1")
    assert observe_identity(node).gpus == (Gpu("0000:1b:00.0", "", -1),)
    (node.base / base / "numa_node").unlink()
    assert observe_identity(node).gpus == (Gpu("0000:1b:00.0", "", None),)
    assert facts_of_tree(str(node.base))["gpus"][0]["device_id"] is None


def test_a_uuid_that_the_driver_does_not_know_yet(gpu_node: Callable[..., Any]) -> None:
    node = gpu_node()
    node.load("580.95.05")
    text = (node.base / INFORMATION).read_text()
    node.put(INFORMATION, text.replace("GPU-00000000-0000-4000-8000-000000000000", "GPU-????????-????-????-????-????????????"))
    gpu = facts_of_tree(str(node.base))["gpus"][0]
    assert (gpu["name"], gpu["uuid"]) == ("NVIDIA H100 80GB HBM3", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@)  \n", ("580.159.04", "open")),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Thu Apr  3 01:14:19 UTC 2025\n", ("535.216.03", "proprietary")),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (x)\n", ("580.142", "open")),
        ("NVRM version: NVIDIA UNIX Open Ker", (None, None)),
        ("", (None, None)),
    ],
    ids=["open", "proprietary", "two numbers", "truncated", "empty"],
)
def test_version_and_flavour_of_the_loaded_driver(gpu_node: Callable[..., Any], text: str, expected: tuple[str | None, str | None]) -> None:
    node = gpu_node()
    node.put("proc/driver/nvidia/version", text)
    assert tuple(loaded_driver(node)) == expected


def test_a_kernel_that_does_not_count_users(gpu_node: Callable[..., Any]) -> None:
    """As a node whose kernel cannot unload modules prints it."""
    node = gpu_node()
    node.put("proc/modules", "nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\nnvidia 14299136 - - Live 0xffffffffc0400000 (O)\n")
    assert (running_modules(node) or {})["nvidia"] == (None, ())
    node.put("proc/modules", "nvidia 14299136 11 nvidia_uvm,nvidia_modeset, Live 0x0 (O)\n")
    assert running_modules(node) == {"nvidia": (11, ("nvidia_uvm", "nvidia_modeset"))}


@pytest.mark.parametrize(
    "answer", ["", "NVIDIA-SMI has failed because it couldn't communicate\n", "a, b, c\n", "00000000:1B:00.0, \x1b[1m\n"]
)
def test_nvidia_smi_that_says_something_else(gpu_node: Callable[..., Any], answer: str) -> None:
    node = gpu_node()
    node.put(QUERY, answer)
    assert smi_rows(node, ("pci.bus_id", "persistence_mode")) is None


def test_nvidia_smi_that_fails_or_hangs(gpu_node: Callable[..., Any]) -> None:
    node = gpu_node()
    node.load("580.95.05")
    node.put("cmd/nvidia-smi", "")  # there, but no recording of the query: every command fails
    assert facts_of_tree(str(node.base))["gpu_driver"]["persistence"]["mode"] is None


def test_loaded_and_installed(nodes: Path) -> None:
    skewed, healthy = (facts_of_tree(str(nodes / name))["gpu_driver"] for name in ("hgx-skew", "ib8"))
    assert (skewed["version"], skewed["disk_version"], skewed["loaded_matches_installed"]) == ("580.82.07", "580.95.05", False)
    assert healthy["loaded_matches_installed"] is True
    assert healthy["fabricmanager"] == {
        "installed": True, "version": "580.95.05-1", "running": True, "states": ["Completed"], "statuses": ["Success"],
        "switch_functions": [], "unread_functions": [],
    }
    assert set(healthy["persistence"]["mode"].values()) == {"Enabled"}


MANAGING = tuple(f"0000:c{number}:00.0" for number in range(1, 5))
NIC, WORD = "0000:c5:00.0", b"\x82\x1a\x00NVIDIA ConnectX-7 bridge\x90\x20\x00SMDL\x06SW_MNG\xff\x78"


def hgx_b200(node: Any, device: str = "0x2901") -> Any:
    """Four functions that manage NVSwitches, first by name as on a DGX B200, and a NIC."""
    node_gpu.gpus(node.tree, GPUS, device=device)
    for number, address in enumerate((*MANAGING, NIC)):
        path = node_gpu.pci_path(address)
        node.tree.hca(Device(f"mlx5_{number}", path, "mlx5_core", f"b8ce:f603:0000:{number:04x}", (Port(),)))
        node.tree.files("sys/devices/" + path, [("class", "0x020700")])
        node.tree.write(f"sys/devices/{path}/vpd", WORD if address in MANAGING else b"\x82\x04\x00CX-7\xfe\xff\x78")
        node.tree.link(f"sys/bus/pci/devices/{address}", f"sys/devices/{path}")
    return node


def test_functions_that_manage_nvswitches_are_no_hcas(gpu_node: Callable[..., Any]) -> None:
    node = hgx_b200(gpu_node(gpus=()))
    identity = observe_identity(node)
    assert (identity.switch_functions, identity.unread_functions) == (MANAGING, ())
    assert [hca.name for hca in identity.hcas] == ["mlx5_4"]
    facts = facts_of_tree(str(node.base))
    assert [hca["name"] for hca in facts["hcas"]] == ["mlx5_4"]
    assert facts["gpu_driver"]["fabricmanager"]["switch_functions"] == list(MANAGING)


def test_they_are_found_before_any_driver_is_there(gpu_node: Callable[..., Any]) -> None:
    node = hgx_b200(gpu_node(gpus=()))
    shutil.rmtree(node.base / "sys/class/infiniband")
    assert (observe_identity(node).switch_functions, observe_identity(node).hcas) == (MANAGING, ())


def test_a_vpd_that_cannot_be_read_is_not_one_without_the_word(gpu_node: Callable[..., Any]) -> None:
    node = hgx_b200(gpu_node(gpus=()))
    (node.base / f"sys/devices/{node_gpu.pci_path(MANAGING[0])}/vpd").unlink()
    identity = observe_identity(node)
    assert (identity.switch_functions, identity.unread_functions) == (MANAGING[1:], MANAGING[:1])
    spec, _findings = build_spec({"fabric": "infiniband", "mtu": 2044, "rails": [], "expect": {"hcas": 1}}, "n1")
    assert spec is not None

    def counted() -> tuple[str, str]:
        seen = inspection_of("n1", spec, observe_identity(node), facts_of_tree(str(node.base)))
        verdict = next(item for _area, item in judge_node(seen) if item.check == "node.hcas")
        return verdict.status, verdict.message

    status, message = counted()
    assert (status, MANAGING[0] in message) == ("unknown", True)
    node.tree.write(f"sys/devices/{node_gpu.pci_path(MANAGING[0])}/vpd", WORD)
    assert counted()[0] == "pass"


def test_older_gpus_are_spared_the_reads(gpu_node: Callable[..., Any]) -> None:
    assert int(NVLINK5, 16) == BLACKWELL
    identity = observe_identity(hgx_b200(gpu_node(gpus=()), device="0x2330"))
    assert (identity.switch_functions, len(identity.hcas)) == ((), 5)


def test_a_hung_nvidia_smi_is_waited_for_once(gpu_node: Callable[..., Any]) -> None:
    node = gpu_node()
    node.load("580.95.05")
    node.put("cmd/nvidia-smi", "")
    observe_gpu_driver(node, observe_identity(node))
    assert len([command for command in node.commands if command[0] == "nvidia-smi"]) == 1
