# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd units of our own: written whole, enabled, and optionally running.

Whether a unit is enabled is read from its link below /etc/systemd/system, not from
``systemctl is-enabled``: one readlink instead of a process, the same answer in a
captured tree. (A vendor unit that an alias enables is not looked at here.)
"""

from typing import List, NamedTuple, Optional

from ...host.host import Host
from ...types import Change, Problem, run
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


# Daemons that a package brings with a systemd unit of its own: started at every boot, running now.
#
# ``systemctl add-wants`` makes the link that ``enable`` would make, and makes it for a static unit too (Ubuntu's
# nvidia-persistenced has no [Install] section). Until the package is there the unit is planned all the same, so that
# the plan that is consented to holds everything.

DIRECTORIES = (DIRECTORY, "/usr/lib/systemd/system", "/lib/systemd/system")
TARGET = "multi-user.target"
START_SECONDS = 180.0


class DaemonState(NamedTuple):
    """``active`` is None when systemd does not answer."""

    unit: str
    installed: bool
    masked: bool
    enabled: bool
    active: Optional[bool]


def observe_daemon(host: Host, unit: str) -> DaemonState:
    installed = any(host.exists("%s/%s" % (directory, unit)) for directory in DIRECTORIES)
    answer = host.run(("systemctl", "is-active", unit)).out.strip() if installed else ""
    return DaemonState(unit, installed, host.readlink("%s/%s" % (DIRECTORY, unit)) == "/dev/null", wanted_at_boot(host, unit),
                       answer == "active" if answer else None)


def wanted_at_boot(host: Host, unit: str) -> bool:
    """Whether any target or unit pulls it in: a link in a .wants or .requires directory."""
    for directory in DIRECTORIES:
        for name in host.listdir(directory):
            if name.endswith((".wants", ".requires")) and host.readlink("%s/%s/%s" % (directory, name, unit)) is not None:
                return True
    return False


def plan_daemon(area: str, state: DaemonState, why: str, source: str, *, running: bool = True) -> List[Change]:
    """``running`` False: only for the next boot (nothing that it needs is there yet)."""
    changes: List[Change] = []
    if not state.enabled:
        changes.append(Change(
            area, "unit %s enabled" % state.unit, False, True, "none", why, source,
            (run(("systemctl", "add-wants", TARGET, state.unit), (("systemctl", "disable", state.unit),)),)))
    if running and not state.active:
        changes.append(Change(
            area, "unit %s running" % state.unit, False, True, "none", why, source,
            (run(("systemctl", "start", state.unit), (("systemctl", "stop", state.unit),), START_SECONDS),)))
    return changes


def masked_problem(area: str, state: DaemonState) -> List[Problem]:
    if not state.masked:
        return []
    return [Problem(area, "unit " + state.unit, "is masked (%s/%s leads to /dev/null), so it can never start; systemctl unmask %s" % (
        DIRECTORY, state.unit, state.unit))]
