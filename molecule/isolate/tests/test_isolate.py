# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright isolate --tool nccl`` over the real srun: what it says, what a kill leaves, and what a resumed search says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from launching import processes

NODES = ("node1", "node2", "node3", "node4")
SLOW = "/var/lib/stand-in/slow"
SECONDS = 900
GONE_SECONDS = 60

On = Callable[..., str]


class Ended(NamedTuple):
    code: int
    findings: list[tuple[str, tuple[str, ...]]]
    document: dict[str, Any]


class Site:
    """The cluster, and the verb as an operator calls it."""

    def __init__(self, scenario: str, state: Path) -> None:
        self.cluster, self.state = Cluster(scenario), state
        self.before = {node: processes(self.on, node) for node in NODES}

    def on(self, node: str, argv: tuple[str, ...], stdin: str = "") -> str:
        return self.cluster.container(node).run(*argv, stdin=stdin).stdout

    def slow(self, node: str, share: str) -> None:
        self.on(node, ("mkdir", "-p", Path(SLOW).parent.as_posix()))
        self.on(node, ("tee", SLOW), share)

    def well(self) -> None:
        for node in NODES:
            self.on(node, ("rm", "-f", SLOW))

    def begin(self, *options: str) -> subprocess.Popen[str]:
        argv = (str(Path(sys.executable).with_name("railwright")), "isolate", "-i", str(self.cluster.inventory), "--tool", "nccl",
                "--samples", "5", "--rounds", "12", "--minutes", "60", "--format", "json", *options)  # fmt: skip
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**os.environ, "XDG_STATE_HOME": str(self.state)})  # fmt: skip

    def end(self, process: subprocess.Popen[str]) -> Ended:
        out, err = process.communicate(timeout=SECONDS)
        sys.stderr.write(err)
        assert out, err[-3000:]
        document = json.loads(out)
        return Ended(process.returncode, [(item["kind"], tuple(item["nodes"])) for item in document["isolate"]["findings"]], document)

    @contextmanager
    def job(self, nodes: str) -> Iterator[str]:
        """One that runs there until it is cancelled, on half of the CPUs."""
        argv = ("sbatch", "--parsable", "--partition=rdma", f"--nodelist={nodes}", "--ntasks-per-node=1", "--chdir=/", "--output=/dev/null",
                "--wrap=srun sleep 3600")  # fmt: skip
        job = self.on("controller", argv).strip()
        deadline = time.monotonic() + GONE_SECONDS
        while self.on("controller", ("squeue", "--noheader", "--format=%T", f"--jobs={job}")).strip() != "RUNNING":
            assert time.monotonic() < deadline, "the job does not run"
            time.sleep(1)
        try:
            yield job
        finally:
            self.on("controller", ("scancel", job))

    def left(self) -> dict[str, list[str]]:
        """Processes, jobs and directories that were not there before."""
        found = {"queue": self.on("controller", ("squeue", "--noheader", "--format=%j %T")).splitlines()}
        for node in NODES:
            new = [words for key, words in processes(self.on, node).items() if key not in self.before[node]]
            found[node] = new + self.on(node, ("find", "/run/railwright", "-mindepth", "2")).split()
        return {place: items for place, items in found.items() if items}

    def clean(self, *, directories: bool = True) -> dict[str, list[str]]:
        """What is left once what is ending has ended; bounded."""
        deadline = time.monotonic() + GONE_SECONDS
        while True:
            left = {place: [item for item in items if directories or not item.startswith("/run/")] for place, items in self.left().items()}
            if not any(left.values()) or time.monotonic() > deadline:
                return {place: items for place, items in left.items() if items}
            time.sleep(1)


@pytest.fixture(scope="module")
def site(scenario: str, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(scenario, tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def well(site: Site) -> Iterator[None]:
    yield
    site.well()


def kill_in_round(site: Site, process: subprocess.Popen[str], number: int) -> None:
    """SIGKILL for the controller and all that it started, while ranks of this round run."""
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"round {number}: ") and "pairs of" in line:
            break
    deadline = time.monotonic() + GONE_SECONDS
    while not any("sendrecv_perf" in words for node in NODES for words in processes(site.on, node).values()):
        assert time.monotonic() < deadline, "no rank has come"
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()


def test_healthy_nodes(site: Site) -> None:
    ended = site.end(site.begin())
    assert (ended.code, ended.findings) == (0, []), ended.document["isolate"]
    assert site.clean() == {}


def test_the_slow_node_and_nobody_else(site: Site) -> None:
    site.slow("node3", "0.5")
    ended = site.end(site.begin())
    assert (ended.code, ended.findings) == (1, [("node", ("node3",))]), ended.document["isolate"]
    assert site.clean() == {}


def test_the_nodes_of_a_job_and_partners(site: Site) -> None:
    """Without --job its nodes are left out, and the other two are measured alone."""
    site.slow("node3", "0.5")
    with site.job("gpu-node1,gpu-node3") as job:
        others = site.end(site.begin())
        ended = site.end(site.begin("--job", job))
        assert job in site.on("controller", ("squeue", "--noheader", "--format=%i", "--states=RUNNING")).split()
    assert (others.code, others.findings, others.document["isolate"]["nodes"]) == (0, [], ["node2", "node4"])
    assert (ended.code, ended.findings) == (1, [("node", ("node3",))]), ended.document["isolate"]
    assert site.clean() == {}


def test_killed_twice_and_resumed(site: Site) -> None:
    """Once resumed at once; once when what was running has ended by itself, as nobody listens any more."""
    site.slow("node2", "0.6")
    kill_in_round(site, site.begin(), 2)
    resumed = site.begin("--resume")
    kill_in_round(site, resumed, 3)
    assert site.clean(directories=False) == {}
    ended = site.end(site.begin("--resume"))
    assert (ended.code, ended.findings) == (1, [("node", ("node2",))]), ended.document["isolate"]
    assert site.clean() == {}
