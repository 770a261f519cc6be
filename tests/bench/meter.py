# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU time and memory of one command with everything that it starts, and of nothing else.

    python -m tests.bench.meter RESULT COMMAND [ARGUMENT…]

The meter is the subreaper of its descendants (prctl(2)): the ssh clients that stay behind for the next task (ControlPersist) come to
it when Ansible has ended, are ended by it, and count. What the kernel adds up for waited-for children (getrusage(2)) is then
the whole controller's side. The sshd of the benchmark is nobody's child here, so neither it nor a module that runs on a node counts.

Memory is the most that the tree had at one moment, each page once (proc(5), Pss), asked a few times a second; what the kernel
noted as the most that one process of it ever had is the least that it can be.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
GRACE_SECONDS = 10.0
SAMPLE_SECONDS = 0.25
ROOT = Path(__file__).resolve().parents[2]


class Cost(NamedTuple):
    """``cpu_s``: user and system time of the command's whole tree; ``rss_mb``: its memory at its largest."""

    cpu_s: float
    wall_s: float
    status: int
    output: str
    rss_mb: float = 0.0


def measure(argv: Sequence[str], environment: Mapping[str, str], scratch: Path) -> Cost:
    """Run ``argv`` below a meter of its own."""
    result, output = scratch / "cost.json", scratch / "output"
    result.unlink(missing_ok=True)
    with output.open("wb") as stream:
        meter = [sys.executable, "-m", "tests.bench.meter", str(result), *argv]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stream, "stderr": subprocess.STDOUT}
        subprocess.run(meter, cwd=ROOT, env=dict(environment), check=True, **streams)
    found = json.loads(result.read_text(encoding="utf-8"))
    said = output.read_text(encoding="utf-8", errors="replace")
    return Cost(found["cpu_s"], found["wall_s"], found["status"], said, found["rss_mb"])


def spent() -> float:
    """By commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children(parent: int | None = None) -> list[int]:
    """Of this process, or of all threads of another one."""
    lists = Path(f"/proc/{parent or os.getpid()}/task").glob("*/children")
    return [int(pid) for path in lists for pid in path.read_text(encoding="ascii").split()]


def memory_kb(parent: int) -> int:
    """Of all below ``parent``; one that ends meanwhile has none."""
    total = 0
    for pid in children(parent):
        with suppress(OSError):
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            total += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:")) + memory_kb(pid)
    return total


def reap(deadline: float) -> None:
    """End what stayed behind, and wait for it: a process counts only when it has been waited for."""
    while left := children():
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def waited(process: subprocess.Popen[bytes]) -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(SAMPLE_SECONDS)
    return None


def main() -> int:
    result, *argv = sys.argv[1:]
    become_subreaper()
    started = time.monotonic()
    process, largest = subprocess.Popen(argv), 0
    while (status := waited(process)) is None:
        largest = max(largest, memory_kb(os.getpid()))
    wall = time.monotonic() - started
    reap(time.monotonic() + GRACE_SECONDS)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {"cpu_s": spent(), "wall_s": wall, "status": status, "rss_mb": max(largest, used.ru_maxrss) / 1024}
    Path(result).write_text(json.dumps(cost), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
