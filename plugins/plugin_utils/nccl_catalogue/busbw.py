# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw an all_reduce of large messages must reach, by GPU and by NICs: where a run has no figure of its own in the inventory.

Within one node NVLink decides, and the figures are those that operators of such fleets reject nodes by. Between nodes
the NICs do: a ring cannot pass more than the sum of their rates, and healthy fabrics reach 0.92 to 0.97 of it.
"""

from typing import NamedTuple

NETWORK_FRACTION = 0.85  # of NICs x rate / 8: validation.md section 2 (healthy is 0.92 to 0.97 at 4 GiB and more)
JUDGED_FROM = 1 << 30  # bytes: below 1 GiB latency decides


class OneNode(NamedTuple):
    """GB/s that all GPUs of a node must reach together; ``gpus``: how many that is."""

    gpu: str  # a word of the GPU's name
    gpus: int
    busbw: float
    source: str


_AZ = "Azure/azurehpc-health-checks (NHC configurations by SKU, all_reduce_perf -b 16G -e 16G -g 1)"
ONE_NODE: tuple[OneNode, ...] = (
    OneNode("A100", 8, 228.0, _AZ),
    OneNode("H100", 8, 460.0, _AZ),
    OneNode("H200", 8, 431.0, _AZ),
    OneNode("B200", 8, 440.0, "oracle-quickstart/oci-hpc (-b 1G -e 16G)"),
    OneNode("B300", 8, 800.0, "oracle-quickstart/oci-hpc (-b 1G -e 16G, one node)"),
)


def one_node(gpu_name: str, gpus: int) -> OneNode | None:
    """The row of a node whose GPUs have this name, as nvidia-smi or nccl-tests print it."""
    words = gpu_name.replace("-", " ").split()
    for row in ONE_NODE:
        if row.gpu in words and row.gpus == gpus:
            return row
    return None


def ring_floor(nics: int, rate_gbps: float) -> float:
    """GB/s that a ring over this many NICs of each node must reach."""
    return NETWORK_FRACTION * nics * rate_gbps / 8
