# SPDX-License-Identifier: GPL-3.0-or-later
"""From wanted and installed packages to Changes: the same rules for the stack, the GPU driver and CUDA.

A wanted version is exact, a glob (``3.2.3*``) or None (any). Going back to an older one is a
``downgrade``; a package that somebody holds and that must change is a conflict, because the
package manager would refuse it half-way through the step.
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.drivers import Wanted, driver_fits, minimum_driver
from ...formats.outside import lines_in
from ...formats.versions import direction, without_epoch
from ...host.host import Host
from ...observe.gpu_driver import driver_on_disk, loaded_driver
from ...observe.packages import Hold, all_installed, held_packages
from ...types import PACKAGE, PRESENT, Change, Identity, Problem, Subject, heaviest


def package_change(
    area: str, name: str, found: Optional[str], wanted: Optional[str], why: str, source: str, disruption: str = "none"
) -> Change:
    """A package in another version, or in any (PRESENT), or gone (``wanted`` None)."""
    return Change(area, "package " + name, found, wanted, disruption, why, source, (), Subject(PACKAGE, name))


def plan_packages(area: str, wanted: Sequence[Any], installed: Mapping[str, str], family: str, disruption: str = "none") -> List[Change]:
    """One change for each wanted package that is missing or has another version.

    ``wanted`` are rows with name, version, why and source (and optionally a disruption of their own, for
    another version than the installed one); ``disruption`` is that of rows that say nothing.
    """
    changes: List[Change] = []
    seen: List[str] = []
    for row in wanted:
        if row.name in seen:
            continue
        seen.append(row.name)
        found = installed.get(row.name)
        if found is not None and (row.version is None or direction(found, row.version, family) == 0):
            continue
        own = getattr(row, "disruption", disruption)
        changes.append(package_change(area, row.name, found, row.version or PRESENT, row.why, row.source,
                                      change_class(found, row.version, family, own)))
    return changes


def change_class(found: Optional[str], wanted: Optional[str], family: str, disruption: str) -> str:
    """The disruption of going from ``found`` to ``wanted``: none where there was nothing, at least ``downgrade`` where it goes back."""
    if found is None:
        return "none"
    if wanted is not None and direction(found, wanted, family) < 0:
        return heaviest((disruption, "downgrade"))
    return disruption


def plan_removals(
    area: str, names: Sequence[str], installed: Mapping[str, str], why: str, source: str, disruption: str = "none"
) -> List[Change]:
    return [package_change(area, name, installed[name], None, why, source, disruption) for name in names if name in installed]


def hold_conflicts(area: str, changes: Sequence[Change], holds: Sequence[Hold]) -> List[Problem]:
    by_name: Dict[str, Hold] = {hold.name: hold for hold in holds}
    found: List[Problem] = []
    for change in changes:
        hold = by_name.get(change.package or "")
        if hold is not None and change.before is not None:
            found.append(Problem(area, change.what, "is held at %s by %s and must become %s; lift the hold: %s" % (
                change.before, hold.by, change.after or "absent", hold.lift)))
    return found


def missing_database(area: str, manager: str) -> Problem:
    return Problem(area, "package database", "cannot be read (%s); what is installed is not known" % manager)


def names_of(rows: Sequence[Any]) -> Tuple[str, ...]:
    return tuple(row.name for row in rows)


# Newer versions that the node's own package index knows: what ``rdma_stack_packages_state: latest`` asks for.
#
# Nothing is downloaded: a plan only reads. An index that is days old knows days-old
# versions; the package step refreshes it.

TIMEOUT = 60.0
COMMANDS: Dict[str, Tuple[str, ...]] = {
    "apt": ("apt-cache", "policy"),
    "dnf": ("dnf", "-q", "-C", "list", "--upgrades"),
    "yum": ("yum", "-q", "-C", "list", "updates"),
    "zypper": ("zypper", "--quiet", "--no-refresh", "--non-interactive", "list-updates"),
}
_APT = re.compile(r"^(\S+):\n(?:  .*\n)*?  Candidate: (\S+)$", re.MULTILINE)
_RPM = re.compile(r"^(\S+)\.\w+\s+(\S+)\s+\S+$", re.MULTILINE)


def candidates(host: Host, manager: str, names: Sequence[str]) -> Dict[str, str]:
    """The newest known version of each of ``names``; without those that have none newer, or none at all."""
    if manager not in COMMANDS or not names:
        return {}
    # zypper's list-updates takes no names
    out = host.run(COMMANDS[manager] + (() if manager == "zypper" else tuple(names)), TIMEOUT).out
    if manager == "apt":
        found = {name: version for name, version in _APT.findall(out) if version != "(none)"}
    elif manager == "zypper":
        rows = [[cell.strip() for cell in line.split("|")] for line in lines_in(out)]
        found = {row[2]: row[4] for row in rows if len(row) == 6}
    else:
        found = {name: without_epoch(version) for name, version in _RPM.findall(out)}  # our query of what is installed leaves it out
    return {name: found[name] for name in names if name in found}


# What the areas of CUDA, NCCL and MPI have in common: packages at a version, refused where the GPU driver is too old for their CUDA. The
# driver that counts is the one that the inventory wants on this node, else the one that is there.

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
