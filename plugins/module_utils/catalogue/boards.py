# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU boards: their NVLinks and their PCIe slot. A board and not a chip: H100 PCIe and NVL have a part of the SXM's NVLink.

Rates for each direction in GB/s. ``NVLINK_GBS`` is what NCCL reckons with (NVIDIA/nccl 5067397c, src/graph/topo.h): what a GPU's own loads
and stores get out of a link. ``link_gbs`` is what the link signals, as ``nvidia-smi nvlink --status`` prints it. Of V100 the data sheet's
25: NCCL reckons with 20, and 22.6 was measured (docs/speed.md).
"""

from typing import NamedTuple, Optional, Tuple

# SM80_ to SM100_NVLINK_BW.
NVLINK_GBS = {7.0: 25.0, 8.0: 20.0, 8.6: 12.0, 9.0: 20.6, 10.0: 40.1, 10.3: 40.1}
SWITCH, MESH, BRIDGE, RACK, NO_NVLINK = "NVSwitch", "mesh", "bridge", "rack", "none"
WITH_HBM = (7.0, 8.0, 9.0, 10.0, 10.3)  # capabilities of data centre chips: their ECC is on as delivered (nvidia-smi(1), ecc.mode)


class Board(NamedTuple):
    """``names``: as libcuda and nvidia-smi print them, without the vendor; ``nvlink``: how the links of a node's GPUs run.

    ``link_gbs`` is None where links of a board run at several rates, or no source gives one. ``c2c_gbs``: of NVLink-C2C to the board's own
    processor, which is the way to host memory in place of the PCIe slot.
    """

    names: Tuple[str, ...]
    capability: float  # of CUDA
    nvlinks: int
    nvlink: str
    pcie: Tuple[float, int]  # GT/s and lanes of its slot
    link_gbs: Optional[float] = None
    source: str = ""
    c2c_gbs: Optional[float] = None

    @property
    def nvlink_gbs(self) -> float:
        return self.nvlinks * NVLINK_GBS.get(self.capability, 0.0)


_GEN3, _GEN4, _GEN5, _GEN6 = (8.0, 16), (16.0, 16), (32.0, 16), (64.0, 16)
# NVIDIA's data sheets: GB/s of NVLink in both directions, by 50 a link (100 from Blackwell on), and the generation of PCI Express.
# NVLink-C2C: 900 GB/s in both directions (GH200 data sheet). The four GPUs of a GH200 node have links to each other; most nodes have one.
# link_gbs: NVIDIA, Fabric Manager User Guide r580 (2025) and DGX H100/B200 guides, the output of nvidia-smi nvlink --status.
BOARDS: Tuple[Board, ...] = (
    Board(("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"), 7.0, 6, MESH, _GEN3, source="V100 data sheet, January 2020"),
    Board(("Tesla V100-SXM3-32GB", "Tesla V100-SXM3-32GB-H"), 7.0, 6, SWITCH, _GEN3, 25.781,
          source="V100 data sheet, January 2020; DGX-2 user guide, 2019"),
    Board(("Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"), 7.0, 0, NO_NVLINK, _GEN3, source="V100 data sheet, January 2020"),
    Board(("A100-SXM4-40GB", "A100-SXM4-80GB", "A800-SXM4-80GB"), 8.0, 12, SWITCH, _GEN4, 25.0,
          source="A100 data sheet, June 2021; Fabric Manager user guide r580, 2025"),
    Board(("A100-PCIE-40GB", "A100 80GB PCIe", "A100-PCIE-80GB", "A800 80GB PCIe"), 8.0, 12, BRIDGE, _GEN4,
          source="A100 data sheet, June 2021"),
    Board(("A30",), 8.0, 4, BRIDGE, _GEN4, source="A30 data sheet, March 2022"),
    Board(("A40", "RTX A6000", "GeForce RTX 3090"), 8.6, 4, BRIDGE, _GEN4, source="A40 data sheet, January 2022"),
    Board(("Tesla T4",), 7.5, 0, NO_NVLINK, _GEN3, source="T4 data sheet, March 2019"),
    Board(("A10", "A10G"), 8.6, 0, NO_NVLINK, _GEN4, source="A10 data sheet, March 2022"),
    Board(("L4", "L20", "L40", "L40S", "RTX 6000 Ada Generation", "GeForce RTX 4090"), 8.9, 0, NO_NVLINK, _GEN4,
          source="L4, L40, L40S and L20 product briefs, 2023"),
    Board(("RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Workstation Edition",
           "RTX PRO 6000 Blackwell Max-Q Workstation Edition", "GeForce RTX 5090"), 12.0, 0, NO_NVLINK, _GEN5,
          source="RTX PRO 6000 Blackwell data sheets, March 2025"),
    Board(("H100 80GB HBM3", "H200", "H20", "H20-3e", "H800"), 9.0, 18, SWITCH, _GEN5, 26.562,
          source="H100 data sheet, 2024; H20 and H800: 900 and 400 GB/s of NVLink, NVIDIA, 2023"),
    Board(("GH200 480GB", "GH200 120GB", "GH200 144G HBM3e"), 9.0, 18, MESH, _GEN5, source="GH200 data sheet, 2024", c2c_gbs=450.0),
    Board(("H100 PCIe",), 9.0, 12, BRIDGE, _GEN5, source="H100 PCIe product brief, November 2022"),
    Board(("H100 NVL",), 9.0, 12, BRIDGE, _GEN5, source="H100 NVL product brief, March 2024"),
    Board(("H200 NVL",), 9.0, 18, BRIDGE, _GEN5, source="H200 NVL product brief, November 2024"),
    Board(("B200",), 10.0, 18, SWITCH, _GEN5, 53.125, source="DGX B200 data sheet, 2024"),
    Board(("B300 SXM6 AC",), 10.3, 18, SWITCH, _GEN6, 53.125, source="DGX B300 data sheet, 2025"),
)
# Boards whose NVLinks lead to the switches of a rack: health judges their links, and the model of speed covers them within a node.
RACKS: Tuple[Board, ...] = (
    Board(("GB200",), 10.0, 18, RACK, _GEN5, 53.125, source="GB200 NVL72 data sheet, 2024", c2c_gbs=450.0),
    Board(("GB300",), 10.3, 18, RACK, _GEN6, 53.125, source="GB300 NVL72 data sheet, 2025", c2c_gbs=450.0),
)
# A800's and H800's eight links: NVIDIA's data sheets say 400 GB/s. H20 has all eighteen.
_FEWER = {"A800-SXM4-80GB": 8, "A800 80GB PCIe": 8, "H800": 8}
_VENDOR = "NVIDIA "


def linked_board(gpu_name: str) -> Optional[Board]:
    """Return the row of a GPU's whole name. A name with more words is another board, or a part of one (MIG, vGPU)."""
    bare = gpu_name[len(_VENDOR):] if gpu_name.startswith(_VENDOR) else gpu_name
    row = next((row for row in BOARDS + RACKS if bare in row.names), None)
    return row if row is None or bare not in _FEWER else row._replace(nvlinks=_FEWER[bare])
