# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance type says: rules of the inventory, thresholds of perftest, the floor of nccl-tests, and its page."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Limit, Measurement, judge_figure
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.floors import Erdma, Site, floor_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import limit_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec import erdma_instances
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.erdma_instances import ERDMA_INSTANCES, busbw_floor, device_floor
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.machine import machine_of
from field_specs import build_spec
from repo import ROOT

EBMGN7EX, UNKNOWN = "ecs.ebmgn7ex.32xlarge", "ecs.ebmgn7v.32xlarge"
KEY = "validate_min_bandwidth_gbps"
TEST = Measurement("write_bw", "rail0 (eth1)", "erdma_0", 1, 2, 18515, "172.16.0.11")
PAGE = ROOT / "docs/erdma-instances.md"


def built(**more: Any) -> tuple[Spec | None, list[Finding]]:
    return build_spec({"fabric": "erdma", "mtu": 1400, "rails": [], **more}, "n1")


def spec_of(**more: Any) -> Spec:
    spec, findings = built(**more)
    assert spec is not None, findings
    return spec


def rails(count: int) -> list[dict[str, Any]]:
    return [{"name": f"rail{at}", "match": {"mac": f"00:16:3e:11:22:0{at}"}, "address": f"172.16.{at}.11/24"} for at in range(count)]


@pytest.mark.parametrize(
    ("wishes", "key", "severity", "words"),
    [
        ({"mtu": 9000}, "rdma_mtu", "error", "8500"),
        ({"mtu": 1500, "erdma_instance_type": EBMGN7EX}, "rdma_mtu", "error", "8500"),
        ({"mtu": 8500}, "rdma_mtu", "warning", "or erdma_instance_type"),
        ({"mtu": 8500, "erdma_instance_type": EBMGN7EX}, "rdma_mtu", "warning", "JumboFrameSupport"),
        ({"rails": rails(3), "erdma_instance_type": EBMGN7EX}, "rdma_rails", "error", "at most 2 rails"),
        ({"expect": {"hcas": 1}, "erdma_instance_type": EBMGN7EX}, "rdma_expect.hcas", "warning", "2"),
        ({KEY: 81, "erdma_instance_type": EBMGN7EX}, KEY, "error", "at most 80"),
        ({KEY: 101, "erdma_instance_type": "ecs.gn8v-8x.48xlarge"}, KEY, "error", "at most 100"),
        ({"erdma_instance_type": "ecs.ebmgn7ex.64xlarge"}, "erdma_instance_type", "warning", EBMGN7EX),
        ({"erdma_instance_type": "ebmgn7ex"}, "erdma_instance_type", "error", "like ecs.ebmgn7ex.32xlarge"),
        ({"erdma_route_metric": -1}, "erdma_route_metric", "error", "0 to 4294967295"),
    ],
)
def test_rules(wishes: dict[str, Any], key: str, severity: str, words: str) -> None:
    spec, findings = built(**wishes)
    (found,) = [item for item in findings if item.key == key]
    assert (found.severity, spec is None) == (severity, severity == "error")
    assert words in found.allowed


@pytest.mark.parametrize(
    "wishes",
    [
        {"erdma_instance_type": EBMGN7EX, "rails": rails(2), "expect": {"hcas": 2}, KEY: 70},
        {"mtu": 8500, "erdma_instance_type": "ecs.gn8v.4xlarge"},
        {"erdma_route_metric": 0},
    ],
)
def test_what_is_right_is_not_remarked_on(wishes: dict[str, Any]) -> None:
    named = ("rdma_mtu", "rdma_rails", "rdma_expect.hcas", KEY, "erdma_instance_type", "erdma_route_metric")
    spec, findings = built(**wishes)
    assert spec is not None
    assert [item for item in findings if item.key in named] == []


def test_a_type_without_jumbo_frames_refuses_8500_on_any_rail(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(row._replace(jumbo=False) for row in ERDMA_INSTANCES)
    monkeypatch.setattr(erdma_instances, "ERDMA_INSTANCES", rows)
    one = [{**rails(1)[0], "mtu": 8500}]
    spec, findings = built(rails=one, erdma_instance_type=EBMGN7EX)
    assert spec is None
    said = [(item.key, item.severity, item.allowed) for item in findings if item.key.endswith("mtu")]
    assert said == [("rdma_rails[0].mtu", "error", "1400")]


@pytest.mark.parametrize(("key", "value"), [("erdma_instance_type", EBMGN7EX), ("erdma_route_metric", 300)])
def test_keys_of_erdma_are_errors_on_another_fabric(key: str, value: Any) -> None:
    spec, findings = built(fabric="roce", mtu=9000, **{key: value})
    assert spec is None
    assert [item.key for item in findings if item.severity == "error"] == [key]


def limit(**keys: Any) -> Limit:
    return limit_of(spec_of(**keys), TEST, 1024, None)


def test_bandwidth_comes_from_inventory_then_type_then_nobody() -> None:
    assert limit(**{KEY: 50}, erdma_instance_type=EBMGN7EX) == Limit(50, KEY)
    of_type = limit(erdma_instance_type=EBMGN7EX)
    assert (of_type.value, of_type.unknown) == (68.0, False)
    assert "0.85 of the 80 Gb/s of one device" in of_type.source
    assert limit(erdma_instance_type=UNKNOWN).value is None
    assert limit() == Limit(None, f"no threshold in the inventory ({KEY}), and erdma_instance_type is not set")
    assert limit_of(spec_of(expect={"rate_gbps": 80}), TEST, 1024, 80.0).value is None, "sysfs and the inventory say no rate of eRDMA"
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": []}, "n1")
    assert spec is not None
    assert limit_of(spec, TEST, 4096, None) == Limit(None, f"no threshold in the inventory ({KEY})")


@pytest.mark.parametrize(("found", "status"), [(75.0, "pass"), (68.0, "pass"), (60.0, "fail")])
def test_a_figure_is_judged_by_the_type_and_says_so(found: float, status: str) -> None:
    item = judge_figure("n1", "n2", TEST, limit(erdma_instance_type=EBMGN7EX), found, "")
    assert (item.status, item.expected) == (status, 68.0)
    assert item.message.endswith(f"(0.85 of the 80 Gb/s of one device of {EBMGN7EX})")


def test_without_a_figure_for_the_type_the_measurement_comes_with_a_reason() -> None:
    item = judge_figure("n1", "n2", TEST, limit(erdma_instance_type=UNKNOWN), 75.0, "")
    assert (item.status, item.found) == ("skipped", 75.0)
    assert f"no bandwidth of one eRDMA device of {UNKNOWN} is known" in item.message


def test_a_share_of_a_device_is_never_more_than_the_instance_has() -> None:
    for row in ERDMA_INSTANCES:
        assert row.gbps is not None or row.device_gbps is None
        if row.devices is not None and row.device_gbps is not None:
            assert row.devices * row.device_gbps == row.gbps, row.name
        floor, why = device_floor(row.name)
        assert (floor is None) == (row.device_gbps is None), why


@pytest.mark.parametrize(
    ("nodes", "gpus", "profile", "largest", "floor"),
    [
        (2, 8, "erdma-aiacc", 512 << 20, 16.749),
        (2, 8, "erdma-aiacc", 16 << 30, 16.749),
        (2, 8, "erdma-aiacc", 256 << 20, None),
        (4, 8, "erdma-aiacc", 512 << 20, None),
        (2, 4, "erdma-aiacc", 512 << 20, None),
        (2, 8, "erdma-native", 512 << 20, None),
    ],
)
def test_the_measured_busbw_holds_for_what_was_measured(nodes: int, gpus: int, profile: str, largest: int, floor: float | None) -> None:
    found, why = busbw_floor(EBMGN7EX, nodes, gpus, profile, largest)
    assert found == floor
    assert "18.61 GB/s on 2 nodes of 8 GPUs" in why


def test_floor_of_nccl_tests_on_erdma() -> None:
    ports = [{"name": f"erdma_{at}", "driver": "erdma", "ports": [{"rate_gbps": 100.0}]} for at in range(2)]
    gpus = [{"pci": f"gpu{at}", "name": "NVIDIA A100-SXM4-80GB"} for at in range(8)]
    rails = {"erdma_0": "rail0", "erdma_1": "rail1"}
    machine = machine_of({"gpus": gpus, "hcas": ports}, rails=rails)
    site = Site((machine, machine), rate_known=False, largest=512 << 20, algorithm="Ring", erdma=Erdma(EBMGN7EX, "erdma-aiacc"))
    assert floor_of("all_reduce", {}, site).gbs == 16.749
    assert floor_of("all_reduce", {"all_reduce": 18}, site)[:2] == (18.0, "nccl_tests_min_busbw")
    known = machine_of({"gpus": gpus, "hcas": ports}, rails=rails, gbps=80.0)
    found = floor_of("all_reduce", {}, site._replace(machines=(known, known), rate_known=True, largest=1 << 30))
    assert found[:2] == (16.0, "0.8 of 20 GB/s, limited by 2 NICs of 80 Gb/s")
    assert floor_of("all_gather", {}, site).gbs is None
    unknown = floor_of("all_reduce", {}, site._replace(erdma=Erdma(None, "erdma-native")))
    assert (unknown.gbs, "erdma_instance_type is not set" in unknown.source) == (None, True)


def test_the_page_has_every_type_with_what_is_known() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `ecs.")]
    cells = {row[0].strip("| `"): [cell.strip() for cell in row[1:5]] for row in rows}
    words = {None: "not known", True: "yes", False: "no"}

    def said(value: float | None) -> str:
        return words[value] if value is None or isinstance(value, bool) else f"{value:g}"

    assert cells == {row.name: [said(row.devices), said(row.jumbo), said(row.gbps), said(row.device_gbps)] for row in ERDMA_INSTANCES}
