# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack a node gets, and how a vendor's stack is told from the distribution's by package, version and module. Pure."""

import re
from typing import NamedTuple, Optional, Tuple

from ..formats.text import numbers
from ..spec.match import match_rails
from ..spec.model import Spec
from ..types import Hca, Identity
from .artifacts import ARTIFACTS, DOCA_RELEASE, MLNX_OFED_RELEASE, rows_of

NVIDIA_DRIVERS = ("mlx5_core", "mlx4_core")
VENDORS = ("doca", "mlnx_ofed")
TITLES = {"doca": "DOCA-OFED", "mlnx_ofed": "MLNX_OFED"}
# Meta packages. userspace: for containers, whose kernel is the host's.
PROFILES = {
    "doca": ("doca-ofed", "doca-roce", "doca-networking", "doca-all", "doca-host-basic",
             "doca-ofed-userspace", "doca-networking-userspace", "doca-all-userspace"),  # NVIDIA (DOCA 3.2.1: profiles; meta-packages)
    "mlnx_ofed": ("mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-hpc", "mlnx-ofed-dpdk", "mlnx-ofed-vma", "mlnx-ofed-vma-eth",
                  "mlnx-ofed-vma-vpi", "mlnx-ofed-bluefield", "mlnx-ofed-guest", "mlnx-ofed-hypervisor", "mlnx-ofed-kernel-only"),
}


class VendorStack(NamedTuple):
    """One vendor's stack as a package manager sees it."""

    name: str  # doca, mlnx_ofed
    release: str
    meta: str  # the meta package that brings all of it
    version: str  # glob of the meta package's version
    family: Tuple[str, ...]  # globs of package names that only this vendor uses
    dkms: Tuple[str, ...]  # its DKMS modules on this family; of VENDOR_STACKS: on any
    unit: str
    source: str


_SHARED = (
    "mlnx-*", "ofed-scripts", "kmod-mlnx-*", "kmod-iser", "kmod-isert", "kmod-srp", "kmod-knem*", "kmod-xpmem*", "kmod-kernel-mft*",
    "iser-dkms", "isert-dkms", "srp-dkms", "mlnx-ofed-kernel-dkms", "kernel-mft*", "knem*", "xpmem*", "mft", "mft-*", "hcoll*", "sharp",
    "libsharp*", "clusterkit", "dpcp", "ibdump", "ibutils2", "multiperf", "rshim",
)
_FAMILY = {"doca": ("doca-*", "libdoca-*") + _SHARED, "mlnx_ofed": _SHARED}
# Seen: 2510.0.11-1 (rdma-core of 25.10), 2410mlnx54-1.2410068, 5.21.7.MLNX20241106.df2ec25-0.1.2410068, 25.10.OFED.25.10.1.7.1-1,
# 1.16.0-1.2310409 (ucx: the build number of an OFED release at the end).
MARK = re.compile(r"mlnx|MLNX|OFED|^([0-9]{1,9}:)?2[0-9](0[1-9]|1[0-2])\.[0-9]+\.[0-9]+-|\.2[0-9](0[1-9]|1[0-2])[0-9]{3}([.+~]|$)")
DKMS = {
    "debian": ("mlnx-ofed-kernel", "iser", "isert", "srp"),
    "redhat": ("mlnx-ofa_kernel", "iser", "isert", "srp"),
}
_ANY_DKMS = DKMS["debian"] + DKMS["redhat"][:1]
UNIT = "openibd.service"
_SOURCES = {
    "doca": "AZ (install_doca.sh: DKMS modules, doca-ofed), SuperBench (doca-ofed-userspace=3.2.3-019000), NVIDIA (DOCA 3.2.1 profiles)",
    "mlnx_ofed": "NVIDIA (MLNX_OFED 24.10 LTS: installing with apt-get and yum)",
}
_RELEASES = {"doca": DOCA_RELEASE, "mlnx_ofed": MLNX_OFED_RELEASE}

VENDOR_STACKS = tuple(
    VendorStack(name, _RELEASES[name], PROFILES[name][0], _RELEASES[name] + "*", _FAMILY[name], _ANY_DKMS, UNIT, _SOURCES[name])
    for name in VENDORS
)


def marked(version: str) -> bool:
    """A vendor's build, whatever the package is called."""
    return MARK.search(version) is not None


# PCI device ids of generations that a stack leaves out (the kernel's mlx5_core: mlx5_core_pci_table).
CONNECTX_4 = ("0x1013", "0x1014")
NDR = ("0x1021", "0x1023", "0x1025", "0x1027", "0xa2dc")  # ConnectX-7, BlueField-3 and later: what NDR fabrics are made of
NEWER_THAN_CONNECTX_7 = {"0x1023": "ConnectX-8", "0x1025": "ConnectX-9", "0x1027": "ConnectX-10", "0xa2dc": "BlueField-3"}
LAST_DOCA_FOR_CONNECTX_4 = (2, 9)


def has_nvidia_hca(identity: Identity) -> bool:
    """By driver, of an RDMA device or of an interface: it is bound whatever stack the module comes from."""
    return any(device.driver in NVIDIA_DRIVERS for device in identity.hcas) or any(nic.driver in NVIDIA_DRIVERS for nic in identity.nics)


def stack_of(spec: Spec, identity: Identity) -> str:
    """inbox, soft_roce, doca or mlnx_ofed: never auto."""
    if spec.rdma_stack != "auto":
        return spec.rdma_stack
    if spec.fabric == "erdma" or not has_nvidia_hca(identity) or not _has_repository("doca", spec, identity):
        return "inbox"
    release = spec["rdma_stack_version"] or DOCA_RELEASE
    return "inbox" if any(_left_out("doca", release, hca) for hca in _rail_hcas(spec, identity)) else "doca"


def keeps_stack(spec: Spec) -> bool:
    """Whether a vendor's stack that is on a node stays there: on eRDMA auto is what the node has, since mode ofed runs on top of it."""
    return spec.fabric == "erdma" and spec.rdma_stack == "auto"


def _rail_hcas(spec: Spec, identity: Identity) -> Tuple[Hca, ...]:
    """The HCAs that matter to a stack: the rails', or all where no rail finds one. An older one for storage or management is no reason."""
    found = [target.hca for target in match_rails(spec, identity)[0] if target.hca is not None]
    return tuple(found) or identity.hcas


def _has_repository(name: str, spec: Spec, identity: Identity) -> bool:
    given = spec["rdma_stack_repository_url"] or spec["rdma_stack_offline_package"]
    return bool(given) or rows_of(name, identity)[0] is not None


def vendor_stack(spec: Spec, identity: Identity) -> Optional[VendorStack]:
    """The vendor's stack that this node gets, in its release and under its names here; None for inbox and soft_roce."""
    chosen = stack_of(spec, identity)
    for row in VENDOR_STACKS:
        if row.name == chosen:
            release = spec["rdma_stack_version"] or row.release
            return row._replace(release=release, version=release + "*", meta=spec["rdma_stack_profile"] or row.meta,
                                dkms=DKMS.get(identity.platform.family, ()))
    return None


def stack_problem(spec: Spec, identity: Identity) -> Optional[str]:
    """Why the chosen stack cannot be on this node, in one line, or None."""
    stack = vendor_stack(spec, identity)
    if stack is None:
        return None
    title = "%s %s" % (TITLES[stack.name], stack.release)
    system = "%s on %s" % (identity.platform.pretty or identity.platform.id, identity.arch)
    if identity.platform.family not in DKMS:
        return "%s comes as packages of Debian's and Red Hat's families; this is %s. Use rdma_stack: inbox" % (title, system)
    if not _has_repository(stack.name, spec, identity):
        return "%s has no repository for %s; the catalogue knows %s. Use rdma_stack: inbox, or name one in rdma_stack_repository_url" % (
            title, system, ", ".join(served(stack.name)))
    left_out = ((hca.name, _left_out(stack.name, stack.release, hca)) for hca in _rail_hcas(spec, identity))
    return next(("%s: %s" % (name, why) for name, why in left_out if why is not None), None)


def served(vendor: str) -> Tuple[str, ...]:
    """Systems that a vendor has a repository for, as it calls them: ``ubuntu24.04 (aarch64, x86_64)``."""
    places = [row.name[len(vendor) + 1:].rpartition("-") for row in ARTIFACTS
              if row.kind == "repository" and row.name.startswith(vendor + "-")]
    labels = sorted({label for label, _dash, _arch in places})
    return tuple("%s (%s)" % (label, ", ".join(sorted(arch for name, _dash, arch in places if name == label))) for label in labels)


def _left_out(name: str, release: str, hca: Hca) -> Optional[str]:
    """Why a stack has no driver for a device. NVIDIA (DOCA 2.9 release notes: changes; general support)."""
    title = "%s %s" % (TITLES[name], release)
    if hca.driver == "mlx4_core":
        return "%s has no driver for ConnectX-3 and older (mlx4_core); use rdma_stack: inbox" % title
    if name == "doca" and hca.device_id in CONNECTX_4 and numbers(release)[:2] > LAST_DOCA_FOR_CONNECTX_4:
        return "%s does not support ConnectX-4, DOCA 2.9 LTS is the last that does; use rdma_stack: mlnx_ofed or inbox" % title
    if name == "mlnx_ofed" and hca.device_id in NEWER_THAN_CONNECTX_7:
        return "%s does not support %s, ConnectX-7 and BlueField-2 are its last; use rdma_stack: doca" % (
            title, NEWER_THAN_CONNECTX_7[hca.device_id or ""])
    return None
