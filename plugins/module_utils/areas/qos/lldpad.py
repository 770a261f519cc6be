# SPDX-License-Identifier: GPL-3.0-or-later
"""lldpad, the daemon that speaks DCBX for the host: it writes what the switch says over what was set, so it stops, now and at boot."""

from typing import List, NamedTuple, Tuple

from ...host.host import Host
from ...types import Change, Problem
from ..common.units import systemctl
from ..network import evidence
from ..network.model import NO_UNIT, UnitState

UNITS = ("lldpad.socket", "lldpad.service")  # the socket first: it would start the service again
ENABLED = ("enabled", "enabled-runtime")
WHY = "it takes what the switch says by LLDP and writes it over trust, PFC and ETS of every interface"


class State(NamedTuple):
    """``listens``: its socket is there, whoever started it."""

    listens: bool
    units: Tuple[Tuple[str, UnitState], ...]


ABSENT = State(False, ())


def observe(host: Host, listens: bool) -> State:
    found = evidence.observe_units(host, UNITS)
    return State(listens, tuple((name, found.get(name, NO_UNIT)) for name in UNITS))


def active(state: State) -> List[str]:
    return [name for name, unit in state.units if unit.active in ("active", "activating")]


def enabled(state: State) -> List[str]:
    return [name for name, unit in state.units if unit.enabled in ENABLED]


def plan(area: str, state: State) -> List[Change]:
    runs, boots = active(state), enabled(state)
    if not runs and not boots:
        return []
    ops = [systemctl("stop", name) for name in runs] + [systemctl("disable", name) for name in boots]
    before = ", ".join(["%s active" % name for name in runs] + ["%s enabled" % name for name in boots])
    return [Change(area, "lldpad stopped", before, "stopped and disabled", "restart", WHY, "inventory: roce_qos_dcbx; lldpad(8)",
                   tuple(ops))]


def conflicts(area: str, state: State, taken: bool) -> List[Problem]:
    """``taken``: the inventory gives DCBX to the host, so that lldpad goes."""
    if state.listens and not taken:
        return [Problem(area, "lldpad", "runs, and %s. Set roce_qos_dcbx: host, or roce_qos_manage: false if the switch is to decide"
                        % WHY)]
    if state.listens and not active(state):
        return [Problem(area, "lldpad", "runs, and neither %s did start it; stop whatever starts it" % " nor ".join(UNITS))]
    return []
