# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU's PCI device id says about the driver that it needs. Pure.

NVIDIA gives ids out by generation, in rising order: below 0x1e00 nothing is Turing or later (the open modules' list of
compatible GPUs begins at 0x1e02), and from 0x2900 on everything is Blackwell or later.
"""

from typing import Optional, Tuple

from ..types import Gpu

TURING = 0x1E00
BLACKWELL = 0x2900
GRACE_HOPPER = (0x2342, 0x2348)  # GH200 480GB and 144G HBM3e
# HGX boards whose NVSwitches sit behind ConnectX-7 bridges: no function of NVIDIA's on the PCI bus shows them.
HIDDEN_NVSWITCH = (0x2901,)  # B200
SOURCE = "OGK (README, compatible GPUs), pci.ids, NVIDIA (open modules are the only ones for Grace Hopper and Blackwell)"


def number_of(gpu):
    # type: (Gpu) -> Optional[int]
    try:
        return int(gpu.device_id, 16)
    except ValueError:
        return None


def only_open(gpus):
    # type: (Tuple[Gpu, ...]) -> Tuple[Gpu, ...]
    """Those that the proprietary kernel modules do not drive."""
    return tuple(gpu for gpu in gpus if (number_of(gpu) or 0) >= BLACKWELL or number_of(gpu) in GRACE_HOPPER)


def only_proprietary(gpus):
    # type: (Tuple[Gpu, ...]) -> Tuple[Gpu, ...]
    """Those that the open kernel modules do not drive."""
    return tuple(gpu for gpu in gpus if 0 < (number_of(gpu) or 0) < TURING)


def hides_nvswitches(gpus):
    # type: (Tuple[Gpu, ...]) -> bool
    """Whether these GPUs come on a board with NVSwitches that the PCI bus does not show."""
    return any(number_of(gpu) in HIDDEN_NVSWITCH for gpu in gpus)
