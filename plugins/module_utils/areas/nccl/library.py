# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's packages at their pinned version, where the node has a GPU.

A wheel or a build is put into a prefix by role nccl and is no part of a plan; of a build the compiler is. Holding the packages
at their version is the repositories area's; what makes dnf heed it comes from here, where the role is used alone.
"""

from functools import partial
from typing import List

from ...catalogue.drivers import Wanted, wanted_driver
from ...catalogue.libnccl import PACKAGED, cuda_of, nccl_packages
from ...catalogue.platforms import system_of
from ...spec.model import Spec
from ...types import Identity, Problem
from ..common.package_changes import Desired, Observed, forbidden, observe, plan_pinned
from ..stack.packages import VERSIONLOCK_PACKAGE, VERSIONLOCK_SETTINGS

NAME = "nccl_library"
__all__ = ["NAME", "conflicts", "desired", "notes", "observe", "plan", "problems"]
LOCK = Wanted(VERSIONLOCK_PACKAGE, None, "nccl_hold: dnf has no other way to keep a package at its version", "dnf-plugins-core")
plan = partial(plan_pinned, NAME)
conflicts = partial(forbidden, NAME, key="nccl_version", product="NCCL for CUDA")


def desired(spec: Spec, identity: Identity) -> Desired:
    install = spec["nccl_install"]
    wanted = nccl_packages(spec, identity) if install in PACKAGED + ("source",) and identity.gpus else None
    reason = "" if install == "none" or identity.gpus else "no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed"
    lock = bool(wanted) and install in PACKAGED and spec["nccl_hold"] and identity.platform.package_manager == "dnf"
    return Desired(identity, wanted, install, reason, cuda_of(wanted[0].version) if wanted else "", wanted_driver(spec.as_dict()),
                   ((VERSIONLOCK_SETTINGS, LOCK),) if lock else ())


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.wanted != ():
        return []
    if desired.install == "source":
        return [Problem(NAME, "nccl_install", "no packages of make and a C++ compiler are known for %s; allowed: wheel, or none" % (
            system_of(identity)))]
    place, other = ("distribution", "repository") if desired.install == "distribution" else ("CUDA repository", "distribution")
    return [Problem(NAME, "nccl_install", "no packages of NCCL%s are known in the %s for %s; allowed: %s, wheel, source, or none" % (
        " " + spec["nccl_version"] if spec["nccl_version"] else "", place, system_of(identity), other))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.reason:
        return ["nccl_library: " + desired.reason]
    if desired.install in ("wheel", "source"):
        return ["nccl_library: NCCL is put below nccl_prefix by role nccl, and before nccl-tests run; that is no part of this plan"]
    return []
