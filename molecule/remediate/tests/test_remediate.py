# SPDX-License-Identifier: GPL-3.0-or-later
"""Real faults on real nodes: what remediate fixes, what it leaves, where it stops, and which node it never comes to."""

from __future__ import annotations

from typing import Any

MEMLOCK, NOFILE = "limits: systemd DefaultLimitMEMLOCK", "limits: systemd DefaultLimitNOFILE"
CONF, LIMITS = "nccl: file /etc/nccl.conf", "limits: file /etc/security/limits.d/90-railwright.conf"
SYSCTL, MTU = "sysctl: sysctl net.ipv4.conf.eth1.arp_ignore", "network: MTU of rail0 (eth1)"
LINE = "effective: NCCL_IB_TIMEOUT for login shells"


def keys(told: Any, chapter: str, part: str) -> dict[str, set[str]]:
    """By node; what a container has no RDMA device for is left in every run, and is no part of the story."""
    nodes = getattr(told, chapter).document["nodes"]
    return {name: {row["key"] for row in node[part] if row["area"] != "hca"} for name, node in nodes.items()}


def results(told: Any, chapter: str) -> dict[str, str]:
    return {name: node["result"] for name, node in getattr(told, chapter).document["nodes"].items()}


def test_the_site_was_applied_before(told: Any) -> None:
    assert told.applied.code == 0, told.applied
    assert set(told.conf) == {"node1", "node2", "node3"}


def test_what_drifted_is_fixed_there_and_nowhere_else(told: Any) -> None:
    assert told.fixed.code == 2, told.fixed
    assert keys(told, "fixed", "fixed") == {
        "node1": {SYSCTL, LIMITS},
        "node2": set(),
        "node3": {"packages: package perftest", "network: unit systemd-networkd.service enabled",
                  "limits: file /etc/systemd/system.conf.d/90-railwright.conf", MEMLOCK, NOFILE, CONF},
    }  # fmt: skip
    assert told.found["node1 fixed"] == told.found["node1 good"]
    good = told.found["node3 good"]
    assert told.found["node3 fixed"] == {**good, "mtu": "1500"}, "all but what needs consent"
    assert good["mtu"] == "9000"
    assert good["package"] == "ii"


def test_what_is_left_says_why_and_what_would_fix_it(told: Any) -> None:
    assert keys(told, "fixed", "findings") == {"node1": set(), "node2": set(), "node3": {MTU, LINE}}
    rows = {row["key"]: row for row in told.fixed.document["nodes"]["node3"]["findings"]}
    assert (rows[MTU]["cause"], rows[MTU]["reason"]) == ("consent", "needs consent to link")
    assert rows[MTU]["command"].endswith("--limit node3 --batch 1 --consent link")
    assert (rows[LINE]["cause"], rows[LINE]["command"]) == ("effective", None)
    assert "/etc/profile.d/site.sh:1" in rows[LINE]["reason"]


def test_the_command_that_was_printed_fixes_it(told: Any) -> None:
    assert told.consented.code == 0, told.consented
    assert keys(told, "consented", "fixed") == {"node1": set(), "node2": set(), "node3": {MTU}}
    assert told.found["node3 consented"] == told.found["node3 good"]


def test_a_second_run_finds_nothing(told: Any) -> None:
    assert told.again.code == 0, told.again
    assert results(told, "again") == {"node1": "no drift", "node2": "no drift", "node3": "no drift"}


def test_a_node_without_drift_is_inspected_and_not_contacted_again(told: Any) -> None:
    assert told.points["after"] == told.points["before"], "no apply ran on it"
    assert [item["module"] for item in told.playbook["node2"].answers] == ["rdma_check", "rdma_consent"]


def test_the_first_node_that_cannot_be_fixed_stops_the_run(told: Any) -> None:
    assert told.stopped.code == 1, told.stopped
    assert results(told, "stopped") == {"node1": "not clean", "node2": "left as it is", "node3": "not touched"}
    node = told.stopped.document["nodes"]["node1"]
    assert node["status"] == "failed"
    assert "/etc/nccl.conf" in node["message"]
    assert keys(told, "stopped", "waiting")["node3"] == {CONF}
    assert told.found["node3 stopped"]["/etc/nccl.conf"] == "NCCL_DEBUG=TRACE\n"


def test_what_the_failed_apply_had_done_is_reverted(told: Any) -> None:
    assert told.found["node1 stopped"]["net.ipv4.conf.eth1.arp_ignore"] == "0"
    assert {SYSCTL, CONF} <= keys(told, "stopped", "findings")["node1"]


def test_a_node_that_is_lost_while_it_is_fixed_stops_the_run_too(told: Any) -> None:
    """Ansible itself would go on with the next batch."""
    nodes = told.lost.document["nodes"]
    assert told.lost.code == 3, told.lost
    assert (nodes["node1"]["status"], nodes["node3"]["status"]) == ("unreachable", "ok")
    assert told.found["node1 lost"]["/etc/nccl.conf"] == told.conf["node1"], "it had been fixed by then"
    assert results(told, "lost")["node3"] == "not touched"
    assert told.found["node3 lost"]["/etc/nccl.conf"] == "NCCL_DEBUG=TRACE\n"


def test_the_playbook_does_the_same(told: Any) -> None:
    assert {name: host.failed for name, host in told.playbook.items()} == {"node1": [], "node2": [], "node3": []}
    assert told.found["node3 playbook"] == told.found["node3 good"]
    plans = told.playbook["node3"].of("rdma_state")
    assert [change["key"] for change in plans[0]["plan"]] == [CONF]
