# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright bench`` by Slurm on nodes without a GPU: the real srun puts the probe on both, and each says in one line what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from launching import Launching, strays

RUN_SECONDS = 200


class Bench(NamedTuple):
    """One run, and what else ran on the nodes before and after it."""

    code: int
    document: dict[str, Any]
    err: str
    strays: dict[str, list[str]]
    jobs: list[dict[str, str]]


@pytest.fixture(scope="module")
def bench(scenario: str, on: Callable[..., str], slurm: Launching, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    inventory = Cluster(scenario).inventory
    before = set(jobs(on))
    with strays(on, tuple(slurm.plan.nodes)) as left:
        argv = (str(Path(sys.executable).with_name("railwright")), "bench", "-i", str(inventory), "--format", "json")
        state = {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, env={**os.environ, **state})
    assert done.stdout, done.stderr[-3000:]
    made = {number: job for number, job in jobs(on).items() if number not in before}
    return Bench(done.returncode, json.loads(done.stdout), done.stderr, left, list(made.values()))


def jobs(on: Callable[..., str]) -> dict[str, dict[str, str]]:
    """All jobs that Slurm still knows of, by number."""
    lines = on("controller", ("scontrol", "--oneliner", "show", "jobs")).splitlines()
    rows = [dict(word.partition("=")[::2] for word in line.split() if "=" in word) for line in lines]
    return {row["JobId"]: row for row in rows if "JobId" in row}


def messages(document: dict[str, Any], status: str) -> list[str]:
    return [str(item["message"]) for item in document["verdicts"] if item["status"] == status]


def test_one_line_a_node_says_that_there_is_no_cuda_device(bench: Bench) -> None:
    assert bench.code == 1, bench.err
    expected = [f"no CUDA device on {node}: libcuda.so.1 is not there" for node in ("node1", "node2")]
    assert sorted(messages(bench.document, "fail")) == expected
    assert all(node["status"] == "ok" for node in bench.document["nodes"].values()), bench.document["nodes"]


def test_the_probe_was_slurms_job_on_both_nodes(bench: Bench, slurm: Launching) -> None:
    [job] = bench.jobs
    assert job["JobName"].startswith("railwright-2")
    assert (job["Partition"], job["NumNodes"], job["JobState"]) == ("rdma", "2", "COMPLETED")
    assert job["UserId"].startswith("bench(")
    assert bench.document["bench"]["launcher"] == "slurm"
    assert [item["found"] for item in bench.document["verdicts"] if item["check"] == "nccl.launch"] == [2]


def test_nothing_is_left(bench: Bench, empty: Callable[[], list[str]], on: Callable[..., str]) -> None:
    assert empty() == []
    assert bench.strays == {"node1": [], "node2": []}
    for node in ("node1", "node2"):
        assert on(node, ("ls", "/run/railwright/bench")).split() == []
