# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a run on a node: the job user's alone, made at its beginning and gone at its end.

Whether a run is still looked after is told by a record beside its directory, where only root writes: names, times and leases in the
directory itself are the user's to make, and a process with the marker is anybody's. The record's time is the clock since boot, which
nobody sets.
"""

import json
import re
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...errors import RailwrightError
from ...formats.outside import json_object
from ...host.host import Host
from ...observe.traffic_counters import Watched
from ...types import as_dicts
from ..counter_verdicts import counters_before, judge_growth, watched
from .probe import SCRIPT
from .processes import RUN, account, check_run, marked, rights_of, stop_marked

ROOT = "/run/railwright"
BASE = ROOT + "/bench"
PROBE = "probe.py"
HOSTS = "hosts"
COUNTERS = ".counters"  # of a run, behind the name of its record
LEASE_S = 90.0  # a controller asks every few seconds; one that is silent for so long is gone
SILENT_S = 240.0  # longer than any lease and the end that follows it
LONGEST_S = 604800 + 3600.0  # the longest job that the inventory may ask for: where other nodes start the ranks nobody asks meanwhile
_RECORD = re.compile(r"(-?[0-9]{1,12}) ([01])\n\Z")


def directory_of(run: str) -> str:
    check_run(run)
    return "%s/%s" % (BASE, run)


def prepare(host: Host, run: str, user: str, hosts: str) -> None:
    """``hosts``: text of the launcher's host file. Raises RailwrightError while another run is on this node, OSError."""
    path, who = directory_of(run), account(user)
    make_way(host, run)
    host.make_directory(ROOT, 0o755)
    host.make_directory(BASE, 0o755)
    for name in host.listdir(BASE):  # left by runs that were cut off
        if name != run and RUN.match(name):
            remove(host, name)
    note(host, run)
    host.make_directory(path, 0o700, (who.uid, who.gid))
    with rights_of(host, user):
        try:
            host.write("%s/%s" % (path, PROBE), SCRIPT, 0o600)
            host.write("%s/%s" % (path, HOSTS), hosts, 0o600)
        except PermissionError as error:
            raise RailwrightError("%s: user %s may not write there: is one of the directories above it closed to others?" % (
                path, user)) from error


class Record(NamedTuple):
    age: float  # seconds since somebody asked for the run here
    started: bool  # whether its jobs are started here, so that a silence says that nobody will ask again


def record_of(run: str) -> str:
    """No name of a run begins so."""
    parent, _slash, name = directory_of(run).rpartition("/")
    return "%s/.%s" % (parent, name)


def note(host: Host, run: str, *, started: Optional[bool] = None) -> None:
    """Somebody looks after this run; ``started`` None: of a job as before. Raises OSError."""
    if started is None:
        before = recorded(host, run)
        started = before is not None and before.started
    host.write(record_of(run), "%d %d\n" % (time.monotonic(), started))


def recorded(host: Host, run: str) -> Optional[Record]:
    """None for a run that has ended, or that nobody began since the node's last boot."""
    found = _RECORD.match(host.read(record_of(run), 64) or "")
    age = time.monotonic() - int(found.group(1)) if found is not None else -1.0
    return Record(age, found.group(2) == "1") if found is not None and age >= 0 else None


def make_way(host: Host, run: str) -> None:
    """Raises RailwrightError while another run is on this node. What a forsaken one left is ended: a process in a session of its own
    outlives the end of its job, and would be another run for ever."""
    for name in host.listdir(BASE):
        if name != run and RUN.match(name) and forsaken(host, name):
            stop_marked(host, name, user_of(host, name))
    others = others_at_work(host, run)
    if others:
        raise RailwrightError("another run is on this node: %s; two of them would measure each other. One whose controller is gone ends by "
                              "itself: try again in five minutes" % ", ".join(others))


def forsaken(host: Host, run: str) -> bool:
    """Whether nobody has asked for a run for so long that nobody will."""
    found = recorded(host, run)
    return found is None or found.age > (SILENT_S if found.started else LONGEST_S)


def others_at_work(host: Host, run: str) -> List[str]:
    """Runs of which something still runs, or did a moment ago: between two jobs there is nothing to see."""
    found = {name: recorded(host, name) for name in host.listdir(BASE) if name != run and RUN.match(name)}
    return [name for name, record in sorted(found.items())
            if record is not None and (record.age < LEASE_S or marked(host, name, user_of(host, name)))]


def user_of(host: Host, run: str) -> int:
    """Whose run it is: root made the directory, and gave it to him."""
    owner = host.owner(directory_of(run))
    return owner[1] if owner is not None else 0


def keep_counters(host: Host, run: str, ports: Sequence[Watched]) -> None:
    """The rails' counters as they are before the jobs. Raises RailwrightError, OSError."""
    host.write(record_of(run) + COUNTERS, json.dumps(counters_before(host, ports)), 0o600)


def judge_counters(host: Host, run: str, node: str, asked: Mapping[str, Any]) -> Dict[str, Any]:
    """How they grew since: what ``rdma_bench`` says of it. ``asked``: ports and lossless priorities, as the controller has them."""
    before = json_object(host.read(record_of(run) + COUNTERS)) or {}
    verdicts, figures = judge_growth(host, node, "the other nodes", watched(asked["ports"]), before, asked["lossless"], asked["why_not"])
    return {"counters": as_dicts(verdicts), "traffic": figures}


def remove(host: Host, run: str) -> List[str]:
    """Take the directory away; returns what stayed (a directory of a job's own, such as one with a core file)."""
    path = directory_of(run)
    host.remove(record_of(run))
    host.remove(record_of(run) + COUNTERS)
    owner, left = host.owner(path), []
    if owner is None:
        return []
    with host.acting_as(*owner):
        for name in host.listdir(path):
            try:
                host.remove("%s/%s" % (path, name))
            except OSError:
                left.append(name)
    host.rmdir(path)
    return left
