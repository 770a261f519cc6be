# SPDX-License-Identifier: GPL-3.0-or-later
"""Target code is Python 3.6. A static proof, as vermin's in the lint stage is: no 3.6 interpreter is at hand."""

import ast
from collections.abc import Iterator

import pytest

import repo

TARGET = repo.python(*repo.TARGET_CODE)
# name -> the version that brought it
TOO_NEW = {
    "dataclasses": "3.7",
    "contextvars": "3.7",
    "importlib.resources": "3.7",
    "importlib.metadata": "3.8",
    "graphlib": "3.9",
    "zoneinfo": "3.9",
    "tomllib": "3.11",
    "typing.Protocol": "3.8",
    "typing.TypedDict": "3.8",
    "typing.Literal": "3.8",
    "typing.Final": "3.8",
    "typing.Self": "3.11",
    "functools.cache": "3.9",
    "functools.cached_property": "3.8",
    "math.prod": "3.8",
    "__future__.annotations": "3.7",
}
TOO_NEW_METHODS = {"removeprefix": "3.9", "removesuffix": "3.9", "fromisoformat": "3.7", "is_relative_to": "3.9", "isascii": "3.7"}
TOO_NEW_KEYWORDS = {"capture_output": "3.7", "text": "3.7", "missing_ok": "3.8", "dirs_exist_ok": "3.8"}
BUILTIN_GENERICS = {"list", "dict", "tuple", "set", "frozenset", "type"}


def test_syntax_of_python_36() -> None:
    assert TARGET
    for name in TARGET:
        ast.parse(repo.text(name), filename=name, feature_version=(3, 6))


def too_new(name: str) -> list[str]:
    """Every place of a file that a Python 3.6 would stumble over at run time."""
    wrong = [f"{name}:{line}: {module} is from {TOO_NEW[module]}" for line, module in repo.imports(name) if module in TOO_NEW]
    for node in ast.walk(repo.tree(name)):
        if isinstance(node, ast.Attribute) and node.attr in TOO_NEW_METHODS:
            wrong.append(f"{name}:{node.lineno}: .{node.attr} is from {TOO_NEW_METHODS[node.attr]}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("run", "Popen", "check_output", "unlink")
        ):
            wrong += [
                f"{name}:{node.lineno}: {key.arg}= is from {TOO_NEW_KEYWORDS[key.arg]}"
                for key in node.keywords
                if key.arg in TOO_NEW_KEYWORDS
            ]
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in BUILTIN_GENERICS:
            wrong.append(f"{name}:{node.lineno}: {node.value.id}[...] is from 3.9")
    return wrong


def test_nothing_that_came_after_36() -> None:
    assert not [place for name in TARGET for place in too_new(name)]


def evaluated(tree: ast.AST) -> Iterator[ast.AST]:
    """The annotations that Python 3.6 computes when it imports the file: all but those of local variables."""
    local = {id(inner) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for inner in ast.walk(outer) if inner is not outer}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = (*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
            yield from (item for item in (node.returns, *(each.annotation for each in arguments if each)) if item is not None)
        elif isinstance(node, ast.AnnAssign) and id(node) not in local:
            yield node.annotation


def subscripted(source: str) -> list[str]:
    """What annotations put in brackets after, and ``typing`` did not give: ``subprocess.Popen[bytes]`` is of Python 3.9."""
    tree = ast.parse(source)
    given = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "typing" for alias in node.names}
    found = [inner for annotation in evaluated(tree) for inner in ast.walk(annotation) if isinstance(inner, ast.Subscript)]
    return [ast.unparse(item) for item in found if not isinstance(item.value, ast.Name) or item.value.id not in given]


def test_annotations_that_python_36_can_compute() -> None:
    assert subscripted("def f(a: re.Match[str]) -> List[int]:\n    b: set[int] = set()\n") == ["List[int]", "re.Match[str]"]
    assert {name: subscripted(repo.text(name)) for name in TARGET if subscripted(repo.text(name))} == {}


def test_the_parser_would_object() -> None:
    """feature_version is best effort in Python's own words; these two it must know."""
    for source in ("if (n := 1):\n    pass\n", "def f(a, /):\n    pass\n"):
        with pytest.raises(SyntaxError):
            ast.parse(source, feature_version=(3, 6))
