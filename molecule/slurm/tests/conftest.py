# SPDX-License-Identifier: GPL-3.0-or-later
"""The Slurm cluster as an operator sees it: its queue, its nodes, and programs launched on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cluster import Cluster
from launching import Launching, Plan

NODES = ("node1", "node2")
USER = "bench"
RANKS = "/var/lib/railwright-test/ranks.py"
QUEUE_SECONDS = 60  # a node whose step lost its srun asks for it again before it gives up


@pytest.fixture(scope="session")
def on(scenario: str) -> Callable[..., str]:
    """A command on a node; it must succeed."""
    cluster = Cluster(scenario)

    def run(node: str, argv: Sequence[str], stdin: str = "") -> str:
        return cluster.container(node).run(*argv, stdin=stdin).stdout

    return run


@pytest.fixture(scope="session")
def slurm(on: Callable[..., str]) -> Launching:
    names = {node: f"gpu-{node}" for node in NODES}  # upgrade_node_name
    made = Launching(on, Plan("slurm", "srun", names, USER, ("--partition=rdma",)))
    for node in NODES:
        made.bring(node, RANKS, (Path(__file__).resolve().parents[1] / "ranks.py").read_bytes())
    return made


@pytest.fixture
def queue(on: Callable[..., str]) -> Callable[[], list[str]]:
    """Names of all jobs, whoever's and in whatever state."""
    return lambda: on("controller", ("squeue", "--noheader", "--states=all", "--format=%j %T")).splitlines()


@pytest.fixture
def empty(on: Callable[..., str]) -> Callable[[], list[str]]:
    """What is queued once jobs that are ending have ended; bounded."""

    def wait() -> list[str]:
        deadline = time.monotonic() + QUEUE_SECONDS
        while True:
            found = on("controller", ("squeue", "--noheader", "--format=%j %T")).splitlines()
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.3)

    return wait
