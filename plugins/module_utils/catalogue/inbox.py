# SPDX-License-Identifier: GPL-3.0-or-later
"""The distributions' own RDMA packages. Names are the distribution's; where a release renamed one, ``RENAMED`` says for which releases
the old name holds.
"""

from typing import Dict, NamedTuple, Optional, Tuple

from ..types import Platform


class Package(NamedTuple):
    """One wanted package. ``tool``/``module``/``path``: wanted only where that is missing."""

    name: str
    why: str
    source: str
    units: Tuple[str, ...] = ()
    version: Optional[str] = None  # exact or a glob; None: any
    tool: Optional[str] = None
    module: Optional[str] = None
    path: Optional[str] = None
    supplied: bool = False  # Alibaba's repository has it: where eRDMA's provider is missing, the installed one is the wrong one

    @property
    def disruption(self) -> str:
        """Another version restarts its services, which run all the time; templates and targets do not."""
        return "restart" if any(unit.endswith(".service") and "@" not in unit for unit in self.units) else "none"


_DEB = "Debian file lists, bookworm (rdma-core 44.0); Ubuntu builds the same source"
_RPM = "linux-rdma/rdma-core redhat/rdma-core.spec; linux-system-roles/hpc"
_SUSE = "linux-rdma/rdma-core suse/rdma-core.spec"
_SUSE_UNREAD = "the upstream name, not looked up at SUSE"
CORE = "udev rules and module lists of the stack"
VERBS = "the verbs library that NCCL and perftest open"
DEVINFO = "ibv_devinfo: the only reader of active_mtu"
MANAGER = "connection manager library; perftest -R"
PERFTEST = "bandwidth and latency between nodes"
_FIRMWARE = "firmware query of NVIDIA NICs, inbox"
FAMILIES: Dict[str, Tuple[Package, ...]] = {
    "debian": (
        Package("rdma-core", CORE, _DEB, ("rdma-hw.target", "rdma-load-modules@.service", "rdma-ndd.service")),
        Package("libibverbs1", VERBS, _DEB),
        Package("ibverbs-providers", "user-space drivers: without them libibverbs finds no device", _DEB),
        Package("ibverbs-utils", DEVINFO, _DEB),
        Package("librdmacm1", MANAGER, _DEB),
        Package("rdmacm-utils", "rping", _DEB),
        Package("infiniband-diags", "ibstat, perfquery", _DEB),
        Package("perftest", PERFTEST, _DEB),
        Package("mstflint", _FIRMWARE, _DEB),
    ),
    "redhat": (
        Package("rdma-core", CORE, _RPM, ("rdma-hw.target", "rdma-load-modules@.service", "rdma-ndd.service")),
        Package("libibverbs", "the verbs library with its user-space drivers", _RPM),
        Package("libibverbs-utils", DEVINFO, _RPM),
        Package("librdmacm", MANAGER, _RPM),
        Package("librdmacm-utils", "rping", _RPM),
        Package("infiniband-diags", "ibstat, perfquery", _RPM),
        Package("perftest", PERFTEST, _RPM),
        Package("mstflint", _FIRMWARE, _RPM),
        Package("pciutils", "lspci: not on every minimal image", _RPM),
    ),
    "suse": (
        Package("rdma-core", CORE, _SUSE, ("rdma-hw.target", "rdma-load-modules@.service")),
        Package("libibverbs1", VERBS, _SUSE),
        Package("libibverbs-utils", DEVINFO, _SUSE),
        Package("librdmacm1", MANAGER, _SUSE),
        Package("librdmacm-utils", "rping", _SUSE),
        Package("infiniband-diags", "ibstat, perfquery", _SUSE),
        Package("rdma-ndd", "node descriptions for InfiniBand", _SUSE, ("rdma-ndd.service",)),
        Package("libmlx5-1", "user-space driver of ConnectX-4 and later", _SUSE),
        Package("perftest", PERFTEST, _SUSE_UNREAD),
        Package("mstflint", _FIRMWARE, _SUSE_UNREAD),
    ),
}
# Of no use where every RDMA device is software: it has no firmware, no InfiniBand subnet and no PCI function.
# infiniband-diags would bring perl, mstflint 20 MB.
HARDWARE_ONLY = ("infiniband-diags", "mstflint", "pciutils", "rdma-ndd", "libmlx5-1")

# name in this table -> (name since the change, releases that still have the old one).
# Debian's 64-bit time_t transition: Ubuntu 24.04 and Debian 13 are the first with the new name.
RENAMED = {
    "librdmacm1": ("librdmacm1t64", ("buster", "bullseye", "bookworm", "bionic", "focal", "jammy")),
}

# Some distributions keep these modules out of the default kernel package: Ubuntu and RHEL split rarely used ones off their kernels.
EXTRA_MODULES = ("rdma_rxe", "siw")
EXTRA_MODULE_PACKAGES = {"ubuntu": "linux-modules-extra-%s", "redhat": "kernel-modules-extra-%s"}  # and `uname -r`


def inbox_packages(platform: Platform, *, software_only: bool = False) -> Tuple[Package, ...]:
    """The RDMA packages of a platform under the names that it uses; () for an unknown family.

    ``software_only``: for a node whose RDMA devices are all software (rdma_stack soft_roce).
    """
    rows = FAMILIES.get(platform.family, ())
    if software_only:
        rows = tuple(row for row in rows if row.name not in HARDWARE_ONLY)
    if platform.family != "debian":
        return rows
    new = {old: name for old, (name, releases) in RENAMED.items() if platform.codename not in releases}
    return tuple(row._replace(name=new.get(row.name, row.name)) for row in rows)


def package_of_module(platform: Platform, kernel: str, module: str) -> Optional[str]:
    """Which package brings a kernel module that the default kernel package leaves out, or None."""
    pattern = EXTRA_MODULE_PACKAGES.get(platform.id) or EXTRA_MODULE_PACKAGES.get(platform.family)
    return pattern % kernel if pattern is not None and module in EXTRA_MODULES else None
