# SPDX-License-Identifier: GPL-3.0-or-later
"""A command takes no longer than its time, whoever holds its output open; with real processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import CUT, Host
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result

HOST = Host()
LONG = 30  # seconds of what must not be waited for
# A module of ours: what it runs writes its pid, and takes long. Its own line is what it gets to say after that. A shell that starts
# the tests in the background, or nohup, has them ignore a signal, and whoever they start with them.
MODULE = """
import contextlib, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
host = Host()
with host.shielded() if sys.argv[2] == "shielded" else contextlib.suppress():
    print(host.run(("sh", "-c", "echo $$ > " + sys.argv[1] + "; sleep %s; echo whole" % sys.argv[3])).out, end="")
"""


def timed(script: str, timeout: float) -> tuple[Result, float]:
    begun = time.monotonic()
    return HOST.run(("bash", "-c", script), timeout), time.monotonic() - begun


def alive(pid: int) -> bool:
    """A zombie that nobody has asked for yet is none."""
    state = HOST.read(f"/proc/{pid}/stat")
    return state is not None and state.rpartition(") ")[2][0] != "Z"


def caught(pid: int, sign: signal.Signals) -> bool:
    mask = next(line.split()[1] for line in (HOST.read(f"/proc/{pid}/status") or "").splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (sign - 1) & 1)


def soon(question: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not question() and time.monotonic() < deadline:
        time.sleep(0.02)
    return question()


def number(path: Path) -> int:
    assert soon(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


@pytest.mark.parametrize("child", [
    f"sleep {LONG}; true", f"sleep {LONG} & wait", pytest.param(f"trap '' TERM; sleep {LONG} & sleep {LONG}", id="defies being asked"),
])
def test_a_child_that_hangs_ends_with_its_command(tmp_path: Path, child: str) -> None:
    script = f"echo said; echo $$ > {tmp_path}/pid; {child}"
    result, took = timed(script, 0.5)
    assert result == Result(124, "said\n", "bash: no answer in 0.5 s")
    assert took < LONG / 3
    group = number(tmp_path / "pid")
    with pytest.raises(ProcessLookupError):
        assert soon(lambda: os.killpg(group, 0) is not None)


@pytest.mark.parametrize("child", ["{0}", "bash -c '{0}' >/dev/null 2>&1 & wait"])
def test_what_a_command_holds_it_gives_back(tmp_path: Path, child: str) -> None:
    """A login shell that waits for pyenv's rehash: killed at once, that leaves its lock, and every later login waits a minute for it."""
    lock = tmp_path / "lock"
    locked = f'trap "sleep 0.2; rm {lock}" EXIT; touch {lock}; sleep {LONG}; true'
    result, took = timed(child.format(locked), 0.5)
    assert result.rc == 124
    assert took < LONG / 3
    assert not lock.exists()


def test_what_a_command_left_behind_goes_on_and_its_own_exit_code_counts(tmp_path: Path) -> None:
    """An init script that starts a daemon, which keeps the script's output."""
    result, took = timed(f"sleep {LONG} & echo $! > {tmp_path}/pid; echo done; echo beside >&2; exit 3", 0.5)
    assert result == Result(3, "done\n", "beside\n")
    assert took < LONG / 3
    daemon = number(tmp_path / "pid")
    assert alive(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_who_has_left_its_group_keeps_nobody_waiting_either(tmp_path: Path) -> None:
    result, took = timed(f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep {LONG}' & echo said; wait", 0.5)
    assert (result.rc, result.out) == (124, "said\n")
    assert took < LONG / 3
    os.kill(number(tmp_path / "pid"), signal.SIGKILL)


def test_what_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    assert timed("exec >&- 2>&-; sleep 0.3; exit 4", LONG)[0].rc == 4
    result, took = timed(f"exec >&- 2>&-; sleep {LONG}", 0.5)
    assert result.rc == 124
    assert took < LONG / 3


@pytest.mark.parametrize(("command", "answer"), [("cat", 1_000_000), ("true", 0), ("sleep 0.1; exec <&-; sleep 0.1", 0)])
def test_much_input_is_taken_or_left(command: str, answer: int) -> None:
    assert HOST.run(("sh", "-c", command), LONG, "x" * 1_000_000) == Result(0, "x" * answer, "")


def test_much_input_takes_no_longer_than_it_must() -> None:
    """Each write copied all that was left: 64 MiB were half a terabyte."""
    assert HOST.run(("sh", "-c", "cat >/dev/null; echo read"), LONG, "x" * (64 << 20)) == Result(0, "read\n", "")


@pytest.mark.parametrize("stream", [1, 2])
def test_a_command_says_as_much_as_it_may_and_no_more(stream: int) -> None:
    said = HOST.run(("sh", "-c", f"head -c 100000 /dev/zero >&{stream}"), LONG, limit=100000)
    assert (said.rc, len(said.out + said.err)) == (0, 100000)
    cut = HOST.run(("sh", "-c", f"echo before; head -c 100001 /dev/zero >&{stream}"), LONG, limit=100000)
    assert cut == Result(CUT, "", "sh: said more than 100000 bytes and was ended"), "half an answer is none"


@pytest.mark.parametrize("flood", ["yes", "trap '' TERM PIPE; yes >&2", "yes & sleep 30", "yes & exit 0"])
def test_who_talks_without_end_is_ended_with_all_it_has_started(tmp_path: Path, flood: str) -> None:
    result, took = timed(f"echo $$ > {tmp_path}/pid; {flood}", 5)
    assert (result.rc, result.out) == (CUT, "")
    assert took < LONG / 3
    group = number(tmp_path / "pid")
    with pytest.raises(ProcessLookupError):
        assert soon(lambda: os.killpg(group, 0) is not None)


def test_who_talks_too_much_gives_back_what_it_holds(tmp_path: Path) -> None:
    script = f'trap "rm {tmp_path}/lock; exit" TERM; touch {tmp_path}/lock; while true; do echo "{"x" * 1000}"; done'
    assert HOST.run(("sh", "-c", script), LONG, limit=100000).rc == CUT
    assert not (tmp_path / "lock").exists()


def test_a_flood_does_not_fill_our_memory() -> None:
    """600 MB of a program of the job user had root's module at MemoryError."""
    script = """
import resource
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
print(Host().run(("sh", "-c", "head -c 600M /dev/zero"), 60).err)
"""
    found = subprocess.run([sys.executable, "-c", script], cwd=repo.ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert found.stdout == "sh: said more than 16777216 bytes and was ended\n", found.stderr[-500:]


def test_a_command_that_is_not_there() -> None:
    assert HOST.run(("no-such-command",)) == Result(127, "", "no-such-command: No such file or directory")


def module(tmp_path: Path, how: str, seconds: float) -> tuple[subprocess.Popen[str], int]:
    argv = [sys.executable, "-c", MODULE, str(tmp_path / "pid"), how, str(seconds)]
    process = subprocess.Popen(argv, cwd=repo.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, number(tmp_path / "pid")


@pytest.mark.parametrize("sign", [signal.SIGHUP, signal.SIGINT])
def test_a_command_ends_with_us(tmp_path: Path, sign: signal.Signals) -> None:
    """A terminal tells its own session alone."""
    process, command = module(tmp_path, "open", LONG)
    assert soon(lambda: caught(process.pid, signal.SIGHUP))  # on a busy machine the command is faster than who started it
    process.send_signal(sign)
    process.communicate(timeout=LONG / 3)
    assert process.returncode == -sign
    assert soon(lambda: not alive(command))


def test_in_a_transaction_neither_ends(tmp_path: Path) -> None:
    process, _command = module(tmp_path, "shielded", 0.5)
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=LONG)[0] == "whole\n"
    assert process.returncode == 0
