# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw an all_reduce of large messages must reach, by the GPU's board and by NICs: where the inventory has no figure.

Within one node NVLink decides, and the figures are those that operators of such fleets reject nodes by. Between nodes
the NICs do: a ring cannot pass more than the sum of their rates, and healthy fabrics reach 0.92 to 0.97 of it. Both hold for a board
and not for a chip: H100 PCIe and H100 NVL have the chip of the H100 SXM and a part of its NVLink. A board without a row has no floor.
"""

from typing import NamedTuple

NETWORK_FRACTION = 0.85  # of NICs x rate / 8: validation.md section 2 (healthy is 0.92 to 0.97 at 4 GiB and more)
JUDGED_FROM = 1 << 30  # bytes: below 1 GiB latency decides (NVIDIA/nccl-tests issue 212: 256 MiB are too small for the peak)


class Board(NamedTuple):
    """``busbw``: GB/s that ``gpus`` of one node must reach together, None where no figure is right; ``source``: whose, or why none.

    ``ring_gbps``: of NICs for each GPU, up to which a ring between nodes is known to reach what ``NETWORK_FRACTION`` asks for.
    """

    names: tuple[str, ...]  # whole, as libcuda and nvidia-smi print them, without the vendor
    gpus: int
    busbw: float | None
    source: str
    ring_gbps: float | None
    ring_source: str


_AZ = "Azure/azurehpc-health-checks (NHC configurations by SKU, all_reduce_perf -b 16G -e 16G -g 1)"
_OCI = "oracle-quickstart/oci-hpc"
_ML = "stas00/ml-engineering (network/benchmarks)"
BOARDS: tuple[Board, ...] = (
    Board(("A100-SXM4-40GB", "A100-SXM4-80GB"), 8, 228.0, _AZ, 200.0,
          f"{_OCI} (16 x 100 Gb/s, NCCL_ALGO=Ring: rejected below 185 of 200)"),
    Board(("H100 80GB HBM3",), 8, 460.0, _AZ, 400.0, "NVIDIA/nccl-tests issues 212 and 290 (a ring: 370 over NVLink, 46 to 48 a NIC)"),
    Board(("H200",), 8, 431.0, _AZ, 400.0, f"{_ML}: 365 of 400 on 4 nodes"),
    Board(("B200",), 8, None, f"{_OCI} rejects below 440, which NVLink at half its speed passes: NVIDIA/nccl issue 1807 measured over 830",
          400.0, f"{_ML}: 382 of 400 on 4 nodes"),
    Board(("B300 SXM6 AC",), 8, 800.0, f"{_OCI} (-b 1G -e 16G, one node)", None, f"{_OCI} rejects below 700 of 800, and without a ring"),
)


def board_of(gpu_name: str) -> Board | None:
    """The row of a GPU's whole name. A name with more words is another board, or a part of one (MIG, vGPU)."""
    bare = gpu_name.removeprefix("NVIDIA ")
    return next((row for row in BOARDS if bare in row.names), None)
