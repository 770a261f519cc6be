# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu.near: what NCCL would reach without the CPU, by the distances in the PCI tree."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu, Verdict
from node_trees import NODES
from railwright.cli.main import run


def of(node: Any, paths: dict[str, tuple[str | None, str | None]], **facts: Any) -> Verdict:
    """``paths``: of each GPU to the HCAs of rail0 and rail1."""
    node.identity = node.identity._replace(gpus=tuple(Gpu(pci, "0x2330", 0) for pci in paths))
    rows = [{"gpu": pci, "hca": f"mlx5_{at}", "port": 1, "path": path, "near": False}
            for pci, both in paths.items() for at, path in enumerate(both)]  # fmt: skip
    node.facts |= {"affinity": rows, "gpus": [{"pci": pci, "nvlinks": None} for pci in paths], "arch": "x86_64", **facts}
    (found,) = [item for item in node.verdicts() if item.check == "gpu.near"]
    return found


NEAR = {"0000:1b:00.0": ("PIX", "SYS"), "0000:9b:00.0": ("SYS", "PXB")}
FAR = {"0000:1b:00.0": ("PIX", "NODE"), "0000:9b:00.0": ("SYS", "PHB")}


def level(value: str) -> dict[str, Any]:
    return {"conf": {"variables": {"NCCL_IB_TC": "106", "NCCL_NET_GDR_LEVEL": value}, "malformed_lines": []}, "profile_d": {}}


def test_a_rail_behind_the_same_switch_passes(node: Any) -> None:
    found = of(node, NEAR)
    assert (found.status, found.expected, found.found) == ("pass", "PXB", {"0000:1b:00.0": "PIX", "0000:9b:00.0": "PXB"})


def test_a_gpu_and_a_rail_that_are_far_are_named(node: Any) -> None:
    found = of(node, FAR)
    assert found.status == "warn"
    assert "0000:9b:00.0, mlx5_1: " in found.message and "nearer than PHB" in found.message


def test_nvlink_brings_a_far_gpu_to_a_near_one_but_no_rail(node: Any) -> None:
    linked = [{"pci": pci, "nvlinks": [26.562]} for pci in FAR]
    found = of(node, FAR, gpus=linked)
    assert found.status == "warn" and found.message.startswith("mlx5_1: ")
    assert of(node, {**NEAR, "0000:ab:00.0": ("SYS", "SYS")}, gpus=linked).status == "pass"
    nobody = dict.fromkeys(FAR, ("SYS", "SYS"))
    assert "0000:1b:00.0, 0000:9b:00.0, mlx5_0, mlx5_1" in of(node, nobody, gpus=linked).message, "nobody is near: nobody to hand it to"


@pytest.mark.parametrize(("said", "status"), [("PHB", "pass"), ("SYS", "pass"), ("3", "pass"), ("PIX", "warn"), ("LOC", "warn"),
                                              ("NODE", "unknown"), ("far", "unknown")])  # fmt: skip
def test_the_level_of_the_node_counts(node: Any, said: str, status: str) -> None:
    assert of(node, FAR, nccl=level(said)).status == status


def test_a_gpu_that_is_part_of_its_cpu_counts_the_cpus_hcas(node: Any) -> None:
    assert of(node, {"0000:1b:00.0": ("PHB", "SYS"), "0000:9b:00.0": ("SYS", "NODE")}, arch="aarch64").status == "pass"
    assert of(node, dict.fromkeys(FAR, ("SYS", "SYS")), arch="aarch64").status == "warn"


def test_what_the_tree_does_not_tell_is_unknown(node: Any) -> None:
    found = of(node, {**NEAR, "0000:ab:00.0": ("PIX", None)})
    assert found.status == "unknown" and "0000:ab:00.0" in found.message
    assert of(node, NEAR, affinity=None).status == "unknown"
    assert of(node, NEAR, affinity=[]).status == "skipped", "Soft-RoCE: no PCI function"
    topo = {"conf": {"variables": {"NCCL_TOPO_FILE": "/opt/topo.xml"}, "malformed_lines": []}, "profile_d": {}}
    assert of(node, FAR, nccl=topo).status == "skipped"


def test_explain_affinity_of_captured_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    def told(name: str, *more: str) -> str:
        assert run(["explain", "affinity", "--sysroot", str(NODES / name), *more]) == 0
        return capsys.readouterr().out

    assert "PIX: mlx5_0" in told("doca8") and "SYS: mlx5_4 mlx5_5 mlx5_6 mlx5_7" in told("doca8")
    assert "no GPU" in told("rxe")
    assert '"path": "PIX"' in told("doca8", "--format", "json")
