# SPDX-License-Identifier: GPL-3.0-or-later
"""What the areas of CUDA, NCCL and MPI have in common: packages at a version, refused where the GPU driver is too old for their CUDA.

The driver that counts is the one that the inventory wants on this node, else the one that is there.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import Wanted, driver_fits, minimum_driver
from ...host.host import Host
from ...observe.gpu_driver import driver_on_disk, loaded_driver
from ...observe.packages import Hold, all_installed, held_packages
from ...types import Change, Identity, Problem
from .package_changes import hold_conflicts, missing_database, names_of, plan_packages


class Desired(NamedTuple):
    """``wanted`` None: nothing is wanted, and ``reason`` says why (empty: nothing to say)."""

    identity: Identity
    wanted: Optional[Tuple[Wanted, ...]]
    install: str = ""  # what the inventory says of it
    reason: str = ""
    cuda: str = ""  # the release that the packages are built for; '' where they do not say
    driver: Optional[str] = None  # the version that the inventory asks for
    unless: Tuple[Tuple[str, Wanted], ...] = ()  # packages that are wanted where a path is missing


class Observed(NamedTuple):
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    driver: Optional[str]  # of the module on disk, else of the loaded one
    lacking: Tuple[Wanted, ...]  # of desired.unless


def observe(host: Host, desired: Desired) -> Observed:
    if desired.wanted is None:
        return Observed(None, (), None, ())
    identity = desired.identity
    driver = None
    if desired.cuda and desired.driver is None:
        driver = driver_on_disk(host, identity.kernel).version or loaded_driver(host).version
    return Observed(all_installed(host, identity), held_packages(host, identity, names_of(desired.wanted)), driver,
                    tuple(row for path, row in desired.unless if not host.exists(path)))


def plan_pinned(area: str, desired: Desired, observed: Observed) -> List[Change]:
    """Programs that run keep the files that they have open: another version disturbs nobody."""
    if desired.wanted is None or observed.installed is None:
        return []
    return plan_packages(area, observed.lacking + desired.wanted, observed.installed, desired.identity.platform.family)


def forbidden(area: str, desired: Desired, observed: Observed, key: str = "", product: str = "") -> List[Problem]:
    """Packages that somebody holds, and a driver that is too old for the CUDA of ``product``."""
    if desired.wanted is None:
        return []
    if observed.installed is None:
        return [missing_database(area, desired.identity.platform.package_manager)]
    found = hold_conflicts(area, plan_pinned(area, desired, observed), observed.holds)
    driver, least = desired.driver or observed.driver, minimum_driver(desired.cuda)
    if driver is not None and least and not driver_fits(desired.cuda, driver):
        found.append(Problem(area, key, "%s %s needs driver %s or newer, this node %s %s; set gpu_driver_branch to a newer one, or an "
                             "older cuda_version" % (product, desired.cuda, least, "gets" if desired.driver else "has", driver)))
    return found
