# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a test stands and what it is called: found by who looks for it, read at a glance."""

import ast

import repo

LONGEST_NAME = 70
# Where a folder of tests/unit has its model; the first three are rooms of docs/architecture.md.
MODELS = ("plugins/module_utils", "plugins/plugin_utils", "src/railwright", "plugins", "tests", ".")


def test_names_are_short() -> None:
    """A name says what is tested; the story is the docstring's."""
    files = [name for name in repo.python("tests/", "molecule/") if name.rpartition("/")[2].startswith("test_")]
    functions = [(name, node.name) for name in files for node in ast.walk(repo.tree(name)) if isinstance(node, ast.FunctionDef)]
    assert sum(name.startswith("test_") for _file, name in functions) > 3000
    assert [place for place in functions if len(place[1]) > LONGEST_NAME] == []


def test_unit_tests_stand_where_their_code_does() -> None:
    folders = {name.split("/")[2] for name in repo.python("tests/unit/") if name.count("/") > 2}
    assert folders
    places = {name: [repo.ROOT / model / name for model in MODELS] for name in folders}
    assert [name for name, known in places.items()
            if not any(place.is_dir() or place.with_suffix(".py").is_file() for place in known)] == []
