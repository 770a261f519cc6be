# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of faults: one edit of a healthy node, and what check, validate and drift must say of it; and healthy variants.

To add rows: a file ``rows_TOPIC.py`` beside this one with FAULTS, DIFFERENCES (which need an inventory), CLUSTERS (which need other nodes)
or HEALTHY. Forms and edits: edits.py; base trees: trees.py; their inventories: inventories.py.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.health import BY_CHECK
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.rows import read_table

from . import passes
from .edits import Difference, Fault, Healthy, nothing, put, replace
from .inventories import INVENTORIES, spec_of, spec_with
from .judging import Answers, by_check, by_inventory, drift_has, lines, of_three, said, view
from .trees import TREES

FILES = [importlib.import_module(f"tests.faults.{path.stem}") for path in sorted(Path(__file__).parent.glob("rows_*.py"))]
FAULTS: list[Fault] = [row for file in FILES for row in getattr(file, "FAULTS", ())]
DIFFERENCES: list[Difference] = [row for file in FILES for row in getattr(file, "DIFFERENCES", ())]
CLUSTERS: list[Difference] = [row for file in FILES for row in getattr(file, "CLUSTERS", ())]
HEALTHY: list[Healthy] = [row for file in FILES for row in getattr(file, "HEALTHY", ())]
MEASURED = ("alone", "between", "bench", "training")  # sections of the table of checks that a captured tree cannot answer
WITHOUT_ROWS = {
    "cluster.agreement": "skipped at worst",
    "cluster.cabling": "the cable plan and its answers: tests/unit/cluster/test_cabling.py",
    "cluster.node": "unknown at worst, for a node that gave no facts: tests/unit/checks/test_cluster.py",
    "cluster.outlier": "figures of a measurement: tests/unit/cluster/test_outliers.py",
    "gpudirect.traffic": "a measurement: tests/unit/areas/gpu/gpudirect/test_checks.py",
    "port.growth": "the agent's, from its own history: tests/unit/agent/test_service.py",
}
ENDS = {"fail": 1, "unknown": 4}
OPEN = Path.open
# Verdicts ``unknown`` that a healthy tree may have, each with its reason.
UNKNOWN = {
    ("mi300x8", "accelerator.judged"): "no check knows the model: exit 4 by design",
}


class Nodes:
    """The base trees, written once, with what each verb says of them."""

    def __init__(self, directory: Callable[[str], Path]) -> None:
        self.root = functools.cache(lambda name: passes.base_tree(directory(name), name))
        self.written = functools.cache(lambda name: times(self.root(name)))
        self.check: Callable[[str], dict[str, Any]] = functools.cache(lambda name: by_check(self.root(name)))
        self.view: Callable[[str], str] = functools.cache(lambda name: view(self.root(name), spec_of(name)))
        self.inventory: Callable[[str], Answers] = functools.cache(lambda name: by_inventory(self.root(name), spec_of(name)))


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    return Nodes(tmp_path_factory.mktemp)


def times(root: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


def alone(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
    """Path.open for an edit: a file that a copy shares with its base tree is replaced, not written to."""
    own = path.resolve()
    if "w" in mode and own.is_file() and own.stat().st_nlink > 1:
        own.unlink()
    return OPEN(path, mode, *rest, **more)


@pytest.fixture
def edited(nodes: Nodes, tmp_path: Path) -> Callable[[Any], Path]:
    """A copy of a row's base tree with its edit."""

    def copied(row: Fault | Difference | Healthy) -> Path:
        root = tmp_path / "node"
        nodes.written(row.tree)
        shutil.copytree(nodes.root(row.tree), root, symlinks=True, copy_function=os.link)  # copies of files took most of the time
        with mock.patch.object(Path, "open", alone):
            row.edit(root)
        return root

    return copied


def title(row: Any) -> str:
    return f"{row.tree}: {row.what}" if isinstance(row, tuple) else str(row)


def expect(answers: Answers, before: Answers, code: str, status: str, word: str) -> None:
    """Validate's verdict, and drift's finding where drift has one: not for a warning of health, which is no difference from a wish."""
    shown = lines([item for item in answers.verdicts if not item["check"].startswith("config.") or code.startswith("config.")],
                  "fail", "warn", "unknown")
    assert said(answers.verdicts, code, status, word), shown
    if status == "fail" or (status == "warn" and code not in BY_CHECK):
        assert drift_has(code, answers, before), answers.findings
    elif status == "unknown":
        assert any(text.startswith(f"{code} ") for text in answers.unknown)


@pytest.mark.parametrize("row", FAULTS, ids=title)
def test_a_fault_is_found(row: Fault, nodes: Nodes, edited: Callable[[Any], Path]) -> None:
    root = edited(row)
    found = by_check(root)
    assert said(found["verdicts"], row.code, row.status, row.word), lines(found["verdicts"], "fail", "warn", "unknown")
    assert row.edit is nothing or not said(nodes.check(row.tree)["verdicts"], row.code, row.status, row.word)
    ends = ENDS.get(row.status, 0) if row.ends is None else row.ends
    assert found["summary"]["exit_code"] == ends, lines(found["verdicts"], "fail", "warn", "unknown")
    if row.tree in INVENTORIES and row.validate != ():
        wanted = (row.code, row.status, row.validate or row.word) if isinstance(row.validate, str) else row.validate
        expect(by_inventory(root, spec_of(row.tree)), nodes.inventory(row.tree), *wanted)


@pytest.mark.parametrize("row", DIFFERENCES, ids=title)
def test_a_difference_from_the_inventory_is_found(row: Difference, nodes: Nodes, edited: Callable[[Any], Path]) -> None:
    before = nodes.inventory(row.tree)
    assert not said(before.verdicts, row.code, row.status, row.word)
    expect(by_inventory(edited(row), spec_with(row.tree, row.keys or {})), before, row.code, row.status, row.word)


@pytest.mark.parametrize("row", CLUSTERS, ids=title)
def test_a_node_that_differs_from_others_is_found(row: Difference, nodes: Nodes, edited: Callable[[Any], Path]) -> None:
    base, odd = nodes.view(row.tree), view(edited(row), spec_of(row.tree))
    assert lines(of_three(base, base), "fail", "warn") == []
    assert said(of_three(base, odd), row.code, row.status, row.word), lines(of_three(base, odd), "fail", "warn", "unknown")


@pytest.mark.parametrize("row", HEALTHY, ids=title)
def test_a_healthy_variant_ends_as_its_base(row: Healthy, nodes: Nodes, edited: Callable[[Any], Path]) -> None:
    """With 0, or with 4 where the model of an accelerator is not judged."""
    found = by_check(edited(row))
    assert lines(found["verdicts"], "fail") == []
    assert lines([item for item in found["verdicts"] if item["check"] not in (row.warns or {})], "warn") == []
    assert [item["check"] for item in found["verdicts"] if item["status"] != "pass" and item["check"] in row.quiet] == []
    assert found["summary"]["exit_code"] == nodes.check(row.tree)["summary"]["exit_code"], lines(found["verdicts"], "unknown")


@pytest.mark.parametrize("tree", TREES)
def test_a_base_tree_is_healthy(tree: str, nodes: Nodes) -> None:
    found = nodes.check(tree)
    verdicts = list(found["verdicts"])
    if tree in INVENTORIES:  # what an apply's commands and packages would set is not set
        verdicts += [item for item in nodes.inventory(tree).verdicts if not item["check"].startswith("config.")]
    assert lines(verdicts, "fail", "warn") == []
    assert {(tree, item["check"]) for item in verdicts if item["status"] == "unknown"} == {key for key in UNKNOWN if key[0] == tree}


@pytest.mark.parametrize("verb", ["check", "validate"])
def test_what_passes_on_a_base_tree_does_not_shrink(verb: str, nodes: Nodes) -> None:
    found = passes.by_code({tree: nodes.check(tree)["verdicts"] if verb == "check" else nodes.inventory(tree).verdicts
                            for tree in passes.trees_of(verb)})
    lost = {code: sorted(trees - found.get(code, set())) for code, trees in passes.read()[verb].items()}
    assert {code: trees for code, trees in lost.items() if trees} == {}
    assert passes.read()[verb] == found, "new codes pass: python -m tests.faults.passes"


def test_every_code_that_can_fail_has_two_rows() -> None:
    rows = Counter("config.<area>" if row.code.startswith("config.") else row.code for row in (*FAULTS, *DIFFERENCES, *CLUSTERS))
    codes = {row["check"] for section, table in read_table("checks")["sections"].items() if section not in MEASURED for row in table}
    assert {code for code in codes if rows[code] < 2} == set(WITHOUT_ROWS)


def test_no_edit_reaches_its_base_tree(nodes: Nodes, tmp_path: Path) -> None:
    """Each row of this process before it shared the files of its base; and one that writes in each way does so here."""
    base, written = nodes.root("erdma"), nodes.written("erdma")
    shutil.copytree(base, tmp_path / "node", symlinks=True, copy_function=os.link)
    with mock.patch.object(Path, "open", alone):
        for write in (put("proc/modules", "a\n"), replace("etc/os-release", "NAME", "name")):
            write(tmp_path / "node")
    assert {tree for tree in TREES if times(nodes.root(tree)) != nodes.written(tree)} == set()
    assert times(base) == written


def test_no_two_rows_have_one_title() -> None:
    titles = [title(row) for row in (*FAULTS, *DIFFERENCES, *CLUSTERS, *HEALTHY)]
    assert len(titles) == len(set(titles))
