# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes: one file, one idea. A file over its budget is split, its budget is not raised."""

import ast

import repo

PYTHON_FILE, TEST_FILE, FUNCTION, TASK_FILE, TASKS_MAIN = 400, 800, 50, 80, 40


def lines(name: str) -> int:
    return repo.text(name).count("\n")


def test_python_files() -> None:
    over = {name: lines(name) for name in repo.python() if lines(name) > (TEST_FILE if name.startswith("tests/") else PYTHON_FILE)}
    assert not over


def long_functions(name: str) -> dict[str, int]:
    """Functions of a file over the budget, from `def` to the last line."""
    found = {}
    for node in ast.walk(repo.tree(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[f"{name}:{node.lineno} {node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
    return {place: length for place, length in found.items() if length > FUNCTION}


def test_functions() -> None:
    over = [long_functions(name) for name in repo.python("plugins/", "src/", "tools/")]
    assert not [item for item in over if item]


def test_task_files() -> None:
    over = {
        name: lines(name) for name in repo.task_files() if lines(name) > (TASKS_MAIN if name.endswith("/tasks/main.yml") else TASK_FILE)
    }
    assert not over
