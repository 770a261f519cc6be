# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when something differs, and by whom, as far as the node itself has a record: file times, package logs, systemd.

Only what stands there is said. A file that changed in the minute in which a package was set up was most likely changed by it;
whoever edits by hand leaves a time and no name.
"""

import re
import time
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import is_digits, lines_in
from ..host.host import Host
from ..types import FILE, PACKAGE, UNIT, Change
from .processes import boot_time

DPKG_LOGS = ("/var/log/dpkg.log", "/var/log/dpkg.log.1")
# 2026-11-21 13:00:07 upgrade rdma-core:amd64 44.0-2 45.0-1
_DPKG = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (install|upgrade|remove|purge) ([a-z0-9][a-z0-9+.-]+)(?::[a-z0-9]+)? (\S+) (\S+)\Z")
RPM = ("rpm", "-q", "--qf", "%{INSTALLTIME} %{VERSION}-%{RELEASE}\\n")
SHOW = ("systemctl", "show", "-p", "StateChangeTimestampMonotonic")
# A package's scripts write within moments of the log's line; unattended upgrades of many packages take longer.
NEAR_SECONDS = 60.0


class Origin(NamedTuple):
    """``when``: seconds since the epoch, None: not known. ``by``: in words, '' when nothing says."""

    when: Optional[float]
    by: str


class Step(NamedTuple):
    when: float
    verb: str
    package: str
    version: str


UNKNOWN = Origin(None, "")


def origins(host: Host, changes: Sequence[Change]) -> Dict[str, Origin]:
    """Change key -> origin, for those whose subject is a file, a package or a unit."""
    steps = package_steps(host) if any(change.subject[0] in (FILE, PACKAGE) for change in changes) else ()
    known = [(change.key, *change.subject) for change in changes if change.subject[0] in (FILE, PACKAGE, UNIT)]
    found = [(key, unit_origin(host, name) if kind == UNIT else (file_origin if kind == FILE else package_origin)(host, name, steps))
             for key, kind, name in known]
    return {key: origin for key, origin in found if origin != UNKNOWN}


def package_steps(host: Host) -> Tuple[Step, ...]:
    """What dpkg's log holds, oldest first; times there are the node's local ones."""
    matches = [_DPKG.match(line) for path in reversed(DPKG_LOGS) for line in lines_in(host.read(path) or "")]
    return tuple(_step(*match.groups()) for match in matches if match is not None)


def _step(at: str, verb: str, package: str, before: str, after: str) -> Step:
    try:
        when = time.mktime(time.strptime(at, "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        when = 0.0
    return Step(when, verb, package, before if verb in ("remove", "purge") else after)


def file_origin(host: Host, path: str, steps: Sequence[Step]) -> Origin:
    """A file that is gone has the time of its directory, which may have changed since: that is no record, so nothing is said."""
    when = host.mtime(path)
    if when is None:
        return UNKNOWN
    near = [(abs(step.when - when), at) for at, step in enumerate(steps) if abs(step.when - when) <= NEAR_SECONDS]
    return Origin(when, "the file was changed" + (" at the time of %s" % _words(steps[min(near)[1]]) if near else ""))


def package_origin(host: Host, name: str, steps: Sequence[Step]) -> Origin:
    own = [step for step in steps if step.package == name]
    if own:
        return Origin(own[-1].when, _words(own[-1]))
    if host.which("rpm") is None:
        return UNKNOWN
    fields = (host.run(RPM + (name,)).out.split("\n")[0]).split()
    if len(fields) == 2 and is_digits(fields[0]):
        return Origin(float(fields[0]), "install of %s %s" % (name, fields[1]))
    return UNKNOWN


def unit_origin(host: Host, name: str) -> Origin:
    """systemd's own time of the last change of state, counted from the boot."""
    text = host.run(SHOW + (name,)).out.partition("=")[2].strip()
    boot = boot_time(host)
    if not is_digits(text) or text == "0" or boot is None:
        return UNKNOWN
    return Origin(boot + int(text) / 1e6, "the unit changed its state")


def _words(step: Step) -> str:
    """`upgrade of rdma-core to 45.0-1`."""
    joint = {"upgrade": "to ", "install": "", "remove": "", "purge": ""}[step.verb]
    return "%s of %s %s%s" % (step.verb, step.package, joint, step.version)
