# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of eRDMA: `railwright facts` on a captured tree, and the reports of a validation of a sick one."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.plugin_utils.table import verdict_table
from field_specs import build_spec
from railwright.cli.main import run as railwright
from railwright.report.files import write_report
from railwright.runs import Run

SICK = ("erdma.provider", "erdma.port", "erdma.count", "rail.mtu")


@pytest.fixture
def verdicts(nodes: Path) -> list[dict[str, object]]:
    rails = [{"name": f"rail{at}", "match": {"mac": f"00:16:3e:11:22:0{at + 1}"}, "address": f"172.16.{at}.11/16"} for at in range(2)]
    values = {"fabric": "erdma", "mtu": 1400, "rails": rails, "erdma_instance_type": "ecs.ebmgn8i.32xlarge"}
    spec, findings = build_spec(values, "n1")
    assert spec is not None, findings
    found: list[dict[str, object]] = check_node(TreeHost(str(nodes / "erdma-default")), "n1", spec)["verdicts"]
    return found


def test_reports_show_what_is_wrong_and_why(verdicts: list[dict[str, object]], tmp_path: Path) -> None:
    run = Run("20260101T000000Z-validate", "validate", "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0",
              nodes={"n1": {"status": "ok", "message": ""}}, finished="f", verdicts=verdicts)  # fmt: skip
    paths, _plots = write_report(run, tmp_path)
    wrong = {item["check"] for item in json.loads(paths["json"].read_text())["verdicts"] if item["status"] == "fail"}
    assert set(SICK) <= wrong
    cases = [case for case in ET.parse(paths["junit"]).getroot().iter("testcase") if case.find("failure") is not None]
    text = " ".join(ET.tostring(case, encoding="unicode") for case in cases)
    markdown = paths["markdown"].read_text().replace("\\", "")
    for check in SICK:
        assert check in text
        assert check in markdown
    for words in ("LL128 can corrupt data", "PORT_ACTIVE", "is older than 43", "switched on for every network interface"):
        assert words in text
        assert words in markdown


def test_the_table_of_a_node_names_them(verdicts: list[dict[str, object]]) -> None:
    table = verdict_table(verdicts)
    assert all(check in table for check in SICK)


def test_facts_of_a_tree_print_one_line(nodes: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert railwright(["facts", "--sysroot", str(nodes / "erdma2")]) == 0
    (line,) = [line for line in capfd.readouterr().out.splitlines() if "eRDMA:" in line]
    assert "mode compat; driver 0.2.38; erdma_0 ACTIVE, eth1 MTU 1400, GID 2" in line
    assert railwright(["facts", "--sysroot", str(nodes / "ib8")]) == 0
    assert "eRDMA:" not in capfd.readouterr().out
