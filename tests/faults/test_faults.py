# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of faults: one edit of a healthy node, and what `railwright check` must say of it; and variants that are healthy by design.

To add rows: a file ``rows_TOPIC.py`` beside this one with FAULTS and HEALTHY (forms and edits: edits.py; base trees: trees.py).
"""

from __future__ import annotations

import functools
import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railwright.cli.check import of_tree, report

from .edits import Fault, Healthy
from .trees import TREES

FILES = [importlib.import_module(f"tests.faults.{path.stem}") for path in sorted(Path(__file__).parent.glob("rows_*.py"))]
FAULTS: list[Fault] = [row for file in FILES for row in file.FAULTS]
HEALTHY: list[Healthy] = [row for file in FILES for row in file.HEALTHY]
ENDS = {"fail": 1, "unknown": 4}

Judge = Callable[[Fault | Healthy], dict[str, Any]]


def title(row: Fault | Healthy) -> str:
    return f"{row.tree}: {row.what}"


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A base tree by its name, written once."""
    return functools.cache(lambda name: TREES[name](tmp_path_factory.mktemp(name)))


@pytest.fixture
def judge(base: Callable[[str], Path], tmp_path: Path) -> Judge:
    """The document that `railwright check --sysroot` makes of a row's tree."""

    def judged(row: Fault | Healthy) -> dict[str, Any]:
        root = tmp_path / "node"
        shutil.copytree(base(row.tree), root, symlinks=True)
        row.edit(root)
        return report(*of_tree(root))

    return judged


def lines(found: dict[str, Any], *statuses: str) -> list[str]:
    return [f"{item['status']} {item['check']} {item['subject']}: {item['message']}" for item in found["verdicts"]
            if item["status"] in statuses]


@pytest.mark.parametrize("row", FAULTS, ids=title)
def test_a_fault_is_found(row: Fault, judge: Judge) -> None:
    found = judge(row)
    said = [item for item in found["verdicts"] if (item["check"], item["status"]) == (row.code, row.status)]
    assert any(row.word in f"{item['subject']}: {item['message']}" for item in said), lines(found, "fail", "warn", "unknown")
    ends = ENDS.get(row.status, 0) if row.ends is None else row.ends
    assert found["summary"]["exit_code"] == ends, lines(found, "fail", "warn", "unknown")


@pytest.mark.parametrize("row", HEALTHY, ids=title)
def test_a_healthy_variant_ends_0(row: Healthy, judge: Judge) -> None:
    found = judge(row)
    assert lines(found, "fail") == []
    assert [item["check"] for item in found["verdicts"] if item["status"] != "pass" and item["check"] in row.quiet] == []
    assert found["summary"]["exit_code"] == 0, lines(found, "unknown")


def test_no_two_rows_have_one_title() -> None:
    titles = [title(row) for row in (*FAULTS, *HEALTHY)]
    assert len(titles) == len(set(titles))
