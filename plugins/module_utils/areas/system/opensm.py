# SPDX-License-Identifier: GPL-3.0-or-later
"""A subnet manager on the hosts that are to run one: unit ``opensm`` enabled and running.

Other hosts are left alone: a subnet manager that somebody runs there is not ours to
stop. Starting one disturbs nothing: in a fabric that has a master it stands by.

In a container modules belong to the machine below. Where that has no management
datagrams (ib_umad), systemd skips the unit's start without an error, so it is enabled
and not asked to run (see ``notes``).
"""

from typing import List, NamedTuple

from ...host.host import Host
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.units import enabled_unit, running_unit
from ..network.evidence import observe_units
from ..network.model import UnitState
from ..network.persistent import ENABLED

NAME = "opensm"
UNIT = "opensm.service"
UMAD = "/sys/class/infiniband_mad/abi_version"  # the ConditionPathExists of Debian's unit
WHY = "an InfiniBand port stays INIT until a subnet manager has configured it"
SOURCE = "opensm(8); inventory: network_opensm, group opensm"


class Desired(NamedTuple):
    enabled: bool
    container: bool


class Observed(NamedTuple):
    """``umad``: the node has the kernel's side of management datagrams."""

    unit: UnitState
    umad: bool


def desired(spec: Spec, identity: Identity) -> Desired:
    return Desired(bool(spec["network_opensm"]), identity.has("container"))


def observe(host: Host, desired: Desired) -> Observed:
    if not desired.enabled:
        return Observed(UnitState("", "", ""), False)
    return Observed(observe_units(host, (UNIT,)).get(UNIT, UnitState("", "", "")), host.exists(UMAD))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.enabled:
        return []
    changes: List[Change] = []
    if observed.unit.enabled not in ENABLED:
        changes.append(enabled_unit(NAME, UNIT, WHY, SOURCE))
    if observed.unit.active not in ("active", "activating", "reloading") and can_run(desired, observed):
        changes.append(running_unit(NAME, UNIT, WHY, SOURCE))
    return changes


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.enabled and spec.fabric != "infiniband":
        return [Problem(NAME, UNIT, "a subnet manager is for InfiniBand, and rdma_fabric is %s: take it out of group opensm" % spec.fabric)]
    return []


def notes(desired: Desired, observed: Observed) -> List[str]:
    if not desired.enabled or can_run(desired, observed):
        return []
    return ["opensm: this container has no %s, the unit cannot run here; it is enabled only" % UMAD]


def can_run(desired: Desired, observed: Observed) -> bool:
    """On a machine kernel_modules loads ib_umad before; in a container it is there or it is not."""
    return observed.umad or not desired.container


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if desired.enabled and observed.unit.load == "masked":
        return [Problem(NAME, "unit " + UNIT, "is masked on this node; unmask it, or take the host out of group opensm")]
    return []
