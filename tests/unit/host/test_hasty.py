# SPDX-License-Identifier: GPL-3.0-or-later
"""What hangs: a command, one that nothing ends, a file that keeps its reader; each is left alone in time, and named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import alone
from ansible_collections.railwright.rdma.plugins.module_utils.host import hasty, run
from ansible_collections.railwright.rdma.plugins.module_utils.host.hasty import HastyHost
from repo import ROOT

told: list[str] = []


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hasty, "EACH", 0.5)
    monkeypatch.setattr(hasty, "PATIENCE", 0.2)
    told.clear()


@pytest.fixture
def undying(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """No signal reaches what is run, as one in the kernel that waits for a dead device."""
    groups: list[int] = []

    def nothing(process: subprocess.Popen[bytes], _number: int) -> bool:
        groups.append(process.pid)
        return True

    monkeypatch.setattr(run, "_signal", nothing)
    yield groups
    for group in set(groups):
        os.killpg(group, signal.SIGKILL)
        os.waitpid(group, 0)


def test_a_program_that_hangs_is_ended_and_not_asked_again() -> None:
    host = HastyHost(30, told.append)
    begin = time.monotonic()
    assert host.run(("sleep", "60")).rc == 124
    assert host.run(("sleep", "0")).rc == 124
    assert time.monotonic() - begin < 30  # and not the 60 of sleep
    assert host.run(("echo", "1")).out == "1\n"
    (verdict,) = alone.judge_hurry("n1", host)
    assert (verdict.check, verdict.status, verdict.subject) == ("node.hangs", "warn", "sleep")
    assert "was ended" in verdict.message


def test_a_program_that_nothing_ends_is_left_alone_and_named(undying: list[int]) -> None:
    host = HastyHost(30, told.append)
    begin = time.monotonic()
    result = host.run(("sleep", "60"))
    assert time.monotonic() - begin < 30
    assert (result.rc, result.stuck) == (124, True)
    assert f"SIGKILL does not end it: process {undying[0]} is in state S" in result.err
    (verdict,) = alone.judge_hurry("n1", host)
    assert (verdict.check, verdict.status) == ("node.hangs", "fail")
    assert f"process {undying[0]}" in verdict.message


def test_when_the_time_is_over_nothing_is_started() -> None:
    host = HastyHost(0.1, told.append)
    assert host.run(("touch", "/nowhere/x")).rc == 124
    (verdict,) = alone.judge_hurry("n1", host)
    assert (verdict.status, verdict.message) == ("warn", "not asked, as the time was over: touch")
    assert "running touch" not in told


# In a process of its own, as a node has it: a fork of a process with threads is none of ours.
HANG = """
import os, sys, time
from ansible_collections.railwright.rdma.plugins.module_utils.entry import alone
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host

class Fifo(alone.HastyHost):
    def read_bytes(self, path, limit=0):
        found = super().read_bytes(path, limit or 4096)
        if path == "/proc/sys/kernel/osrelease":
            time.sleep(60)
        return found

alone.HastyHost = Fifo
begin = time.monotonic()
found = alone.judged_in_time("n1", {}, 1.0)
print(time.monotonic() - begin < 40, len(found["verdicts"]), found["verdicts"][0]["check"], found["verdicts"][0]["status"])
print(found["verdicts"][0]["message"])
"""
ERROR = """
from ansible_collections.railwright.rdma.plugins.module_utils.entry import alone
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
try:
    alone.judged_in_time("n1", {})
except RailwrightError as error:
    print(error)
"""


def python(source: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_a_file_that_keeps_its_reader_is_the_finding() -> None:
    first, message = python(HANG).splitlines()
    assert first == "True 1 node.hangs fail"
    assert "is in state S" in message
    assert "reading /proc/sys/kernel/osrelease" in message


def test_an_error_of_the_inspection_is_one_line_with_its_place() -> None:
    """A Spec without a key."""
    said = python(ERROR)
    assert said.startswith("the inspection ended with an error: ")
    assert "KeyError" in said
    assert said.count("\n") == 1


def test_nothing_is_left_of_a_child_that_answered() -> None:
    source = ("from ansible_collections.railwright.rdma.plugins.module_utils.host.run import in_child\nimport os\n"
              "print(in_child(lambda tell: b'x' * 300000, 5) == ('made', b'x' * 300000))\n"
              "try:\n    os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError:\n    print('no child')\n")
    assert python(source).split("\n")[:2] == ["True", "no child"]
