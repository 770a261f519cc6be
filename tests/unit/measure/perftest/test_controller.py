# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side: who is server and client, what is counted for whom, and what people see."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.action.rdma_cluster import not_inspected, verdicts_in
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit, fitted
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import RAIL as FORM
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import crossed_rails, pair_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.table import summarise, verdict_table

SCHEDULE = {"rounds": [[["n1", "n2"]], [["n3", "n1"]]]}


@pytest.mark.parametrize(
    ("number", "node", "pair"),
    [(0, "n1", ("n1", "n2")), (0, "n2", ("n1", "n2")), (0, "n3", None), (1, "n1", ("n3", "n1")), (1, "n2", None), (2, "n1", None)],
)
def test_every_node_has_one_part_in_a_round(number: int, node: str, pair: tuple[str, str] | None) -> None:
    assert pair_of(SCHEDULE, number, node) == pair


def verdict(node: str, status: str, **more: Any) -> dict[str, Any]:
    base = {
        "check": "port.state",
        "node": node,
        "hca": "mlx5_0",
        "port": 1,
        "subject": "rail0 (eth1)",
        "status": status,
        "expected": "ACTIVE",
        "found": "DOWN",
        "message": "state is DOWN, not ACTIVE",
    }
    return {**base, **more}


def variables(**hosts: dict[str, Any]) -> dict[str, Any]:
    return {"hostvars": hosts}


@pytest.mark.parametrize("value", [{"failed": True, "rails": []}, {"unreachable": True}, {"skipped": True}, "text", None])
def test_a_host_without_a_good_result_counts_as_not_there(value: Any) -> None:
    assert result_of(variables(n1={"check": value}), "n1", "check") is None
    assert result_of(variables(n1={}), "n1", "check") is None
    assert result_of(variables(), "n1", "check") is None


def test_verdicts_are_collected_also_from_a_host_that_failed_later() -> None:
    item = verdict("n1", "fail")
    given = variables(n1={"check": {"verdicts": [item]}, "kept": [item, "noise"], "other": {"verdicts": "noise"}})
    assert verdicts_in(given, "n1", "check") == [item]
    assert verdicts_in(given, "n1", "kept") == [item]
    assert verdicts_in(given, "n1", "other") == []
    assert verdicts_in(given, "n1", "missing") == []


def test_nodes_of_a_later_batch_are_not_passed_over_in_silence() -> None:
    given = variables(n1={"check": {"rails": []}}, n2={"check": {"failed": True}}, n3={})
    assert not_inspected(given, ["n1", "n2", "n3"], "check") == ["n3"]
    assert not_inspected(given, ["n1"], "check") == []


def test_a_node_speaks_for_itself_only_and_cannot_stop_the_judgement() -> None:
    forged = [verdict("n2", "pass"), {"status": "excellent"}, {"status": ["fail"], "node": None, "subject": None}]
    found = verdicts_in(variables(n1={"check": {"verdicts": forged}}), "n1", "check")
    assert [(item["node"], item["status"]) for item in found] == [("n1", "pass"), ("n1", "fail"), ("n1", "fail")]
    assert summarise(["n1", "n2"], found)["n2"]["pass"] == 0
    assert "fail" in verdict_table(found)


PING = {"name": "rail0", "peer": "n2", "address": "10.0.0.2", "others": ["10.0.1.2"], "full": False, "small": False}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"heard": {"10.0.1.2": ["02:00:00:00:02:01"]}}, ["rail0"]),
        ({"heard": {"10.0.1.2": ["02:00:00:00:02:01"], "10.0.0.2": ["02:00:00:00:02:00"]}}, []),  # a firewall: RDMA may pass it
        ({"heard": {}}, []),
        ({"heard": {"10.0.1.2": ["02:00:00:00:02:01"]}, "small": True}, []),
        ({"heard": {"10.0.1.2": ["02:00:00:00:02:01"]}, "peer": "n3"}, []),
    ],
)
def test_a_rail_on_anothers_network_is_not_measured_whichever_end_found_it(answer: dict[str, Any], found: list[str]) -> None:
    given = variables(n1={"ping": {"pings": [{**PING, **answer}]}}, n2={"ping": {"failed": True}})
    assert crossed_rails(given, "ping", ("n1", "n2")) == crossed_rails(given, "ping", ("n2", "n1")) == found
    assert crossed_rails(given, None, ("n1", "n2")) == crossed_rails(given, "pong", ("n1", "n2")) == []


RAIL = {"name": "rail0", "label": "rail0 (eth1)", "address": "10.10.0.1", "mtu": 9000, "netdev": "eth1", "hca": "mlx5_0", "port": 1,
        "gid_index": 3, "gid_needed": True}


def test_a_rail_that_other_nodes_may_act_on_has_its_form() -> None:
    for rail in (RAIL, {**RAIL, "address": None, "hca": None, "netdev": None}):
        assert fitted(FORM, rail) == rail


@pytest.mark.parametrize("rail", [
    None, {}, {**RAIL, "address": "--out_json_file=/etc/passwd"}, {**RAIL, "address": "fe80::1%-f"}, {**RAIL, "address": 1},
    {**RAIL, "exchange": "--help"}, {**RAIL, "exchange": 7},
    {**RAIL, "mtu": "9000"}, {**RAIL, "mtu": True}, {**RAIL, "name": ["x"]}, {**RAIL, "hca": {}},
])  # fmt: skip
def test_what_a_hostile_node_says_of_its_rails_reaches_no_other_node(rail: Any) -> None:
    with pytest.raises(Misfit):
        fitted(FORM, rail)


def test_a_clusters_failure_fails_every_node_and_a_nodes_failure_only_it() -> None:
    summary = summarise(["n1", "n2"], [verdict("n1", "fail"), verdict("n2", "pass"), verdict("", "fail"), verdict("", "pass")])
    assert (summary["n1"]["fail"], summary["n2"]["fail"]) == (2, 1)
    assert (summary["n1"]["pass"], summary["n2"]["pass"]) == (1, 2)


def test_the_table_shows_what_did_not_pass_and_counts_the_rest() -> None:
    text = verdict_table([verdict("n1", "pass"), verdict("n2", "skipped"), verdict("n3", "fail"), verdict("", "warn", hca=None, port=None)])
    lines = text.splitlines()
    assert lines[0].split() == ["status", "node", "check", "subject", "expected", "found", "why"]
    assert lines[1].split()[:3] == ["fail", "n3", "port.state"]
    assert "rail0 (eth1) mlx5_0/1" in lines[1]
    assert "ACTIVE" in lines[1]
    assert "DOWN" in lines[1]
    assert lines[2].split()[:2] == ["warn", "cluster"]
    assert lines[3] == "verdicts: 1 pass, 1 fail, 1 warn, 1 skipped"
    assert len(lines) == 4


def test_a_terminal_obeys_nothing_that_a_node_says() -> None:
    text = verdict_table([verdict("n1", "fail", found="\x1b[2Jgone\r\nroot", message="a\x07b")])
    assert len(text.splitlines()) == 3
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_planned_change_says_absent_and_does_not_print_a_whole_file() -> None:
    text = verdict_table([verdict("n1", "fail", check="config.nccl", found=None, expected="# Managed\na=1\nb=2\n")])
    assert "absent" in text
    assert "text of 3 lines" in text
