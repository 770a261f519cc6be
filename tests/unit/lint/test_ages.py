# SPDX-License-Identifier: GPL-3.0-or-later
"""lint warns once of railwright's own tables that are older than a year."""

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.ages import comparisons
from railwright import lint_ages
from railwright.cli.main import run
from railwright.inventory import load_inventory
from railwright.lint_ages import aged_tables

Make = Callable[[Mapping[str, object]], Path]


def test_tables_of_the_last_year_are_no_finding(make: Make) -> None:
    oldest = comparisons()[0].compared
    assert aged_tables(load_inventory(make({})), oldest + dt.timedelta(days=365)) == []


def test_older_tables_are_one_warning(make: Make) -> None:
    rows = comparisons()
    later = rows[-1].compared + dt.timedelta(days=366)
    [finding] = aged_tables(load_inventory(make({})), later)
    assert finding.severity == "warning"
    assert f"{Path(rows[0].table).name} on {rows[0].compared}" in finding.message
    assert f"and {len(rows) - 3} more" in finding.message
    assert "railwright --version --verbose" in finding.allowed


def test_the_verb_prints_it_once(make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make({})
    monkeypatch.setattr(lint_ages, "old_tables", lambda today: comparisons())
    assert run(["lint", "-i", str(directory)]) == 0
    assert capsys.readouterr().out.count("were last compared with their sources more than a year ago") == 1
