# SPDX-License-Identifier: GPL-3.0-or-later
"""What an upgrade knows of one node before it begins."""

from typing import Any

from ansible_collections.railwright.rdma.plugins.action.rdma_upgrade import report

PLAN = {
    "plan": [
        {"key": "packages: package rdma-core", "disruption": "none"},
        {"key": "stack: kernel modules of doca in use", "disruption": "reboot"},
        {"key": "stack: openibd", "disruption": "reload"},
        {"key": "stack: openibd again", "disruption": "reload"},
    ],
    "drivers": {"kernel": "6.1.0-47-amd64"},
    "notes": ["left out"],
}
LEASE = {"run": "RUN", "controller": "head1", "user": "alice", "since": "2026-11-21T18:00:00Z"}


def made(**more: Any) -> dict[str, Any]:
    return report({"run": "RUN", "plan": PLAN, "lease": None, "scheduler": None, "dry_run": None, "prefixes": [], **more})


def test_a_plan_makes_it_pending_and_names_each_class_once() -> None:
    found = made()
    assert found["pending"]
    assert found["plan"] == [change["key"] for change in PLAN["plan"]]
    assert found["classes"] == ["reboot", "reload"]
    assert (found["before"], found["notes"]) == ({"kernel": "6.1.0-47-amd64"}, ["left out"])


def test_nothing_planned_is_nothing_pending() -> None:
    assert not made(plan={"plan": []})["pending"]


def test_a_library_below_its_prefix_is_pending_too() -> None:
    """No plan holds it: the roles nccl and mpi make it."""
    missing = {"product": "nccl", "release": {"needed": True, "version": "2.30.7-1"}}
    there = {"product": "hpcx", "release": {"needed": False, "version": "2.25"}}
    found = made(plan={"plan": []}, prefixes=[missing, there, {"skipped": True}])
    assert found["pending"]
    assert found["prefixes"] == ["NCCL 2.30.7-1"]


def test_a_look_that_could_not_be_made_is_a_note() -> None:
    found = made(plan={"plan": []}, prefixes=[{"failed": False, "msg": "nccl_version 2.30.7 is for CUDA 13; this node's driver has 12"}])
    assert not found["pending"]
    assert found["notes"] == ["nccl_version 2.30.7 is for CUDA 13; this node's driver has 12"]


def test_what_was_proved() -> None:
    row = {"name": "rdma-core", "from": "52.0-1", "to": "53.0-1", "origin": "DOCA-HOST:stable"}
    found = made(dry_run={"resolved": [row], "later": True})
    assert found["packages"] == [{"name": "rdma-core", "from": "52.0-1", "to": "53.0-1"}]
    assert (found["proved"], found["later"]) == (True, True)
    assert (made(dry_run={"skipped": True})["proved"], made()["proved"]) == (False, False)


def test_lease_and_scheduler_are_passed_on() -> None:
    state = {"scheduler": "slurm", "node": "gpu-1", "state": "drained", "jobs": [], "reason": "bad DIMM", "by": "other"}
    found = made(lease={"lease": LEASE, "busy": None}, scheduler={"drain": state, "changed": False})
    assert (found["lease"], found["scheduler"]) == (LEASE, state)
    assert made(lease={"skipped": True}, scheduler={"skipped": True})["scheduler"] is None
