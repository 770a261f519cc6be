# SPDX-License-Identifier: GPL-3.0-or-later
"""One upgrade of an inventory at a time on this controller: a lock of the kernel, which a killed process gives back by itself.

Another controller is kept out by the leases on the nodes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from railwright.exitcodes import CommandError
from railwright.runs import runs_directory, site_path
from railwright.writing import make_directories

TRIES, TRY_SECONDS = 3, 0.05


class Busy(CommandError):
    """Another process has it."""


def upgrades_directory() -> Path:
    return runs_directory().parent / "upgrades"


def lock_path(inventory: Path) -> Path:
    name = hashlib.sha256(site_path(inventory).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return upgrades_directory() / f"{name}.lock"


def holder(inventory: Path) -> str | None:
    """``process 4711, run …``: who upgrades this inventory at this moment; None where nobody does."""
    try:
        descriptor = os.open(lock_path(inventory), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(descriptor)
    finally:
        os.close(descriptor)
    return None


@contextmanager
def locked(inventory: Path, run: str) -> Iterator[None]:
    """Hold the lock while the block runs. Raises Busy in one line that names who has it."""
    make_directories(upgrades_directory(), 0o700)
    # Not inherited: an ssh that ansible-playbook leaves behind must not keep the lock of a controller that was killed.
    descriptor = os.open(lock_path(inventory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _got(descriptor):
            raise Busy(f"{inventory} is being upgraded on this controller already, by {_said(descriptor)}")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, run {run}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _got(descriptor: int) -> bool:
    """Who only looks (``holder``) has it for a moment, too."""
    for _attempt in range(TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TRY_SECONDS)
        else:
            return True
    return False


def _said(descriptor: int) -> str:
    """What the holder wrote; the file is ours alone, but it may be read before that is written."""
    return os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
