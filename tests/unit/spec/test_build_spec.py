# SPDX-License-Identifier: GPL-3.0-or-later
"""build_spec: defaults, conversions, warnings and rules over several keys. Bad inventories: tests/unit/lint."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec, errors_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS, Key
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec

Judge = Callable[..., tuple[Spec | None, list[Finding]]]
IB_RAIL = {"name": "rail0", "match": {"pci": "1a:00.0"}}


def spec_of(judged: tuple[Spec | None, list[Finding]]) -> Spec:
    """The Spec of a host without findings."""
    spec, findings = judged
    assert findings == []
    assert spec is not None
    return spec


def keys_of(findings: list[Finding], severity: str) -> list[str]:
    return [finding.key for finding in findings if finding.severity == severity]


def test_every_key_has_its_default(judge: Judge) -> None:
    spec = spec_of(judge())
    by_fabric = {"nccl_profile": "roce", "qos_profile": "dscp26-prio3", "network_opensm": False, "ddp_benchmark_python": "python3",
                 "aiacc_install": False}
    for key in KEYS:
        if key.field not in ("fabric", "mtu", "rails"):
            assert spec[key.field] == by_fabric.get(key.field, key.default), key.name


def test_a_spec_survives_the_way_to_a_node(judge: Judge) -> None:
    spec = spec_of(judge(rdma_expect={"rate_gbps": 400}, nccl_overrides={"NCCL_DEBUG": "WARN"}))
    assert Spec(spec.as_dict()).as_dict() == spec.as_dict()
    assert Spec(spec.as_dict()).rails == spec.rails
    assert spec.rail("rail0").mtu == 9000


def test_defaults_are_not_shared_between_hosts(judge: Judge) -> None:
    spec_of(judge())["consent"].append("reboot")
    assert spec_of(judge())["consent"] == []


@pytest.mark.parametrize(
    ("fabric", "mtu", "nccl", "qos"),
    [
        ("roce", 9000, "roce", "dscp26-prio3"),
        ("infiniband", 4092, "infiniband", "none"),
        ("erdma", 1400, "erdma-native", "none"),
    ],
)
def test_profiles_follow_the_fabric(judge: Judge, fabric: str, mtu: int, nccl: str, qos: str) -> None:
    rails = [{**IB_RAIL, "address": "198.51.100.11/25"}]
    spec = spec_of(judge(rdma_fabric=fabric, rdma_mtu=mtu, rdma_rails=rails))
    assert (spec["nccl_profile"], spec["qos_profile"]) == (nccl, qos)


def test_text_from_templates_and_ini_files_is_converted(judge: Judge) -> None:
    spec = spec_of(
        judge(
            rdma_mtu="9000",
            rdma_accept_eol="yes",
            network_manage_addresses="False",
            validate_min_bandwidth_gbps="92.5",
            host_tuning_memlock=8388608,
        )
    )
    assert (spec.mtu, spec["accept_eol"], spec["network_manage_addresses"]) == (9000, True, False)
    assert (spec["validate_min_bandwidth_gbps"], spec["host_tuning_memlock"]) == (92.5, "8388608")


@pytest.mark.parametrize("key", [key for key in KEYS if not key.required], ids=lambda key: key.name)
def test_an_empty_key_means_its_default(judge: Judge, key: Key) -> None:
    spec, findings = judge(**{key.name: None})
    assert errors_of(findings) == []
    assert spec is not None
    if key.field != "rails":
        assert spec[key.field] == spec_of(judge())[key.field]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
@pytest.mark.parametrize("value", [object(), float("nan"), {"a": {1: 2}}, [[]], "\n", 3.5, True, -7, {1}])
def test_no_value_makes_it_crash(judge: Judge, key: Any, value: Any) -> None:
    """And what is not the key's type is said with the key's name."""
    spec, findings = judge(**{key.name: value})
    wrong = key.type in ("int", "number", "list", "dict") and not isinstance(
        value, {"int": int, "number": (int, float), "list": list, "dict": dict}[key.type]
    )
    if wrong:
        assert spec is None
        assert any(finding.key.startswith(key.name) and finding.allowed for finding in errors_of(findings))


def test_opensm_follows_the_group(judge: Judge) -> None:
    common: dict[str, Any] = {"rdma_fabric": "infiniband", "rdma_mtu": 4092, "rdma_rails": [IB_RAIL]}
    assert spec_of(judge(**common, group_names=["opensm", "rdma"]))["network_opensm"] is True
    assert spec_of(judge(**common, group_names=["rdma"]))["network_opensm"] is False
    assert spec_of(judge(**common, group_names=["opensm"], network_opensm=False))["network_opensm"] is False
    assert keys_of(judge(group_names=["opensm"])[1], "error") == ["network_opensm"]


@pytest.mark.parametrize(
    ("fabric", "mtu", "mode", "severity"),
    [
        ("roce", 9000, "datagram", None),
        ("roce", 4200, "datagram", None),
        ("roce", 4199, "datagram", "warning"),
        ("roce", 9217, "datagram", "warning"),
        ("roce", 1279, "datagram", "error"),
        ("erdma", 1400, "datagram", None),
        ("erdma", 9000, "datagram", "error"),
        ("erdma", 1500, "datagram", "error"),
        ("erdma", 8501, "connected", "error"),
        ("infiniband", 4092, "datagram", None),
        ("infiniband", 4093, "datagram", "error"),
        ("infiniband", 65520, "connected", None),
        ("infiniband", 65521, "connected", "error"),
        ("infiniband", 2044, "datagram", None),
    ],
)
def test_mtu_by_fabric(judge: Judge, fabric: str, mtu: int, mode: str, severity: str | None) -> None:
    rails = [{**IB_RAIL, "address": "198.51.100.11/25"}]
    _spec, findings = judge(rdma_fabric=fabric, rdma_mtu=mtu, network_ipoib_mode=mode, rdma_rails=rails)
    assert [(finding.key, finding.severity) for finding in findings] == ([("rdma_mtu", severity)] if severity else [])


def test_the_mtu_of_one_rail_is_judged_by_itself(judge: Judge) -> None:
    rails = [{**IB_RAIL, "address": "198.51.100.11/25", "mtu": 9000}]
    spec, findings = judge(rdma_fabric="erdma", rdma_mtu=8500, rdma_rails=rails)
    assert spec is None
    assert keys_of(findings, "error") == ["rdma_rails[0].mtu"]


def test_a_roce_rail_without_address(judge: Judge) -> None:
    rails = [{"name": "rail0", "match": {"pci": "1a:00.0"}}]
    assert keys_of(judge(rdma_rails=rails)[1], "warning") == ["rdma_rails[0]"]
    assert judge(rdma_rails=rails, network_manage_addresses=False)[1] == []


def test_one_mistake_gives_one_error(judge: Judge) -> None:
    """A wrong fabric must not bring down every rule that reads it."""
    assert keys_of(judge(rdma_fabric="ethernet")[1], "error") == ["rdma_fabric"]
    assert keys_of(judge(rdma_fabric=...)[1], "error") == ["rdma_fabric"]
    assert keys_of(judge(rdma_rails=[{"name": "rail0", "match": {"mac": "x"}, "address": "y"}])[1], "error") == [
        "rdma_rails[0].match.mac",
        "rdma_rails[0].address",
    ]
    assert judge(rdma_rails=[{"name": "rail0", "match": {"mac": "x"}, "address": "y"}])[1][-1].severity == "error"


def test_host_is_named_in_every_finding(judge: Judge) -> None:
    _spec, findings = judge(rdma_fabric="x", rdma_mtu="y", rdma_consent=3, rdma_rails=[3], nccl_overrides={"X": 1})
    assert len(findings) >= 5
    assert {finding.host for finding in findings} == {"n1"}


def test_a_host_takes_less_than_five_milliseconds() -> None:
    rails = [{"name": f"rail{index}", "match": {"pci": f"{index:02x}:00.0"}, "address": f"10.{index}.0.2/16"} for index in range(16)]
    values = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": rails, "nccl_overrides": {"NCCL_DEBUG": "WARN"},
              "rdma_expect": {"hcas": 16}}
    best = 1.0
    for _attempt in range(20):
        started = time.process_time()
        build_spec(values, "n1")
        best = min(best, time.process_time() - started)
    assert best < 0.005
