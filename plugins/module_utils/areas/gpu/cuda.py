# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkit and cuDNN at their pinned versions, where the node has a GPU; refused where its driver is too old for them.

The driver that counts is the one that the inventory wants on this node, else the one that is there. Holding the packages
at their versions is the repositories area's; the link /usr/local/cuda is the packages' own.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.drivers import Wanted, cuda_packages, driver_fits, minimum_driver, wanted_driver
from ...host.host import Host
from ...observe.gpu_driver import driver_on_disk, loaded_driver
from ...observe.package_state import Hold, held
from ...observe.packages import all_installed
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.package_changes import hold_conflicts, missing_database, names_of, plan_packages

# What forbids packages that are made for one CUDA release: a driver that is too old for it, and packages that somebody holds.


def cuda_conflicts(
    area: str, desired: Any, observed: Any, changes: Sequence[Change], key: str, product: str, release: str
) -> List[Problem]:
    """``desired`` and ``observed`` of the area, with identity, wanted, driver and installed, holds, driver.

    ``release``: of CUDA; '' where the packages do not say. The driver that the inventory asks for counts before the one that is there.
    """
    if desired.wanted is None:
        return []
    if observed.installed is None:
        return [missing_database(area, desired.identity.platform.package_manager)]
    found = hold_conflicts(area, changes, observed.holds)
    driver, least = desired.driver or observed.driver, minimum_driver(release)
    if driver is not None and least and not driver_fits(release, driver):
        found.append(Problem(area, key, "%s %s needs driver %s or newer, this node %s %s; set gpu_driver_branch to a newer one, or an "
                             "older cuda_version" % (product, release, least, "gets" if desired.driver else "has", driver)))
    return found


NAME = "cuda"


class Desired(NamedTuple):
    """``wanted`` None: nothing is wanted, and ``reason`` says why (empty: nothing to say)."""

    identity: Identity
    wanted: Optional[Tuple[Wanted, ...]]
    reason: str
    version: str
    driver: Optional[str]  # the version that the inventory asks for


class Observed(NamedTuple):
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    driver: Optional[str]  # of the module on disk, else of the loaded one


def desired(spec: Spec, identity: Identity) -> Desired:
    version = spec["cuda_version"]
    wanted: Optional[Tuple[Wanted, ...]] = None
    reason: str = ""
    if version is not None and identity.gpus:
        wanted = cuda_packages(spec, identity)
    elif version is not None:
        reason = "no NVIDIA GPU on the PCI bus of this node, so CUDA %s is not installed" % version
    return Desired(identity, wanted, reason, version or "", wanted_driver(spec.as_dict()))


def observe(host: Host, desired: Desired) -> Observed:
    if desired.wanted is None:
        return Observed(None, (), None)
    identity = desired.identity
    disk = driver_on_disk(host, identity.kernel).version if desired.driver is None else None
    return Observed(all_installed(host, identity), held(host, identity, names_of(desired.wanted)), disk or loaded_driver(host).version)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    """Another version of the same release replaces files that running programs keep open: nothing that runs notices."""
    if desired.wanted is None or observed.installed is None:
        return []
    return plan_packages(NAME, desired.wanted, observed.installed, desired.identity.platform.family)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.wanted is None or desired.wanted:
        return []
    return [Problem(NAME, "cuda_version", "no packages of CUDA %s are known for %s (%s); allowed: another release, or leave it unset" % (
        desired.version, identity.platform.pretty or identity.platform.id, identity.arch))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    return cuda_conflicts(NAME, desired, observed, plan(desired, observed), "cuda_version", "CUDA", desired.version)


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.reason:
        return ["cuda: " + desired.reason]
    if desired.wanted is not None and desired.driver is None and observed.driver is None:
        return ["cuda: this node has no NVIDIA driver and the inventory wants none; programs can be built here, not run"]
    return []
