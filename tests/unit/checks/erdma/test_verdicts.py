# SPDX-License-Identifier: GPL-3.0-or-later
"""eRDMA on captured trees, which are written from the documented formats: facts, the line of the summary, and every verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.verdicts import judge_devices
from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.erdma import gid_index, mode_of_node
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree, observe_summary, stack_summary
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from field_specs import build_spec
from inspections import bare_inspection
from node_trees import FACTS

TREES = ("erdma2", "erdma-gpu", "erdma-default", "erdma-mainline")
EBMGN7EX = "ecs.ebmgn7ex.32xlarge"


def spec_of(**more: Any) -> Spec:
    rails = [{"name": f"rail{at}", "match": {"mac": f"00:16:3e:11:22:0{at + 1}"}, "address": f"172.16.{at}.11/16"} for at in range(2)]
    spec, findings = build_spec({"fabric": "erdma", "mtu": 1400, "rails": rails, **more}, "n1")
    assert spec is not None, errors_of(findings)
    return spec


def facts(nodes: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FACTS / f"{name}.json").read_text())
    return found


def judged(found: dict[str, Any], **more: Any) -> dict[str, list[Verdict]]:
    checks: dict[str, list[Verdict]] = {}
    for item in judge_devices(bare_inspection("n1", spec_of(**more), found)):
        checks.setdefault(item.check, []).append(item)
    return checks


def whole(nodes: Path, name: str, **more: Any) -> list[dict[str, Any]]:
    verdicts: list[dict[str, Any]] = check_node(TreeHost(str(nodes / name)), "n1", spec_of(**more))["verdicts"]
    return verdicts


@pytest.mark.parametrize(
    ("name", "mode", "source"),
    [
        ("erdma2", "compat", "unknown"),
        ("erdma-gpu", "ofed", "dkms"),
        ("erdma-default", "default", "dkms"),
        ("erdma-mainline", "default", "mainline"),
    ],
)
def test_mode_and_driver(nodes: Path, name: str, mode: str, source: str) -> None:
    found = facts_of_tree(str(nodes / name))["erdma"]
    assert (found["mode"], found["driver"]["source"], found["devices"]) == (mode, source, ["erdma_0", "erdma_1"])
    assert found["functions"] == ["0000:00:08.0", "0000:00:09.0"]


@pytest.mark.parametrize("name", ["nohca", "rxe", "ib8", "iwarp", "doca8"])
def test_a_node_without_erdma_has_none(nodes: Path, name: str) -> None:
    assert facts_of_tree(str(nodes / name))["erdma"] is None


def test_devices_that_disagree_have_no_mode() -> None:
    kinds = [{"node_type": "CA"}, {"node_type": "RNIC"}]
    assert mode_of_node(None, kinds, {}) is None
    assert mode_of_node(None, kinds[:1], {}) == "compat"
    assert mode_of_node("Y", kinds, {"origin": "mlnx_ofed"}) == "ofed"
    assert mode_of_node("N", [], {"origin": "mlnx_ofed"}) == "default"


def test_the_gid_that_nccl_would_need_differs_between_the_devices(nodes: Path) -> None:
    assert [gid_index(hca) for hca in facts(nodes, "erdma2")["hcas"]] == [2, 1]
    assert [gid_index(hca) for hca in facts(nodes, "erdma-default")["hcas"]] == [None, None]


def test_a_link_local_gid_is_none_that_nccl_needs(nodes: Path) -> None:
    hca = facts(nodes, "erdma2")["hcas"][0]
    assert [entry["index"] for entry in hca["ports"][0]["gids"]] == [0, 2]
    hca["ports"][0]["gids"][1]["type"] = "IB/RoCE v1"
    assert gid_index(hca) is None


def test_one_line_of_facts_and_of_the_plan(nodes: Path) -> None:
    line = "mode compat; driver 0.2.38; erdma_0 ACTIVE, eth1 MTU 1400, GID 2; erdma_1 ACTIVE, eth2 MTU 1400, GID 1"
    host = TreeHost(str(nodes / "erdma2"))
    assert stack_summary(facts_of_tree(str(nodes / "erdma2")))["eRDMA"] == line
    assert observe_summary(host, observe_identity(host))["eRDMA"] == line
    down = stack_summary(facts(nodes, "erdma-default"))["eRDMA"]
    assert "erdma_1 DOWN, eth2 MTU 1500, no RoCE v2 GID; libibverbs has NO provider for it" in down
    assert "eRDMA" not in stack_summary(facts(nodes, "ib8"))


@pytest.mark.parametrize(
    ("name", "found", "status"),
    [
        ("erdma2", "libibverbs 58.0-1.al8", "pass"),
        ("erdma-gpu", "ibverbs-providers 39.0-1ubuntu1+erdma2", "pass"),
        ("erdma-mainline", "ibverbs-providers 44.0-2", "pass"),
        ("erdma-default", "ibverbs-providers 39.0-1", "fail"),
    ],
)
def test_provider_is_judged_by_its_files(nodes: Path, name: str, found: str, status: str) -> None:
    (item,) = judged(facts(nodes, name))["erdma.provider"]
    assert (item.found, item.status) == (found, status)
    assert ("older than 43" in item.message) == (status == "fail")


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ({"package": None, "version": None}, "libibverbs is not installed"),
        ({"version": "2:44.0-2"}, "was built without it"),
        ({"version": "2:39.0-1"}, "is older than 43"),
        ({"library": "/usr/lib64/libibverbs/liberdma-rdmav34.so"}, "is there without /etc/libibverbs.d/erdma.driver"),
        ({"driver_file": True}, "is there without liberdma-rdmav*.so"),
    ],
)
def test_a_provider_that_is_missing_says_what_to_do(nodes: Path, provider: dict[str, Any], said: str) -> None:
    found = facts(nodes, "erdma-default")
    found["erdma"]["provider"].update(provider)
    (item,) = judged(found)["erdma.provider"]
    assert item.status == "fail"
    assert said in item.message


@pytest.mark.parametrize(
    ("wishes", "status", "expected", "words"),
    [
        ({"erdma_instance_type": EBMGN7EX}, "pass", 2, EBMGN7EX),
        ({"erdma_instance_type": "ecs.ebmgn8i.32xlarge"}, "fail", 4, "switched on for every network interface"),
        ({"erdma_instance_type": "ecs.ebmgn8i.32xlarge", "expect": {"hcas": 2}}, "pass", 2, "rdma_expect.hcas"),
        ({"erdma_instance_type": "ecs.gn8v.4xlarge"}, "skipped", None, "is not known here; set rdma_expect.hcas"),
        ({"erdma_instance_type": "ecs.c8i.large"}, "skipped", None, "is not known here; set rdma_expect.hcas"),
        ({}, "skipped", None, "expects nothing (erdma_instance_type, rdma_expect.hcas)"),
        ({"expect": {"hcas": 3}}, "fail", 3, "the PCI bus has 2"),
    ],
)
def test_count_comes_from_inventory_or_type(nodes: Path, wishes: dict[str, Any], status: str, expected: int | None, words: str) -> None:
    (item,) = judged(facts(nodes, "erdma2"), **wishes)["erdma.count"]
    assert (item.status, item.expected, item.found) == (status, expected, 2)
    assert words in item.message


def test_a_device_without_a_driver_is_told_from_an_interface_without_erdma(nodes: Path) -> None:
    found = facts(nodes, "erdma2")
    found["erdma"].update(devices=[], driver={"loaded": False, "version": None, "source": None})
    assert "the PCI bus has 2, and the driver is not loaded" in judged(found, expect={"hcas": 2})["erdma.count"][0].message
    found["erdma"].update(devices=["erdma_0"], driver={"loaded": True, "version": None, "source": "dkms"})
    assert "the driver did not bind them all" in judged(found, expect={"hcas": 2})["erdma.count"][0].message


def test_a_node_without_anything_of_erdma_is_no_pass(nodes: Path) -> None:
    found = judged(facts(nodes, "nohca"), erdma_instance_type=EBMGN7EX)
    assert {item.status for item in found["erdma.provider"]} == {"unknown"}
    assert [(item.status, item.found) for item in found["erdma.count"]] == [("fail", 0)]
    assert "erdma.port" not in found


def test_every_port_is_judged_also_one_that_no_rail_names(nodes: Path) -> None:
    ports = judged(facts(nodes, "erdma-default"), rails=[])["erdma.port"]
    assert [(item.hca, item.status, item.found) for item in ports] == [("erdma_0", "pass", "ACTIVE"), ("erdma_1", "fail", "DOWN")]
    assert "PORT_ACTIVE" in ports[1].message
    assert "bring eth2 up" in ports[1].message
    found = facts(nodes, "erdma2")
    found["hcas"][1]["ports"][0]["state"] = None
    assert [item.status for item in judged(found)["erdma.port"]] == ["pass", "unknown"]


def test_nothing_of_erdma_is_judged_on_another_fabric(nodes: Path) -> None:
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": []}, "n1")
    assert spec is not None
    assert judge_devices(bare_inspection("n1", spec, facts(nodes, "erdma2"))) == []


def test_a_good_node_has_all_verdicts_and_no_rate_from_sysfs(nodes: Path) -> None:
    verdicts = whole(nodes, "erdma2", erdma_instance_type=EBMGN7EX)
    of = {item["check"]: item["status"] for item in verdicts}
    checks = ("erdma.provider", "erdma.count", "erdma.port", "rail.mtu", "rail.gid", "port.state")
    assert {check: of[check] for check in checks} == dict.fromkeys(checks, "pass")
    assert {item["status"] for item in verdicts if item["check"] == "port.rate"} == {"skipped"}
    rate = [item["message"] for item in whole(nodes, "erdma2", expect={"rate_gbps": 80}) if item["check"] == "port.rate"]
    assert all("always reports 100 Gb/sec" in message for message in rate)


def test_a_wrong_mtu_fails_with_what_it_does_to_data(nodes: Path) -> None:
    wrong = [item for item in whole(nodes, "erdma-default") if item["check"] == "rail.mtu"]
    assert [(item["status"], item["expected"], item["found"]) for item in wrong] == [("fail", 1400, 1500)] * 2
    assert all("LL128 can corrupt data" in item["message"] for item in wrong)
    jumbo = [item["status"] for item in whole(nodes, "erdma-gpu", mtu=8500) if item["check"] in ("rail.mtu", "port.active_mtu")]
    assert jumbo == ["pass"] * 4


@pytest.mark.parametrize(("mode", "status", "words"), [("auto", "fail", "compat_mode=Y"), ("default", "skipped", "RDMA-CM connects")])
def test_no_gid_is_right_only_where_mode_default_is_wanted(nodes: Path, mode: str, status: str, words: str) -> None:
    gids = [item for item in whole(nodes, "erdma-default", erdma_mode=mode) if item["check"] == "rail.gid"]
    assert [item["status"] for item in gids] == [status] * 2
    assert all(words in item["message"] for item in gids)


def test_the_plan_on_a_tree_fixes_the_mtu(nodes: Path) -> None:
    changes = {item["subject"] for item in whole(nodes, "erdma-default") if item["check"] == "config.network" and item["status"] == "fail"}
    assert {"MTU of rail0 (eth1)", "MTU of rail1 (eth2)"} <= changes


def test_a_device_in_mode_default_is_connected_by_rdma_cm(nodes: Path) -> None:
    def views(name: str) -> list[dict[str, Any]]:
        rails: list[dict[str, Any]] = check_node(TreeHost(str(nodes / name)), "n1", spec_of())["rails"]
        return rails

    assert [(rail["rdma_cm"], rail["gid_needed"], rail["gid_index"]) for rail in views("erdma-default")] == [(True, False, None)] * 2
    assert [(rail["rdma_cm"], rail["gid_needed"], rail["gid_index"]) for rail in views("erdma2")] == [(False, True, 2), (False, True, 1)]
