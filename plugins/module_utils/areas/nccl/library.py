# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's packages at their pinned version, where the node has a GPU; refused where its driver is too old for their CUDA.

A wheel or a build is put into a prefix by role nccl and is no part of a plan; of a build the compiler is. Holding the packages
at their version is the repositories area's; what makes dnf heed it comes from here, where the role is used alone.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import Wanted, wanted_driver
from ...catalogue.libnccl import PACKAGED, cuda_of, nccl_packages
from ...host.host import Host
from ...observe.gpu_driver import driver_on_disk, loaded_driver
from ...observe.package_state import VERSIONLOCK, Hold, held
from ...observe.packages import all_installed
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.package_changes import names_of, plan_packages
from ..gpu.cuda import cuda_conflicts
from ..stack.packages import VERSIONLOCK_PACKAGE

NAME = "nccl_library"
LOCK = Wanted(VERSIONLOCK_PACKAGE, None, "nccl_hold: dnf has no other way to keep a package at its version", "dnf-plugins-core")
LOCK_SETTINGS = VERSIONLOCK["dnf"][0].replace(".list", ".conf")


class Desired(NamedTuple):
    """``wanted`` None: nothing is wanted, and ``reason`` says why (empty: nothing to say)."""

    identity: Identity
    wanted: Optional[Tuple[Wanted, ...]]
    reason: str
    install: str
    cuda: str  # the major version of CUDA that the packages are built for; '' where they do not say
    driver: Optional[str]  # the version that the inventory asks for
    lock: bool  # dnf needs its plugin to hold them


class Observed(NamedTuple):
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    driver: Optional[str]  # of the module on disk, else of the loaded one
    lock: bool = True  # the plugin is there


def desired(spec: Spec, identity: Identity) -> Desired:
    install = spec["nccl_install"]
    wanted: Optional[Tuple[Wanted, ...]] = None
    reason: str = ""
    if install in PACKAGED + ("source",) and identity.gpus:
        wanted = nccl_packages(spec, identity)
    elif install != "none" and not identity.gpus:
        reason = "no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed"
    cuda = cuda_of(wanted[0].version) if wanted else ""
    lock = bool(wanted) and install in PACKAGED and spec["nccl_hold"] and identity.platform.package_manager == "dnf"
    return Desired(identity, wanted, reason, install, cuda, wanted_driver(spec.as_dict()), lock)


def observe(host: Host, desired: Desired) -> Observed:
    if desired.wanted is None:
        return Observed(None, (), None)
    identity = desired.identity
    driver = None
    if desired.cuda and desired.driver is None:
        driver = driver_on_disk(host, identity.kernel).version or loaded_driver(host).version
    return Observed(all_installed(host, identity), held(host, identity, names_of(desired.wanted)), driver,
                    host.exists(LOCK_SETTINGS))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    """Programs that run keep the library that they have open: another version disturbs nobody."""
    if desired.wanted is None or observed.installed is None:
        return []
    lock = (LOCK,) if desired.lock and not observed.lock else ()
    return plan_packages(NAME, lock + desired.wanted, observed.installed, desired.identity.platform.family)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.wanted is None or desired.wanted:
        return []
    system = "%s (%s)" % (identity.platform.pretty or identity.platform.id, identity.arch)
    if desired.install == "source":
        return [Problem(NAME, "nccl_install", "no packages of make and a C++ compiler are known for %s; allowed: wheel, or none" % system)]
    return [Problem(NAME, "nccl_install", "no packages of NCCL%s are known in the %s for %s; allowed: %s, wheel, source, or none" % (
        " " + spec["nccl_version"] if spec["nccl_version"] else "",
        "distribution" if desired.install == "distribution" else "CUDA repository", system,
        "repository" if desired.install == "distribution" else "distribution"))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    return cuda_conflicts(NAME, desired, observed, plan(desired, observed), "nccl_version", "NCCL for CUDA", desired.cuda)


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.reason:
        return ["nccl_library: " + desired.reason]
    if desired.install in ("wheel", "source"):
        return ["nccl_library: NCCL is put below nccl_prefix by role nccl, and before nccl-tests run; that is no part of this plan"]
    return []
