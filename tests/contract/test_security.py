# SPDX-License-Identifier: GPL-3.0-or-later
"""The security page names a test for each promise, and for each thing that a job user or an author of files chooses; all of them exist."""

import ast
import re
from pathlib import Path

import pytest

import repo

PAGE = (repo.ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SIDES = ("What a job user chooses", "What an author of files chooses")
HEAD = ["they choose", "read by", "at worst", "what prevents more", "test"]
NAMED = re.compile(r"`([a-z0-9_/]*(?:\.py)?)::(test_[a-z0-9_]+)`")  # without a file: of the one before it


def table(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.split("\n") if line.startswith("|")]


def named_in(cell: str) -> list[tuple[str, str]]:
    """Each test of a cell with its file."""
    found: list[tuple[str, str]] = []
    for file, test in NAMED.findall(cell):
        found.append((file or found[-1][0], test))
    return found


def functions_of(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("heading", SIDES)
def test_each_choice_has_its_tests(heading: str) -> None:
    head, _dashes, *rows = table(heading)
    assert head == HEAD
    assert len(rows) > 10
    for row in rows:
        assert len(row) == len(HEAD) and all(row), row
        named = named_in(row[-1])
        assert NAMED.sub("", row[-1]).strip(", ") == "", row
        assert named, row
        for file, test in named:
            assert test in functions_of(repo.ROOT / "tests" / file), f"{file}::{test}"


@pytest.mark.parametrize("side", ["job_user", "file_authors"])
def test_each_test_of_a_side_has_its_row(side: str) -> None:
    file = f"hostile/test_{side}.py"
    there = {name for name in functions_of(repo.ROOT / "tests" / file) if name.startswith("test_")}
    assert there == {test for heading in SIDES for row in table(heading) for name, test in named_in(row[-1]) if name == file}


def test_each_promise_has_a_test_that_exists() -> None:
    _head, _dashes, *rows = table("Which test shows it")
    paths = {path for row in rows for path in re.findall(r"`((?:tests|molecule)/[A-Za-z0-9_./]+)`", row[1])}
    assert len(paths) > 20
    assert {path for path in paths if not (repo.ROOT / path).exists()} == set()
