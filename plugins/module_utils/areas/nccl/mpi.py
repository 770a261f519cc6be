# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of the MPI that starts the ranks, on every node; refused beside a vendor's stack that has an Open MPI of its own.

DOCA-OFED and MLNX_OFED depend on their own package openmpi in exactly one version. EL's has the same name, so one would replace the
other and take the stack with it; on Ubuntu the two bring files of the same names (AZ keeps them apart by an empty package). So the
vendor's is used where it lies, and MPICH and HPC-X go beside it. HPC-X is put into a directory of its own by role mpi and is no part
of a plan; what unpacks it is.
"""

from functools import partial
from typing import List

from ...catalogue.mpi import TITLE, VENDORS_OPENMPI, hpcx_artifact, mpi_packages, vendors_openmpi
from ...catalogue.platforms import system_of
from ...catalogue.stacks import marked
from ...spec.model import Spec
from ...types import Identity, Problem
from ..common.package_changes import Desired, Observed, forbidden, observe, plan_pinned

NAME = "mpi"
__all__ = ["NAME", "conflicts", "desired", "notes", "observe", "plan", "problems"]
KEY = "mpi_install"
ELSE = "use mpi_install: none (theirs is found in /usr/mpi/gcc), mpich or hpcx"
plan = partial(plan_pinned, NAME)


def desired(spec: Spec, identity: Identity) -> Desired:
    return Desired(identity, mpi_packages(spec, identity), spec[KEY])


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.wanted == ():
        return [Problem(NAME, KEY, "no packages of %s are known for %s; install one and name it in mpi_prefix" % (
            TITLE[desired.install], system_of(identity)))]
    if desired.install == "hpcx" and hpcx_artifact(identity.platform, identity.arch) is None:
        return [Problem(NAME, KEY, "the catalogue has no HPC-X for %s; use openmpi or mpich, or unpack one and name it in mpi_prefix" % (
            system_of(identity)))]
    vendors = vendors_openmpi(spec, identity) if desired.install == "openmpi" else None
    if vendors is not None:
        return [Problem(NAME, KEY, "%s brings an Open MPI of its own, and the distribution's does not go beside it; %s" % (vendors, ELSE))]
    return []


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """A vendor's Open MPI, whoever brought it; packages that must change and are held."""
    theirs = (observed.installed or {}).get(VENDORS_OPENMPI)
    if desired.install == "openmpi" and theirs is not None and marked(theirs):
        return [Problem(NAME, KEY, "package %s %s of a vendor's stack is installed, and the distribution's does not go beside it; %s" % (
            VENDORS_OPENMPI, theirs, ELSE))]
    return forbidden(NAME, desired, observed)


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.install == "hpcx":
        return ["mpi: HPC-X is put below /opt/railwright/hpcx by role mpi, and before nccl-tests run; that is no part of this plan"]
    return []
