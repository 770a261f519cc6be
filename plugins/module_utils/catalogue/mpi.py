# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages that bring an MPI, by family; which HPC-X a node can have; and where a vendor's stack leaves no room for another. Pure."""

from typing import Dict, Optional, Tuple

from ..spec.model import Spec
from ..types import Identity, Platform
from .artifacts import Artifact, find_artifact, label_of
from .drivers import Wanted
from .stacks import TITLES, vendor_stack

PACKAGED = ("openmpi", "mpich")
_DEBIAN = "Debian, Ubuntu: source packages openmpi and mpich"
_REDHAT = "EL (AppStream): openmpi, mpich"
# (starter, headers and compiler wrapper: nccl-tests is built with them)
NAMES: Dict[Tuple[str, str], Tuple[str, str, str]] = {
    ("openmpi", "debian"): ("openmpi-bin", "libopenmpi-dev", _DEBIAN),
    ("mpich", "debian"): ("mpich", "libmpich-dev", _DEBIAN),
    ("openmpi", "redhat"): ("openmpi", "openmpi-devel", _REDHAT),
    ("mpich", "redhat"): ("mpich", "mpich-devel", _REDHAT),
}
TITLE = {"openmpi": "Open MPI", "mpich": "MPICH", "hpcx": "HPC-X"}
# Meta packages that need an Open MPI of the vendor's in exactly one version, in /usr/mpi/gcc. AZ gives doca-ofed an empty package
# of that name instead (install_doca.sh); NVIDIA (MLNX_OFED 24.10: the profiles all and hpc) for the others.
WITH_OPENMPI = ("doca-ofed", "doca-ofed-userspace", "doca-all", "doca-all-userspace", "mlnx-ofed-all", "mlnx-ofed-hpc")
VENDORS_OPENMPI = "openmpi"  # the package's name in both families; EL's own is called the same


def mpi_packages(spec: Spec, identity: Identity) -> Optional[Tuple[Wanted, ...]]:
    """None where none are wanted; () where nothing is known for this family."""
    install, family, version = spec["mpi_install"], identity.platform.family, spec["mpi_version"]
    if install == "hpcx":
        return (Wanted("bzip2", None, "HPC-X's archive is packed with it", "NVIDIA (HPC-X: hpcx-….tbz)"),)
    if install not in PACKAGED:
        return None
    if (install, family) not in NAMES:
        return ()
    starter, headers, source = NAMES[(install, family)]
    asked = version if version is None or "-" in version else version + "-*"
    return (Wanted(starter, asked, "%s starts the ranks on every node" % TITLE[install], source),
            Wanted(headers, asked, "to build programs for %s" % TITLE[install], source))


def vendors_openmpi(spec: Spec, identity: Identity) -> Optional[str]:
    """Name of the stack on this node that comes with an Open MPI of its own; None where none does."""
    stack = vendor_stack(spec, identity)
    return "%s (%s)" % (TITLES[stack.name], stack.meta) if stack is not None and stack.meta in WITH_OPENMPI else None


def hpcx_artifact(platform: Platform, arch: str) -> Optional[Artifact]:
    """The build for this system; None where the catalogue has none. Built for RHEL's rebuilds as DOCA is: from the same sources."""
    return find_artifact("hpcx-%s-%s" % (label_of("doca", platform), arch))
