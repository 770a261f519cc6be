# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd units of our own: written whole, enabled, and optionally running.

Whether a unit is enabled is read from its link below /etc/systemd/system, not from
``systemctl is-enabled``: one readlink instead of a process, the same answer in a
captured tree. (A vendor unit that an alias enables is not looked at here.)
"""

from typing import List, NamedTuple, Optional

from ...host.host import Host
from ...types import Change, run
from .files import FileState, observe_file, plan_file

DIRECTORY = "/etc/systemd/system"
# No undo: apply repeats commands without one after a roll back, so systemd sees the restored files.
RELOAD = run(("systemctl", "daemon-reload"))


class Unit(NamedTuple):
    """A unit as it should be. ``running``: also active now (a oneshot must remain after exit)."""

    name: str  # railwright-cpu-governor.service
    content: str
    wanted_by: str  # multi-user.target
    running: bool


class UnitState(NamedTuple):
    """A unit as it is. ``active`` is None when systemd was not asked or did not answer."""

    file: FileState
    enabled: bool
    active: Optional[bool]


def observe_unit(host: Host, unit: Unit) -> UnitState:
    active: Optional[bool] = None
    if unit.running:
        active = host.run(("systemctl", "is-active", unit.name)).out.strip() == "active"
    link = "%s/%s.wants/%s" % (DIRECTORY, unit.wanted_by, unit.name)
    return UnitState(observe_file(host, "%s/%s" % (DIRECTORY, unit.name)), host.readlink(link) is not None, active)


def plan_unit(area: str, unit: Unit, state: UnitState, why: str, source: str) -> List[Change]:
    """One change for the file, one for boot, one for now: each only where it differs."""
    changes = plan_file(area, state.file, unit.content, why, source, then=(RELOAD,))
    if not state.enabled:
        changes.append(Change(
            area, "unit %s enabled" % unit.name, False, True, "none", why, source,
            (run(("systemctl", "enable", unit.name), (("systemctl", "disable", unit.name),)),),
        ))
    if unit.running and not state.active:
        changes.append(Change(
            area, "unit %s running" % unit.name, False, True, "none", why, source,
            (run(("systemctl", "start", unit.name), (("systemctl", "stop", unit.name),)),),
        ))
    return changes
