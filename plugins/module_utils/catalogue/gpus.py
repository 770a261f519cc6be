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
# First and last id of a generation as pci.ids has them, and the compute capability of its chips (NVIDIA, CUDA GPUs).
# Newer ones only the driver knows: ids of Blackwell are not in order of chips.
CAPABILITIES = (
    (0x1DB1, 0x1DBE, "7.0"),  # GV100
    (0x1E00, 0x1FFF, "7.5"),  # TU102 to TU106
    (0x20B0, 0x20FF, "8.0"),  # GA100
    (0x2200, 0x22FF, "8.6"),  # GA102
    (0x2302, 0x23FF, "9.0"),  # GH100
    (0x2482, 0x25FF, "8.6"),  # GA104 to GA107
    (0x2684, 0x28FF, "8.9"),  # AD102 to AD107
    (0x2901, 0x2901, "10.0"),  # B200
)
SOURCE = "OGK (README, compatible GPUs), pci.ids, NVIDIA (open modules are the only ones for Grace Hopper and Blackwell)"


def number_of(gpu: Gpu) -> Optional[int]:
    try:
        return int(gpu.device_id, 16)
    except ValueError:
        return None


def only_open(gpus: Tuple[Gpu, ...]) -> Tuple[Gpu, ...]:
    """Those that the proprietary kernel modules do not drive."""
    return tuple(gpu for gpu in gpus if (number_of(gpu) or 0) >= BLACKWELL or number_of(gpu) in GRACE_HOPPER)


def only_proprietary(gpus: Tuple[Gpu, ...]) -> Tuple[Gpu, ...]:
    """Those that the open kernel modules do not drive."""
    return tuple(gpu for gpu in gpus if 0 < (number_of(gpu) or 0) < TURING)


def hides_nvswitches(gpus: Tuple[Gpu, ...]) -> bool:
    """Whether these GPUs come on a board with NVSwitches that the PCI bus does not show."""
    return any(number_of(gpu) in HIDDEN_NVSWITCH for gpu in gpus)


def compute_capability(gpu: Gpu) -> Optional[str]:
    """``9.0`` for an H100, without asking a driver; None for a chip that the catalogue does not have."""
    number = number_of(gpu) or 0
    return next((capability for first, last, capability in CAPABILITIES if first <= number <= last), None)
