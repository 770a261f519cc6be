# SPDX-License-Identifier: GPL-3.0-or-later
"""qos.boot: what is agreed passes, each disagreement fails with its own words, and where nothing is expected the reason is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import judge_boots
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca, Identity, Nic, Platform, Verdict
from field_specs import build_spec

MAC = "b8:ce:f6:00:30:01"
UNIT = "railwright-roce-qos@eth1.service"
BOOT: dict[str, Any] = {
    "file": "/etc/railwright/roce-qos/eth1", "enabled": True, "profile": "dscp26-prio3", "differs": [],
    "unit": {"name": UNIT, "state": "active", "result": "success"},
}
EXPECTED = "as now after a reboot (dscp26-prio3)"


def spec_of(**values: Any) -> Spec:
    rails = [{"name": "rail0", "match": {"mac": MAC}, "address": "10.10.0.11/24"}]
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": rails, **values}, "node")
    assert spec is not None, findings
    return spec


def judge(facts: dict[str, Any], driver: str = "mlx5_core", **values: Any) -> list[Verdict]:
    hca = Hca("mlx5_0", None, "0000:31:00.0", driver, ("eth1",), (1,), (), "Ethernet", ("eth1",))
    identity = Identity(
        "node", Platform("debian", "12", "bookworm", (), "Debian", "debian", "apt"), "6.1", "x86_64", "3.11", None,
        (Nic("eth1", MAC, "0000:31:00.0", "mlx5_core", "ethernet", management=False),), (hca,), ("systemd",))
    spec = spec_of(**values)
    return judge_boots(inspection_of("node", spec, identity, facts))


def facts_of(boot: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    nic = {"hca": "mlx5_0", "port": 1, "netdev": "eth1", "driver": "mlx5_core", "pfc": [3], **more}
    return {"virtual": None, "qos": {"lldpad": False, "nics": [nic if boot is None else {**nic, "boot": boot}]}}


def test_inventory_file_unit_and_nic_that_agree_pass() -> None:
    (found,) = judge(facts_of(BOOT))
    assert (found.check, found.status, found.subject, found.hca, found.port) == ("qos.boot", "pass", "rail0 (eth1)", "mlx5_0", 1)
    assert (found.expected, found.found) == (EXPECTED, EXPECTED)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"file": None, "enabled": False, "unit": None, "profile": None}, "no settings file: a reboot forgets everything"),
        ({"enabled": False}, "its unit is not enabled: nothing sets the NIC at boot"),
        ({"profile": "oci-dscp10"}, "the settings file is for profile oci-dscp10, the inventory wants dscp26-prio3"),
        ({"profile": None}, "the settings file is for profile None, the inventory wants dscp26-prio3"),
        (
            {"unit": {"name": UNIT, "state": "failed", "result": "exit-code"}},
            f"its unit failed (exit-code): journalctl -u {UNIT} says which setting",
        ),
        ({"unit": {"name": UNIT, "state": "inactive", "result": "success"}}, "its unit is inactive: it has not done its work"),
        ({"differs": ["ecn", "pfc"]}, "the NIC is now otherwise than the settings file says: ecn, pfc"),
    ],
)
def test_each_disagreement_fails_in_its_own_words(more: dict[str, Any], said: str) -> None:
    (found,) = judge(facts_of({**BOOT, **more}))
    assert (found.status, found.expected, found.found, found.message) == ("fail", EXPECTED, said, said)


def test_several_disagreements_are_all_told() -> None:
    (found,) = judge(facts_of({**BOOT, "enabled": False, "differs": ["pfc"]}))
    assert found.found == "its unit is not enabled: nothing sets the NIC at boot"
    assert found.message == f"{found.found}; the NIC is now otherwise than the settings file says: pfc"


def test_what_cannot_be_read_never_passes() -> None:
    assert [item.status for item in judge(facts_of({**BOOT, "unit": None}))] == ["unknown"]
    assert [item.status for item in judge(facts_of(None))] == ["unknown"]
    assert [item.status for item in judge({"qos": {"nics": []}})] == ["unknown"]
    assert [item.status for item in judge({})] == ["unknown"]


@pytest.mark.parametrize(
    ("change", "values", "reason"),
    [
        (lambda facts: None, {"qos_profile": "none"}, "the inventory expects nothing (rdma_qos_profile)"),
        (lambda facts: None, {"roce_qos_manage": False}, "somebody else sets the NICs (roce_qos_manage is false)"),
        (lambda facts: facts.update(virtual="container"), {}, "in a container"),
        (lambda facts: None, {"fabric": "erdma", "mtu": 8500}, "eRDMA has no DCB"),
    ],
)
def test_where_nothing_is_expected_it_is_skipped(change: Callable[[dict[str, Any]], None], values: dict[str, Any], reason: str) -> None:
    facts = facts_of(BOOT)
    change(facts)
    (found,) = judge(facts, **values)
    assert (found.status, found.expected) == ("skipped", None)
    assert reason in found.message


def test_soft_roce_is_judged_where_the_interface_below_has_dcb() -> None:
    """RDMA-CM's default is set on the software device, the rest on the interface."""
    assert [item.status for item in judge(facts_of(BOOT, driver="rdma_rxe"), driver="rdma_rxe")] == ["pass"]
    (found,) = judge(facts_of(BOOT, driver="rdma_rxe", pfc=None), driver="rdma_rxe")
    assert (found.status, found.message) == ("skipped", "Soft-RoCE has no DCB: the kernel sends its packets like any others")


def test_every_member_of_a_bond_is_judged() -> None:
    facts = facts_of(BOOT)
    facts["qos"]["nics"].append({**facts["qos"]["nics"][0], "netdev": "eth2", "boot": {**BOOT, "enabled": False}})
    assert [(item.status, item.subject) for item in judge(facts)] == [("pass", "rail0 (eth1)"), ("fail", "rail0 (eth1), member eth2")]
