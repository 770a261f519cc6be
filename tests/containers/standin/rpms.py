# SPDX-License-Identifier: GPL-3.0-or-later
"""The repositories of an EL 9 system, and those of Alibaba Cloud Linux 3: what is in each, by the real names, versions and relations.

DOCA 3.2 for EL has libibverbs 2510.0.11-1.el9 and kernel modules by DKMS alone. EL's own openmpi has epoch 2, which is
newer than any of the vendor's without one; doca-ofed wants exactly its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import gpus
from debs import ERDMA_DRIVER, SIZE, STORAGE, Repository
from stub import SLOW, Stub, dkms_source, exactly, ofed_scripts, openibd

CORE = "57.0-1.el9"
ALINUX_CORE = "35.0-1.al8"  # made up, and older than 43: what counts is that it lacks the provider of eRDMA
ERDMA_CORE = "52.0-1.el8"  # made up too, and has it


def inbox() -> Repository:
    """What the distribution itself has of these names, and what every EL node has (dnf takes the release from it)."""
    stubs = (
        Stub("rocky-release", "9.6-1.el9", provides=("system-release = 9.6", "system-release(releasever) = 9", "/bin/sh", "/usr/bin/sh")),
        Stub("rdma-core", CORE),
        Stub("libibverbs", CORE, ("rdma-core",)),
        Stub("libibverbs-utils", CORE, (f"libibverbs = {CORE}",)),
        Stub("librdmacm", CORE, ("rdma-core",)),
        Stub("librdmacm-utils", CORE, (f"librdmacm = {CORE}",)),
        Stub("infiniband-diags", CORE),
        Stub("opensm", "3.3.24-3.el9"),
        Stub("perftest", "25.01.0-1.el9", ("libibverbs", "librdmacm")),
        Stub("mstflint", "4.31.0-1.el9"),
        Stub("pciutils", "3.7.0-7.el9"),
        Stub("dkms", "3.2.2-1.el9"),  # EPEL's: EL itself has none
        Stub("openmpi", "2:4.1.7-7.el9"),
        Stub("site-verbs-tool", "1.0-1.el9", ("libibverbs < 100",)),
        Stub("site-slow", "1.0-1.el9", postinst=SLOW),
    )
    return Repository("rocky-9", "Rocky Linux", "Rocky Linux", "9", stubs)


def family(core: str, kernel: str, build: str, answer: str, names: tuple[str, str, str, str]) -> tuple[Stub, ...]:
    """The packages of one release of the vendor's stack, without its meta package."""
    perftest, mft, openmpi, ucx = names
    verbs = (f"libibverbs = {core}",)
    return (
        Stub("ofed-scripts", kernel, files=ofed_scripts(answer, "rpm -e")),
        Stub("mlnx-tools", f"{build}-1.el9"),
        Stub("mlnx-ofa_kernel", kernel, ("ofed-scripts",), files=openibd(kernel), conffiles=("/etc/infiniband/openib.conf",)),
        Stub("mlnx-ofa_kernel-dkms", kernel, ("dkms", "mlnx-ofa_kernel"), files=dkms_source("mlnx-ofa_kernel", kernel), size=SIZE),
        *(Stub(f"{name}-dkms", kernel, ("dkms", "mlnx-ofa_kernel-dkms"), files=dkms_source(name, kernel)) for name in STORAGE),
        Stub("rdma-core", core),
        Stub("libibverbs", core, (f"rdma-core = {core}",)),
        Stub("libibverbs-utils", core, verbs),
        Stub("librdmacm", core, verbs),
        Stub("librdmacm-utils", core, (f"librdmacm = {core}",)),
        Stub("infiniband-diags", core),
        Stub("perftest", perftest, verbs),
        Stub("mft", mft),
        Stub("mstflint", f"{mft.partition('-')[0]}-1.{build}"),
        Stub("openmpi", openmpi, (f"ucx = {ucx}",)),
        Stub("ucx", ucx),
    )


def doca(release: str, patch: int) -> Repository:
    """DOCA-OFED."""
    kernel = f"25.10-OFED.25.10.{patch}.1.1.1.el9"
    rows = family(f"2510.0.{9 + patch}-1.el9", kernel, "25.10.2510" + str(patch), f"OFED-internal-25.10-{patch}.1.1",
                  (f"25.10.0-0.{patch}.g1234567.el9", "4.34.1-10", "4.1.9a1-1.2510171.el9", "1.20.0-1.2510171.el9"))
    version = {"3.2.2": "3.2.2-035000", "3.2.3": "3.2.3-019000"}[release]
    metas = tuple(Stub(name, version, exactly(rows)) for name in ("doca-ofed", "doca-all"))
    others = (Stub("doca-ofed-userspace", version, exactly(rows[7:13])),)
    return Repository(f"doca-{release}", "NVIDIA", f"DOCA-HOST {release}", "stable", (*metas, *rows, *others))


def mlnx_ofed(release: str) -> Repository:
    """MLNX_OFED 24.10, the last."""
    kernel = f"24.10-OFED.{release.replace('-', '.')}.1.el9"
    rows = family("2410mlnx54-1.2410068.el9", kernel, "24.10.2410068", f"MLNX_OFED_LINUX-{release}",
                  ("24.10.0-0.96.g87c8efe.2410068", "4.30.1-8", "4.1.7rc1-1.2410068.el9", "1.18.0-1.2410068.el9"))
    metas = tuple(Stub(name, f"{release}.rhel9", exactly(rows)) for name in ("mlnx-ofed-all", "mlnx-ofed-basic"))
    return Repository(f"mlnx_ofed-{release}", "Mellanox Technologies", "MLNX_OFED", "stable", (*metas, *rows))


def cuda() -> Repository:
    """NVIDIA's CUDA repository: two releases of the driver, a toolkit, and a newer mft that must not win."""
    drivers = [row for version in gpus.VERSIONS for row in gpus.driver(gpus.RPMS, f"3:{version}-1.el9", f"{version}-1")]
    return Repository("cuda", "NVIDIA", "NVIDIA CUDA", "stable", (*gpus.toolkit("devel"), *drivers))


def alinux() -> Repository:
    """What Alibaba Cloud Linux 3 itself has of these names, and the package that dnf takes the release from."""
    release = ("system-release = 3", "system-release(releasever) = 3", "/bin/sh", "/usr/bin/sh")
    stubs = (
        Stub("alinux-release", "3.2104-1.al8", provides=release),
        *of_one_source(ALINUX_CORE),
        Stub("librdmacm-utils", ALINUX_CORE, (f"librdmacm = {ALINUX_CORE}",)),
        Stub("perftest", "4.5-1.al8", ("libibverbs", "librdmacm")),
    )
    return Repository("alinux-3", "Alibaba Cloud", "Alibaba Cloud Linux", "3", stubs)


def erdma() -> Repository:
    """Alibaba's user space of eRDMA for redhat/8."""
    return Repository("erdma-redhat8", "Alibaba Cloud", "erdma", "8", of_one_source(ERDMA_CORE, {ERDMA_DRIVER: "driver erdma\n"}))


def of_one_source(core: str, files: Mapping[str, str] = {}) -> tuple[Stub, ...]:
    """rdma-core's parts, which want each other in exactly their own version (rdma-core.spec)."""
    verbs = (f"libibverbs = {core}",)
    return (
        Stub("rdma-core", core), Stub("libibverbs", core, (f"rdma-core = {core}",), files=files),
        Stub("libibverbs-utils", core, verbs), Stub("librdmacm", core, verbs),
    )


REPOSITORIES = (inbox(), doca("3.2.2", 2), doca("3.2.3", 3), mlnx_ofed("24.10-4.1.4.0"), cuda(), alinux(), erdma())
