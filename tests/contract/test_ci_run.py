# SPDX-License-Identifier: GPL-3.0-or-later
"""What a build server does after `make test`: .ci/run itself, in a repository of its own, with a `make` that says what it is asked for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import repo

MAKE = """#!/bin/sh
echo "make $*"
case $1 in test) exit "$OF_TEST" ;; *) exit "$OF_SCENARIOS" ;; esac
"""
# The first call is the start, the second one the end.
DATE = """#!/bin/sh
[ -e "$CLOCK" ] && echo $((1000 + $MINUTES * 60)) || { touch "$CLOCK"; echo 1000; }
"""


def git(directory: Path, *arguments: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(("git", *names, *arguments), cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Twelve commits, and programs of the test's own."""
    directory = tmp_path / "checkout"
    (directory / ".ci").mkdir(parents=True)
    shutil.copy(repo.ROOT / ".ci" / "run", directory / ".ci" / "run")
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    for number in range(12):
        git(directory, "commit", "-q", "--allow-empty", "-m", str(number))
    (tmp_path / "bin").mkdir()
    for name, text in (("make", MAKE), ("date", DATE)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return directory


def ran(directory: Path, *, minutes: int = 30, of_test: int = 0, of_scenarios: int = 0) -> tuple[int, list[str]]:
    """Its exit status, and its lines."""
    clock = directory.parent / "clock"
    clock.unlink(missing_ok=True)
    env = {"PATH": f"{directory.parent / 'bin'}{os.pathsep}{os.environ['PATH']}", "CLOCK": str(clock), "MINUTES": str(minutes),
           "OF_TEST": str(of_test), "OF_SCENARIOS": str(of_scenarios)}
    done = subprocess.run((str(directory / ".ci" / "run"),), env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_the_number_of_commits_chooses_the_shard(checkout: Path) -> None:
    assert ran(checkout) == (0, ["make test", "long scenarios, part 3/10, by 12 commits", "make test-scenarios SHARD=3/10"])
    git(checkout, "commit", "-q", "--allow-empty", "-m", "one more")
    assert ran(checkout)[1][-1] == "make test-scenarios SHARD=4/10"


def test_a_failed_shard_fails_the_run(checkout: Path) -> None:
    assert ran(checkout, of_scenarios=2)[0] == 2


def test_a_failed_make_test_is_the_end(checkout: Path) -> None:
    assert ran(checkout, of_test=2) == (2, ["make test"])


def test_no_shard_begins_after_fifty_minutes(checkout: Path) -> None:
    assert ran(checkout, minutes=49)[1][-1].startswith("make test-scenarios")
    late = "no long scenario: make test took 50 minutes, and they begin within 50"
    assert ran(checkout, minutes=50) == (0, ["make test", late])


def test_a_shallow_clone_goes_by_its_commit(checkout: Path) -> None:
    shallow = checkout.parent / "shallow"
    git(checkout.parent, "clone", "-q", "--depth", "1", checkout.as_uri(), str(shallow))
    name = git(shallow, "rev-parse", "HEAD").strip()
    code, lines = ran(shallow)
    assert code == 0
    assert lines[1] == f"long scenarios, part {int(name[:7], 16) % 10 + 1}/10, by commit {name}, as a shallow clone has no count of them"
