# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of the test's own through Slurm, by the steps that launch nccl-tests: who runs where with what, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from command_lines import PLANTED
from launching import Launching

RANKS = ("python3", "/var/lib/railwright-test/ranks.py")
VALUES = {"PLAIN": "1", "COMMAS": "^lo,docker0,=eth0", "SPACES": " two  words ", "EQUALS": "a=b=c", "QUOTES": "it's \"$HOME\" \\ `x` %h"}

Ask = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def ended(slurm: Launching) -> Iterator[None]:
    """What a failed test leaves must not be the next one's."""
    yield
    slurm.stop()
    slurm.remove()


def said(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line.partition(" ")[2]) for line in text.splitlines() if line.startswith("rank ")]
    return sorted(found, key=lambda item: item["rank"])


def test_ranks_places_and_values(slurm: Launching, empty: Ask) -> None:
    slurm.begin("places-1", RANKS, VALUES)
    outcome = slurm.wait()
    assert outcome.rc == 0, outcome.text
    ranks = said(outcome.text)
    assert [(item["rank"], item["ranks"], item["host"]) for item in ranks] == [
        (place, 2, name) for place, name in enumerate(slurm.plan.nodes.values())]
    expected = {**VALUES, "SLURM_JOB_PARTITION": "rdma", "SLURM_JOB_NAME": "railwright-places-1", "SLURM_JOB_COMMENT": None}
    assert [item["environment"] for item in ranks] == [expected] * 2
    assert empty() == []
    assert slurm.stop() == {"node1": 0, "node2": 0}


def test_nobody_reads_a_value_in_a_command_line(slurm: Launching) -> None:
    slurm.begin("secret-1", (*RANKS, "stay"), {"PLAIN": PLANTED})
    assert [item["environment"]["PLAIN"] for item in said(slurm.says("rank ", 2))] == [PLANTED] * 2
    slurm.assert_kept("ranks.py stay")
    slurm.stop()


def test_a_job_that_is_never_placed_leaves_the_queue(slurm: Launching, queue: Ask, empty: Ask) -> None:
    """Without the option it is Slurm's default partition, which has one node: the job waits."""
    plan = slurm.plan
    try:
        slurm.plan = plan._replace(options=())
        slurm.begin("waits-1", RANKS, seconds=12)
        slurm.says("queued and waiting for resources", 1)
        assert "railwright-waits-1 PENDING" in queue()
        outcome = slurm.wait()
    finally:
        slurm.plan = plan
    assert outcome.rc == 124
    assert said(outcome.text) == []
    assert empty() == []


def test_the_time_limit_ends_it_on_every_node(slurm: Launching, empty: Ask) -> None:
    """The ranks do not care for TERM, and Slurm would give them 30 s: srun is killed first, and leaves its job behind."""
    slurm.begin("limit-1", (*RANKS, "defy"), seconds=12)
    assert len(said(slurm.says("rank ", 2))) == 2
    assert all(slurm.marked().values())
    outcome = slurm.wait()
    assert outcome.rc == 124
    assert outcome.seconds < 40
    slurm.stop()
    assert slurm.marked() == {"node1": [], "node2": []}
    assert empty() == []


def test_stop_ends_a_job_whose_srun_was_killed(slurm: Launching, on: Callable[..., str], empty: Ask) -> None:
    slurm.begin("killed-1", (*RANKS, "stay"))
    slurm.says("rank ", 2)
    on("node1", ("pkill", "-KILL", "-x", "srun"))
    outcome = slurm.wait()
    assert outcome.rc not in (0, None)
    left = slurm.marked()
    assert all("ranks.py" in line for node in left for line in left[node]), left
    assert all(left.values()), "the ranks outlive their srun"
    slurm.stop()
    assert slurm.marked() == {"node1": [], "node2": []}
    assert empty() == []


def test_stop_hits_nobody_else(slurm: Launching, on: Callable[..., str], queue: Ask) -> None:
    """Another job of the same user, and a process without the marker."""
    options = ("--job-name=other", "--partition=rdma", "--nodes=1", "--nodelist", slurm.plan.nodes["node2"])
    on("node1", ("runuser", "-u", "bench", "--", "sbatch", *options, "--output=/dev/null", "--wrap", "exec sleep 3600"))
    pid = on("node1", ("runuser", "-u", "bench", "--", "sh", "-c", "exec setsid sleep 3601 >/dev/null 2>&1 & echo $!")).strip()
    try:
        slurm.begin("beside-1", (*RANKS, "stay"))
        slurm.says("rank ", 2)
        slurm.stop()
        assert slurm.marked() == {"node1": [], "node2": []}
        assert "other RUNNING" in queue()
        assert on("node1", ("cat", f"/proc/{pid}/comm")).strip() == "sleep"
        assert on("node2", ("pgrep", "-f", "sleep 3600")).strip()
    finally:
        on("node1", ("kill", pid))
        on("node1", ("scancel", "--name=other", "--user=bench"))
