# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings for code hosting: every finding is there with its file and line, and no text of an inventory ends a line or a property."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from railwright.cli.main import run

SITE = """all:
  children:
    rdma:
      hosts: {node1: {}, node2: {}}
      vars:
        rdma_fabric: roce
        rdma_rails: [{name: rail0, match: {pci: '0000:1a:00.0'}}]
        rdma_stak: doca
        rdma_mtu: "50%\\n::error file=x::y"
"""
GITHUB = re.compile(r"::(error|warning) file=([^:,]+),line=([0-9]+)::(.+)")


@pytest.fixture
def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """As --format json has them; beside it a comma and a colon in the file's name."""
    monkeypatch.chdir(tmp_path)
    Path("a,b").mkdir()
    Path("a,b/site.yml").write_text(SITE, encoding="utf-8")
    assert run(["lint", "-i", "a,b/site.yml", "--format", "json"]) == 64
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def test_sarif_has_every_finding_with_its_place(findings: list[dict[str, object]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "-i", "a,b/site.yml", "--format", "sarif"]) == 64
    document = json.loads(capsys.readouterr().out)
    [own] = document["runs"]
    assert (document["version"], own["tool"]["driver"]["name"]) == ("2.1.0", "railwright")
    places = [result["locations"][0]["physicalLocation"] for result in own["results"]]
    assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [
        (item["file"], item["line"] or 1) for item in findings]  # fmt: skip
    assert {result["ruleId"] for result in own["results"]} == {rule["id"] for rule in own["tool"]["driver"]["rules"]}
    assert [result["level"] for result in own["results"]] == [item["severity"] for item in findings]
    assert {"rdma_mtu", "rdma_rails", "rdma_stak"} == {result["ruleId"] for result in own["results"]}


def test_githubs_lines_are_one_each_whatever_the_inventory_says(
    findings: list[dict[str, object]], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run(["lint", "-i", "a,b/site.yml", "--format", "github"]) == 64
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(findings)
    for line, item in zip(lines, findings, strict=True):
        match = GITHUB.fullmatch(line)
        assert match is not None, line
        assert (match[1], match[2], int(match[3])) == (item["severity"], "a%2Cb/site.yml", item["line"] or 1)
    assert "50%25" in lines[-1]
