# SPDX-License-Identifier: GPL-3.0-or-later
"""What a build server does after `make test`: .ci/run and tools/rotate themselves, with a `make` that prints what it is asked for."""

import datetime as dt
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import repo

sys.path.insert(0, str(repo.ROOT / "tools" / "generate"))
import rotation

MAKE = """#!/bin/sh
echo "make $*"
case $1 in test) exit "$OF_TEST" ;; *) exit "$OF_LONG" ;; esac
"""
# It is as many minutes ago that the run began.
DATE = """#!/bin/sh
echo $(($(/bin/date +%s) - $MINUTES * 60))
"""
FILE = Path(".ci/rotation.yml")


def file_of(*rows: str, marked: str = "null", date: str = "null") -> str:
    return f"marked: {{row: {marked}, date: {date}}}\nrows:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


ROWS = ("row: scenarios 1/10, minutes: 20, ran: 2026-11-01", "row: scenarios 2/10, minutes: 20, ran: null",
        "row: lab test_agent.py, minutes: 30, ran: 2026-10-01")  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Programs of the test's own, and three rows."""
    directory = tmp_path / "checkout"
    for name in (".ci/run", "tools/rotate"):
        (directory / name).parent.mkdir(parents=True)
        shutil.copy(repo.ROOT / name, directory / name)
    (directory / FILE).write_text(file_of(*ROWS))
    (tmp_path / "bin").mkdir()
    for name, text in (("make", MAKE), ("date", DATE)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return directory


def ran(directory: Path, *, minutes: int = 30, of_test: int = 0, of_long: int = 0) -> tuple[int, list[str]]:
    """Its exit status, and its lines."""
    env = {"PATH": f"{directory.parent / 'bin'}{os.pathsep}{os.environ['PATH']}", "MINUTES": str(minutes),
           "OF_TEST": str(of_test), "OF_LONG": str(of_long)}
    done = subprocess.run((str(directory / ".ci" / "run"),), env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def run_rotate(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(directory / "tools/rotate"), *arguments], check=False, capture_output=True, text=True)


def rotated(directory: Path, *arguments: str) -> str:
    """The row that is marked now."""
    done = run_rotate(directory, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().removeprefix("marked for the next landing: ")


def test_each_row_runs_once_before_any_runs_twice(checkout: Path) -> None:
    """However many commits a landing has: the mark is a commit's own."""
    assert [rotated(checkout) for _ in range(4)] == ["scenarios 2/10", "lab test_agent.py", "scenarios 1/10", "scenarios 2/10"]


def test_what_was_left_out_is_marked_again(checkout: Path) -> None:
    assert rotated(checkout) == "scenarios 2/10"
    assert [rotated(checkout, "--left-out"), rotated(checkout)] == ["scenarios 2/10", "lab test_agent.py"]


def test_rows_that_ran_by_hand_are_recorded(checkout: Path) -> None:
    """With today's date; the mark stays, and what ran today is the last to be marked again."""
    rotated(checkout)
    done = run_rotate(checkout, "--ran", "lab test_agent.py", "scenarios 2/10")
    today = dt.datetime.now(dt.UTC).date().isoformat()
    assert (done.returncode, done.stdout) == (0, f"ran on {today}: lab test_agent.py, scenarios 2/10; run: make generate\n")
    lines = (checkout / FILE).read_text().splitlines()
    assert lines[0].startswith("marked: {row: scenarios 2/10, ")
    assert lines[2:] == [f"  - {{{ROWS[0]}}}", f"  - {{row: scenarios 2/10, minutes: 20, ran: {today}}}",
                         f"  - {{row: lab test_agent.py, minutes: 30, ran: {today}}}"]  # fmt: skip
    assert rotated(checkout) == "scenarios 1/10"


def test_a_mark_of_an_earlier_day_does_not_move_a_row_back(checkout: Path) -> None:
    (checkout / FILE).write_text(file_of("row: lab test_agent.py, minutes: 30, ran: 2026-11-20", ROWS[1], marked="lab test_agent.py",
                                         date="2026-11-10"))  # fmt: skip
    rotated(checkout)
    assert "ran: 2026-11-20" in (checkout / FILE).read_text()


def test_a_row_that_is_none_is_refused(checkout: Path) -> None:
    before = (checkout / FILE).read_text()
    done = run_rotate(checkout, "--ran", "lab test_agent.py", "lab", "test_agent.py")
    assert (done.returncode, "no row lab, test_agent.py" in done.stderr) == (64, True)
    assert run_rotate(checkout, "--ran").returncode == 64
    assert (checkout / FILE).read_text() == before


def test_the_page_shows_when_each_row_ran(checkout: Path) -> None:
    """And which one is marked: both come from the file alone."""
    (checkout / "docs").mkdir()
    (checkout / rotation.PAGE).write_text(f"before\n{rotation.START}old\n{rotation.END}\nafter\n")
    rotated(checkout)
    run_rotate(checkout, "--ran", "lab test_agent.py")
    page, today = rotation.files(checkout)[rotation.PAGE], dt.datetime.now(dt.UTC).date().isoformat()
    assert "| `scenarios 1/10` | 2026-11-01 | 20 |\n| `scenarios 2/10` | not since 2026-11-29 | 20 |\n" in page
    assert f"| `lab test_agent.py` | {today} | 30 |\n" in page
    assert f"Marked for the landing of {today}: `scenarios 2/10`." in page
    assert (page.startswith("before\n"), page.endswith("\nafter\n"), "old" in page) == (True, True, False)


def test_the_marked_row_runs_after_everything(checkout: Path) -> None:
    rotated(checkout)
    assert ran(checkout) == (0, ["make test", "long tests: scenarios 2/10", "make test-scenarios SHARD=2/10"])
    rotated(checkout)
    assert ran(checkout)[1][-1] == "make test-lab ARGS=--only test_agent.py"
    assert ran(checkout, of_long=2)[0] == 2


def test_a_failed_make_test_is_the_end(checkout: Path) -> None:
    assert ran(checkout, of_test=2) == (2, ["make test"])


def test_a_row_that_would_end_too_late_is_left_out(checkout: Path) -> None:
    rotated(checkout)
    assert ran(checkout, minutes=64)[1][-1] == "make test-scenarios SHARD=2/10"
    code, lines = ran(checkout, minutes=66)
    assert (code, lines[1].startswith("left out: scenarios 2/10 takes 20 minutes, and 66 of 85 have passed")) == (0, True)


def test_nothing_marked_is_said(checkout: Path) -> None:
    assert ran(checkout) == (0, ["make test", "no long test: .ci/rotation.yml marks null; run: make rotate"])


def test_the_rows_are_all_parts_and_all_lab_files() -> None:
    rows = [line.partition("row: ")[2].partition(",")[0] for line in (repo.ROOT / FILE).read_text().split("\n") if line.startswith("  - ")]
    lab = [f"lab {path.name}" for path in sorted((repo.ROOT / "tests/lab").glob("test_*.py"))]
    assert rows == [f"scenarios {part}/10" for part in range(1, 11)] + lab
