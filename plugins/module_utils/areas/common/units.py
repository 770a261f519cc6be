# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd units: enabled for the next boot, running now; those of our own are written whole.

Whether a unit is enabled is read from its link below /etc/systemd/system, not from
``systemctl is-enabled``: one readlink instead of a process, the same answer in a
captured tree. (A vendor unit that an alias enables is not inspected here.)
"""

from typing import List, NamedTuple, Optional, Set, Tuple

from ...host.host import Host
from ...observe.processes import UNIT_DIRECTORIES, unit_active, unit_installed
from ...types import AT_BOOT, UNIT, Change, Op, Problem, Subject, remove_file, run
from .files import FileState, observe_file, plan_file

DIRECTORY, RUNTIME = "/etc/systemd/system", "/run/systemd/system"
# No undo: apply repeats commands without one after a roll back, so systemd sees the restored files.
RELOAD = run(("systemctl", "daemon-reload"))
MASK = "/dev/null"
_OPPOSITE = {"enable": "disable", "disable": "enable", "start": "stop", "stop": "start"}


def systemctl(verb: str, unit: str, seconds: float = 120.0) -> Op:
    """enable, disable, start or stop, with its opposite as the undo."""
    return run(("systemctl", verb, unit), (("systemctl", _OPPOSITE[verb], unit),), seconds)


def enabled_unit(area: str, unit: str, why: str, source: str, ops: Tuple[Op, ...] = ()) -> Change:
    """``ops``: where it takes more than ``systemctl enable``."""
    return Change(area, "unit %s enabled" % unit, False, True, "none", why, source, ops or (systemctl("enable", unit),),
                  Subject(UNIT, unit), AT_BOOT)


def running_unit(area: str, unit: str, why: str, source: str, seconds: float = 120.0) -> Change:
    return Change(area, "unit %s running" % unit, False, True, "none", why, source, (systemctl("start", unit, seconds),),
                  Subject(UNIT, unit))


def removed_unit(area: str, unit: str, why: str, source: str, first: Tuple[Op, ...]) -> Change:
    """A unit of our own that goes; ``first``: what stops or disables it."""
    ops = first + (remove_file("%s/%s" % (DIRECTORY, unit)), RELOAD)
    return Change(area, "unit %s removed" % unit, True, False, "none", why, source, ops, Subject(UNIT, unit))


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
    return UnitState(observe_file(host, "%s/%s" % (DIRECTORY, unit.name)), pulls_in(host, link), active)


def plan_unit(area: str, unit: Unit, state: UnitState, why: str, source: str) -> List[Change]:
    """One change for the file, one for boot, one for now: each only where it differs."""
    changes = plan_file(area, state.file, unit.content, why, source, then=(RELOAD,))
    if not state.enabled:
        changes.append(enabled_unit(area, unit.name, why, source))
    if unit.running and not state.active:
        changes.append(running_unit(area, unit.name, why, source))
    return changes


# Daemons that a package brings with a systemd unit of its own: started at every boot, running now.
#
# ``systemctl add-wants`` makes the link that ``enable`` would make, and makes it for a static unit too (Ubuntu's
# nvidia-persistenced has no [Install] section). Until the package is there the unit is planned all the same, so that
# the plan that is consented to holds everything.

TARGET = "multi-user.target"
START_SECONDS = 180.0


class DaemonState(NamedTuple):
    """``active`` is None when systemd does not answer."""

    unit: str
    installed: bool
    enabled: bool
    active: Optional[bool]


def observe_daemon(host: Host, unit: str) -> DaemonState:
    enabled = bool(wanting(host, unit)) and mask_of(host, unit) is None
    return DaemonState(unit, unit_installed(host, unit), enabled, unit_active(host, unit))


def wanting(host: Host, unit: str) -> Set[str]:
    """The .wants and .requires directories that pull it in, by their names."""
    return {name for directory in UNIT_DIRECTORIES for name in host.listdir(directory)
            if name.endswith((".wants", ".requires")) and pulls_in(host, "%s/%s/%s" % (directory, name, unit))}


def plan_daemon(area: str, state: DaemonState, why: str, source: str, *, running: bool = True) -> List[Change]:
    """``running`` False: only for the next boot (nothing that it needs is there yet)."""
    changes: List[Change] = []
    if not state.enabled:
        wanted = run(("systemctl", "add-wants", TARGET, state.unit), (("systemctl", "disable", state.unit),))
        changes.append(enabled_unit(area, state.unit, why, source, (wanted,)))
    if running and not state.active:
        changes.append(running_unit(area, state.unit, why, source, START_SECONDS))
    return changes


def pulls_in(host: Host, link: str) -> bool:
    """A link in a .wants or .requires directory; one to /dev/null takes the others of its name away (systemd's load-dropin.c)."""
    target = host.readlink(link)
    return target is not None and not target.endswith(MASK)


def mask_of(host: Host, unit: str) -> Optional[str]:
    """The file that masks a unit or its template, now or for good; None where none does. An empty file masks too (systemd.unit(5))."""
    for name in dict.fromkeys((unit, template(unit))):
        for path in ("%s/%s" % (directory, name) for directory in (DIRECTORY, RUNTIME)):
            if (host.readlink(path) or "").endswith(MASK) or host.size(path) == 0:
                return path
            if host.exists(path):
                break  # it hides those of its name below
    return None


def template(unit: str) -> str:
    """The file of a unit: instances of ``name@.service`` have none of their own."""
    head, at, tail = unit.partition("@")
    return head + at + "." + tail.rpartition(".")[2] if at else unit


def masked_problem(area: str, unit: str, path: str) -> Problem:
    runtime = " --runtime" if path.startswith(RUNTIME) else ""
    return Problem(area, "unit " + unit, "is masked (%s leads to /dev/null or is empty), so it can never start; systemctl unmask%s %s" % (
        path, runtime, unit))
