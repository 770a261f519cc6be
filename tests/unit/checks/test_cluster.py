# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster: who is the odd one out, and what exists twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cluster import judge_cluster, same_kernel_line


@pytest.fixture
def four(make_node: Callable[[int], Any]) -> dict[str, Any]:
    return {f"node{number}": make_node(number) for number in range(1, 5)}


def judge(nodes: dict[str, Any], missing: tuple[str, ...] = ()) -> list[Verdict]:
    return judge_cluster({name: node.view() for name, node in nodes.items()}, missing)


def others(verdicts: list[Verdict]) -> list[Verdict]:
    return [item for item in verdicts if item.status != "pass"]


def test_like_nodes_agree_on_everything(four: dict[str, Any]) -> None:
    verdicts = judge(four)
    assert others(verdicts) == []
    assert {item.check for item in verdicts} == {
        "cluster.stack",
        "cluster.kernel",
        "cluster.mtu",
        "cluster.active_mtu",
        "cluster.rate",
        "cluster.link_layer",
        "cluster.hca_type",
        "cluster.fw_ver",
        "cluster.gid",
        "cluster.node_guid",
        "cluster.address",
    }


ODD = [
    (lambda node: node.facts["stack"].update(version="39.0-1"), "cluster.stack", "inbox 39.0-1"),
    (lambda node: node.facts.update(kernel="5.15.0-91-generic"), "cluster.kernel", "5.15.0-91-generic"),
    (lambda node: node.facts["netdevs"][1].update(mtu=1500), "cluster.mtu", "1500"),
    (lambda node: node.port(1).update(active_mtu=1024), "cluster.active_mtu", "1024"),
    (lambda node: node.port(1).update(rate_gbps=100.0), "cluster.rate", "100.0"),
    (lambda node: node.facts["hcas"][1].update(hca_type="MT4123"), "cluster.hca_type", "MT4123"),
    (lambda node: node.facts["hcas"][1].update(fw_ver="20.1"), "cluster.fw_ver", "20.1"),
    (lambda node: node.port(1).update(gids=[]), "cluster.gid", "none"),
]


def test_a_constant_rate_is_no_evidence(four: dict[str, Any]) -> None:
    for node in four.values():
        for hca in node.facts["hcas"]:
            hca["driver"] = "rdma_rxe"
    assert {item.status for item in judge(four) if item.check == "cluster.rate"} == {"skipped"}


@pytest.mark.parametrize(("sicken", "check", "found"), ODD)
def test_the_odd_one_out_is_named(four: dict[str, Any], sicken: Callable[[Any], None], check: str, found: str) -> None:
    sicken(four["node3"])
    verdicts = others(judge(four))
    assert [(item.check, item.node, item.status, item.found) for item in verdicts] == [(check, "node3", "fail", found)]


def gpu(version: str) -> dict[str, Any]:
    return {"gpus": [{"pci": "0000:14:00.0"}], "gpu_driver": {"version": version, "flavour": "open"}}


def test_a_differing_gpu_driver_is_one_verdict_and_none_without_gpus(four: dict[str, Any]) -> None:
    for name in ("node1", "node2", "node3"):
        four[name].facts.update(gpu("580.95.05"))
    assert [item.found for item in judge(four) if item.check == "cluster.gpu_driver"] == ["580.95.05 open"]
    four["node3"].facts.update(gpu("575.57.08"))
    odd = others(judge(four))
    assert [(item.check, item.node, item.found) for item in odd] == [("cluster.gpu_driver", "node3", "575.57.08 open")]
    four["node3"].facts.update(gpu_driver=None)
    assert [(item.node, item.found) for item in others(judge(four))] == [("node3", "none")]


def test_nodes_are_compared_only_with_nodes_of_the_same_stack(four: dict[str, Any]) -> None:
    views = {name: node.view() | {"stack": "doca 3.2.3" if name in ("node1", "node2") else "inbox"} for name, node in four.items()}
    for name in ("node1", "node2"):
        views[name]["facts"].update(kernel="5.14.0-570.el9", stack={"name": "doca", "version": "3.2.3"})
    assert others(judge_cluster(views, ())) == []
    views["node2"]["facts"]["stack"] = {"name": "doca", "version": "3.2.1"}
    odd = others(judge_cluster(views, ()))
    assert [(item.check, item.subject, item.node) for item in odd] == [("cluster.stack", "nodes with doca 3.2.3", "")]
    assert "node1" in odd[0].message and "node2" in odd[0].message


def test_one_firmware_on_every_rail_of_a_node_is_one_verdict(four: dict[str, Any]) -> None:
    for hca in four["node3"].facts["hcas"]:
        hca.update(fw_ver="28.39.1002")
    odd = others(judge(four))
    assert [(item.check, item.node, item.subject) for item in odd] == [("cluster.fw_ver", "node3", "rail0, rail1")]
    four["node3"].facts["hcas"][0].update(fw_ver="28.38.0")
    assert [item.subject for item in others(judge(four))] == ["rail0", "rail1"]


def test_two_camps_of_equal_size_blame_nobody_and_name_all(four: dict[str, Any]) -> None:
    for name in ("node1", "node2"):
        four[name].facts["stack"]["version"] = "39.0"
    verdict = others(judge(four))[0]
    assert (verdict.node, verdict.status) == ("", "fail")
    assert "node1, node2" in verdict.message and "node3, node4" in verdict.message


def test_a_patch_level_of_the_kernel_is_a_warning(four: dict[str, Any]) -> None:
    four["node2"].facts["kernel"] = "6.1.0-30-amd64"
    assert [(item.node, item.status) for item in others(judge(four))] == [("node2", "warn")]
    del four["node3"], four["node4"]
    assert [(item.node, item.status) for item in others(judge(four))] == [("", "warn")]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("5.15.0-91-generic", "5.15.0-94-generic", True),
        ("5.15.0", "5.15.120", True),
        ("5.15.0", "6.1.0", False),
        ("5.1.0", "5.10.0", False),
        ("x", "x", False),
    ],
)
def test_kernel_lines(one: str, other: str, same: bool) -> None:
    assert same_kernel_line(one, other) is same


def test_an_unreadable_value_is_unknown_for_its_node_only(four: dict[str, Any]) -> None:
    four["node1"].port(0)["active_mtu"] = None
    four["node2"].port(0)["active_mtu"] = 1024
    found = [(item.check, item.node, item.status) for item in others(judge(four))]
    assert found == [("cluster.active_mtu", "node1", "unknown"), ("cluster.active_mtu", "node2", "fail")]


def test_a_missing_node_is_not_judged_and_does_not_fail(four: dict[str, Any]) -> None:
    del four["node4"]
    assert [(item.check, item.node, item.status) for item in others(judge(four, ("node4",)))] == [("cluster.node", "node4", "unknown")]


def test_one_node_alone_is_no_cluster(four: dict[str, Any]) -> None:
    alone = {"node1": four["node1"]}
    assert [(item.check, item.status) for item in judge(alone)] == [("cluster.agreement", "skipped")]


def test_duplicates_name_their_owners(four: dict[str, Any]) -> None:
    four["node2"].facts["hcas"][0]["node_guid"] = four["node1"].facts["hcas"][0]["node_guid"]
    four["node3"].port(0)["gids"].append(dict(four["node4"].port(0)["gids"][2]))
    verdicts = others(judge(four))
    assert [(item.check, item.status, item.found) for item in verdicts] == [
        ("cluster.node_guid", "fail", "node1, node2"),
        ("cluster.address", "fail", "node3, node4"),
    ]
    assert verdicts[1].subject == "10.10.0.4"


def test_an_unset_guid_is_no_duplicate(four: dict[str, Any]) -> None:
    for node in four.values():
        node.facts["hcas"][0]["node_guid"] = "0000:0000:0000:0000"
    assert others(judge(four)) == []


def test_what_no_node_tells_is_skipped_once(four: dict[str, Any]) -> None:
    for node in four.values():
        node.facts["hcas"][0]["fw_ver"] = None
    assert [(item.check, item.node, item.status) for item in others(judge(four))] == [("cluster.fw_ver", "", "skipped")]
