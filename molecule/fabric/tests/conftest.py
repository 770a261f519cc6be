# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line as a user runs it, and ssh as a user does, on the machines that molecule made."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agreed import agreed
from railwright import lab

# Against a hang only. The machines are emulated: where the host stole most of the processors' time, a boot was seen to take six minutes.
HANGS_S = 1800
SILENT_S = 600


@dataclass(frozen=True)
class Outcome:
    """One run of the command line in JSON form."""

    code: int
    document: Any
    seconds: float
    err: str


@pytest.fixture(scope="session")
def inventory() -> str:
    return str(lab.current().inventory)


@pytest.fixture(scope="session")
def railwright(inventory: str) -> Callable[..., Outcome]:
    """Run a verb on the lab's inventory with --format json."""

    def run(verb: str, *arguments: str) -> Outcome:
        argv = ["railwright", verb, "-i", inventory, "--format", "json", *agreed((verb, *arguments)), *arguments]
        started = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HANGS_S, check=False)
        seconds = time.monotonic() - started
        assert done.stdout, f"{argv}: exit {done.returncode}, nothing on stdout: {done.stderr[-3000:]}"
        return Outcome(done.returncode, json.loads(done.stdout), seconds, done.stderr)

    return run


@pytest.fixture(scope="session")
def on() -> Callable[..., str]:
    """Run a command on a node over ssh and return what it printed; it must succeed."""

    def run(node: str, *command: str) -> str:
        argv = lab.ssh_argv(node, list(command))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SILENT_S, check=False)
        assert done.returncode == 0, f"{node}: {command}: exit {done.returncode}: {done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def wait_for_ssh() -> Callable[[str], None]:
    """Wait, with a bound, until a node answers again."""

    def wait(node: str) -> None:
        deadline = time.monotonic() + SILENT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):  # It took the connection and does not answer yet.
                if subprocess.run(lab.ssh_argv(node, ["true"]), capture_output=True, timeout=60, check=False).returncode == 0:
                    return
            time.sleep(2)
        pytest.fail(f"{node} did not answer within {SILENT_S} s")

    return wait


@pytest.fixture(scope="session")
def lossless() -> Callable[[Any], dict[str, dict[str, Any]]]:
    """The verdict of each node on lost packets; the cluster has one rail, and so one of each."""

    def of(document: Any) -> dict[str, dict[str, Any]]:
        found = [item for item in document["verdicts"] if item["check"] == "qos.lossless"]
        assert sorted(item["node"] for item in found) == ["node1", "node2"], found
        return {item["node"]: item for item in found}

    return of
