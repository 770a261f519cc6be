# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker's half of a region (regions.py is the controller's): ``python3 -m railwright.region_worker``, with one job on standard input.

The job runs in namespaces of its own: a file system in memory where all that Ansible writes lies, and processes of which the first one
takes all others with it. The kernel frees both when the first one ends, however that happens: nothing of a job stays behind. Source:
pid_namespaces(7), mount_namespaces(7), user_namespaces(7).

The input is one line (``Job``), the controller's stream (ansible-runner's transmit), and then a byte now and then. The output is a line
that says READY or why not, and then ansible-runner's worker stream. Without such a byte for some time, or at the end of the input, the job
is interrupted.
"""

import ctypes
import io
import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import ansible_runner
from ansible_runner.interface import init_runner
from ansible_runner.streaming import Worker

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from railwright import __version__
from railwright.ansible_env import ansible_environment

PRIVATE = Path("/dev") / "shm"  # what lies there is of the job's own namespace
JOB = PRIVATE / "railwright"
READY = "ready"
# What other people's code makes of a stream that is none.
ODD = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
BEATS = 4  # signs of life within the patience, both ways
TAKE_SECONDS = 60.0  # between two pieces of a job
GRACE = 5.0  # seconds that an interrupted ansible-playbook gets
LINE_LIMIT, JOB_LIMIT = 256 << 20, 1 << 30  # bytes
NEWNS, NEWUSER, NEWPID = 0x20000, 0x10000000, 0x20000000  # linux/sched.h
OWNED = ("/etc/ssh/ssh_config.d", "/etc/crypto-policies/back-ends")  # of which ssh asks whose they are
BIND = 0x1000  # linux/mount.h
PRIVATE_MOUNTS, NO_SUID_NO_DEVICES = 0x44000, 0x6  # linux/mount.h: MS_REC | MS_PRIVATE, MS_NOSUID | MS_NODEV
PR_SET_PDEATHSIG = 1  # linux/prctl.h
NO_NAMESPACES = ("no namespaces of its own here ({}), so secrets would stay; allowed: root with CAP_SYS_ADMIN, or user namespaces "
                 "(kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)")  # fmt: skip


# Whatever the worker's ansible.cfg says: a log, a cache of facts or retry files would stay.
KEPT_HERE = {
    "ANSIBLE_HOME": str(JOB / "ansible"), "TMPDIR": str(JOB), "ANSIBLE_LOG_PATH": str(JOB / "log"), "ANSIBLE_CACHE_PLUGIN": "memory",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
}  # fmt: skip


class Job(NamedTuple):
    """The first line, as a JSON object. ``stream``: length of the transmit stream in bytes; ``files``: text by its path below JOB."""

    version: str
    patience: float
    stream: int
    files: dict[str, str]


def main() -> int:
    """0 when the job has run, whatever came of it; 1 where it could not begin, or was interrupted."""
    source = Input()
    try:
        job = read_job(source.line())
        own_namespaces()
        stream = source.take(job.stream)
    except (OSError, ValueError) as error:
        return refused(str(error))
    say(READY)
    alive, own_end = os.pipe()
    if (child := os.fork()) == 0:
        os.close(own_end)
        os._exit(first_process(job, stream, alive))
    os.close(alive)
    return waited(child, job.patience)


def say(text: str) -> None:
    sys.stdout.write(json.dumps({"railwright": text}) + "\n")
    sys.stdout.flush()


def refused(why: str) -> int:
    say(why)
    return 1


class Input:
    """Standard input; what does not come for some time is cut off."""

    def __init__(self) -> None:
        self._held = bytearray()

    def line(self) -> bytes:
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if searched > LINE_LIMIT:
                raise ValueError("the first line is no job: it does not end")
            self._more()
        return self.take(end + 1)

    def take(self, size: int) -> bytes:
        while len(self._held) < size:
            self._more()
        found = bytes(self._held[:size])
        del self._held[:size]
        return found

    def _more(self) -> None:
        data = os.read(0, 1 << 20) if select.select([0], [], [], TAKE_SECONDS)[0] else b""
        if not data:
            raise ValueError("the job is cut off")
        self._held += data


def read_job(line: bytes) -> Job:
    try:
        job = Job(**read_json(line.decode("utf-8"), LINE_LIMIT))
    except (RailwrightError, TypeError, ValueError) as error:
        raise ValueError("the first line is no job: another railwright sent it, or nobody") from error
    if job.version != __version__:
        raise ValueError(f"here is railwright {__version__}, and the controller has {job.version}; allowed: the same on both")
    if not 0 < job.stream <= JOB_LIMIT:
        raise ValueError(f"the job has {job.stream} bytes; allowed: up to {JOB_LIMIT}")
    return job


def own_namespaces() -> None:
    """For this process mounts and, where it is not root, rights of its own; for its first child also processes. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()

    def call(name: str, *arguments: Any) -> None:
        if getattr(libc, name)(*arguments) != 0:
            raise OSError(NO_NAMESPACES.format(f"{name}: {os.strerror(ctypes.get_errno())}"))

    call("unshare", NEWNS | NEWPID | (NEWUSER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    call("mount", b"none", b"/", None, ctypes.c_ulong(PRIVATE_MOUNTS), None)
    call("mount", b"tmpfs", os.fsencode(PRIVATE), b"tmpfs", ctypes.c_ulong(NO_SUID_NO_DEVICES), b"mode=0700")
    for place in OWNED if user else ():
        # Root is nobody here, and ssh reads no included file of nobody's: ours are the same.
        if (source := Path(place)).is_dir():
            copy = PRIVATE / place.strip("/").replace("/", "_")
            shutil.copytree(source, copy, ignore_dangling_symlinks=True)
            call("mount", os.fsencode(copy), os.fsencode(place), None, ctypes.c_ulong(BIND), None)


def waited(child: int, patience: float) -> int:
    """Until the first process ends; it is ended where the controller is silent or gone."""
    heard = time.monotonic()
    while time.monotonic() - heard < patience:
        if (ended := os.waitpid(child, os.WNOHANG))[0]:
            return int(os.waitstatus_to_exitcode(ended[1]) != 0)
        if select.select([0], [], [], 0.2)[0]:
            if not os.read(0, 4096):
                break
            heard = time.monotonic()
    os.kill(child, signal.SIGTERM)
    deadline = time.monotonic() + GRACE + 3
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.1)
    return 1


def first_process(job: Job, stream: bytes, alive: int) -> int:
    """With it go all others of its namespace, and with the last of them its memory."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:
        return 1  # who waits for it has gone already
    os.setsid()
    try:
        run_job(job, stream)
    except ODD as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


class Interrupted:
    """As on a terminal: everything of the job gets SIGINT, and a moment to end."""

    def __init__(self) -> None:
        self._asked, self._since = False, 0.0
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_signal: object) -> None:
        self._asked = True

    def now(self) -> bool:
        """What ansible-runner asks at every poll."""
        if self._asked and not self._since:
            self._since = time.monotonic()
            os.kill(-1, signal.SIGINT)  # all of this namespace but ourselves
        return self._asked and time.monotonic() - self._since > GRACE


def run_job(job: Job, stream: bytes) -> None:
    for name, text in job.files.items():
        file = JOB / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    os.chdir(JOB)

    os.environ["TMPDIR"] = str(JOB)
    (JOB / "local").mkdir(mode=0o700)
    ansible_runner.interface.run = run_checked
    JobWorker(_input=io.BytesIO(stream), keepalive_seconds=job.patience / BEATS, private_data_dir=str(JOB),
              cancel_callback=Interrupted().now).run()  # fmt: skip


class JobWorker(Worker):
    """ansible-runner's, in our environment."""

    def update_paths(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        own = {**kwargs["envvars"], **KEPT_HERE}
        found = {**ansible_environment({**os.environ, **own}, JOB), **own}
        asks, yes = own["ANSIBLE_ASK_PASS"], str(True)
        if asks == yes:  # sshpass answers ssh's question on a terminal
            found = {name: value for name, value in found.items() if not name.startswith("SSH_ASKPASS")}
        return {**kwargs, "envvars": found}

    def artifacts_handler(self, artifact_dir: str) -> None:
        """The events have said it all."""


def run_checked(**arguments: Any) -> Any:
    """In place of ansible-runner's own, which switches host key checking off unless told otherwise: Ansible and its files decide."""
    runner = init_runner(**arguments)
    if "ANSIBLE_HOST_KEY_CHECKING" not in os.environ:
        runner.config.env.pop("ANSIBLE_HOST_KEY_CHECKING", None)
    runner.run()
    return runner


def start() -> NoReturn:
    sys.exit(main())


if __name__ == "__main__":
    start()
