# SPDX-License-Identifier: GPL-3.0-or-later
"""``--limit slurm:…``: the nodes of a real Slurm's job, reservation, state and host list, as a verb takes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drain_steps import Slurm


def limited(slurm: Slurm, place: Path, limit: str) -> tuple[int, set[str], str]:
    """Exit code, the nodes that were asked, and messages."""
    program, inventory = Path(sys.executable).with_name("railwright"), slurm.cluster.inventory
    argv = [str(program), "drift", "-i", str(inventory), "--limit", limit, "--format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL,
                          env={**os.environ, "XDG_STATE_HOME": str(place)})  # fmt: skip
    return done.returncode, set(json.loads(done.stdout).get("nodes", {})), done.stderr


def test_nodes_of_a_job_a_state_and_a_list(slurm: Slurm, tmp_path: Path) -> None:
    job = slurm.submit("node2", "sleep 600")
    slurm.runs(job)
    slurm.say("scontrol", "update", "nodename=node1", "state=drain", "reason=fan")
    try:
        for limit, wanted in ((f"slurm:job={job}", {"node2"}), ("slurm:state=drain", {"node1"}), (f"rdma:!slurm:job={job}", {"node1"}),
                              ("slurm:nodes=node[1-2]", {"node1", "node2"})):  # fmt: skip
            assert limited(slurm, tmp_path, limit)[1] == wanted, limit
    finally:
        slurm.say("scontrol", "update", "nodename=node1", "state=resume")
        slurm.say("scancel", job)


def test_nodes_of_a_reservation(slurm: Slurm, tmp_path: Path) -> None:
    slurm.say("scontrol", "create", "reservation", "reservationname=maint", "users=root", "nodes=node2", "starttime=now", "duration=10",
              "flags=ignore_jobs")  # fmt: skip
    try:
        assert limited(slurm, tmp_path, "slurm:reservation=maint")[1] == {"node2"}
    finally:
        slurm.say("scontrol", "delete", "reservationname=maint")


@pytest.mark.parametrize("limit", ["slurm:job=999999", "slurm:reservation=none", "slurm:state=nonsense"])
def test_what_slurm_does_not_have_stops_before_any_node(slurm: Slurm, tmp_path: Path, limit: str) -> None:
    code, nodes, said = limited(slurm, tmp_path, limit)
    assert (code, nodes) == (64, set())
    assert limit in said
