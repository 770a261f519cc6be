# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain and the jobs of others: what runs goes on to its end, what waits does not begin, and nothing is ended by us."""

from __future__ import annotations

from drain_steps import NODES, RUN, Slurm

REASON = f"railwright upgrade {RUN}"


def test_a_running_job_delays_the_drain_and_a_pending_one_waits(slurm: Slurm) -> None:
    slurm.on("node1", "rm", "-f", "/tmp/go")
    running = slurm.submit("node1", "while [ ! -e /tmp/go ]; do sleep 0.2; done; echo its own end > /tmp/ended")
    slurm.runs(running)
    drain = slurm.begin("drain")
    slurm.until(lambda: all("DRAIN" in slurm.state(node) for node in NODES), "both nodes are closed")
    pending = slurm.submit("node2", "true")
    assert drain[0].poll() is None, "the drain waits for the job"
    assert slurm.job(running)["JobState"] == "RUNNING"
    assert [slurm.reason(node) for node in NODES] == [REASON, REASON]
    slurm.on("node1", "touch", "/tmp/go")
    done = slurm.end(drain)
    assert done.failed == {}
    seen = {node: (drain["state"], drain["by"], drain["jobs"]) for node, drain in done.drains.items()}
    assert seen == dict.fromkeys(NODES, ("drained", "us", []))
    ended = slurm.job(running)
    assert (ended["JobState"], ended["ExitCode"]) == ("COMPLETED", "0:0")
    assert slurm.on("node1", "cat", "/tmp/ended").stdout == "its own end\n"
    assert slurm.job(pending)["JobState"] == "PENDING", "nothing starts on a drained node"
    again = slurm.step("drain")
    assert again.failed == {}, "a resumed upgrade takes the step again"
    back = slurm.step("undrain")
    assert back.failed == {}
    assert {node: drain["state"] for node, drain in back.drains.items()} == dict.fromkeys(NODES, "available")
    slurm.until(lambda: slurm.job(pending)["JobState"] == "COMPLETED", "the job that waited has run")


def test_time_is_over(slurm: Slurm) -> None:
    """The node with the job takes jobs again, the other one stays drained; both are told so."""
    job = slurm.submit("node1", "sleep 600")
    slurm.runs(job)
    found = slurm.step("drain", upgrade_drain_timeout_s=3)
    assert set(found.failed) == {"node1"}
    assert f"node1 was not empty 3 s after its drain began: job {job} of alice (RUNNING)" in found.failed["node1"]
    assert "nothing was changed on it, and new jobs may start on node1 again" in found.failed["node1"]
    assert slurm.job(job)["JobState"] == "RUNNING"
    assert "DRAIN" not in slurm.state("node1")
    assert slurm.state("node2") == "IDLE+DRAIN"
    assert found.drains["node2"]["done"] is True


def test_a_suspended_job_holds_its_node(slurm: Slurm) -> None:
    """Its node is IDLE for Slurm; a reboot would end it."""
    job = slurm.submit("node1", "sleep 600")
    slurm.runs(job)
    slurm.say("scontrol", "suspend", job)
    try:
        slurm.until(lambda: slurm.job(job)["JobState"] == "SUSPENDED", "the job is suspended")
        found = slurm.step("drain", limit="node1", upgrade_drain_timeout_s=0)
        assert f"job {job} of alice (SUSPENDED)" in found.failed["node1"]
    finally:
        slurm.say("scontrol", "resume", job)
    assert slurm.job(job)["JobState"] == "RUNNING"


def test_a_node_that_an_operator_opened_meanwhile_is_not_touched(slurm: Slurm) -> None:
    slurm.step("drain")
    assert slurm.step("drained").failed == {}
    slurm.say("scontrol", "update", "nodename=node1", "state=resume")
    found = slurm.step("drained")
    assert found.failed == {"node1": "node1 takes new jobs (available, IDLE): it is not drained"}


def test_looking_changes_nothing(slurm: Slurm) -> None:
    job = slurm.submit("node2", "sleep 600")
    slurm.runs(job)
    found = slurm.step("scheduler")
    assert {node: (drain["state"], drain["jobs"]) for node, drain in found.drains.items()} == {
        "node1": ("available", []), "node2": ("available", [job])}
    assert not any("DRAIN" in slurm.state(node) for node in NODES)
