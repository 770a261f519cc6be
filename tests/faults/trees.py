# SPDX-License-Identifier: GPL-3.0-or-later
"""Base trees of the table of faults: constructed nodes that are healthy, so that `railwright check --sysroot` ends 0 on each.

They are made from the writers of tests/fixtures (formats of the kernel and of the tools, not captured from whole machines); the answers of
nvidia-smi were recorded on one H100 and one H200. A base is a function that writes its tree below a directory and returns its root.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fixtures import node_gpu, node_stacks
from tests.fixtures.node_tree import Tree

GPUS = tuple(f"0000:{0x14 + 0x18 * place:02x}:00.0" for place in range(8))
NICS = tuple(f"0000:{0x13 + 0x18 * place:02x}:00.0" for place in range(8))


class Opened(Tree):
    """A tree that was written before."""

    def __init__(self, root: Path) -> None:
        self.root = root


def h200_roce(directory: Path) -> Path:
    """Eight H200 beside eight ConnectX-7 at 400 Gb/s RoCE, a PCIe switch for each pair; no NVSwitch on the bus."""
    node_stacks.doca8(directory)
    tree = Opened(directory / "doca8")
    for bus in range(0xD1, 0xD5):
        (tree.root / f"sys/bus/pci/devices/0000:{bus:02x}:00.0").unlink()
    gpu_answers(tree, "h200")
    tree.write("cmd/systemctl_show_-p_DefaultLimitMEMLOCK_-p_DefaultLimitNOFILE", "DefaultLimitMEMLOCK=infinity\n")
    return tree.root


def gpu_answers(tree: Tree, model: str) -> None:
    """What the driver's tools answer of healthy GPUs with NVLinks."""
    node_gpu.driver_on_disk(tree, node_stacks.UBUNTU_KERNEL, node_stacks.NVIDIA)
    node_gpu.persistence(tree, GPUS)
    tree.write("cmd/nvidia-smi_-q_-x", node_gpu.smi_xml(GPUS, node_stacks.NVIDIA, model))
    tree.write("cmd/nvidia-smi_--query-gpu=fabric.state,fabric.status_--format=csv,noheader", "N/A, N/A\n" * len(GPUS))


TREES: dict[str, Callable[[Path], Path]] = {
    "h200-roce": h200_roce,
}
