# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack a node gets: what the inventory says, and what ``auto`` means on this node."""

from ..spec.model import Spec
from ..types import Identity

NVIDIA_DRIVERS = ("mlx5_core", "mlx4_core")


def has_nvidia_hca(identity):
    # type: (Identity) -> bool
    """By driver: it is bound whatever stack the module comes from."""
    return any(hca.driver in NVIDIA_DRIVERS for hca in identity.hcas)


def stack_of(spec, identity):
    # type: (Spec, Identity) -> str
    """inbox, soft_roce, doca or mlnx_ofed: never auto."""
    return spec.rdma_stack if spec.rdma_stack != "auto" else "inbox"
