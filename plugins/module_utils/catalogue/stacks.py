# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack a node gets, and how a vendor's stack is told from the distribution's by package, version and module. Pure."""

from typing import NamedTuple, Optional, Tuple

from ..spec.model import Spec
from ..types import Identity
from .artifacts import DOCA_RELEASE, MLNX_OFED_RELEASE

NVIDIA_DRIVERS = ("mlx5_core", "mlx4_core")


class VendorStack(NamedTuple):
    """One vendor's stack as a package manager sees it."""

    name: str  # doca, mlnx_ofed
    release: str
    meta: str  # the meta package that brings all of it
    version: str  # glob of the meta package's version
    family: Tuple[str, ...]  # globs of package names that only this vendor uses
    mark: str  # regular expression: found in the version of a package, it is the vendor's whatever its name
    dkms: Tuple[str, ...]  # its DKMS modules on this family
    unit: str
    source: str


FAMILY = (
    "doca-*", "mlnx-*", "ofed-scripts", "kmod-mlnx-*", "kmod-iser", "kmod-isert", "kmod-srp", "iser-dkms", "isert-dkms", "srp-dkms",
    "kmod-knem*", "knem*", "kmod-xpmem*", "kernel-mft*", "kmod-kernel-mft*", "mft", "mft-*", "hcoll*", "sharp", "libsharp*", "clusterkit",
    "dpcp", "ibdump", "ibutils2", "multiperf", "rshim",
)
# 2510.0.11-1 (rdma-core of 25.10), 2410mlnx54-1.2410068, 5.21.7.MLNX2024…, 25.10.OFED.25.10.1.7.1, 24.10-0.65.g9093bae.2410068
MARK = r"mlnx|MLNX|OFED|^([0-9]+:)?2[0-9](0[1-9]|1[0-2])\.[0-9]+\.[0-9]+-|\.2[0-9](0[1-9]|1[0-2])[0-9]{3}([.+~]|$)"
DKMS = {
    "debian": ("mlnx-ofed-kernel", "iser", "isert", "srp"),
    "redhat": ("mlnx-ofa_kernel", "iser", "isert", "srp"),
}
UNIT = "openibd.service"
_SOURCE = "AZ (components/install_doca.sh)"

VENDOR_STACKS = (
    VendorStack("doca", DOCA_RELEASE, "doca-ofed", DOCA_RELEASE + "*", FAMILY, MARK, DKMS["debian"], UNIT, _SOURCE),
    VendorStack("mlnx_ofed", MLNX_OFED_RELEASE, "mlnx-ofed-all", MLNX_OFED_RELEASE + "*", FAMILY, MARK, DKMS["debian"], UNIT, _SOURCE),
)


def has_nvidia_hca(identity):
    # type: (Identity) -> bool
    """By driver, of an RDMA device or of an interface: it is bound whatever stack the module comes from."""
    return any(device.driver in NVIDIA_DRIVERS for device in identity.hcas) or any(nic.driver in NVIDIA_DRIVERS for nic in identity.nics)


def stack_of(spec, identity):
    # type: (Spec, Identity) -> str
    """inbox, soft_roce, doca or mlnx_ofed: never auto."""
    return spec.rdma_stack if spec.rdma_stack != "auto" else "inbox"


def vendor_stack(spec, identity):
    # type: (Spec, Identity) -> Optional[VendorStack]
    """The vendor's stack that this node gets, in its release and under its names here; None for inbox and soft_roce."""
    chosen = stack_of(spec, identity)
    for row in VENDOR_STACKS:
        if row.name == chosen:
            release = spec["rdma_stack_version"] or row.release
            return row._replace(release=release, version=release + "*", meta=spec["rdma_stack_profile"] or row.meta,
                                dkms=DKMS.get(identity.platform.family, ()))
    return None


def stack_problem(spec, identity):
    # type: (Spec, Identity) -> Optional[str]
    """Why the chosen stack cannot be on this node, in one line, or None."""
    if vendor_stack(spec, identity) is not None and not DKMS.get(identity.platform.family):
        return "%s has no packages for %s" % (stack_of(spec, identity), identity.platform.pretty)
    return None
