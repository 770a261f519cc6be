# SPDX-License-Identifier: GPL-3.0-or-later
"""A part of a plan that can be made by itself: what `remediate` is asked for, without what another part would have to come before.

The order of a plan is the order of making, so what a change builds on always stands before it: one pass is enough. A change names
what it needs, its area names the areas that it needs, and what it does tells the rest: the program it runs, the unit it starts, the
file it writes. In doubt a change is left out: it is named with its reason, and `apply` makes the whole plan.
"""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from ..areas.common.units import template
from ..host.host import Host
from ..observe.processes import unit_installed
from ..types import AT_BOOT, Change, Op, needs_consent
from .areas import BY_NAME
from .plan import Plan, obstacles

NOT_ASKED, CONSENT, NEEDS = "not asked", "consent", "needs"
LOADERS = ("modprobe", "rmmod", "insmod", "dkms")
MODULE_OPTIONS = "/etc/modprobe.d/"
OWN_UNITS = "railwright-"  # no package brings them


class SkippedChange(NamedTuple):
    """A change that is not made, and why. ``cause`` is NOT_ASKED, CONSENT or NEEDS; then ``needs`` is the key of what it builds on."""

    change: Change
    cause: str
    reason: str
    needs: str = ""

    def as_dict(self) -> Dict[str, Any]:
        change = self.change
        return {"key": change.key, "what": change.what, "area": change.area, "disruption": change.disruption, "cause": self.cause,
                "reason": self.reason, "needs": self.needs}


def cut_plan(
    host: Host, plan: Plan, consent: Sequence[str], only: Optional[Sequence[str]] = None, *, consented_only: bool = False
) -> Tuple[Plan, Tuple[SkippedChange, ...]]:
    """The plan with what is wanted (``only``: change keys; None means all), and what is left out of it."""
    kept: List[Change] = []
    left: List[SkippedChange] = []
    for change in plan.changes:
        if only is not None and change.key not in only:
            left.append(SkippedChange(change, NOT_ASKED, "not asked for"))
        elif consented_only and needs_consent(change.disruption, consent):
            left.append(SkippedChange(change, CONSENT, "needs consent to " + change.disruption))
        else:
            first = next((item.change for item in left if builds_on(host, change, item.change)), None)
            if first is None:
                kept.append(change)
            else:
                left.append(SkippedChange(change, NEEDS, "needs %s first, which is left out" % first.key, first.key))
    passed = set(obstacles(host, [item.change for item in left])) - set(obstacles(host, kept))
    return plan._replace(changes=tuple(kept), problems=tuple(item for item in plan.problems if item not in passed)), tuple(left)


def builds_on(host: Host, change: Change, earlier: Change) -> bool:
    """Whether ``change`` cannot be made, or would not hold, without ``earlier``."""
    if change.package is not None:  # repositories hold packages and their pins; the packages of an area are one set: half of it is none
        return earlier.area == "repositories" or (earlier.package is not None and earlier.area == change.area)
    if change.needs_reboot:
        return earlier.area == change.area
    if change.external:  # what the scripts of packages do
        return earlier.package is not None
    if earlier.package is not None:
        return earlier.after is not None and (earlier.area == change.area or any(_lacks(host, op) for op in change.ops if op.kind == "run"))
    return _shares_ground(change, earlier) or _comes_after(change, earlier)


def _shares_ground(change: Change, earlier: Change) -> bool:
    """The same file, the files of a unit that is started, the options of a module that is loaded."""
    touched = _paths(earlier)
    if touched & _paths(change):
        return True
    commands = [op.argv for op in change.ops if op.kind == "run"]
    if earlier.area == change.area and touched and any(argv[0] == "systemctl" and not argv[-1].endswith(".mount") for argv in commands):
        return True
    return any(argv[0] in LOADERS for argv in commands) and any(path.startswith(MODULE_OPTIONS) for path in touched)


def _comes_after(change: Change, earlier: Change) -> bool:
    """In the running kernel; what is only for the next boot disturbs nobody now."""
    if AT_BOOT in (change.when, earlier.when):
        return False
    return earlier.key in change.needs or (change.area in BY_NAME and earlier.area in BY_NAME[change.area].needs)


def _paths(change: Change) -> FrozenSet[str]:
    return frozenset(op.path for op in change.ops if op.kind in ("write", "remove"))


def _lacks(host: Host, op: Op) -> bool:
    """Whether it runs a program, or starts a unit, that is not on the node: then a package is what brings it."""
    program = op.argv[0]
    if not (host.exists(program) if program.startswith("/") else host.which(program) is not None):
        return True
    if program != "systemctl":
        return False
    units = [template(word) for word in op.argv[2:] if word.endswith((".service", ".socket", ".timer"))]
    return any(not unit.startswith(OWN_UNITS) and not unit_installed(host, unit) for unit in units)
