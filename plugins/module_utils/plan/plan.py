# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Spec and a node to an ordered list of Changes: the product of every run.

Planning only reads. Drift is this plan in check mode, remediation applies it, and
validation reports what is left of it, so the three cannot disagree. A part of a plan can be
made by itself (``cut_plan``): what `remediate` is asked for.
"""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from ..areas.common.units import mask_of, masked_problem, template
from ..errors import PlanDiverged, RailwrightError
from ..formats.masking import masked_change
from ..host.host import Host
from ..observe.identity import observe_identity
from ..observe.processes import unit_installed
from ..spec.model import Spec
from ..types import AT_BOOT, Change, Identity, Op, Problem, change_as_dict, needs_consent
from .areas import AREAS, BY_NAME, Area
from .preflight import observe_preflight, preflight_problems

STARTING = ("enable", "start", "restart", "add-wants")  # what systemd does with no unit that is masked


class Plan(NamedTuple):
    """What one node needs. ``problems`` stop an apply; they are never part of the drift."""

    identity: Identity
    changes: Tuple[Change, ...]
    problems: Tuple[Problem, ...]
    management: Optional[str]  # the node's own address that the controller talks to, if known
    notes: Tuple[str, ...] = ()  # what was left out on this node and why; never drift, never a problem

    @property
    def before(self) -> Dict[str, Any]:
        return {change.key: change.before for change in self.changes}

    @property
    def after(self) -> Dict[str, Any]:
        return {change.key: change.after for change in self.changes}

    def as_dicts(self) -> List[Dict[str, Any]]:
        return [change_as_dict(change) for change in self.changes]


def select_areas(names: Optional[Sequence[str]]) -> Tuple[Area, ...]:
    """The areas by name, in the order in which they are applied. None means all."""
    if names is None:
        return AREAS
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise RailwrightError("unknown area %s; known areas: %s" % (", ".join(unknown), ", ".join(BY_NAME)))
    return tuple(area for area in AREAS if area.name in names)


def make_plan(
    host: Host, spec: Spec, areas: Optional[Sequence[str]] = None, management: Optional[str] = None, now: Optional[float] = None
) -> Plan:
    """Observe the node and plan the named areas (None: all).

    ``management`` is the local address of the controller's connection and ``now`` the
    controller's clock (seconds since the epoch); both only sharpen the preflight.
    """
    identity = observe_identity(host, management)
    problems = list(preflight_problems(spec, identity, observe_preflight(host, now)))
    changes: List[Change] = []
    notes: List[str] = []
    for area in select_areas(areas):
        desired = area.desired(spec, identity)
        observed = area.observe(host, desired)
        found = area.problems(spec, identity, desired) + area.conflicts(desired, observed)
        problems.extend(problem for problem in found if problem not in problems)
        changes.extend(masked_change(change) for change in area.plan(desired, observed))
        notes.extend(area.notes(desired, observed))
    named = {(problem.area, problem.subject) for problem in problems}
    problems += [item for item in obstacles(host, changes) if (item.area, item.subject) not in named]
    return Plan(identity, tuple(changes), tuple(problems), management, tuple(notes))


def obstacles(host: Host, changes: Sequence[Change]) -> List[Problem]:
    """Files that nobody can replace or remove as they lie there, and units that are masked: an apply would find out half-way."""
    found: Dict[str, Problem] = {}
    written = {op.path for change in changes for op in change.ops if op.kind == "write"}
    for area, op in ((change.area, op) for change in changes for op in change.ops):
        why = host.obstacle(op.path, removing=op.kind == "remove") if host.live and op.kind in ("write", "remove") else None
        if why is not None:
            found.setdefault(op.path, Problem(area, "file " + op.path, why))
        for unit in op.argv[2:] if op.argv[:1] == ("systemctl",) and op.argv[1] in STARTING else ():
            mask = None if unit.startswith("-") else mask_of(host, unit)
            if mask is not None and mask not in written:
                found.setdefault(mask, masked_problem(area, unit, mask))
    return list(found.values())


def check_expected(changes: Sequence[Change], expected: Optional[Sequence[str]]) -> None:
    """Raise PlanDiverged when a state change was not in the plan that was consented to."""
    if expected is None:
        return
    strange = [change for change in changes if not change.external and change.key not in expected]
    if strange:
        raise PlanDiverged("plan diverged: the node now also needs %s; nothing was changed. Plan again and inspect it." % "; ".join(
            "%s (%r -> %r)" % (change.key, change.before, change.after) for change in strange))


# A part of a plan, without what another part would have to come before.
#
# The order of a plan is the order of making, so what a change builds on always stands before it: one pass is enough. A change names
# what it needs, its area names the areas that it needs, and what it does tells the rest: the program it runs, the unit it starts, the
# file it writes. In doubt a change is left out: it is named with its reason, and `apply` makes the whole plan.

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
