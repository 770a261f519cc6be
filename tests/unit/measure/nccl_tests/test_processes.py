# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that outlive their starter, with real processes: who they run as, what they inherit, and that nothing of a run stays behind."""

from __future__ import annotations

import ast
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import SEARCH_PATH, Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import processes
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import LAUNCHERS, Job, command
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.processes import (
    FORSAKEN,
    Started,
    alive,
    ended_with,
    marked,
    output,
    renew,
    start,
    stop_marked,
    took,
)
from command_lines import AS_NOBODY, PLANTED, assert_kept

HOST = Host()
USER = pwd.getpwuid(os.geteuid()).pw_name
OURS = os.geteuid()
LIMIT = 1 << 16
# Ignores TERM, in a session of its own, twice removed: what a daemon of a launcher may do.
STUBBORN = "import os,signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork() and os._exit(0); os.setsid(); time.sleep(60)"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[str]:
    name = f"test-{os.getpid()}-{tmp_path.name[-6:].strip('_')}"
    yield name
    stop_marked(HOST, name, OURS)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def begin(tmp_path: Path, run: str, *argv: str, seconds: int = 30, user: str = USER, lease: float | None = None) -> tuple[Started, str]:
    log = str(tmp_path / "job.log")
    return start(HOST, argv, user, {"NCCL_DEBUG": "INFO"}, log, seconds, run, lease), log


def status(log: str, user: str = USER) -> int | None:
    until(lambda: ended_with(HOST, log, user) is not None)
    return ended_with(HOST, log, user)


def test_the_output_and_the_exit_status_are_kept(tmp_path: Path, run: str) -> None:
    started, log = begin(tmp_path, run, "sh", "-c", "echo out; echo err >&2; sleep 0.3; exit 7")
    assert alive(HOST, started)
    assert ended_with(HOST, log, USER) is None
    assert took(HOST, log, USER) is None
    assert status(log) == 7
    assert 0.3 <= (took(HOST, log, USER) or 0) < 5
    assert until(lambda: not alive(HOST, started))
    assert output(HOST, log, USER, LIMIT) == ("out\nerr\n", False)
    assert output(HOST, log, USER, 3) == ("out", True)


def test_nothing_is_inherited_but_what_was_asked_for(tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("LD_PRELOAD", "")
    _started, log = begin(tmp_path, run, "env")
    assert status(log) == 0
    text, _more = output(HOST, log, USER, LIMIT)
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "NCCL_DEBUG", "RAILWRIGHT_BENCH", "_"}
    assert f"RAILWRIGHT_BENCH={run}\n" in text
    assert f"HOME={pwd.getpwnam(USER).pw_dir}\n" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a job as another user")
def test_another_user_gets_the_job_and_its_files(run: str) -> None:
    who = pwd.getpwnam("nobody")
    directory = Path("/tmp") / run  # not below root's own temporary directory, which nobody may enter
    directory.mkdir(mode=0o700)
    os.chown(directory, who.pw_uid, who.pw_gid)
    try:
        _started, log = begin(directory, run, "id", "-un", user="nobody")
        assert status(log, "nobody") == 0
        assert output(HOST, log, "nobody", LIMIT)[0] == "nobody\n"
        assert {path.stat().st_uid for path in directory.iterdir()} == {who.pw_uid}
        (directory / "link").symlink_to("/etc/shadow")
        assert output(HOST, str(directory / "link"), "nobody", LIMIT) == ("", False), "root would have read it"
    finally:
        stop_marked(HOST, run, OURS)
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as nobody")
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_nobody_reads_a_variable_of_a_job_in_a_command_line(tmp_path: Path, run: str, launcher: str) -> None:
    """Keeper, timeout and launcher, while they run. The launcher is a stand-in that says what it was given."""
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\nenv\nexec sleep 60\n")
    program.chmod(0o755)
    made = command(launcher, Job(("node1", "node2"), 1, "eth0", {"HF_TOKEN": PLANTED}, str(program)), [str(program)], "hosts")
    log = str(tmp_path / "job.log")
    start(HOST, made.argv, USER, made.environment, log, 30, run)
    assert until(lambda: f"HF_TOKEN={PLANTED}\n" in output(HOST, log, USER, LIMIT)[0]), output(HOST, log, USER, LIMIT)
    said = subprocess.run(AS_NOBODY, check=True, capture_output=True, text=True).stdout
    assert_kept(json.loads(said), f"{log} 0 30 timeout")


def test_the_program_that_becomes_the_job_user_gets_no_variable_of_the_job(tmp_path: Path, run: str) -> None:
    """runuser is root's: a library that the job names, or puts where it is looked for, must not be loaded into it."""
    seen: dict[str, str] = {}

    class Watched(Host):
        def spawn(self, argv: Sequence[str], log: str, environment: Any = None, owner: Any = None) -> int:
            seen.update(environment)
            return super().spawn(argv, log, environment, owner)

    log = str(tmp_path / "job.log")
    start(Watched(), ("env",), USER, {"LD_LIBRARY_PATH": "/job", "LD_PRELOAD": "", "PATH": "/usr/bin:/bin"}, log, 30, run)
    assert status(log) == 0
    assert set(seen) == {"PATH", "HOME", "LANG", "RAILWRIGHT_BENCH", "RAILWRIGHT_JOB_VARIABLES"}
    assert seen["PATH"] == SEARCH_PATH
    assert "LD_LIBRARY_PATH=/job\n" in output(HOST, log, USER, LIMIT)[0]
    assert "RAILWRIGHT_JOB_VARIABLES" not in output(HOST, log, USER, LIMIT)[0]


@pytest.mark.parametrize(("argv", "expected"), [(("no-such-program",), 127), (("sh", "-c", "kill -SEGV $$"), 139)])
def test_how_it_ended(tmp_path: Path, run: str, argv: tuple[str, ...], expected: int) -> None:
    _started, log = begin(tmp_path, run, *argv)
    assert status(log) == expected


def test_a_job_ends_when_its_time_is_over(tmp_path: Path, run: str) -> None:
    _started, log = begin(tmp_path, run, "sleep", "60", seconds=1)
    assert status(log) == 124
    assert until(lambda: marked(HOST, run, OURS) == []), "who wrote the status down needs a moment to end"


def test_a_job_that_defies_its_end_was_over_its_time_too(tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has to be killed, and timeout then says 137: as of a process that the kernel killed for its memory, which is another thing."""
    monkeypatch.setattr(processes, "KILL_AFTER_S", 1)
    defies = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    _started, log = begin(tmp_path, run, sys.executable, "-c", defies, seconds=1)
    assert status(log) == 124


def test_a_job_that_is_killed_before_its_time_is_over(tmp_path: Path, run: str) -> None:
    _started, log = begin(tmp_path, run, "sh", "-c", "kill -KILL $$", seconds=30)
    assert status(log) == 137


def test_a_job_that_nobody_asks_for_ends_by_itself(tmp_path: Path, run: str) -> None:
    begun = time.monotonic()
    _started, log = begin(tmp_path, run, "sleep", "60", lease=1.0)
    for _turn in range(3):
        time.sleep(0.5)
        renew(HOST, log, USER)
    assert ended_with(HOST, log, USER) is None, "it lives for as long as somebody asks"
    assert status(log) == FORSAKEN
    assert time.monotonic() - begun >= 2.4
    assert until(lambda: marked(HOST, run, OURS) == [])


def test_ending_a_run_ends_children_of_other_sessions_or_deaf_to_term(
    tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "TERM_S", 0.5)
    started, log = begin(tmp_path, run, "sh", "-c", f"{sys.executable} -c '{STUBBORN}'; sleep 60")
    assert until(lambda: len(marked(HOST, run, OURS)) >= 4), "keeper, timeout, shell with its sleep, and the stray"
    time.sleep(0.3)
    sessions = {os.getsid(item.pid) for item in marked(HOST, run, OURS)}
    assert len(sessions) > 1
    assert stop_marked(HOST, run, OURS) >= 4
    assert marked(HOST, run, OURS) == []
    assert not alive(HOST, started)
    assert ended_with(HOST, log, USER) is None
    assert stop_marked(HOST, run, OURS) == 0


def test_nothing_else_is_ended(tmp_path: Path, run: str) -> None:
    """Another run whose name begins alike, one who only mentions the marker, and ourselves."""
    likely = [
        subprocess.Popen(("sleep", "60"), env={"PATH": os.environ["PATH"], **extra})
        for extra in ({"RAILWRIGHT_BENCH": run + "x"}, {"X_RAILWRIGHT_BENCH": run}, {"NOTE": f"RAILWRIGHT_BENCH={run}"})
    ]
    likely.append(subprocess.Popen(("sh", "-c", "sleep 60", f"RAILWRIGHT_BENCH={run}")))
    try:
        begin(tmp_path, run, "sleep", "60")
        assert until(lambda: marked(HOST, run, OURS) != []), "a program that has just begun shows no environment yet"
        assert stop_marked(HOST, run, OURS) > 0
        assert [process.poll() for process in likely] == [None] * 4
    finally:
        for process in likely:
            process.kill()
            process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_process_of_another_user_is_not_of_the_run(run: str) -> None:
    """Anybody can set the marker. A program with a set-user-ID bit has root's rights, and he who started it is still another one."""
    nobody = pwd.getpwnam("nobody").pw_uid
    keep_the_rights = f"import os, time; os.setresuid({nobody}, 0, 0); time.sleep(60)"
    environment = {"PATH": os.environ["PATH"], "RAILWRIGHT_BENCH": run}
    with (
        subprocess.Popen(("sleep", "60"), env=environment, user=nobody) as plain,
        subprocess.Popen((sys.executable, "-c", keep_the_rights), env=environment) as raised,
    ):
        assert until(lambda: {item.pid for item in marked(HOST, run, nobody)} == {plain.pid, raised.pid})
        assert until(lambda: processes.real_user(HOST, raised.pid) == nobody)
        assert marked(HOST, run, 12345) == []
        assert stop_marked(HOST, run, 12345) == 0
        assert (plain.poll(), raised.poll()) == (None, None)
        assert stop_marked(HOST, run, nobody) == 2


def test_a_number_that_is_used_again_is_another_process() -> None:
    mine = processes.start_time(HOST, os.getpid())
    assert mine is not None
    assert alive(HOST, Started(os.getpid(), mine))
    assert not alive(HOST, Started(os.getpid(), "1"))
    assert not alive(HOST, Started(os.getpid(), ""))


@pytest.mark.parametrize("name", ["", "a b", "x\ny", "../x", "a=b", "x" * 65])
def test_a_run_has_a_name_that_can_be_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(RailwrightError, match="name of a run"):
        begin(tmp_path, name, "true")
    with pytest.raises(RailwrightError, match="name of a run"):
        stop_marked(HOST, name, OURS)


def test_a_user_that_the_node_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(RailwrightError, match="nobody-of-that-name: this node has no such user"):
        begin(tmp_path, "x", "true", user="nobody-of-that-name")


def test_the_keeper_is_python_3_6() -> None:
    ast.parse(processes.KEEPER, feature_version=(3, 6))
