# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on captured nodes: InfiniBand, RoCE with a bond, eRDMA, Soft-RoCE, sick ports, no HCA, unreadable files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node, rail_views
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from field_specs import build_spec


def spec_of(values: dict[str, Any]) -> Spec:
    spec, findings = build_spec(values, "node")
    assert spec is not None, errors_of(findings)
    return spec


def judge(tree: Path, values: dict[str, Any]) -> list[Verdict]:
    host = TreeHost(str(tree))
    identity = observe_identity(host)
    return [item for _area, item in judge_node(inspection_of("node", spec_of(values), identity, observe_facts(host, identity)))]


def views(tree: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    host = TreeHost(str(tree))
    identity = observe_identity(host)
    return rail_views(inspection_of("node", spec_of(values), identity, observe_facts(host, identity)))


def sick(verdicts: list[Verdict]) -> set[tuple[str, str | None, str]]:
    """What is fail or unknown, without what a capture does not hold (addresses, systemd, DCB, firewall; registers, which need root)."""
    ignored = ("rail.address", "node.memlock", "qos.chain", "qos.boot", "firewall.tcp", "firewall.roce")
    found = {(item.check, item.hca, item.status) for item in verdicts if item.status in ("fail", "unknown") and item.check not in ignored}
    return {row for row in found if not (row[0].startswith("pci.") and row[2] == "unknown")}


IB_GUIDS = (0, 1, 2, 3, 4, 5, 9, 10)
IB8 = {
    "fabric": "infiniband",
    "mtu": 4092,
    "expect": {"rate_gbps": 400, "hcas": 8, "active_mtu": 4096, "fw_ver": "28.41.1000", "hca_type": "MT4129"},
    "rails": [{"name": f"rail{i}", "match": {"guid": f"b8ce:f603:00ab:{i:04x}"}, "address": f"10.1.{i}.11/24"} for i in IB_GUIDS],
}
BOND = {"name": "storage", "match": {"mac": "b8:ce:f6:00:20:00"}, "address": "10.20.0.11/24", "mtu": 1500}
ROCE8 = {
    "fabric": "roce",
    "rdma_stack": "inbox",
    "mtu": 9000,
    "expect": {"rate_gbps": 100, "hcas": 8},
    "rails": [*({"name": f"rail{i}", "match": {"pci": f"0000:{30 + i}:00.0"}, "address": f"10.10.{i}.11/24"} for i in range(7)), BOND],
}
ERDMA2 = {
    "fabric": "erdma",
    "mtu": 1400,
    "expect": {"hcas": 2},
    "rails": [{"name": f"rail{i}", "match": {"mac": f"00:16:3e:11:22:0{i + 1}"}, "address": f"172.16.{i}.11/24"} for i in range(2)],
}
RXE = {
    "fabric": "roce",
    "rdma_stack": "soft_roce",
    "mtu": 9000,
    "expect": {"hcas": 1},
    "rails": [{"name": "rail0", "match": {"mac": "52:54:00:bb:00:01"}, "address": "10.10.0.11/24"}],
}


def test_infiniband_with_eight_hcas_is_well(nodes: Path) -> None:
    verdicts = judge(nodes / "ib8", IB8)
    assert sick(verdicts) == set()
    assert Counter(item.status for item in verdicts if item.check == "port.rate") == {"pass": 8}
    assert next(item.status for item in verdicts if item.check == "node.memlock") == "pass"


def test_a_hca_too_few_and_a_slower_link_than_expected_fail_on_infiniband(nodes: Path) -> None:
    verdicts = judge(nodes / "ib8", {**IB8, "expect": {"rate_gbps": 800, "hcas": 9}})
    assert sick(verdicts) == {("node.hcas", None, "fail")} | {("port.rate", f"mlx5_{i}", "fail") for i in IB_GUIDS}


def test_roce_rails_and_one_on_a_bond_are_well(nodes: Path) -> None:
    verdicts = judge(nodes / "roce8-bond", ROCE8)
    assert sick(verdicts) == set()
    assert Counter(item.status for item in verdicts if item.check == "rail.address") == {"pass": 8}
    bond = {item.check: item for item in verdicts if item.hca == "mlx5_bond_0"}
    assert bond["rail.gid"].subject == "storage (bond0)"
    assert (bond["rail.mtu"].found, bond["port.active_mtu"].found) == (1500, 1024)


def test_erdma_takes_no_rate_for_granted_and_finds_each_gid_where_it_is(nodes: Path) -> None:
    verdicts = judge(nodes / "erdma2", ERDMA2)
    assert sick(verdicts) == set()
    assert {item.status for item in verdicts if item.check == "port.rate"} == {"skipped"}
    assert [rail["gid_index"] for rail in views(nodes / "erdma2", ERDMA2)] == [2, 1]
    assert ("port.rate", "erdma_0", "unknown") in sick(judge(nodes / "erdma2", {**ERDMA2, "expect": {"rate_gbps": 100}}))


def test_soft_roce_is_well(nodes: Path) -> None:
    verdicts = judge(nodes / "rxe", RXE)
    assert sick(verdicts) == set()
    assert next(item.found for item in verdicts if item.check == "port.active_mtu") == 4096
    view = views(nodes / "rxe", RXE)[0]
    assert (view["netdev"], view["hca"], view["port"], view["gid_index"], view["address"]) == ("eth1", "rxe0", 1, 1, "10.10.0.11")


def test_no_hca_at_all(nodes: Path) -> None:
    verdicts = judge(
        nodes / "nohca", {**RXE, "rails": [{"name": "rail0", "match": {"mac": "3c:ec:ef:00:00:01"}, "address": "10.10.0.11/24"}]}
    )
    assert sick(verdicts) == {("rail.device", "rxe0", "fail"), ("node.hcas", None, "fail")}


def test_a_port_that_is_down(nodes: Path) -> None:
    values = {
        "fabric": "roce",
        "rdma_stack": "inbox",
        "mtu": 9000,
        "expect": {"rate_gbps": 200},
        "rails": [{"name": f"rail{i}", "match": {"pci": f"0000:6{i + 1}:00.0"}, "address": f"10.10.{i}.21/24"} for i in range(2)],
    }
    checks = ("port.state", "port.phys_state", "port.rate", "port.active_mtu", "rail.gid")
    assert sick(judge(nodes / "port-down", values)) == {(check, "rocep98s0", "fail") for check in checks}


def test_a_polling_port_and_one_without_subnet_manager(nodes: Path) -> None:
    values = {
        "fabric": "infiniband",
        "mtu": 2044,
        "rails": [{"name": f"rail{i}", "match": {"guid": f"0c42:a103:0000:400{i}"}, "address": f"10.1.{i}.11/24"} for i in range(2)],
    }
    verdicts = judge(nodes / "port-polling", values)
    states = {item.hca: item for item in verdicts if item.check == "port.state"}
    assert (states["ibp1s0"].found, "subnet manager" in states["ibp1s0"].message) == ("DOWN", False)
    assert (states["ibp2s0"].found, "no subnet manager" in states["ibp2s0"].message) == ("INIT", True)
    assert {(item.hca, item.status, item.found) for item in verdicts if item.check == "port.phys_state"} == {
        ("ibp1s0", "fail", "Polling"),
        ("ibp2s0", "pass", "LinkUp"),
    }


@pytest.mark.parametrize("fabric", ["roce", "infiniband"])
def test_unreadable_files_never_pass(nodes: Path, fabric: str) -> None:
    values = {
        "fabric": fabric,
        "mtu": 2044,
        "expect": {"rate_gbps": 400, "active_mtu": 4096, "fw_ver": "1", "hca_type": "x"},
        "rails": [{"name": "rail0", "match": {"pci": "0000:11:00.0"}, "address": "10.10.0.41/24"}],
    }
    found = judge(nodes / "broken", values)
    assert not [item for item in found if item.check.startswith("pci.") and item.status == "pass"]
    others = ("rail.device", "rail.gid", "node.hcas", "qos.chain", "qos.boot", "firewall.roce")
    verdicts = [item for item in found if item.check not in others and not item.check.startswith("pci.")]
    assert {item.status for item in verdicts} <= {"unknown", "fail"}
    assert {item.check for item in verdicts if item.status == "unknown"} >= {"port.state", "port.phys_state", "port.rate", "hca.fw_ver"}
