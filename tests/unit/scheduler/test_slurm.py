# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's answers as they were recorded (22.05.8), and what is made of them; the real programs are in molecule/drain."""

from __future__ import annotations

import re

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import slurm
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import NodeState, SchedulerAway, SchedulerError
from slurm_double import SlurmHost

RUN = "railwright upgrade 20261121T180000Z-upgrade-1"
OLD = "railwright upgrade 20261101T080000Z-upgrade-9"
# The reason as it was given to the real scontrol, and as it came back.
NASTY = "it's \"quoted\" [x@y] State=IDLE ThreadsPerCore=1 Reason=foo"


def seen(state: str, reason: str = "", jobs: tuple[str, ...] = ()) -> NodeState:
    [found] = slurm.inspect_nodes(SlurmHost({"n1": (state, reason)}, jobs), ["n1"])
    return found


@pytest.mark.parametrize(("state", "expected", "done"), [
    ("IDLE", "available", False), ("ALLOCATED", "available", False), ("IDLE+PLANNED", "available", False),
    ("IDLE+MAINTENANCE+RESERVED", "available", False),
    ("IDLE+DRAIN", "drained", True), ("IDLE+DRAIN+MAINTENANCE+RESERVED", "drained", True), ("IDLE+FAIL", "drained", True),
    ("MIXED+DRAIN", "draining", False), ("ALLOCATED+DRAIN", "draining", False), ("IDLE+COMPLETING+DRAIN", "draining", False),
    ("IDLE+DRAIN+REBOOT_ISSUED", "draining", False),
    ("DOWN", "down", False), ("DOWN*", "down", False), ("IDLE*", "down", False), ("IDLE+NOT_RESPONDING", "down", False),
    ("IDLE~", "available", False), ("IDLE+CLOUD+POWERED_DOWN", "down", False),
    ("DOWN*+DRAIN", "down", True), ("DOWN+DRAIN", "down", True), ("DOWN+COMPLETING+DRAIN", "down", False),
    ("UNKNOWN", "unknown", False), ("UNKNOWN+DRAIN", "unknown", True)])
def test_states(state: str, expected: str, *, done: bool) -> None:
    found = seen(state, "because")
    assert (found.state, found.done) == (expected, done)


@pytest.mark.parametrize(("state", "reason", "by"), [
    ("IDLE", "", None), ("IDLE+DRAIN", RUN, "us"), ("IDLE+DRAIN", OLD, "us"), ("IDLE+DRAIN", "bad DIMM, see railwright upgrade 1", "other"),
    ("IDLE+DRAIN", "", "other"), ("DOWN", "Not responding", "other"), ("DOWN+DRAIN", RUN, "us")])
def test_whose_it_is(state: str, reason: str, by: str | None) -> None:
    assert seen(state, reason).by == by


def test_a_reason_cannot_change_the_state() -> None:
    found = seen("IDLE+DRAIN", NASTY)
    assert (found.state, found.reason) == ("drained", NASTY)


def test_lines_that_are_no_node_are_left_out() -> None:
    host = SlurmHost({"n1": ("IDLE", "")})
    text = f"slurm_load_node: something new\n\n{host.told('n1')}\nNodeName=n2 without a state\n"
    assert list(slurm.parse_nodes(text)) == ["n1"]


@pytest.mark.parametrize(("line", "held"), [
    ("1|RUNNING|n1|alice", True), ("7|SUSPENDED|n[1-3]|alice", True), ("8_2|COMPLETING|n1|bob", True), ("9|CONFIGURING|n1|bob", True),
    ("10|A_STATE_OF_LATER|n1|bob", True), ("11|COMPLETED|n1|bob", False), ("12|NODE_FAIL|n[1-9]|bob", False),
    ("2_[1-2]|PENDING||alice", False), ("13|RUNNING|n2|alice", False), ("14|RUNNING|n[10-19]|alice", False)])
def test_who_holds_a_node(line: str, *, held: bool) -> None:
    found = seen("IDLE+DRAIN", RUN, (line,))
    assert found.jobs == ((line.partition("|")[0],) if held else ())
    assert found.state == ("draining" if held else "drained")


def test_a_holder_is_named_with_its_user() -> None:
    assert seen("MIXED+DRAIN", RUN, ("8_2|RUNNING|n1|alice",)).holders == ("job 8_2 of alice (RUNNING)",)


@pytest.mark.parametrize("line", ["1|RUNNING", "1|RUNNING|n[1-|alice", "slurmctld says hello"])
def test_a_job_that_cannot_be_read_may_be_one(line: str) -> None:
    with pytest.raises(SchedulerError, match="cannot be read"):
        seen("IDLE+DRAIN", RUN, (line,))


def test_drain_gives_the_reason_and_leaves_the_job_alone() -> None:
    host = SlurmHost({"n1": ("MIXED", ""), "n2": ("IDLE", ""), "n3": ("IDLE", "")}, ["1|RUNNING|n1|alice"])
    found, changed = slurm.drain(host, ["n1", "n2"], RUN)
    assert changed
    assert [(item.node, item.state, item.by, item.reason) for item in found] == [
        ("n1", "draining", "us", RUN), ("n2", "drained", "us", RUN)]
    assert host.orders == [("NodeName=n1", "State=DRAIN", f"Reason={RUN}"), ("NodeName=n2", "State=DRAIN", f"Reason={RUN}")]


def test_drained_twice_is_told_once() -> None:
    host = SlurmHost({"n1": ("IDLE", "")})
    slurm.drain(host, ["n1"], RUN)
    _found, changed = slurm.drain(host, ["n1"], RUN)
    assert not changed
    assert len(host.orders) == 1


def test_the_drain_of_an_upgrade_that_failed_becomes_this_ones() -> None:
    host = SlurmHost({"n1": ("IDLE+DRAIN", OLD)})
    [found], changed = slurm.drain(host, ["n1"], RUN)
    assert changed
    assert found.reason == RUN


def test_what_others_drained_keeps_their_reason_and_is_not_given_back() -> None:
    host = SlurmHost({"n1": ("IDLE+DRAIN", "bad DIMM")})
    [found], changed = slurm.drain(host, ["n1"], RUN)
    assert (found.done, found.by, found.reason, changed) == (True, "other", "bad DIMM", False)
    [found], changed = slurm.undrain(host, ["n1"], RUN)
    assert (found.state, found.reason, changed, host.orders) == ("drained", "bad DIMM", False, [])


def test_a_node_that_was_down_is_closed_under_its_own_reason() -> None:
    """Without the drain a job could start on it as soon as it comes back, in the middle of the upgrade."""
    host = SlurmHost({"n1": ("DOWN*", "Not responding"), "n2": ("DOWN", "")})
    found, _changed = slurm.drain(host, ["n1", "n2"], RUN)
    assert [(item.done, item.by, item.reason) for item in found] == [
        (True, "other", "Not responding"), (True, "other", f"down before {RUN}")]
    host.nodes["n1"][0] = "IDLE+DRAIN"
    assert slurm.undrain(host, ["n1", "n2"], RUN)[1] is False


def test_undrain_is_for_this_runs_drains() -> None:
    host = SlurmHost({"n1": ("IDLE+DRAIN", RUN), "n2": ("IDLE+DRAIN", OLD), "n3": ("IDLE+DRAIN", RUN + "0"), "n4": ("DOWN+DRAIN", RUN)})
    found, changed = slurm.undrain(host, list(host.nodes), RUN)
    assert changed
    assert [item.state for item in found] == ["available", "drained", "drained", "available"]
    assert host.orders == [("NodeName=n1", "State=RESUME"), ("NodeName=n4", "State=RESUME")]


def test_undrain_again_asks_for_nothing() -> None:
    """RESUME of a node that is not drained is an error of scontrol."""
    host = SlurmHost({"n1": ("IDLE", "")})
    [found], changed = slurm.undrain(host, ["n1"], RUN)
    assert (found.state, found.message, changed) == ("available", None, False)


def test_a_node_that_does_not_answer_waits_for_its_daemon() -> None:
    host = SlurmHost({"n1": ("DOWN*+DRAIN", RUN)})
    [found], changed = slurm.undrain(host, ["n1"], RUN)
    assert (found.state, found.closed, changed, host.orders) == ("down", True, False, [])


@pytest.mark.parametrize("name", ["n[1-2]", "n1,n2", "n1 State=DOWN", "--help", "ALL", "", "n3"])
def test_a_name_that_slurm_has_not_listed_never_gets_to_scontrol(name: str) -> None:
    host = SlurmHost({"n1": ("IDLE", ""), "n2": ("IDLE", "")})
    for step in (slurm.drain, slurm.undrain):
        [found], changed = step(host, [name], RUN)
        assert found.state == "unknown"
        assert f"Slurm has no node {name}; it has n1, n2. Set upgrade_node_name" in str(found.message)
        assert not changed
    assert host.orders == []


def test_what_slurm_refuses_is_said_with_a_way_out() -> None:
    host = SlurmHost({"n1": ("IDLE", "")})
    host.forbidden = True
    [found], changed = slurm.drain(host, ["n1"], RUN)
    assert not changed
    assert str(found.message).startswith("Slurm refused State=DRAIN for n1: slurm_update error: Invalid user id; ")
    assert "ansible_become" in str(found.message)


def test_no_answer_is_an_error_of_the_whole() -> None:
    host = SlurmHost({"n1": ("IDLE", "")})
    host.away = 1
    with pytest.raises(SchedulerAway, match="scontrol failed: slurm_load_node error: Unable to contact slurm controller"):
        slurm.drain(host, ["n1"], RUN)
    assert host.orders == []


def test_400_nodes_cost_two_calls() -> None:
    host = SlurmHost({f"gpu{number:03}": ("IDLE", "") for number in range(400)}, ["5|RUNNING|gpu[000-199]|alice"])
    found = slurm.inspect_nodes(host, list(host.nodes))
    assert host.calls == 2
    assert sum(bool(item.jobs) for item in found) == 200


SLOW = "railwright isolate 20261121T200000Z-isolate-1: rail2 41 of 392 Gb/s with 3 partners"
SLOWER = "railwright isolate 20261120T200000Z-isolate-9: node 300 of 392 Gb/s with 4 partners"


def test_a_search_closes_each_node_with_its_own_reason() -> None:
    host = SlurmHost({"n1": ("MIXED", ""), "n2": ("IDLE", ""), "n3": ("IDLE", "")}, ["1|RUNNING|n1|alice"])
    found, changed = slurm.close(host, {"n1": SLOW, "n2": SLOWER})
    assert changed
    assert [(item.node, item.state, item.reason) for item in found] == [("n1", "draining", SLOW), ("n2", "drained", SLOWER)]
    assert host.orders == [("NodeName=n1", "State=DRAIN", f"Reason={SLOW}"), ("NodeName=n2", "State=DRAIN", f"Reason={SLOWER}")]


def test_a_search_takes_over_no_drain() -> None:
    """Neither an earlier search's, nor an upgrade's, which will open the node, nor an operator's."""
    nodes = {"n1": ("IDLE+DRAIN", SLOWER), "n2": ("IDLE+DRAIN", RUN), "n3": ("IDLE+DRAIN", "bad DIMM"), "n4": ("DOWN*", "Not responding")}
    host = SlurmHost(nodes)
    found, _changed = slurm.close(host, dict.fromkeys(nodes, SLOW))
    assert [(item.closed, item.reason) for item in found] == [(True, reason) for _state, reason in nodes.values()]
    assert [order[0] for order in host.orders] == ["NodeName=n4"], "it is down, and would take a job as soon as it answers"


def test_a_node_that_is_down_without_a_reason_gets_the_searchs() -> None:
    host = SlurmHost({"n1": ("DOWN", "")})
    [found], _changed = slurm.close(host, {"n1": SLOW})
    assert (found.closed, found.reason) == (True, SLOW)


def test_no_upgrade_gives_back_what_a_search_closed() -> None:
    host = SlurmHost({"n1": ("IDLE+DRAIN", SLOW)})
    [found], changed = slurm.drain(host, ["n1"], RUN)
    assert (found.done, found.by, found.reason, changed) == (True, "other", SLOW, False)
    [found], changed = slurm.undrain(host, ["n1"], RUN)
    assert (found.state, found.reason, changed, host.orders) == ("drained", SLOW, False, [])


def test_where_a_job_runs() -> None:
    host = SlurmHost({"n1": ("MIXED", ""), "n2": ("DOWN*", "Not responding")}, ["12|RUNNING|2000|n[1-3]", "13|COMPLETED|2000|n1"])
    found = slurm.inspect_job(host, "12")
    assert (found["id"], found["state"], found["uid"]) == ("12", "RUNNING", 2000)
    assert [(node["name"], node["down"], node["raw"]) for node in found["nodes"]] == [
        ("n1", False, "MIXED"), ("n2", True, "DOWN (not responding)"), ("n3", True, "unknown")]
    assert slurm.inspect_job(host, "13")["nodes"] == []


@pytest.mark.parametrize(("jobs", "why"), [
    ([], "squeue failed: slurm_load_jobs error: Invalid job id"), (["12|RUNNING|2000|n1", "12|RUNNING|2000|n2"], "Slurm has 2 of job 12"),
    (["12|RUNNING|2000|n[1-"], "cannot be read"), (["12|RUNNING"], "Slurm has 1 of job 12")])
def test_a_job_that_is_not_one(jobs: list[str], why: str) -> None:
    with pytest.raises(SchedulerError, match=re.escape(why)):
        slurm.inspect_job(SlurmHost({"n1": ("IDLE", "")}, jobs), "12")
