# SPDX-License-Identifier: GPL-3.0-or-later
"""The repositories of Debian's family: what is in each, by the real names, versions and relations.

Read in public sources: DOCA 3.2's rdma-core family is 2510.0.11-1, its kernel package 25.10.OFED.25.10.…, and
MLNX_OFED 24.10's are 2410mlnx54-1.2410068 and 24.10.OFED.…; numbers of 3.2.3 below the meta package are made up so that
an upgrade shows. The vendor's librdmacm1 is called so on every release and has no relation to librdmacm1t64, with
which it shares a file: dpkg refuses to have both.
"""

from __future__ import annotations

from typing import NamedTuple

import gpus
from stub import FAILS, SLOW, Stub, dkms_source, exactly, ofed_scripts, openibd

INBOX = {  # rdma-core, perftest, mstflint
    "bullseye": ("33.2-1", "4.4+0.37-1", "4.15.0-1"),
    "bookworm": ("44.0-2", "4.5+0.17-1", "4.21.0+1-1"),
    "trixie": ("56.1-1", "25.01.0-1", "4.31.0-1"),
    "jammy": ("39.0-1", "4.4+0.37-1", "4.20.1-1"),
}
UBUNTU = ("jammy",)
ERDMA = ("52.0-1", "jammy/erdma")  # Alibaba's version is made up: what counts is that it has the provider
ERDMA_DRIVER = "/etc/libibverbs.d/erdma.driver"
ERDMA_SINCE = 43  # rdma-core
SIZE = 400_000  # of the package that needs room
STORAGE = ("iser", "isert", "srp")
TIME64 = ("trixie",)
LIBRDMACM = "/usr/lib/stand-in/librdmacm.so.1"


class Repository(NamedTuple):
    """One signed repository. ``label`` and ``origin`` go into its Release file; without a ``suite`` it is flat, as most vendors' are."""

    name: str
    origin: str
    label: str
    codename: str
    stubs: tuple[Stub, ...]
    suite: str = ""


def inbox(suite: str) -> Repository:
    """What the distribution itself has of these names."""
    core, perftest, mstflint = INBOX[suite]
    connection = "librdmacm1t64" if suite in TIME64 else "librdmacm1"
    upstream = core.partition("-")[0]
    older = () if connection == "librdmacm1" else (f"librdmacm1 (= {core})",)
    stubs = (
        Stub("rdma-core", core),
        Stub("libibverbs1", core),
        Stub("ibverbs-providers", core, (f"libibverbs1 (>= {upstream})",), files=erdma_provider(upstream)),
        Stub("ibverbs-utils", core, (f"libibverbs1 (>= {upstream})",)),
        Stub(connection, core, (f"libibverbs1 (>= {upstream})",), provides=older, files={LIBRDMACM: core}),
        Stub("rdmacm-utils", core, (connection, "libibverbs1")),
        Stub("infiniband-diags", core),
        Stub("opensm", "3.3.23-2"),
        Stub("perftest", perftest, (connection, "libibverbs1")),
        Stub("mstflint", mstflint),
        Stub("dkms", "3.0.10-8"),
        Stub("openmpi-bin", "4.1.4-3"),
        # A site's own tool that works with the distribution's library alone: the vendor's would have it removed.
        Stub("site-verbs-tool", "1.0-1", ("libibverbs1 (<< 100)",)),
        Stub("site-slow", "1.0-1", postinst=SLOW),
    )
    name = "Ubuntu" if suite in UBUNTU else "Debian"
    return Repository(f"{name.lower()}-{suite}", name, name, suite, stubs)


def erdma_provider(upstream: str) -> dict[str, str]:
    return {ERDMA_DRIVER: "driver erdma\n"} if float(upstream) >= ERDMA_SINCE else {}


def erdma() -> Repository:
    """Alibaba's user space of eRDMA, built from one source as rdma-core is; a suite and a component, as S4 has its line for apt."""
    core, suite = ERDMA
    upstream = core.partition("-")[0]
    verbs = (f"libibverbs1 (= {core})",)
    stubs = (
        Stub("libibverbs1", core),
        Stub("ibverbs-providers", core, verbs, files=erdma_provider(upstream)),
        Stub("ibverbs-utils", core, verbs),
        Stub("librdmacm1", core, verbs, files={LIBRDMACM: core}),
    )
    return Repository("erdma-apt", "Alibaba Cloud", "erdma", suite.partition("/")[0], stubs, suite)


def family(core: str, kernel: str, build: str, answer: str, names: tuple[str, str, str, str]) -> tuple[Stub, ...]:
    """The packages of one release of the vendor's stack, without its meta package."""
    perftest, mft, openmpi, ucx = names
    module = kernel.rpartition("-")[0]
    verbs = (f"libibverbs1 (= {core})",)
    return (
        Stub("ofed-scripts", kernel, files=ofed_scripts(answer, "dpkg --remove")),
        Stub("mlnx-tools", f"{build}-1", ("python3",), postinst=FAILS),
        Stub("mlnx-ofed-kernel-utils", kernel, ("ofed-scripts",), files=openibd(kernel), conffiles=("/etc/infiniband/openib.conf",)),
        Stub("mlnx-ofed-kernel-dkms", kernel, ("dkms", "mlnx-ofed-kernel-utils"), files=dkms_source("mlnx-ofed-kernel", module), size=SIZE),
        *(Stub(f"{name}-dkms", kernel, ("dkms", "mlnx-ofed-kernel-dkms"), files=dkms_source(name, module)) for name in STORAGE),
        Stub("rdma-core", core),
        Stub("libibverbs1", core),
        Stub("ibverbs-providers", core, verbs),
        Stub("ibverbs-utils", core, verbs),
        Stub("librdmacm1", core, verbs, files={LIBRDMACM: core}),
        Stub("rdmacm-utils", core, (f"librdmacm1 (= {core})",)),
        Stub("infiniband-diags", core),
        Stub("perftest", perftest, verbs),
        Stub("mft", mft),
        Stub("mstflint", f"{mft.partition('-')[0]}-1.{build}"),
        Stub("openmpi", openmpi, (f"ucx (= {ucx})",), ("openmpi-bin",)),
        Stub("ucx", ucx),
    )


def doca(release: str, patch: int) -> Repository:
    """DOCA-OFED, with a dkms of its own that is newer than the distribution's and must not win."""
    kernel = f"25.10.OFED.25.10.{patch}.1.1-1"
    rows = family(f"2510.0.{9 + patch}-1", kernel, "25.10.2510" + str(patch), f"OFED-internal-25.10-{patch}.1.1",
                  (f"25.10.0-0.{patch}.g1234567", "4.34.1-10", "4.1.9a1-1.2510171", "1.20.0-1.2510171"))
    version = {"3.2.2": "3.2.2-035000", "3.2.3": "3.2.3-019000"}[release]
    metas = tuple(Stub(name, version, exactly(rows)) for name in ("doca-ofed", "doca-all"))
    others = (Stub("dkms", "3.2.1-1.2510"), Stub("doca-ofed-userspace", version, exactly(rows[7:14])))
    return Repository(f"doca-{release}", "NVIDIA", f"DOCA-HOST {release}", "stable", (*metas, *rows, *others))


def mlnx_ofed(release: str) -> Repository:
    """MLNX_OFED 24.10, the last."""
    kernel = f"24.10.OFED.{release.replace('-', '.')}.1-1"
    rows = family("2410mlnx54-1.2410068", kernel, "24.10.2410068", f"MLNX_OFED_LINUX-{release}",
                  ("24.10.0-0.96.g87c8efe.2410068", "4.30.1-8", "4.1.7rc1-1.2410068", "1.18.0-1.2410068"))
    metas = tuple(Stub(name, release, exactly(rows)) for name in ("mlnx-ofed-all", "mlnx-ofed-basic"))
    return Repository(f"mlnx_ofed-{release}", "Mellanox Technologies", "MLNX_OFED", "stable", (*metas, *rows))


def cuda() -> Repository:
    """NVIDIA's CUDA repository: two releases of the driver, a toolkit, and a newer mft that must not win."""
    drivers = [row for version in gpus.VERSIONS for row in gpus.driver(gpus.DEBS, f"{version}-1", f"{version}-1")]
    return Repository("cuda", "NVIDIA", "NVIDIA CUDA", "stable", (*gpus.toolkit("dev"), *drivers))


REPOSITORIES = (*(inbox(suite) for suite in INBOX), doca("3.2.2", 2), doca("3.2.3", 3), mlnx_ofed("24.10-4.1.4.0"), cuda(), erdma())
