# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a controller without a word: SIGKILL for a call, for everything that it started, and for the connections that outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def kill(process: subprocess.Popen[str], place: str) -> None:
    """``place``: the directory of the scenario, which the command line of an ssh master names as its control path."""
    for pid in (*family(process.pid), *masters(place)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it ended by itself
            continue
    process.wait()


def family(pid: int) -> list[int]:
    """A process and its descendants, those in sessions of their own too; parents first, so that none starts another one meanwhile."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, generation = [], [pid]
    while generation:
        found += generation
        generation = [child for parent in generation for child in children.get(parent, ())]
    return found


def masters(place: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if words.startswith("ssh") and place in words:
            found.append(int(path.parent.name))
    return found
