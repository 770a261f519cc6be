# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a run on a node: the job user's alone, made at its beginning and gone at its end."""

import re
import time
from typing import List

from ..errors import RailwrightError
from ..host import Host
from .probe import SCRIPT
from .processes import LEASE, account, marked, rights_of, stop_marked

ROOT = "/run/railwright"
BASE = ROOT + "/bench"
PROBE = "probe.py"
HOSTS = "hosts"
LEASE_S = 90.0  # a controller asks every few seconds; one that is silent for so long is gone
SILENT_S = 240.0  # longer than any lease and the end that follows it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def directory_of(run):
    # type: (str) -> str
    """Also the gate for names of runs: each one becomes a path."""
    if not _NAME.match(run):
        raise RailwrightError("run: %r is no name of a run; allowed: letters, digits, dots, _ and -" % run)
    return "%s/%s" % (BASE, run)


def prepare(host, run, user, hosts):
    # type: (Host, str, str, str) -> None
    """``hosts``: text of the launcher's host file. Raises RailwrightError while another run is on this node, OSError."""
    path, who = directory_of(run), account(user)
    make_way(host, run)
    host.make_directory(ROOT, 0o755)
    host.make_directory(BASE, 0o755)
    for name in host.listdir(BASE):  # left by runs that were cut off
        if name != run and _NAME.match(name):
            remove(host, name)
    host.make_directory(path, 0o700, (who.uid, who.gid))
    with rights_of(host, user):
        try:
            host.write("%s/%s" % (path, PROBE), SCRIPT, 0o600)
            host.write("%s/%s" % (path, HOSTS), hosts, 0o600)
        except PermissionError as error:
            raise RailwrightError("%s: user %s may not write there: is one of the directories above it closed to others?" % (
                path, user)) from error


def make_way(host, run):
    # type: (Host, str) -> None
    """Raises RailwrightError while another run is on this node. What a forsaken one left is ended: a process in a session of its own
    outlives the end of its job, and would be another run for ever."""
    for name in host.listdir(BASE):
        if name != run and _NAME.match(name) and forsaken(host, name):
            stop_marked(host, name)
    others = others_at_work(host, run)
    if others:
        raise RailwrightError("another run is on this node: %s; two of them would measure each other. One whose controller is gone ends by "
                              "itself: try again in five minutes" % ", ".join(others))


def forsaken(host, run):
    # type: (Host, str) -> bool
    """Whether jobs of a run were started here and nobody has asked for one since long. Where other nodes start the ranks there is no sign
    of that."""
    path = directory_of(run)
    leases = [host.modified("%s/%s" % (path, name)) for name in host.listdir(path) if name.endswith(LEASE)]
    return bool(leases) and time.time() - max(leases) > SILENT_S


def others_at_work(host, run):
    # type: (Host, str) -> List[str]
    """Runs whose directory is here and of which something still runs, or did a moment ago: between two jobs there is nothing to see.

    Every poll renews a file in it, so the directory of a run that somebody looks after is never old.
    """
    now = time.time()
    return [name for name in host.listdir(BASE) if name != run and _NAME.match(name)
            and (marked(host, name) or 0 <= now - host.modified("%s/%s" % (BASE, name)) < LEASE_S)]


def remove(host, run):
    # type: (Host, str) -> List[str]
    """Take the directory away; returns what stayed (a directory of a job's own, such as one with a core file)."""
    path = directory_of(run)
    owner = host.owner(path)
    if owner is None:
        return []
    with host.acting_as(*owner):
        left = []
        for name in host.listdir(path):
            try:
                host.remove("%s/%s" % (path, name))
            except OSError:
                left.append(name)
    host.rmdir(path)
    return left
