# SPDX-License-Identifier: GPL-3.0-or-later
"""Again and again: one of two ranks is stopped, loops outside of the collective, or its node is gone; and all are healthy but slow.

Half of the jobs are PyTorch's gloo, which sleeps while it waits, half are Open MPI, which asks the kernel again and again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import Cluster
from harness import Container
from verbs import verb

PROGRAM = "/var/lib/railwright-test/ranks.py"
TIMES = int(os.environ.get("DIAGNOSE_TIMES", "1"))  # for each of two libraries; five were seen
WAIT_SECONDS = 90
SRUN = ("srun", "--partition=rdma", "--nodes=2", "--ntasks=2", "--no-kill")
LAUNCH = {"gloo": SRUN, "mpi": ("salloc", "--quiet", *SRUN[1:], "mpirun", "-np", "2", "--map-by", "node")}
SAID = "/home/bench/said"
ENVIRONMENT = ("GLOO_SOCKET_IFNAME=eth0", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_pml=ob1")


class Site:
    """The cluster, and at most one job on it."""

    def __init__(self, scenario: str) -> None:
        self.cluster = Cluster(scenario)
        self.port = 20000

    def node(self, name: str) -> Container:
        return self.cluster.container(name)

    def start(self, kind: str, case: str) -> str:
        """The job's id, once both ranks have made their first steps."""
        self.port += 1
        words = " ".join([*LAUNCH[kind], "python3", PROGRAM, kind, case, self.node("node1").addresses()[0], str(self.port)])
        line = f"cd; export {' '.join(ENVIRONMENT)}; setsid {words} </dev/null >{SAID} 2>&1 &"
        self.node("controller").run("runuser", "-u", "bench", "--", "env", "HOME=/home/bench", "sh", "-c", line)
        deadline = time.monotonic() + WAIT_SECONDS
        while self.node("controller").run("cat", SAID, check=False).stdout.count("ready") < 2:
            assert time.monotonic() < deadline, self.node("controller").out("cat", SAID)
            time.sleep(1)
        return self.node("controller").out("squeue", "--noheader", "--format=%A").strip()

    def end(self) -> None:
        self.node("node2").run("ip", "link", "set", "eth0", "up")
        self.signal("KILL")
        self.node("controller").run("scancel", "--user=bench")
        self.node("node2").run("systemctl", "restart", "slurmd")  # it says that it is back
        deadline = time.monotonic() + WAIT_SECONDS
        while self.node("controller").out("sinfo", "--noheader", "--partition=rdma", "--format=%T %D").strip() != "idle 2":
            assert time.monotonic() < deadline
            time.sleep(1)

    def signal(self, name: str) -> None:
        """To rank 1."""
        self.node("node2").run("pkill", f"-{name}", "-f", PROGRAM, check=False)

    def diagnose(self, job: str) -> tuple[int, dict[str, Any]]:
        found = verb(self.cluster.inventory, "diagnose", job)
        assert found.document, found.said
        return found.code, found.document["diagnosis"]


@pytest.fixture(scope="module")
def site(scenario: str) -> Site:
    made = Site(scenario)
    for name in ("node1", "node2"):
        made.node(name).write(PROGRAM, (Path(__file__).resolve().parents[1] / "ranks.py").read_text(encoding="utf-8"), "0755")
    return made


@pytest.fixture(autouse=True)
def ended(site: Site) -> Iterator[None]:
    yield
    site.end()


def named(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(each["rank"], each["node"]) for each in found["awaited"]]


@pytest.mark.parametrize("kind", LAUNCH)
def test_a_stopped_rank(site: Site, kind: str) -> None:
    job = site.start(kind, "steady")
    for _time in range(TIMES):
        site.signal("STOP")
        code, found = site.diagnose(job)
        assert (code, found["status"], named(found)) == (1, "hangs", [(1, "node2")]), found
        assert "is stopped" in found["message"]
        site.signal("CONT")


@pytest.mark.parametrize("kind", LAUNCH)
def test_a_rank_in_a_loop_of_its_own(site: Site, kind: str) -> None:
    job = site.start(kind, "loop")
    for _time in range(TIMES):
        code, found = site.diagnose(job)
        assert (code, found["status"], named(found)) == (1, "hangs", [(1, "node2")]), found
        assert "outside of the collective" in found["message"]


@pytest.mark.parametrize("kind", LAUNCH)
def test_slow_and_healthy(site: Site, kind: str) -> None:
    job = site.start(kind, "slow")
    for _time in range(TIMES):
        code, found = site.diagnose(job)
        assert (code, found["status"], found["awaited"]) == (0, "moves", []), found


@pytest.mark.parametrize("kind", LAUNCH)
def test_a_node_that_is_gone(site: Site, kind: str) -> None:
    """Cut off, as one without power: nobody tells its peers."""
    job = site.start(kind, "steady")
    for _time in range(TIMES):
        site.node("node2").run("ip", "link", "set", "eth0", "down")
        code, found = site.diagnose(job)
        assert (code, found["status"], named(found)) == (3, "hangs", [(1, "node2")]), found
        assert "rank 1: node2 is gone" in found["message"]
        site.node("node2").run("ip", "link", "set", "eth0", "up")
        time.sleep(3)
