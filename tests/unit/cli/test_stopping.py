# SPDX-License-Identifier: GPL-3.0-or-later
"""Stopping a run: real processes, the stubborn and the reparented too."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from railwright import run as running

# Ignores what it is told politely, and has a child in a session of its own, as Ansible's workers are.
STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
worker = subprocess.Popen(["sleep", "60"], start_new_session=True)
open(sys.argv[1], "w").write(str(worker.pid))
time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    pytest.fail(f"{path} did not come")


def test_nothing_of_the_run_outlives_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_SECONDS", 1.0)
    process = subprocess.Popen([sys.executable, "-c", STUBBORN, str(tmp_path / "pid")])
    worker = int(wait_for(tmp_path / "pid"))
    stop = running.Stop()
    stop.ask(2, None)
    assert stop.now() is False, "there is a moment of grace first"
    time.sleep(1.1)
    assert stop.now() is True
    process.kill()  # what the runner does: the worker loses its parent and lives
    process.wait()
    assert alive(worker)
    stop.sweep()
    assert not alive(worker)


def test_the_polite_are_only_interrupted(tmp_path: Path) -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: (open(sys.argv[1], 'w').write('asked'), sys.exit(99)));"
    code += " open(sys.argv[2], 'w').write('up'); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "asked"), str(tmp_path / "up")])
    wait_for(tmp_path / "up")
    stop = running.Stop()
    stop.ask(2, None)
    stop.now()
    assert process.wait(timeout=30) == 99
    assert (tmp_path / "asked").read_text() == "asked"


def test_without_a_signal_nothing_is_touched() -> None:
    process = subprocess.Popen(["sleep", "60"])
    stop = running.Stop()
    assert stop.now() is False
    stop.sweep()
    assert alive(process.pid)
    process.kill()
    process.wait()
