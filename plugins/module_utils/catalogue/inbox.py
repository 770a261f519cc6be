# SPDX-License-Identifier: GPL-3.0-or-later
"""The distributions' own RDMA packages, and what each one brings to a node.

A plan for a bare node needs to know what a package will provide before it is there:
tools, units, the kernel modules that its files load. Names are the distribution's; where a
release renamed a package, ``RENAMED`` says for which releases the old name holds.
"""

from typing import Dict, NamedTuple, Optional, Tuple

from ..types import Platform


class Package(NamedTuple):
    """One package of a family, and what a node can do once it is installed."""

    name: str
    tools: Tuple[str, ...]
    units: Tuple[str, ...]
    modules: Tuple[str, ...]  # kernel modules that its udev rules or modules-load lists ask for; the kernel carries them
    why: str
    source: str


_DEB = "Debian file lists, bookworm (rdma-core 44.0); Ubuntu builds the same source"
_RPM = "linux-rdma/rdma-core redhat/rdma-core.spec; linux-system-roles/hpc"
_SUSE = "linux-rdma/rdma-core suse/rdma-core.spec"
_SUSE_UNREAD = "the upstream name, not looked up at SUSE"

_VERBS_TOOLS = ("ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_asyncwatch")
_CM_TOOLS = ("rping", "ucmatose", "rdma_client", "rdma_server", "rstream", "udaddy", "mckey")
_DIAG_TOOLS = ("ibstat", "ibstatus", "ibping", "iblinkinfo", "ibnetdiscover", "perfquery", "sminfo", "saquery")
_PERF_TOOLS = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat")
_CORE_MODULES = ("ib_core", "ib_cm", "ib_umad", "ib_uverbs", "iw_cm", "rdma_cm", "rdma_ucm")

DEBIAN = (
    Package("rdma-core", (), ("rdma-hw.target", "rdma-load-modules@.service", "rdma-ndd.service"), _CORE_MODULES,
            "udev rules and module lists of the stack", _DEB),
    Package("libibverbs1", (), (), (), "the verbs library that NCCL and perftest open", _DEB),
    Package("ibverbs-providers", (), (), (), "user-space drivers: without them libibverbs finds no device", _DEB),
    Package("ibverbs-utils", _VERBS_TOOLS, (), (), "ibv_devinfo: the only reader of active_mtu", _DEB),
    Package("librdmacm1", (), (), (), "connection manager library; perftest -R", _DEB),
    Package("rdmacm-utils", _CM_TOOLS, (), (), "rping", _DEB),
    Package("infiniband-diags", _DIAG_TOOLS, (), (), "ibstat, perfquery", _DEB),
    Package("perftest", _PERF_TOOLS, (), (), "bandwidth and latency between nodes", _DEB),
    Package("mstflint", ("mstflint", "mstconfig", "mstreg"), (), (), "firmware query of NVIDIA NICs, inbox", _DEB),
)
REDHAT = (
    Package("rdma-core", (), ("rdma-hw.target", "rdma-load-modules@.service", "rdma-ndd.service"), _CORE_MODULES,
            "udev rules and module lists of the stack", _RPM),
    Package("libibverbs", (), (), (), "the verbs library with its user-space drivers", _RPM),
    Package("libibverbs-utils", _VERBS_TOOLS, (), (), "ibv_devinfo: the only reader of active_mtu", _RPM),
    Package("librdmacm", (), (), (), "connection manager library; perftest -R", _RPM),
    Package("librdmacm-utils", _CM_TOOLS, (), (), "rping", _RPM),
    Package("infiniband-diags", _DIAG_TOOLS, (), (), "ibstat, perfquery", _RPM),
    Package("perftest", _PERF_TOOLS, (), (), "bandwidth and latency between nodes", _RPM),
    Package("mstflint", ("mstflint", "mstconfig", "mstreg"), (), (), "firmware query of NVIDIA NICs, inbox", _RPM),
    Package("pciutils", ("lspci", "setpci"), (), (), "lspci: not on every minimal image", _RPM),
)
SUSE = (
    Package("rdma-core", (), ("rdma-hw.target", "rdma-load-modules@.service"), _CORE_MODULES,
            "udev rules and module lists of the stack", _SUSE),
    Package("libibverbs1", (), (), (), "the verbs library that NCCL and perftest open", _SUSE),
    Package("libibverbs-utils", _VERBS_TOOLS, (), (), "ibv_devinfo: the only reader of active_mtu", _SUSE),
    Package("librdmacm1", (), (), (), "connection manager library; perftest -R", _SUSE),
    Package("librdmacm-utils", _CM_TOOLS, (), (), "rping", _SUSE),
    Package("infiniband-diags", _DIAG_TOOLS, (), (), "ibstat, perfquery", _SUSE),
    Package("rdma-ndd", (), ("rdma-ndd.service",), (), "node descriptions for InfiniBand", _SUSE),
    Package("libmlx5-1", (), (), (), "user-space driver of ConnectX-4 and later", _SUSE),
    Package("perftest", _PERF_TOOLS, (), (), "bandwidth and latency between nodes", _SUSE_UNREAD),
    Package("mstflint", ("mstflint", "mstconfig", "mstreg"), (), (), "firmware query of NVIDIA NICs, inbox", _SUSE_UNREAD),
)
# Of no use where every RDMA device is software: it has no firmware, no InfiniBand subnet and no PCI function.
# infiniband-diags would bring perl, mstflint 20 MB.
HARDWARE_ONLY = ("infiniband-diags", "mstflint", "pciutils", "rdma-ndd", "libmlx5-1")
FAMILIES: Dict[str, Tuple[Package, ...]] = {"debian": DEBIAN, "redhat": REDHAT, "suse": SUSE}

# name in this table -> (name since the change, releases that still have the old one).
# Debian's 64-bit time_t transition: Ubuntu 24.04 and Debian 13 are the first with the new name.
RENAMED = {
    "librdmacm1": ("librdmacm1t64", ("buster", "bullseye", "bookworm", "bionic", "focal", "jammy")),
}

# Kernel modules that some distributions keep out of the default kernel package; {kernel} is `uname -r`.
_EXTRA_MODULES = ("rdma_rxe", "siw")
EXTRA_MODULE_PACKAGES = {
    "ubuntu": ("linux-modules-extra-{kernel}", _EXTRA_MODULES, "Ubuntu splits rarely used modules off its kernel"),
    "redhat": ("kernel-modules-extra-{kernel}", _EXTRA_MODULES, "RHEL splits rarely used modules off its kernel"),
}


def inbox_packages(platform: Platform, *, software_only: bool = False) -> Tuple[Package, ...]:
    """The RDMA packages of a platform under the names that it uses; () for an unknown family.

    ``software_only``: for a node whose RDMA devices are all software (rdma_stack soft_roce).
    """
    rows = FAMILIES.get(platform.family, ())
    if software_only:
        rows = tuple(row for row in rows if row.name not in HARDWARE_ONLY)
    if platform.family != "debian":
        return rows
    return tuple(row._replace(name=_present_name(row.name, platform.codename)) for row in rows)


def _present_name(name: str, codename: str) -> str:
    if name not in RENAMED:
        return name
    new, old_releases = RENAMED[name]
    return name if codename in old_releases else new


def package_of_module(platform: Platform, kernel: str, module: str) -> Optional[str]:
    """Which package brings a kernel module that the default kernel package leaves out, or None."""
    for key in (platform.id, platform.family):
        if key in EXTRA_MODULE_PACKAGES:
            pattern, modules, _why = EXTRA_MODULE_PACKAGES[key]
            if module in modules:
                return pattern.format(kernel=kernel)
    return None
