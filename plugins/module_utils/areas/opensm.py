# SPDX-License-Identifier: GPL-3.0-or-later
"""A subnet manager on the hosts that are to run one: unit ``opensm`` enabled and running.

Other hosts are left alone: a subnet manager that somebody runs there is not ours to
stop. Starting one disturbs nothing: in a fabric that has a master it stands by.
"""

from typing import List, NamedTuple

from ..host import Host
from ..spec.model import Spec
from ..types import Change, Identity, Problem, run
from .backends.evidence import observe_units
from .backends.model import UnitState
from .backends.persistent import ENABLED

NAME = "opensm"
UNIT = "opensm.service"
WHY = "an InfiniBand port stays INIT until a subnet manager has configured it"
SOURCE = "opensm(8); inventory: opensm_enabled, group opensm"


class Desired(NamedTuple):
    enabled: bool


class Observed(NamedTuple):
    unit: UnitState


def desired(spec, identity):
    # type: (Spec, Identity) -> Desired
    return Desired(bool(spec["opensm_enabled"]))


def observe(host, desired):
    # type: (Host, Desired) -> Observed
    if not desired.enabled:
        return Observed(UnitState("", "", ""))
    return Observed(observe_units(host, (UNIT,)).get(UNIT, UnitState("", "", "")))


def plan(desired, observed):
    # type: (Desired, Observed) -> List[Change]
    if not desired.enabled:
        return []
    changes = []  # type: List[Change]
    if observed.unit.enabled not in ENABLED:
        changes.append(Change(NAME, "unit %s enabled" % UNIT, False, True, "none", WHY, SOURCE,
                              (run(("systemctl", "enable", UNIT), (("systemctl", "disable", UNIT),)),)))
    if observed.unit.active not in ("active", "activating", "reloading"):
        changes.append(Change(NAME, "unit %s running" % UNIT, False, True, "none", WHY, SOURCE,
                              (run(("systemctl", "start", UNIT), (("systemctl", "stop", UNIT),)),)))
    return changes


def problems(spec, identity, desired):
    # type: (Spec, Identity, Desired) -> List[Problem]
    if desired.enabled and spec.fabric != "infiniband":
        return [Problem(NAME, UNIT, "a subnet manager is for InfiniBand, and fabric is %s: take it out of group opensm" % spec.fabric)]
    return []


def conflicts(desired, observed):
    # type: (Desired, Observed) -> List[Problem]
    if desired.enabled and observed.unit.load == "masked":
        return [Problem(NAME, UNIT, "the unit is masked on this node; unmask it, or take the host out of group opensm")]
    return []
