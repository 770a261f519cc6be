# SPDX-License-Identifier: GPL-3.0-or-later
"""Who asks for whom, and when a host may go on; on plain dictionaries as Ansible hands them over."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils import draining
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import BATCH

RUN = "railwright upgrade 1"
SLURM = {"upgrade_scheduler": "slurm", "upgrade_scheduler_host": "s1"}


def variables(hosts: dict[str, dict[str, Any]], here: str = "n1", **more: Any) -> dict[str, Any]:
    return {"inventory_hostname": here, "hostvars": hosts, "ansible_play_batch": list(hosts), "ansible_play_hosts_all": list(hosts), **more}


def drain(**more: Any) -> dict[str, Any]:
    return {**draining.without_scheduler("n1", "inspect"), "scheduler": "slurm", **more}


def test_the_first_host_of_a_scheduler_asks_for_all_of_it() -> None:
    other = {"upgrade_scheduler": "kubernetes"}
    elsewhere = {**SLURM, "upgrade_scheduler_host": "s2"}
    hosts = {"a": {}, "b": SLURM, "c": other, "d": {**SLURM, "upgrade_node_name": "D"}, "e": other, "f": elsewhere}
    given = variables(hosts)
    leaders = {host: draining.leader_of(given, list(hosts), host) for host in hosts}
    assert leaders == {"a": "a", "b": "b", "c": "c", "d": "b", "e": "c", "f": "f"}
    assert draining.members(given, list(hosts), "b") == {"b": "b", "d": "D"}
    assert draining.members(given, list(hosts), "c") == {"c": "c", "e": "e"}


def test_a_host_with_other_commands_asks_for_itself() -> None:
    """The leader's commands are run for all that it asks for."""
    own = {"upgrade_scheduler": "command", "upgrade_drain_command": ["/bin/drain", "{node}"]}
    hosts = {"a": {**own, "upgrade_drain_command": ["/bin/true", "{node}"]}, "b": own, "c": own}
    given = variables(hosts)
    assert [draining.leader_of(given, list(hosts), host) for host in hosts] == ["a", "b", "b"]
    assert draining.members(given, list(hosts), "a") == {"a": "a"}


def test_a_follower_reads_no_more_than_its_leader() -> None:
    """All variables of 400 hosts, read by each of 400 hosts, would take minutes."""
    read: list[str] = []

    class Hosts(dict[str, Any]):
        def __getitem__(self, host: str) -> Any:
            read.append(host)
            return super().__getitem__(host)

    hosts = Hosts({f"n{number}": SLURM for number in range(400)})
    assert draining.leader_of(variables(hosts), list(hosts), "n399") == "n0"
    assert set(read) == {"n399", "n0"}


def test_who_is_at_this_step() -> None:
    given = variables({"a": SLURM, "b": SLURM, "c": SLURM}, ansible_play_batch=["a", "b"])
    assert draining.present(given) == ["a", "b"]
    assert draining.present({**given, BATCH: ["b", "c"]}) == ["b"], "a failed and was rescued, c has left the play"
    assert draining.asked_for(given, "inspect") == ["a", "b", "c"]
    assert draining.asked_for(given, "drain") == ["a", "b"]


@pytest.mark.parametrize(("names", "said"), [
    ({"a": "n[1-2]"}, "upgrade_node_name of a is no name; allowed"), ({"a": "x", "b": "x"}, "is the same for a and b")])
def test_names_that_would_drain_another_node(names: dict[str, str], said: str) -> None:
    given = variables({host: {**SLURM, "upgrade_node_name": name} for host, name in names.items()})
    with pytest.raises(draining.Unfit, match=said):
        draining.members(given, list(names), "a")


@pytest.mark.parametrize("run", [None, "", "a b", "../x", "-x"])
def test_a_run_is_an_id(run: str | None) -> None:
    with pytest.raises(draining.Unfit, match="the id of an upgrade"):
        draining.reason_of(run)


@pytest.mark.parametrize("answer", [
    None, [], {}, ["drained"], [{"node": "N2", "state": "drained"}], [{"node": "N1", "state": "fine"}], [{"node": "N1"}, {"node": "N1"}]])
def test_an_answer_that_is_none(answer: Any) -> None:
    assert draining.by_host({"n1": "N1"}, answer, "slurm") is None


def test_an_answer_is_reduced_to_what_it_must_be() -> None:
    item = {"node": "N1", "state": "drained", "by": "them", "done": "yes", "closed": True, "reason": ["{{ x }}"], "jobs": [7], "more": 1}
    assert draining.by_host({"n1": "N1"}, [item], "slurm") == {"n1": drain(
        node="N1", state="drained", by=None, done=False, closed=True, empty=False, reason="['{{ x }}']", jobs=["7"])}


def test_what_is_worth_waiting_for() -> None:
    drains = {"a": drain(done=True), "b": drain(done=False), "c": drain(done=False, message="refused")}
    assert draining.draining(drains) == ["b"]
    assert draining.late(drains) == ["b", "c"]


def test_what_is_still_to_be_given_back() -> None:
    ours = {"state": "down", "closed": True, "by": "us", "reason": RUN}
    drains = {
        "a": drain(state="available"), "b": drain(**ours), "c": drain(**{**ours, "by": "other", "reason": "bad DIMM"}),
        "d": drain(**{**ours, "reason": RUN + "7"}), "e": drain(**ours, message="refused"), "f": drain(state="down", closed=False)}
    assert draining.returning(drains, RUN) == ["b", "f"]


HELD = drain(state="draining", closed=True, by="us", reason=RUN, holders=[f"job {number} of alice (RUNNING)" for number in range(7)])


@pytest.mark.parametrize(("found", "taken", "words"), [
    (HELD, drain(state="available"), ["n1 was not empty 60 s after its drain began: job 0 of alice (RUNNING), ", "and 2 more",
                                      "; nothing was changed on it, and new jobs may start on n1 again"]),
    (HELD, drain(closed=True, by="other", reason="bad DIMM"), ["; it stays drained, by somebody else (bad DIMM)"]),
    (HELD, drain(closed=True, by="us", reason=RUN), ["; it stays drained, by us (railwright upgrade 1)"]),
    (HELD, drain(message="Slurm refused"), ["; it stays drained: Slurm refused"]),
    (drain(state="draining", closed=True, raw="IDLE+COMPLETING+DRAIN"), None, ["the scheduler says IDLE+COMPLETING+DRAIN"]),
    (drain(raw="IDLE"), None, ["n1 takes new jobs (available, IDLE): it is not drained"]),
    (drain(message="Slurm has no node n1"), None, ["Slurm has no node n1"])])
def test_why_a_node_is_not_touched(found: dict[str, Any], taken: dict[str, Any] | None, words: list[str]) -> None:
    said = draining.drain_refusal("n1", found, "drained", {"n1": taken} if taken else {}, 60)
    assert said is not None
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(("found", "expect", "fine"), [
    (drain(state="drained", done=True), "drained", True), (drain(state="down", done=True), "drained", True),
    (drain(state="available"), "available", True), (drain(state="drained", closed=True, by="other"), "available", True),
    (drain(state="down", closed=True, by="us"), "available", False), (drain(state="down"), "available", False),
    (drain(message="refused"), "any", False), (drain(message="refused"), "answer", True), (HELD, "any", True)])
def test_who_may_go_on(found: dict[str, Any], expect: str, *, fine: bool) -> None:
    assert (draining.drain_refusal("n1", found, expect, None, 0) is None) is fine


def test_without_a_scheduler_nothing_is_asked() -> None:
    assert draining.without_scheduler("n1", "inspect")["state"] == "available"
    assert draining.without_scheduler("n1", "wait")["done"] is True
    assert draining.without_scheduler("n1", "undrain")["state"] == "available"


def test_the_reason_of_a_search_is_plain_and_bounded() -> None:
    assert draining.isolation_reason("r1", "rail2 41 of 392 Gb/s with 3 partners") == (
        "railwright isolate r1: rail2 41 of 392 Gb/s with 3 partners")
    odd = draining.isolation_reason("r1", '{{ 7*7 }} "é"\n$(x) [a@b] ' + "x" * 300)
    assert len(odd) == 200 and odd.isascii() and odd.endswith("...")
    assert not set('{}"$[]@\n') & set(odd)


@pytest.mark.parametrize(("found", "why"), [
    (drain(closed=True), None), (drain(closed=True, state="down", by="other"), None),
    (drain(raw="IDLE"), "n1 takes new jobs (available, IDLE): it is not drained"),
    (drain(scheduler="none"), "n1 is not drained: upgrade_scheduler is none"), (drain(message="Slurm refused"), "Slurm refused")])
def test_a_node_that_still_takes_jobs_is_not_isolated(found: dict[str, Any], why: str | None) -> None:
    assert draining.drain_refusal("n1", found, "closed", None, 0) == why
