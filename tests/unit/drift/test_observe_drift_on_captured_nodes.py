# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings of captured nodes: the whole plan, what the facts show beside it, nothing twice, and what a job really gets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.files import FileState, plan_file
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.units import enabled_unit, running_unit
from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import KINDS, observe_drift, said_by_plan
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import SHOW
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS, severity_of_change
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.match import RailTarget
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Rail, Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import SEVERITIES, Change, Nic, Verdict, run
from field_specs import build_spec

ROCE8 = {
    "fabric": "roce",
    "rdma_stack": "inbox",
    "mtu": 9000,
    "expect": {"rate_gbps": 800, "hcas": 8},
    "rails": [{"name": f"rail{i}", "match": {"pci": f"0000:{30 + i}:00.0"}, "address": f"10.10.{i}.11/24"} for i in range(7)],
}


LABEL = "rail0 (eth1)"
MTU = Change("network", f"MTU of {LABEL}", 1, 2, "link", "", "", (run(("true",)),), rail="rail0")


def file_of(area: str) -> Change:
    return plan_file(area, FileState("/etc/x", None, None), "x\n", "", "")[0]


def spec_of(values: dict[str, Any]) -> Spec:
    spec, _findings = build_spec(values, "node")
    assert spec is not None
    return spec


@pytest.fixture
def tree(nodes: Path, tmp_path: Path) -> Path:
    target = tmp_path / "node"
    shutil.copytree(nodes / "roce8-bond", target, symlinks=True)
    return target


def drift(tree: Path) -> dict[str, Any]:
    return observe_drift(TreeHost(str(tree)), "node", spec_of(ROCE8))


def test_every_change_of_the_plan_is_a_finding(tree: Path) -> None:
    plan = make_plan(TreeHost(str(tree)), spec_of(ROCE8))
    settings = {item["key"]: item for item in drift(tree)["findings"] if item["kind"] == "setting"}
    assert len(plan.changes) > 10
    assert list(settings) == [change.key for change in plan.changes]
    for change in plan.changes:
        item = settings[change.key]
        assert (item["expected"], item["found"], item["disruption"]) == (change.after, change.before, change.disruption)


def test_what_no_setting_fixes_is_a_state(tree: Path) -> None:
    found = {item["key"]: item for item in drift(tree)["findings"] if item["kind"] == "state"}
    rates = [item for key, item in found.items() if key.startswith("port.rate: ")]
    assert rates
    assert {(item["area"], item["severity"], item["expected"], item["disruption"]) for item in rates} == {("hca", "critical", 800, "")}


def test_the_same_is_not_said_twice(tree: Path) -> None:
    findings = drift(tree)["findings"]
    assert len({item["key"] for item in findings}) == len(findings)
    assert not [item for item in findings if item["key"].startswith(("rail.mtu: ", "qos.chain: "))], "the plan says both"


def test_somebody_elses_line_wins_and_is_named(tree: Path) -> None:
    """systemd's environment as recorded; the file that sets it is real."""
    (tree / "cmd" / recording_name(SHOW)).write_text("NCCL_IB_TIMEOUT=14\nNCCL_IB_DISABLE=1\n")
    (tree / "etc/systemd").mkdir(parents=True, exist_ok=True)
    (tree / "etc/systemd/system.conf").write_text("[Manager]\nDefaultEnvironment=NCCL_IB_TIMEOUT=14\n")
    found = {item["what"]: item for item in drift(tree)["findings"] if item["kind"] == "effective"}
    assert {what: (item["expected"], item["found"], item["by"]) for what, item in found.items()} == {
        "NCCL_IB_DISABLE for systemd services": (None, "1", ""),
        "NCCL_IB_TIMEOUT for systemd services": ("22", "14", "set in /etc/systemd/system.conf:2"),
    }
    assert found["NCCL_IB_TIMEOUT for systemd services"]["since"] == pytest.approx((tree / "etc/systemd/system.conf").stat().st_mtime)


def test_a_login_shell_that_gives_no_answer_is_neither_drift_nor_clean(tree: Path) -> None:
    found = drift(tree)
    assert [line for line in found["unknown"] if "NCCL" in line] == ["NCCL's variables for login shells: the node has neither bash nor sh"]
    assert found["unasked"] == ["login shells"]
    assert not [item for item in found["findings"] if item["kind"] == "effective"]


def test_every_area_and_kind_has_its_word(tree: Path) -> None:
    assert {area.severity for area in AREAS} == set(SEVERITIES)
    for item in drift(tree)["findings"]:
        assert item["kind"] in KINDS
        assert item["severity"] in SEVERITIES


@pytest.mark.parametrize(
    ("area", "check", "hca", "subject", "change", "expected"),
    [
        ("network", "rail.mtu", "mlx5_0", LABEL, MTU, True),
        ("network", "rail.mtu", "mlx5_1", "rail1 (eth2)", MTU, False),
        ("network", "rail.mtu", "mlx5_0", LABEL, MTU._replace(rail=None), False),
        ("limits", "node.memlock", None, "systemd DefaultLimitMEMLOCK", MTU, False),
        ("limits", "node.memlock", None, "systemd DefaultLimitMEMLOCK", MTU._replace(area="limits", rail=None), True),
        ("hca", "port.rate", "mlx5_0", LABEL, MTU, False),
        ("network", "rail.other", "mlx5_0", LABEL, MTU, False),
        ("rxe", "rail.device", "rxe1", "rail1", MTU._replace(area="rxe"), False),
    ],
)
def test_a_verdict_that_a_change_of_its_area_settles(
    area: str, check: str, hca: str | None, subject: str, change: Change, expected: bool
) -> None:
    verdict = Verdict(check, "node", hca, 1 if hca else None, subject, "fail", 1, 2, "")
    rail = Rail("rail0", 0, "mac", "02:00:00:00:00:01", None, None, 9000)
    nic = Nic("eth1", "02:00:00:00:00:01", None, None, "ethernet", False)
    assert said_by_plan(area, verdict, [change], [RailTarget(rail, nic, None, None)]) is expected


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        (MTU, "critical"),
        (file_of("network"), "major"),
        (enabled_unit("opensm", "opensm.service", "", ""), "major"),
        (running_unit("opensm", "opensm.service", "", ""), "critical"),
        (file_of("sysctl"), "major"),
        (file_of("repositories"), "minor"),
    ],
)
def test_what_only_the_next_boot_meets_is_not_critical(change: Change, severity: str) -> None:
    assert severity_of_change(change) == severity
