# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode that eRDMA's driver is to run in, and which modes talk to each other. Pure.

``default`` is iWARP-like and connects through RDMA-CM alone; ``compat`` is RoCE-compatible, so that NCCL and UCX can
exchange queue pairs themselves; ``ofed`` is compat on top of MLNX_OFED. On the wire there are two kinds only: the letter of
the driver's parameter compat_mode, N or Y. Nodes of different letters cannot talk RDMA to each other.
"""

from typing import Optional

from ..spec.model import Spec
from ..types import Identity

AUTO, DEFAULT, COMPAT, OFED = "auto", "default", "compat", "ofed"
MODES = (DEFAULT, COMPAT, OFED)
LEAVE, MAINLINE, DKMS = "leave", "mainline", "dkms"  # values of erdma_driver beside auto
LETTERS = {DEFAULT: "N", COMPAT: "Y", OFED: "Y"}
# What sysfs calls a device of the driver in each mode: `1: CA`, `4: RNIC`. The only sign of it that the kernel's own driver gives.
NODE_TYPES = {"N": "RNIC", "Y": "CA"}
RAW_TYPES = {"CA": "1: CA", "RNIC": "4: RNIC"}
WORDS = {"N": "default (iWARP-like)", "Y": "compat or ofed (RoCE-compatible)"}


def mode_of(spec: Spec, identity: Identity) -> Optional[str]:
    """The mode that the inventory wants on this node, never auto; None where the fabric is not eRDMA."""
    if spec.fabric != "erdma":
        return None
    wanted: str = spec["erdma_mode"]
    if wanted != AUTO:
        return wanted
    return OFED if identity.gpus else COMPAT


def letter_of_type(node_type: Optional[str]) -> Optional[str]:
    """The letter of compat_mode that a device's node_type tells."""
    return next((letter for letter, name in NODE_TYPES.items() if name == node_type), None)
