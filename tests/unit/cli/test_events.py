# SPDX-License-Identifier: GPL-3.0-or-later
"""Outcomes from runner events, as ansible-runner 2.4 with ansible-core 2.19 hands them over."""

from typing import Any

import pytest

from railwright.cli.session import overall
from railwright.events import Collector, RunOutcome, Update, failure_message
from railwright.exitcodes import ExitCode

CHANGE = {
    "key": "network: MTU of rail0 (eth1)",
    "area": "network",
    "what": "MTU of rail0 (eth1)",
    "before": 1500,
    "after": 9000,
    "disruption": "link",
}
PACKAGE = {
    "key": "packages: package perftest",
    "area": "packages",
    "what": "package perftest",
    "before": None,
    "after": "any",
    "disruption": "none",
}


def event(kind: str, host: str, result: dict[str, Any], action: str = "railwright.rdma.rdma_state", **more: Any) -> dict[str, Any]:
    data = {"host": host, "task": "Plan every area", "task_action": action, "resolved_action": action, "res": result, **more}
    return {"event": kind, "event_data": data, "stdout": "ignored", "counter": 1, "uuid": "u"}


def stats(**counts: dict[str, int]) -> dict[str, Any]:
    names = {name for group in counts.values() for name in group}
    base: dict[str, dict[str, int]] = {key: {} for key in ("ok", "changed", "dark", "failures", "ignored", "rescued", "skipped")}
    return {"event": "playbook_on_stats", "event_data": base | {"processed": dict.fromkeys(names, 1)} | counts}


def outcome(*events: dict[str, Any]) -> RunOutcome:
    collector = Collector()
    for item in events:
        assert collector.handle(item) is False, "an event must not stay on disk"
    return collector.finish()


def test_a_plan_is_collected_with_its_problems() -> None:
    problem = {"area": "network", "subject": "rail1", "message": "no device"}
    result = outcome(event("runner_on_ok", "n1", {"plan": [CHANGE], "problems": [problem]}), stats(ok={"n1": 1}))
    host = result.hosts["n1"]
    assert (host.status, host.planned, host.changes, host.problems, host.applied) == ("ok", True, [CHANGE], [problem], [])
    assert result.finished


def test_slices_of_one_plan_are_one_plan_and_the_order_stays() -> None:
    result = outcome(
        event("runner_on_ok", "n1", {"plan": [CHANGE, PACKAGE]}),
        event("runner_on_ok", "n1", {"plan": [CHANGE], "changed": True, "restore_point": "/var/lib/railwright/1"}),
    )
    host = result.hosts["n1"]
    assert [change["key"] for change in host.changes] == [CHANGE["key"], PACKAGE["key"]]
    assert host.applied == [CHANGE["key"]]
    assert host.restore_point == "/var/lib/railwright/1"


def test_a_failed_apply_did_not_apply() -> None:
    failed = {"plan": [CHANGE], "changed": True, "msg": "cannot set MTU; rolled back"}
    host = outcome(event("runner_on_failed", "n1", failed), stats(failures={"n1": 1})).hosts["n1"]
    assert (host.status, host.applied, host.message, host.task) == ("failed", [], "cannot set MTU; rolled back", "Plan every area")


REBOOT = CHANGE | {"key": "pci_tuning: kernel arguments", "area": "pci_tuning", "what": "kernel arguments", "disruption": "reboot"}


def test_what_an_apply_leaves_for_a_reboot_waits_until_the_reboot() -> None:
    applied = event("runner_on_ok", "n1", {"plan": [CHANGE], "changed": True, "reboot_needed": [REBOOT["key"]], "remaining": []})
    rebooted = event("runner_on_ok", "n1", {"rebooted": True, "changed": True}, action="railwright.rdma.rdma_guarded")
    assert outcome(applied).hosts["n1"].reboot_needed == [REBOOT["key"]]
    assert outcome(applied, rebooted).hosts["n1"].reboot_needed == []
    skipped = event("runner_on_ok", "n1", {"rebooted": False}, action="railwright.rdma.rdma_guarded")
    assert outcome(applied, skipped).hosts["n1"].reboot_needed == [REBOOT["key"]]
    assert outcome(event("runner_on_ok", "n1", {"plan": [REBOOT], "reboot_needed": [REBOOT["key"]]})).hosts["n1"].reboot_needed == []


def test_a_change_found_and_applied_after_the_reboot_does_not_remain() -> None:
    first = event("runner_on_ok", "n1", {"plan": [CHANGE], "changed": True, "remaining": [PACKAGE, CHANGE]})
    second = event("runner_on_ok", "n1", {"plan": [PACKAGE], "changed": True, "remaining": []})
    assert outcome(first).hosts["n1"].remaining == [PACKAGE, CHANGE]
    assert outcome(first, second).hosts["n1"].remaining == [CHANGE]


def test_what_drives_the_node_is_kept_and_only_text() -> None:
    first = event("runner_on_ok", "n1", {"plan": [], "drivers": {"stack": "doca 3.2.3", "odd": {"x": 1}}})
    later = event("runner_on_ok", "n1", {"plan": [], "drivers": ["no", "pairs"]})
    assert outcome(first, later).hosts["n1"].drivers == {"stack": "doca 3.2.3"}


def test_a_node_that_reverted_its_change_is_failed_and_not_unreachable() -> None:
    """The forms that plugin_utils/confirmation.py makes, after the plan and with the module's own result."""
    line = "the change was not confirmed over a fresh connection within 20 s; the node rolled itself back and is as it was before run r1"
    back = {"plan": [CHANGE], "changed": False, "reverted": [CHANGE["key"]], "restore_point": "/var/lib/railwright/r1", "msg": line}
    result = outcome(event("runner_on_ok", "n1", {"plan": [CHANGE]}), event("runner_on_failed", "n1", back), stats(failures={"n1": 1}))
    host = result.hosts["n1"]
    assert (host.status, host.message, host.applied, host.reverted) == ("failed", line, [], [CHANGE["key"]])
    assert overall(result) is ExitCode.FAILED


def test_unreachable_is_not_failed() -> None:
    gone = {"unreachable": True, "msg": "Task failed: Failed to connect to the host via ssh: timed out"}
    host = outcome(event("runner_on_unreachable", "n2", gone), stats(dark={"n2": 1})).hosts["n2"]
    assert (host.status, host.message) == ("unreachable", "Failed to connect to the host via ssh: timed out")


def test_a_node_that_only_a_reboot_lost_is_not_unreachable() -> None:
    """The event of a task with ignore_unreachable does not say so; Ansible counts the host as ok then."""
    gone = event("runner_on_unreachable", "n2", {"unreachable": True, "msg": "gone"})
    host = outcome(gone, event("runner_on_ok", "n2", {}), stats(ok={"n2": 2}, ignored={"n2": 1})).hosts["n2"]
    assert (host.status, host.message) == ("ok", "")
    failed = event("runner_on_failed", "n2", {"msg": "has not rebooted"})
    host = outcome(gone, failed, stats(ok={"n2": 1}, failures={"n2": 1})).hosts["n2"]
    assert (host.status, host.message) == ("failed", "has not rebooted")


def test_unreachable_wins_over_a_failure_before_it() -> None:
    result = outcome(
        event("runner_on_failed", "n1", {"msg": "x"}), event("runner_on_unreachable", "n1", {"unreachable": True, "msg": "gone"})
    )
    assert result.hosts["n1"].status == "unreachable"


@pytest.mark.parametrize(
    ("more", "end"),
    [({"ignore_errors": True}, stats(ok={"n1": 1}, ignored={"n1": 1})), ({}, stats(ok={"n1": 1}, rescued={"n1": 1}))],
    ids=["ignored", "rescued"],
)
def test_a_failure_that_the_playbook_reverted_is_none(more: dict[str, Any], end: dict[str, Any]) -> None:
    assert outcome(event("runner_on_failed", "n1", {"msg": "x"}, "ansible.builtin.command", **more), end).hosts["n1"].status == "ok"


def test_a_failure_stays_when_the_run_broke_off_before_the_statistics() -> None:
    result = outcome(event("runner_on_failed", "n1", {"msg": "x"}))
    assert result.hosts["n1"].status == "failed"
    assert not result.finished


def test_the_first_failure_is_the_cause() -> None:
    events = [event("runner_on_failed", "n1", {"msg": text}) for text in ("the cause", "its consequence")]
    assert outcome(*events, stats(failures={"n1": 2})).hosts["n1"].message == "the cause"


def test_a_rescue_that_explains_the_cause_says_it_better() -> None:
    first = event("runner_on_failed", "n1", {"msg": "apt-get failed"}, "ansible.builtin.apt")
    words = {"msg": "mlnx-tools: its script failed", "explains": True}
    host = outcome(first, event("runner_on_failed", "n1", words, "railwright.rdma.rdma_packages"), stats(failures={"n1": 1})).hosts["n1"]
    assert (host.status, host.action, host.message) == ("failed", "ansible.builtin.apt", "mlnx-tools: its script failed")
    foreign = event("runner_on_failed", "n1", words, "site.tools.other")
    assert outcome(first, foreign, stats(failures={"n1": 1})).hosts["n1"].message == "apt-get failed"


def test_a_node_cannot_speak_for_another() -> None:
    sick = {"check": "port.state", "node": "n1", "hca": "rxe0", "port": 1, "subject": "rail0", "status": "fail"}
    forged = sick | {"status": "pass"}
    result = outcome(
        event("runner_on_ok", "n1", {"verdicts": [sick]}, "railwright.rdma.rdma_check"),
        event("runner_on_ok", "n2", {"verdicts": [forged]}, "railwright.rdma.rdma_check"),
    )
    assert result.verdicts == [sick, forged | {"node": "n2"}]
    cluster = {"check": "cluster.mtu", "node": "n2", "hca": None, "port": None, "subject": "rail0", "status": "fail"}
    assert outcome(event("runner_on_ok", "n1", {"verdicts": [cluster]}, "railwright.rdma.rdma_cluster")).verdicts == [cluster]


def test_who_reached_whom_comes_from_the_controller_and_in_its_form() -> None:
    cells = [{"rail": "rail0", "peer_rail": "rail0", "seen": "none"}]
    rails = [{"rail": "rail0", "asked": 2, "full": 1, "small": 0, "none": 1, "unknown": 0}]
    pairs = [{"node": "n1", "peer": "n2", "cells": cells}]
    document = {"rails": rails, "pairs": pairs, "pairs_left_out": 0}
    given = document | {"pairs": [*pairs, {"node": "n1"}], "secret": "x"}
    assert outcome(event("runner_on_ok", "n1", {"reachability": given}, "railwright.rdma.rdma_cluster")).reachability == document
    assert outcome(event("runner_on_ok", "n1", {"reachability": given}, "railwright.rdma.rdma_measure")).reachability is None
    assert outcome(event("runner_on_ok", "n1", {"peers": {}}, "railwright.rdma.rdma_cluster")).reachability is None


def test_counters_of_every_round_are_kept_under_the_answering_nodes_name() -> None:
    one = {"rail": "rail0", "hca": "rxe0", "port": 1, "peer": "n2", "seconds": 12.5, "counters": {"sent_pkts": 4}}
    one |= {"interfaces": {}, "backwards": []}
    forged = one | {"node": "n9", "peer": "n1", "secret": "x", "counters": {"sent_pkts": "many", "rcvd_pkts": 1}}
    result = outcome(
        event("runner_on_ok", "n1", {"traffic": [one, "noise", {"rail": "rail1"}]}, "railwright.rdma.rdma_measure"),
        event("runner_on_ok", "n1", {"traffic": [one | {"peer": "n3"}]}, "railwright.rdma.rdma_measure"),
        event("runner_on_ok", "n2", {"traffic": [forged]}, "railwright.rdma.rdma_measure"),
        event("runner_on_ok", "n2", {"traffic": [one]}, "community.general.other"),
    )
    kept = {name: value for name, value in forged.items() if name != "secret"} | {"node": "n2", "counters": {"rcvd_pkts": 1}}
    assert result.traffic == [one | {"node": "n1"}, one | {"node": "n1", "peer": "n3"}, kept]


def test_the_last_of_two_equal_verdicts_holds() -> None:
    verdict = {"check": "port.state", "node": "n1", "hca": "rxe0", "port": 1, "subject": "rail0", "status": "fail"}
    other = verdict | {"port": 2}
    later = verdict | {"status": "pass"}
    result = outcome(*(event("runner_on_ok", "n1", {"verdicts": [item]}, "railwright.rdma.rdma_check") for item in (verdict, other, later)))
    assert result.verdicts == [later, other]
    assert result.hosts["n1"].judged


def test_other_modules_keys_are_not_ours() -> None:
    result = outcome(
        event("runner_on_ok", "n1", {"plan": [CHANGE], "verdicts": [{"status": "fail"}], "rdma": {}}, "community.general.terraform")
    )
    host = result.hosts["n1"]
    assert (host.planned, host.changes, host.judged, host.facts, result.verdicts) == (False, [], False, None, [])


def test_a_refusal_keeps_the_changes_that_lack_consent() -> None:
    refused = {"msg": "refused", "refused": [CHANGE]}
    host = outcome(event("runner_on_failed", "n1", refused, "railwright.rdma.rdma_consent")).hosts["n1"]
    assert host.refused == [CHANGE]


def test_changes_that_would_need_consent_are_no_refusal_while_planning() -> None:
    allowed = {"refused": [CHANGE], "changed": False}
    assert outcome(event("runner_on_ok", "n1", allowed, "railwright.rdma.rdma_consent")).hosts["n1"].refused == []


def test_facts() -> None:
    assert outcome(event("runner_on_ok", "n1", {"rdma": {"hcas": []}}, "railwright.rdma.rdma_facts")).hosts["n1"].facts == {"hcas": []}


def test_ansible_output_outside_of_tasks_is_kept_and_bounded() -> None:
    lines = [{"event": "verbose", "event_data": {}, "stdout": f"line {number}"} for number in range(100)]
    kept = outcome(*lines, {"event": "error", "stdout": "[ERROR]: broken"}).output
    assert kept[-1] == "[ERROR]: broken"
    assert len(kept) == 40


def test_listeners_hear_every_step() -> None:
    heard: list[Update] = []
    collector = Collector(heard.append)
    collector.handle({"event": "playbook_on_task_start", "event_data": {"name": "railwright.rdma.validate : Judge"}})
    collector.handle(event("runner_on_start", "n1", {}))
    collector.handle(event("runner_on_unreachable", "n1", {"msg": "gone"}))
    collector.finish()
    assert [(update.kind, update.host) for update in heard] == [("task", ""), ("start", "n1"), ("unreachable", "n1"), ("end", "")]
    assert heard[0].task == "Judge"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "plain"}, "plain"),
        ({"msg": "non-zero return code", "stderr": "a\nthe reason\n"}, "non-zero return code: the reason"),
        ({"msg": "MODULE FAILURE", "module_stdout": "sudo: a password is required"}, "MODULE FAILURE: sudo: a password is required"),
        (
            {"msg": "All items completed", "results": [{"failed": True, "msg": "one"}, {"msg": "fine"}, {"failed": True, "msg": "two"}]},
            "one; two",
        ),
        (  # as ansible-runner 2.4.3 sends it with ansible-core 2.21
            {"msg": "One or more items failed", "results": [{"exception": "(traceback unavailable)", "msg": "one"}, {"msg": "fine"}]},
            "one",
        ),
        (  # ansible-core 2.19, of a task with `failed_when: false` beside one that failed
            {"msg": "One or more failed", "results": [{"exception": "text", "failed": False, "msg": "x"}, {"failed": True, "msg": "y"}]},
            "y",
        ),
        (
            {
                "msg": "Module result deserialization failed: No start of json char found",
                "module_stdout": "/bin/sh: 1: sudo: not found\r\n",
            },
            "Module result deserialization failed: No start of json char found: /bin/sh: 1: sudo: not found",
        ),
        (
            {"msg": "MODULE FAILURE\nSee stdout/stderr", "module_stderr": "/bin/sh: sudo: not found"},
            "MODULE FAILURE: /bin/sh: sudo: not found",
        ),
        (
            {"msg": "MODULE FAILURE", "module_stderr": "pyenv: python3.13: command not found\n\nThe command exists in:\n  3.13.0\n"},
            "MODULE FAILURE: pyenv: python3.13: command not found",
        ),
        ({"msg": "Failed to connect: timed out\r\nConnection to n1 timed out"}, "Failed to connect: timed out; Connection to n1 timed out"),
        ({"censored": "the output has been hidden"}, "the task failed; its output is hidden (no_log)"),
        ({}, "the task failed and gave no reason"),
        ({"msg": "Failed to install some", "failures": ["No package perftest-9.9 available."]},
         "Failed to install some: No package perftest-9.9 available."),
    ],
)
def test_failure_message(result: dict[str, Any], text: str) -> None:
    assert failure_message(result) == text


@pytest.mark.parametrize("broken", [{}, {"event": "runner_on_ok"}, {"event": "runner_on_ok", "event_data": {"host": "n1", "res": "text"}}])
def test_odd_events_do_not_end_a_run(broken: dict[str, Any]) -> None:
    assert outcome(broken).verdicts == []
