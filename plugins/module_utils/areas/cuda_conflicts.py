# SPDX-License-Identifier: GPL-3.0-or-later
"""What forbids packages that are made for one CUDA release: a driver that is too old for it, and packages that somebody holds."""

from typing import Any, List, Sequence

from ..catalogue.drivers import driver_fits, minimum_driver
from ..types import Change, Problem
from .common.package_changes import hold_conflicts, missing_database


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
