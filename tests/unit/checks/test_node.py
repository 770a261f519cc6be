# SPDX-License-Identifier: GPL-3.0-or-later
"""One node: every sickness gives its own verdict, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_plan
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import plan_tests
from ansible_collections.railwright.rdma.plugins.module_utils.spec.match import match_rails
from ansible_collections.railwright.rdma.plugins.module_utils.types import NO_DEVICE, Change, Nic, Problem, Verdict

RAIL_CHECKS = {
    "rail.device",
    "port.state",
    "port.phys_state",
    "port.link_layer",
    "port.rate",
    "port.active_mtu",
    "rail.mtu",
    "rail.address",
    "rail.gid",
    "hca.fw_ver",
    "hca.hca_type",
    "qos.chain",
    "qos.boot",
    "nccl.gid",
}


def other_than_pass(verdicts: list[Verdict]) -> list[tuple[str, str]]:
    """Without what is said of every hardware HCA: that the host's firewall does not see RoCE."""
    return [(item.check, item.status) for item in verdicts if item.status != "pass" and item.check != "firewall.roce"]


def only(verdicts: list[Verdict], check: str) -> Verdict:
    found = [item for item in verdicts if item.check == check and item.status != "pass"]
    assert len(found) == 1, found
    return found[0]


def test_a_healthy_node_passes_every_check_on_every_rail(node: Any) -> None:
    verdicts = node.verdicts()
    assert other_than_pass(verdicts) == []
    for label in ("rail0 (eth1)", "rail1 (eth2)"):
        assert {item.check for item in verdicts if item.subject == label} == RAIL_CHECKS
    assert {(item.hca, item.port) for item in verdicts if item.check == "port.state"} == {("mlx5_0", 1), ("mlx5_1", 1)}


def port(key: str, value: Any) -> Callable[[Any], None]:
    return lambda node: node.port(0).update({key: value})


def hca(key: str, value: Any) -> Callable[[Any], None]:
    return lambda node: node.facts["hcas"][0].update({key: value})


def netdev(key: str, value: Any) -> Callable[[Any], None]:
    return lambda node: node.facts["netdevs"][0].update({key: value})


def qos(key: str, value: Any) -> Callable[[Any], None]:
    return lambda node: node.facts["qos"]["nics"][0].update({key: value})


SICK = [
    (port("state", "DOWN"), "port.state", "fail", "ACTIVE", "DOWN"),
    (port("state", None), "port.state", "unknown", "ACTIVE", None),
    (port("phys_state", "Polling"), "port.phys_state", "fail", "LinkUp", "Polling"),
    (port("link_layer", "InfiniBand"), "port.link_layer", "fail", "Ethernet", "InfiniBand"),
    (port("rate_gbps", 200.0), "port.rate", "fail", 400, 200.0),
    (port("rate_gbps", None), "port.rate", "unknown", 400, None),
    (port("active_mtu", 1024), "port.active_mtu", "fail", 4096, 1024),
    (port("active_mtu", None), "port.active_mtu", "unknown", 4096, None),
    (hca("fw_ver", "28.39.1002"), "hca.fw_ver", "fail", "28.41.1000", "28.39.1002"),
    (hca("fw_ver", None), "hca.fw_ver", "unknown", "28.41.1000", None),
    (hca("hca_type", "MT4123"), "hca.hca_type", "fail", "MT4129", "MT4123"),
    (netdev("mtu", 1500), "rail.mtu", "fail", 9000, 1500),
    (netdev("mtu", None), "rail.mtu", "unknown", 9000, None),
    (netdev("addresses", ["10.10.0.9/24"]), "rail.address", "fail", "10.10.0.1/24", "10.10.0.9/24"),
    (netdev("addresses", ["10.10.0.1/16"]), "rail.address", "fail", "10.10.0.1/24", "10.10.0.1/16"),
    (netdev("addresses", None), "rail.address", "unknown", "10.10.0.1/24", None),
    (port("gids", []), "rail.gid", "fail", "RoCE v2 GID with 10.10.0.1", None),
    (port("gids", None), "rail.gid", "unknown", "RoCE v2", None),
    (qos("pfc", [4]), "qos.chain", "fail", "PFC: PFC on 3", "PFC: PFC on 4"),
    (qos("trust", "pcp"), "qos.chain", "fail", "trust: trust dscp", "trust: trust pcp"),
    (
        lambda node: node.facts["qos"]["nics"][0]["boot"].update(enabled=False),
        "qos.boot",
        "fail",
        "as now after a reboot (dscp26-prio3)",
        "its unit is not enabled: nothing sets the NIC at boot",
    ),
]


@pytest.mark.parametrize(("sicken", "check", "status", "expected", "found"), SICK)
def test_one_sickness_is_one_verdict(node: Any, sicken: Callable[[Any], None], check: str, status: str, expected: Any, found: Any) -> None:
    sicken(node)
    verdicts = node.verdicts()
    assert other_than_pass(verdicts) == [(check, status)]
    verdict = only(verdicts, check)
    assert (verdict.node, verdict.hca, verdict.port, verdict.subject) == ("node1", "mlx5_0", 1, "rail0 (eth1)")
    assert (verdict.expected, verdict.found) == (expected, found)


def test_a_faster_link_than_asked_for_passes(node: Any) -> None:
    node.values["expect"]["rate_gbps"] = 200
    assert other_than_pass(node.verdicts()) == []


def test_the_address_as_a_roce_v1_gid_only_is_named_as_such(node: Any) -> None:
    node.port()["gids"] = [entry for entry in node.port()["gids"] if entry["type"] != "RoCE v2"]
    verdict = only(node.verdicts(), "rail.gid")
    assert verdict.status == "fail" and verdict.found == "IB/RoCE v1"


def test_a_gid_whose_type_cannot_be_read_is_unknown(node: Any) -> None:
    for entry in node.port()["gids"]:
        entry["type"] = None
    assert only(node.verdicts(), "rail.gid").status == "unknown"


def test_without_expectations_only_the_floors_are_judged(node: Any) -> None:
    node.values["expect"] = {}
    node.port(0)["rate_gbps"] = 10.0
    node.facts["hcas"][0]["fw_ver"] = "sick"
    verdicts = node.verdicts()
    assert {check for check, status in other_than_pass(verdicts) if status == "skipped"} == {
        "node.hcas",
        "port.rate",
        "hca.hca_type",
    }
    assert {check for check, status in other_than_pass(verdicts) if status != "skipped"} == {"port.rate", "hca.fw_ver"}
    assert {status for _check, status in other_than_pass(verdicts)} == {"skipped", "warn"}, "two peers differ: which of them is odd?"
    rates = [item for item in verdicts if item.check == "port.rate"]
    assert rates[0].found == 10.0 and "expect.rate_gbps" in rates[0].message
    node.port(0)["state"] = "DOWN"
    assert only(node.verdicts(), "port.state").status == "fail"


@pytest.mark.parametrize(
    ("mtu", "found", "status"), [(9000, 2048, "fail"), (9000, 4096, "pass"), (1500, 1024, "pass"), (1500, 512, "fail")]
)
def test_the_floor_of_active_mtu_follows_from_the_inventory_mtu(node: Any, mtu: int, found: int, status: str) -> None:
    node.values.update(expect={}, mtu=mtu)
    node.port(0)["active_mtu"] = found
    node.facts["netdevs"][0]["mtu"] = node.facts["netdevs"][1]["mtu"] = 1500  # what the netdev has now must not lower the floor
    assert next(item.status for item in node.verdicts() if item.check == "port.active_mtu") == status


def test_a_rail_that_matches_nothing_is_a_failure_of_its_own(node: Any) -> None:
    node.values["rails"][1]["match"] = {"mac": "52:54:00:ff:ff:ff"}
    verdict = only(node.verdicts(), "rail.device")
    assert (verdict.status, verdict.subject, verdict.expected, verdict.found) == ("fail", "rail1", "mac 52:54:00:ff:ff:ff", None)


def test_an_interface_without_rdma_device_fails(node: Any) -> None:
    node.identity = node.identity._replace(hcas=())
    node.facts["hcas"] = []
    statuses = [item.status for item in node.verdicts() if item.check == "rail.device"]
    assert statuses == ["fail", "fail"]
    assert only(node.verdicts(), "node.hcas").found == 0


def test_infiniband_port_without_subnet_manager(node: Any) -> None:
    node.values.update(fabric="infiniband", mtu=2044, expect={})
    for index in range(2):
        node.port(index).update(
            link_layer="InfiniBand", state="INIT", sm_lid=0, gids=[{"index": 0, "gid": "fe80::1", "type": "IB/RoCE v1"}]
        )
        node.facts["netdevs"][index]["mtu"] = 2044
        node.values["rails"][index]["match"] = {"guid": node.facts["hcas"][index]["node_guid"]}
    verdicts = node.verdicts()
    states = [item for item in verdicts if item.check == "port.state"]
    assert all(item.status == "fail" and "no subnet manager" in item.message for item in states) and len(states) == 2
    node.port(0).update(sm_lid=1)
    message = next(item.message for item in node.verdicts() if item.check == "port.state")
    assert "subnet manager" not in message
    # The subnet manager decides the path MTU: nothing is derived from the netdev.
    assert {item.status for item in verdicts if item.check == "port.active_mtu"} == {"skipped"}


@pytest.mark.parametrize("driver", ["erdma", "rdma_rxe"])
def test_a_made_up_rate_is_never_judged(node: Any, driver: str) -> None:
    node.facts["hcas"][0]["driver"] = driver
    assert [item.status for item in node.verdicts() if item.check == "port.rate"] == ["unknown", "pass"]
    del node.values["expect"]["rate_gbps"]
    assert [item.status for item in node.verdicts() if item.check == "port.rate"] == ["skipped", "skipped"]


def test_infiniband_without_ip_is_measured_over_the_management_network(node: Any) -> None:
    """The rails have no address; perftest's set-up needs one all the same."""
    node.values.update(fabric="infiniband", mtu=4092)
    node.values["rails"] = [{"name": "rail0", "match": {"guid": node.facts["hcas"][0]["node_guid"]}}]
    node.values["expect"] = {}
    upper = Nic("mgmt", "52:54:00:00:00:ff", None, None, "virtual", management=True, uplink=0)
    node.identity = node.identity._replace(nics=(*node.identity.nics, upper))
    node.facts["netdevs"].append({"name": "mgmt", "addresses": ["fd00::1/64", "192.0.2.7/24"]})
    (view,) = node.view()["rails"]
    assert (view["address"], view["exchange"]) == (None, "192.0.2.7")
    serving, asking, left = plan_tests([view], [view], 18515)
    assert ({test.address for test in serving + asking}, left) == ({"192.0.2.7"}, [])
    _serving, _asking, left = plan_tests([view], [{**view, "exchange": None}], 18515)
    assert "no address" in left[0][1]


def test_software_has_no_firmware_to_judge(node: Any) -> None:
    node.facts["hcas"][0].update(driver="rdma_rxe", fw_ver=None)
    first, second = [item for item in node.verdicts() if item.check == "hca.fw_ver"]
    assert (first.status, second.status) == ("skipped", "pass")
    assert "no firmware" in first.message


def test_an_hca_that_is_gone_is_named_by_what_the_inventory_says_of_it(node: Any) -> None:
    node.identity = node.identity._replace(hcas=())
    gone = [item for item in node.verdicts() if item.check == "rail.device"]
    assert [(item.hca, item.port, item.status, item.found) for item in gone] == [(None, None, "fail", None)] * 2
    assert gone[1].expected == "an RDMA device on eth2 (mac 52:54:00:00:01:01)"
    node.values.update(rdma_stack="soft_roce")
    gone = [item for item in node.verdicts() if item.check == "rail.device"]
    assert [(item.hca, item.port, item.expected) for item in gone] == [("rxe0", 1, "rxe0 on eth1"), ("rxe1", 1, "rxe1 on eth2")]
    node.identity = node.identity._replace(nics=())
    gone = [item for item in node.verdicts() if item.check == "rail.device"]
    assert [(item.hca, item.expected) for item in gone] == [("rxe0", "mac 52:54:00:00:00:01"), ("rxe1", "mac 52:54:00:00:01:01")]


@pytest.mark.parametrize(("effective", "status"), [("infinity", "pass"), (8388608, "fail"), (None, "unknown")])
def test_locked_memory_is_what_systemd_has_in_effect(node: Any, effective: Any, status: str) -> None:
    node.facts["limits"]["systemd_effective"]["memlock"] = effective
    assert [item.status for item in node.verdicts() if item.check == "node.memlock"] == [status]


@pytest.mark.parametrize("facts", [{}, {"hcas": None, "netdevs": None, "limits": None}, {"hcas": [{"name": "mlx5_0", "ports": None}]}])
def test_facts_that_could_not_be_read_never_pass_and_never_crash(node: Any, facts: dict[str, Any]) -> None:
    node.facts = facts
    verdicts = node.verdicts()
    assert "pass" not in {item.status for item in verdicts}
    assert len(verdicts) == 10


def change(area: str, what: str, before: Any, after: Any, rail: str | None = None) -> Change:
    return Change(area, what, before, after, "link", "why it matters", "source", (), rail=rail)


def test_every_change_of_the_plan_is_a_failed_verdict_with_its_device(node: Any) -> None:
    mtu = change("network", "MTU of rail0 (eth1)", 1500, 9000, "rail0")
    changes = [mtu, change("nccl", "file /etc/nccl.conf", None, "NCCL_IB_HCA=mlx5_0\n")]
    verdicts = judge_plan("node1", ["packages", "network", "nccl"], changes, [], match_rails(node.spec, node.identity)[0])
    by_check = {item.check: item for item in verdicts}
    assert [(item.check, item.status) for item in verdicts] == [
        ("config.network", "fail"),
        ("config.nccl", "fail"),
        ("config.packages", "pass"),
    ]
    network = by_check["config.network"]
    assert (network.hca, network.port, network.subject, network.expected, network.found) == ("mlx5_0", 1, "MTU of rail0 (eth1)", 9000, 1500)
    assert (by_check["config.nccl"].hca, by_check["config.nccl"].found) == (None, None)


def test_problems_fail_too_but_a_missing_device_only_once(node: Any) -> None:
    node.values["rails"][1]["match"] = {"mac": "52:54:00:ff:ff:ff"}
    problems = [
        *match_rails(node.spec, node.identity)[1],
        Problem("preflight", "clock", "is 90 s ahead of the controller's"),
    ]
    assert [(item.subject, item.code) for item in problems] == [("rail1", NO_DEVICE), ("clock", "")]
    verdicts = judge_plan("node1", ["network"], [], problems, match_rails(node.spec, node.identity)[0])
    assert [(item.check, item.subject, item.status) for item in verdicts] == [("config.preflight", "clock", "fail")]
    assert [item.check for item in node.verdicts() if item.status == "fail"] == ["rail.device"]


def test_rails_name_the_roce_v2_gid_and_not_the_v1_gid_of_the_same_address(node: Any) -> None:
    rails = node.view()["rails"]
    assert [(rail["name"], rail["hca"], rail["port"], rail["gid_index"], rail["address"]) for rail in rails] == [
        ("rail0", "mlx5_0", 1, 3, "10.10.0.1"),
        ("rail1", "mlx5_1", 1, 3, "10.10.1.1"),
    ]
    node.port(1)["gids"] = node.port(1)["gids"][:2]
    assert [rail["gid_index"] for rail in node.view()["rails"]] == [3, None]
