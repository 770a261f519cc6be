# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Spec and a node to an ordered list of Changes: the product of every run.

Planning only reads. Drift is this plan in check mode, remediation applies it, and
validation reports what is left of it, so the three cannot disagree.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..areas.common.units import mask_of, masked_problem
from ..errors import PlanDiverged, RailwrightError
from ..formats.masking import masked_change
from ..host.host import Host
from ..observe.identity import observe_identity
from ..spec.model import Spec
from ..types import Change, Identity, Problem, change_as_dict
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
