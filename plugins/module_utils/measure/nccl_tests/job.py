# SPDX-License-Identifier: GPL-3.0-or-later
"""One job on the node that launches it: started, asked for, probed. What it wrote is read with the job user's rights, and bounded."""

import json
import re
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import RailwrightError
from ...formats.outside import json_value, lines_in, list_or_empty, number, whole
from ...formats.program_output import clean, one_line, reason, tail
from ...host.host import Host
from . import processes
from .probe import answers, as_dict
from .processes import Started
from .run_directory import HOSTS, LEASE_S, directory_of, note, recorded, user_of
from .text_report import parse

WAIT_S = 5.0  # how long one poll waits for the end
STEP_S = 0.2
GRACE_S = 2.0  # ranks on other nodes end a moment after their launcher
ENDED = "ended"  # how many processes had to be ended so far
OUTPUT_LIMIT = 4 * 1024 * 1024  # a table has 100 bytes a size; what is more is no table
_JOB = re.compile(r"[a-z0-9_]{1,32}\Z")


class Launch(NamedTuple):
    """A job as the plan has it. ``name``: the collective, or probe."""

    run: str
    user: str
    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    seconds: int
    hosts: Optional[str] = None  # text of the launcher's host file, where this job has one of its own


def log_of(run: str, name: str) -> str:
    if not _JOB.match(name):
        raise RailwrightError("job: %r is no name of a job" % name)
    return "%s/%s.log" % (directory_of(run), name)


def begin(host: Host, launch: Launch) -> Dict[str, Any]:
    log = log_of(launch.run, launch.name)
    note(host, launch.run, started=True)
    if launch.hosts is not None:
        with processes.rights_of(host, launch.user):
            host.write("%s/%s" % (directory_of(launch.run), HOSTS), launch.hosts, 0o600)
    started = processes.start(host, launch.argv, launch.user, dict(launch.environment), log, launch.seconds, launch.run, LEASE_S)
    with processes.rights_of(host, launch.user):
        host.write(log + ".started", json.dumps([started.pid, started.start_time, time.time()]), 0o600)
    return {"job": launch.name, "pid": started.pid}


def poll(host: Host, run: str, user: str, name: str, wait: float = WAIT_S) -> Dict[str, Any]:
    """Waits a moment for the end. ``rc`` None with ``ended``: somebody ended it from outside, and its keeper too."""
    log = log_of(run, name)
    processes.renew(host, log, user)
    started, since = _started(host, log, user)
    note(host, run)
    rc, ended = processes.wait(host, started, log, user, time.monotonic() + wait)
    text, more = processes.output(host, log, user, OUTPUT_LIMIT)
    if more and not ended:
        processes.stop_marked(host, run, processes.account(user).uid)
        ended = True
    progress = _progress(name, text, max(0.0, time.time() - since))
    return {"ended": ended, "status": rc, "too_much": more, "progress": progress, "tail": tail(text)}


def _started(host: Host, log: str, user: str) -> Tuple[Started, float]:
    with processes.rights_of(host, user):
        text = host.read(log + ".started", 4096)
    found = list_or_empty(json_value(text))
    pid, since = (whole(found[0], 2), number(found[2])) if len(found) == 3 else (None, None)
    if pid is not None and since is not None:
        return Started(pid, str(found[1])), since
    raise RailwrightError("%s: this job was not started here, or its directory is gone" % log)


def _progress(name: str, text: str, seconds: float) -> Dict[str, Any]:
    rows = parse(clean(text))["rows"]
    busbw = rows[-1]["out_of_place"]["busbw"] if rows else None
    return {"collective": name, "seconds": round(seconds, 1), "rows": len(rows), "size": rows[-1]["size"] if rows else None, "busbw": busbw}


def run_probe(host: Host, launch: Launch) -> Dict[str, Any]:
    """Start the probe by the launcher and wait for it: ``{"status", "answers", "reason", "tail"}``. (Ansible takes any ``rc`` of a result
    that is not 0 for a failed task, and would keep nothing else of it.)
    """
    begin(host, launch)
    deadline = time.monotonic() + launch.seconds + processes.KILL_AFTER_S + 5
    while True:
        found = poll(host, launch.run, launch.user, launch.name)
        if found["ended"] or time.monotonic() > deadline:
            break
    text, _more = processes.output(host, log_of(launch.run, launch.name), launch.user, OUTPUT_LIMIT)
    said = answers(text)
    rest = "\n".join(line for line in lines_in(text) if "railwright-probe " not in line)
    return {"status": found["status"], "answers": [as_dict(item) for item in said], "reason": reason(rest), "tail": tail(rest)}


def stop(host: Host, run: str, user: Optional[str], cancel: Optional[str]) -> Dict[str, Any]:
    """End all of the run on this node. ``cancel``: name of the Slurm jobs that go with it, on the node that called srun."""
    notes: List[str] = []
    if cancel is not None and user is not None:
        argv = ["scancel", "--name", cancel, "--user", user]
        result = host.run(processes.as_user(host, processes.account(user), argv), 30.0)
        if not result.ok:
            notes.append("scancel: %s" % one_line(result.err or "exit %d" % result.rc))
    if recorded(host, run) is not None:
        note(host, run, started=False)  # the next job may be started on another node, and nobody asks here then
    uid = user_of(host, run) if user is None else processes.account(user).uid
    deadline = time.monotonic() + GRACE_S
    while processes.marked(host, run, uid) and time.monotonic() < deadline:
        time.sleep(STEP_S)
    ended = processes.stop_marked(host, run, uid)
    if ended and user is not None:
        _remember(host, run, user, ended)
    return {"ended": ended, "notes": notes}


def _remember(host: Host, run: str, user: str, ended: int) -> None:
    """There is an end after every job, and one verdict on all of them; nothing to write to where the directory was never made."""
    path = "%s/%s" % (directory_of(run), ENDED)
    with processes.rights_of(host, user):
        if host.exists(directory_of(run)):
            host.write(path, "%d\n" % (ended + ended_before(host, run)), 0o600)


def ended_before(host: Host, run: str) -> int:
    text = (host.read("%s/%s" % (directory_of(run), ENDED), 16) or "").strip()
    return int(text) if re.match(r"[0-9]{1,6}\Z", text) else 0
