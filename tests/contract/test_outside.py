# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from outside becomes JSON and numbers in one place, where it is bounded: formats/outside.py."""

import ast

import repo

READER = "plugins/module_utils/formats/outside.py"
# What does not go through it, and why.
EXCEPTIONS = {
    "plugins/module_utils/apply/journal.py: json.loads": "root's own restore point; it is part of the small copy that takes a change back",
    "plugins/module_utils/entry/boot.py: json.loads": "code and questions of the controller's own, before there is any of our code",
    "plugins/module_utils/apply/journal.py: isdigit": "the number behind a restore point's name is kept as text",
}


def past_the_reader(name: str) -> set[str]:
    """The ways in which a file reads JSON or tells numbers that are not the reader's."""
    found = set()
    for node in ast.walk(repo.tree(name)):
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isnumeric"):
            found.add(f"{name}: {node.attr}")
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.load", "json.loads", "json.JSONDecoder"):
            found.add(f"{name}: {ast.unparse(node)}")
        if isinstance(node, ast.ImportFrom) and node.module == "json":
            found.add(f"{name}: from json import")
    return found


def test_one_reader() -> None:
    found = set().union(*(past_the_reader(name) for name in repo.python("plugins/module_utils/") if name != READER))
    assert found == set(EXCEPTIONS), "str.isdigit takes ², and json.loads takes a document of a million levels: formats/outside.py does not"


def test_the_reader_would_be_caught() -> None:
    assert f"{READER}: json.loads" in past_the_reader(READER)
