# SPDX-License-Identifier: GPL-3.0-or-later
"""How much, and how long, a node may answer: a command over a connection of Ansible's is ended where it goes over either.

Ansible reads what a node sends until it ends, so that an endless answer takes the controller's memory and a silent node the run. The
programs that carry a connection (ssh, sftp, a local shell) are this process's children: they are ended, and Ansible sees the connection
close. Linux counts what this process has read; elsewhere only the time limit holds.
"""

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BYTES = 32 * 1024 * 1024  # the largest answers, logs of nccl-tests, are below 8 MiB
FILE_BYTES = 512 * 1024 * 1024  # a build of nccl-tests has 20 to 60 MB
# A look has a time limit of its own for each of its commands; a change may build modules, flash firmware or wait for a lock.
INSPECT_S, CHANGE_S = 900.0, 4 * 3600.0
BEGIN_S = 120.0  # for the first words: a login shell, sudo, the probe
SILENT = ("the node gave no answer within %g s; the connection was closed. Its login shell or sudo may ask something, or a file system "
          "that it needs may not answer, such as a home on NFS: log in by hand, or as another user, to see")
TICK_S = 0.05
LIMIT_VARIABLE = "RAILWRIGHT_ANSWER_SECONDS"  # in the environment: shortens both; docs/security.md


class Exceeded(Exception):
    """A node answered too much or too late; the text says which."""


def limited(connection: Any, seconds: float) -> None:
    """From now on every command and transfer of this connection keeps to the limits, and raises Exceeded where it did not."""
    limit = within(seconds)
    for name in ("exec_command", "put_file", "fetch_file"):
        original = getattr(connection, name, None)
        if original is not None:
            # One connection serves all items of a loop, and every one of them sets its limit.
            setattr(connection, name, _HeldTo(original.unlimited if isinstance(original, _HeldTo) else original, limit))


def within(seconds: float) -> float:
    return min(seconds, float(os.environ.get(LIMIT_VARIABLE) or seconds))


class _HeldTo:
    """A method of a connection within the limits; ``unlimited`` is the method."""

    def __init__(self, unlimited: Callable[..., Any], seconds: float) -> None:
        self.unlimited, self.seconds = unlimited, seconds

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with watched(self.seconds):
            return self.unlimited(*arguments, **named)


@contextlib.contextmanager
def watched(seconds: float) -> Iterator[None]:
    """What is read and waited for in this block. Raises Exceeded at its end, whatever else the ended connection has raised."""
    watch = _Watch(seconds, BYTES)
    watch.start()
    try:
        yield
    except Exception as error:
        if watch.finish() is None:
            raise
        raise Exceeded(watch.why) from error
    if watch.finish() is not None:
        raise Exceeded(watch.why)


def fetched(connection: Any, source: str, target: Path) -> None:
    """A file of the node's at ``target``, of at most FILE_BYTES."""
    with file_limit(FILE_BYTES):
        connection.fetch_file(source, str(target))


@contextlib.contextmanager
def file_limit(most: int) -> Iterator[None]:
    """No file that this process or a child writes grows beyond this. Not around commands: a local one is the node's own."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    soft = most if before[1] == resource.RLIM_INFINITY else min(most, before[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class _Watch(threading.Thread):
    def __init__(self, seconds: float, most: int) -> None:
        super().__init__(daemon=True)
        self.why: str | None = None
        self._seconds, self._most = seconds, most
        self._end, self._first = time.monotonic() + seconds, read_so_far()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(TICK_S):
            if read_so_far() - self._first > self._most:
                self.why = f"the node answered more than {self._most >> 20} MiB; the connection was closed"
            elif time.monotonic() > self._end:
                self.why = SILENT % self._seconds
            if self.why is not None:
                end_children()  # again and again: Ansible may try once more

    def finish(self) -> str | None:
        self._over.set()
        self.join()
        return self.why


def read_so_far() -> int:
    """Bytes that the threads of this process have read; 0 where nobody counts. Not /proc/self/io: it has what ended children read, too,
    and over a local connection these are the node's own.
    """
    found = 0
    for thread in Path("/proc/self/task").glob("*/io"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # a thread that has ended meanwhile
            found += int(thread.read_bytes().partition(b"rchar:")[2].split(maxsplit=1)[0])
    return found


def end_children() -> None:
    """All that this process has started, and what that has started: whoever holds the pipe keeps Ansible reading."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # After the name, which may hold anything: state and parent.
            parents[int(entry.parent.name)] = int(entry.read_bytes().rpartition(b")")[2].split()[1])
    ours = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= found
    for process in ours - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
