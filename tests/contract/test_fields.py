# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for people decides nothing: code tells changes, problems, verdicts and findings apart by their fields."""

import ast
import re
from collections.abc import Iterator

import repo

TEXTS = {"what", "message", "why"}
TAKES_APART = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit", "find", "index", "count",
}
MATCHES = {"match", "fullmatch", "search", "findall", "finditer"}
# What has the name of such a text and is none, and whose it is.
EXCEPTIONS = {
    "plugins/module_utils/areas/firewall/openings.py": "`what` of a packet filter's condition is saddr, dport and the like",
    "plugins/module_utils/rules/packet_filter.py": "the same",
    "plugins/module_utils/measure/ddp/failure.py": "PyTorch's own message: nothing else tells which rank failed first",
    "plugins/plugin_utils/spec/opened.py": "what is shown of a message with a hidden value; nothing is decided",
}
YAML = re.compile(rf"attr\(\s*['\"](?:{'|'.join(sorted(TEXTS))})['\"]")


def is_text(node: ast.expr) -> bool:
    """``change.what``, ``change["what"]``, ``change.get("what")``, and each of them through ``str()`` or ``or``."""
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in TEXTS
    if isinstance(node, ast.BoolOp):
        return any(is_text(value) for value in node.values)
    if not isinstance(node, ast.Call) or not node.args:
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return isinstance(node.args[0], ast.Constant) and node.args[0].value in TEXTS
    return isinstance(node.func, ast.Name) and node.func.id == "str" and is_text(node.args[0])


def decides(node: ast.expr) -> bool:
    """Whether a text is compared, taken apart, matched or sliced here. That there is one may be asked (``is None``)."""
    if isinstance(node, ast.Compare):
        return any(map(is_text, (node.left, *node.comparators))) and not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        called = node.func
        return (called.attr in TAKES_APART and is_text(called.value)) or (called.attr in MATCHES and any(map(is_text, node.args)))
    return isinstance(node, ast.Subscript) and is_text(node.value)


def decisions(source: str) -> Iterator[tuple[int, str]]:
    yield from ((node.lineno, ast.unparse(node)) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr) and decides(node))


def test_no_code_compares_a_text() -> None:
    found = {name: list(decisions(repo.text(name))) for name in repo.python("plugins/", "src/")}
    assert {name for name, places in found.items() if places} == set(EXCEPTIONS), [
        f"{name}:{line}: {text}" for name, places in found.items() if name not in EXCEPTIONS for line, text in places]


def test_no_task_compares_a_text() -> None:
    assert not [name for name in repo.matching("roles/", "playbooks/", suffix=".yml") if YAML.search(repo.text(name))]
    assert YAML.search("plan | selectattr('what', 'match', 'firmware ')")


def test_a_comparison_of_a_text_is_seen() -> None:
    planted = """
change.what.startswith("unit ")
label in change.what
problem.message == "no device"
re.match("file (.*)", change["what"])
change.why[5:]
str(row.get("what") or "").partition(" ")
"""
    assert [line for line, _text in sorted(decisions(planted))] == [2, 3, 4, 5, 6, 7]
    harmless = "print(change.what)\nchange.why is None\nlines.append(problem.message + '.')\nchange.subject == Subject(FILE, path)\n"
    assert not list(decisions(harmless))
