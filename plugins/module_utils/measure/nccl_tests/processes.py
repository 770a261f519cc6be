# SPDX-License-Identifier: GPL-3.0-or-later
"""Long jobs on a node that outlive the module which started them, and the end of everything that belongs to one run.

A job is started in a session of its own, as the job user, under ``timeout``, with an environment that holds nothing of ours. A
keeper (a few lines of Python, no shell) waits for it and leaves its exit status beside the log. What belongs to a run is told by
``RAILWRIGHT_BENCH=RUN`` in its environment: children inherit it wherever they go, into other sessions and under init too. Anybody can
start a process with it, so only the job user's count, and root's, who started them.

With a lease the job also ends when nobody has asked for it for so long: a controller that died cannot stop it.
"""

import json
import re
import signal
import sys
import time
from functools import partial
from typing import ContextManager, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...errors import RailwrightError
from ...formats.outside import is_digits
from ...host import host as node
from ...host.host import SEARCH_PATH, Account, Host
from ...observe.processes import real_user, start_time

MARKER = "RAILWRIGHT_BENCH"
KILL_AFTER_S = 10  # between TERM and KILL: mpirun needs some to end its ranks on the other nodes
FORSAKEN = 129  # exit status of a job whose lease ran out, as of one whose terminal hung up
STATUS, LEASE = ".status", ".lease"  # beside the log
POLL_S, WAIT_STEP_S = 0.1, 0.2
TERM_S = 5.0  # how long those that are ended have to go by themselves
KILL_S = 10.0
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")

# argv: log, seconds of the lease (0: none), seconds of the command, command … Python 3.6.
# The command's variables come as one variable, in JSON. In a command line everybody would read them; by their own names they would be those
# of runuser too, which is root's: a library that LD_PRELOAD names would be root's then. And PAM may have added some of the site's.
JOB_VARIABLES = "RAILWRIGHT_JOB_VARIABLES"
KEEPER = r"""
import json, os, subprocess, sys, time
begun = time.monotonic()
log, lease, limit, argv = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
try:
    child = subprocess.Popen(argv, env=json.loads(os.environ["RAILWRIGHT_JOB_VARIABLES"]))
except OSError as error:
    sys.stderr.write("%s: %s\n" % (argv[0], error.strerror))
    child = None
seen, since, forsaken = None, time.monotonic(), False
while child is not None and child.poll() is None:
    time.sleep(0.1)
    if not lease or forsaken:
        continue
    try:
        last = os.stat(log + ".lease").st_mtime_ns
    except OSError:
        last = seen
    if last != seen:
        seen, since = last, time.monotonic()
    elif time.monotonic() - since > lease:
        forsaken = True
        child.terminate()
took = time.monotonic() - begun
code = 127 if child is None else child.returncode
code = 129 if forsaken else 128 - code if code < 0 else code
if code == 137 and took >= limit:
    code = 124  # timeout says so only of what ended by TERM; what it had to kill was over its time all the same
with open(log + ".status.new", "w") as stream:
    stream.write("%d %.3f\n" % (code, took))
os.rename(log + ".status.new", log + ".status")
"""


class Started(NamedTuple):
    """A process for good: numbers are used again, a number with its start time is not."""

    pid: int
    start_time: str


account = partial(node.account, key="nccl_tests_user")


def check_run(run: str) -> None:
    """Raises RailwrightError for what is no name of a run: each one becomes a path."""
    if not RUN.match(run):
        raise RailwrightError("run: %r is no name of a run; allowed: letters, digits, dots, _ and -" % run)


def rights_of(host: Host, user: str) -> ContextManager[None]:
    """What lies in the job user's directory is touched with that user's rights: root would follow the links that were put there."""
    who = account(user)
    return host.acting_as(who.name, who.uid, who.gid)


def as_user(host: Host, who: Account, argv: Sequence[str], key: str = "nccl_tests_user") -> List[str]:
    """The command line that runs ``argv`` with the job user's rights and the environment that jobs have: nothing of ours is in it."""
    clean = ["env", "-i", "PATH=" + SEARCH_PATH, "HOME=" + who.home, "LANG=C"] + list(argv)
    if host.user() == who.uid:
        return clean
    if host.user() != 0:
        raise RailwrightError("%s: %s: only root can start a program as another user" % (key, who.name))
    return ["runuser", "-u", who.name, "--"] + clean


def start(
    host: Host, argv: Sequence[str], user: str, environment: Dict[str, str], log: str, seconds: int, run: str, lease: Optional[float] = None
) -> Started:
    """Start ``argv`` with its output in ``log``, in a directory of ``user``; it is ended after ``seconds``.

    ``environment`` is all that it gets beside PATH, HOME, LANG and the marker. ``lease``: it is ended when nobody has called ``renew``
    for so many seconds. Raises OSError and RailwrightError.
    """
    check_run(run)
    who = account(user)
    own = {"PATH": SEARCH_PATH, "HOME": who.home, "LANG": "C", MARKER: run}
    values = dict(own, **environment)
    values[MARKER] = run
    python = host.which("python3") or sys.executable  # a virtual environment of root's is not open to the job user
    keeper = [python, "-I", "-c", KEEPER, log, "%g" % (lease or 0), str(int(seconds))]
    command = keeper + ["timeout", "-k", str(KILL_AFTER_S), str(int(seconds))] + list(argv)
    if host.user() != who.uid:
        if host.user() != 0:
            raise RailwrightError("nccl_tests_user: %s: only root can start a job as another user" % user)
        command = ["runuser", "-u", user, "--"] + command
    with rights_of(host, user):
        host.remove(log)  # the user may have put a pipe there, and whoever opens it would wait for a reader
        host.remove(log + STATUS)
        host.write(log + LEASE, "", 0o600)
    pid = host.spawn(command, log, dict(own, **{JOB_VARIABLES: json.dumps(values)}), (who.name, who.uid, who.gid))
    return Started(pid, start_time(host, pid) or "")


def alive(host: Host, started: Started) -> bool:
    return started.start_time != "" and start_time(host, started.pid) == started.start_time


def renew(host: Host, log: str, user: str) -> None:
    """Somebody still wants it: for as long as the lease again. Raises OSError."""
    with rights_of(host, user):
        host.write(log + LEASE, "", 0o600)


def ended_with(host: Host, log: str, user: str) -> Optional[int]:
    """The exit status; None while it runs, and for good when the keeper itself was killed.

    124: its time was over; 127: it could not be started; 128 + N: signal N; ``FORSAKEN``: its lease ran out.
    """
    return _status(host, log, user)[0]


def wait(host: Host, started: Started, log: str, user: str, deadline: float) -> Tuple[Optional[int], bool]:
    """Until it has ended, at most until ``deadline`` (of time.monotonic): the exit status, and whether it has ended."""
    while True:
        running = alive(host, started)  # before the status is read: what ends in between has left one
        code = ended_with(host, log, user)
        if code is not None or not running or time.monotonic() >= deadline:
            return code, code is not None or not running
        time.sleep(WAIT_STEP_S)


def took(host: Host, log: str, user: str) -> Optional[float]:
    """How many seconds it ran; None while it does."""
    return _status(host, log, user)[1]


def _status(host: Host, log: str, user: str) -> Tuple[Optional[int], Optional[float]]:
    with rights_of(host, user):
        text = host.read(log + STATUS, 64) or ""
    found = re.match(r"([0-9]{1,3}) ([0-9]{1,9}\.[0-9]{3})\n\Z", text)
    return (int(found.group(1)), float(found.group(2))) if found is not None else (None, None)


def marked(host: Host, run: str, uid: int) -> List[Started]:
    """Every process of this node that carries the run's marker and that user ``uid`` or root has started, this one excepted."""
    wanted = ("%s=%s" % (MARKER, run)).encode()
    found = []
    for name in host.listdir("/proc"):
        if not is_digits(name) or int(name) in (1, host.process()):
            continue
        begun = start_time(host, int(name))
        if begun is None or real_user(host, int(name)) not in (uid, 0):
            continue
        if wanted in (host.read_bytes("/proc/%s/environ" % name) or b"").split(b"\0"):
            found.append(Started(int(name), begun))
    return found


def stop_marked(host: Host, run: str, uid: int) -> int:
    """End everything of the user that carries the run's marker, and nothing else: TERM, then KILL. How many there were.

    Looked for again until nothing is found: what is being ended may still start something.
    """
    check_run(run)
    seen: Set[Started] = set()
    for number, seconds in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        told: Set[Started] = set()
        deadline = time.monotonic() + seconds
        while True:
            found = marked(host, run, uid)
            if not found:
                return len(seen)
            seen.update(found)
            for item in found:
                if item not in told and alive(host, item):
                    host.signal_process(item.pid, number)
                    told.add(item)
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
    left = ", ".join(str(item.pid) for item in marked(host, run, uid))
    if left:
        raise RailwrightError("processes of run %s do not end, not even by KILL: %s (a device that hangs?)" % (run, left))
    return len(seen)


def output(host: Host, log: str, user: str, limit: int) -> Tuple[str, bool]:
    """The first ``limit`` bytes of a log, and whether there is more: a job that writes without end is recognised by it."""
    with rights_of(host, user):
        data = host.read_bytes(log, limit + 1) or b""
    return data[:limit].decode("utf-8", "replace"), len(data) > limit
