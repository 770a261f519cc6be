# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop a run when the operator says so: politely first, completely in the end.

ansible_runner kills the process group of ansible-playbook with SIGKILL. Ansible's workers
have sessions of their own, so they would outlive it and go on with their task. Here
ansible-playbook is interrupted as on a terminal and gets a moment to end its workers;
what is left of our own descendants is ended after that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 5.0


class Stop:
    """Asked by the runner at every poll; True tells it to kill what is left."""

    def __init__(self) -> None:
        self.asked = False
        self._since: float | None = None
        self._seen: dict[int, str] = {}  # process -> its start time: a pid alone may be another's by then

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT, SIGTERM and SIGHUP."""
        del number, frame
        self.asked = True

    def now(self) -> bool:
        """Whether the time for a polite end is over. The first call after `ask` interrupts ansible-playbook."""
        if not self.asked:
            return False
        self._seen.update(descendants(os.getpid()))
        if self._since is None:
            self._since = time.monotonic()
            for pid in children(os.getpid()):
                _signal(pid, signal.SIGINT)
        return time.monotonic() - self._since > GRACE_SECONDS

    def sweep(self) -> None:
        """End every process of the run that is still there, wherever it was reparented to."""
        if not self.asked:
            return
        self._seen.update(descendants(os.getpid()))
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 1
            while (left := [pid for pid, started in self._seen.items() if _started(pid) == started]) and time.monotonic() < deadline:
                for pid in left:
                    _signal(pid, number)
                time.sleep(0.1)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn the signals into a question while the block runs, so that the runner's files are cleaned up."""
    stop = Stop()
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        stop.sweep()
        for number, handler in before.items():
            signal.signal(number, handler)


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == pid]


def descendants(pid: int) -> dict[int, str]:
    """All processes below a process, each with its start time."""
    found: dict[int, str] = {}
    pending = children(pid)
    while pending:
        current = pending.pop()
        started = _started(current)
        if started is not None:
            found[current] = started
            pending.extend(children(current))
    return found


def _fields(path: Path) -> list[str]:
    """What follows the command name in a stat file: state, parent, …; [] when the process is gone."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
    return []


def _parent(path: Path) -> int | None:
    fields = _fields(path)
    return int(fields[1]) if len(fields) > 1 else None


def _started(pid: int) -> str | None:
    """Start time in clock ticks since boot; None when the process is gone or only waits to be reaped."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
