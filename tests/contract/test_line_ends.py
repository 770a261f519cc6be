# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of foreign text end at a line feed alone: what else Python takes for the end of a line, a name of a file or a process may hold.

``lines_in`` (formats/outside.py) or ``split("\\n")`` in place of ``str.splitlines``; bytes, decoded, in place of a file or a command in
text mode, which makes a line feed of every carriage return. ``tests/hostile/test_line_ends.py`` tries the parsers.
"""

import ast
from collections.abc import Iterator

import pytest

import repo

PRODUCT = repo.python("plugins/", "src/railwright/", "roles/")
# Files that may be read in text mode: what the end of a line means there, or who wrote the text.
TEXT_MODE = {
    "plugins/plugin_utils/cluster_addresses.py": "JSON of our own",
    "plugins/plugin_utils/controller_files.py": "a checksum of our own",
    "plugins/plugin_utils/node_code.py": "our source",
    "plugins/plugin_utils/scanned.py": "JSON of our own",
    "plugins/plugin_utils/tables/rows.py": "our tables",
    "plugins/action/rdma_bench.py": "our scripts",
    "plugins/action/rdma_upgrade.py": "the machine's id, one word",
    "src/railwright/ansible_env.py": "ansible.cfg, as Ansible reads it",
    "src/railwright/cli/bench.py": "compared with the head that we write",
    "src/railwright/cli/main.py": "the null device",
    "src/railwright/drift.py": "JSON of our own",
    "src/railwright/init/__init__.py": "our template",
    "src/railwright/inventory_yaml.py": "YAML and Ansible's INI end a line at CR",
    "src/railwright/isolate/journal.py": "JSON of our own, a line each: it escapes CR",
    "src/railwright/lab/image.py": "files and logs of an image that we build",
    "src/railwright/lab/machine.py": "words of the kernel and of our own files",
    "src/railwright/lab/reach.py": "an inventory of the lab, compared by its hash",
    "src/railwright/lab/seed.py": "keys of the lab",
    "src/railwright/lab/state.py": "JSON of our own",
    "src/railwright/lab/tools.py": "programs that make the lab's machines",
    "src/railwright/mirror/fill.py": "SHA256SUMS: each line matches whole, and its writer may write LF",
    "src/railwright/saved_plan.py": "JSON",
    "roles/ddp_benchmark/files/ddp_benchmark.py": "the driver's version file, searched by a pattern without lines",
}


def named(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def splits(tree: ast.AST) -> list[int]:
    """Lines with ``splitlines``, called or handed on."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "splitlines"]


def in_text_mode(tree: ast.AST) -> Iterator[int]:
    """Lines that read a file or a command as text."""
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        words = {word.arg: word.value for word in node.keywords}
        command = named(node) in ("run", "Popen", "check_output") and {"text", "universal_newlines", "encoding", "errors"} & set(words)
        if command or named(node) in ("read_text", "TextIOWrapper"):
            yield node.lineno
        elif ast.unparse(node.func) in ("open", "os.fdopen", "io.open"):
            yield from [node.lineno] * reads_text(words.get("mode", node.args[1] if len(node.args) > 1 else None))
        elif named(node) == "open" and ast.unparse(node.func) != "os.open" and (not node.args or _text_in(node.args[0])):
            yield from [node.lineno] * reads_text(words.get("mode", node.args[0] if node.args else None))


def _text_in(node: ast.AST | None) -> str:
    """Every text that stands in a piece of source, one after the other."""
    constants = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant)] if node is not None else []
    return "".join(item for item in constants if isinstance(item, str))


def reads_text(mode: ast.AST | None) -> bool:
    """Whether a file with this mode is read as text; a mode that a variable holds may be any."""
    letters = _text_in(mode) or "r"
    return set(letters) <= set("rwxat+") and bool(set(letters) & set("r+"))


def test_no_line_ends_but_at_a_line_feed() -> None:
    assert not [f"{name}:{line}" for name in PRODUCT for line in splits(repo.tree(name))]


def test_foreign_text_is_read_as_bytes() -> None:
    found = {name: list(in_text_mode(repo.tree(name))) for name in PRODUCT}
    assert not {name: lines for name, lines in found.items() if lines and name not in TEXT_MODE}
    assert not [name for name in TEXT_MODE if not found.get(name)]


@pytest.mark.parametrize(("source", "seen"), [
    ("a.splitlines()", 1), ("a.splitlines(True)", 1), ("map(str.splitlines, a)", 1), ("a.split('\\n')", 0),
])  # fmt: skip
def test_a_split_is_seen(source: str, seen: int) -> None:
    assert len(splits(ast.parse(source))) == seen


@pytest.mark.parametrize(("source", "seen"), [
    ("open(a)", 1), ("open(a, encoding='utf-8')", 1), ("open(a, 'rb')", 0), ("open(a, 'w')", 0), ("path.open()", 1), ("path.open('rb')", 0),
    ("os.fdopen(fd, 'wb')", 0), ("os.fdopen(fd)", 1), ("os.open(a, os.O_RDONLY)", 0), ("c.open(login)", 0), ("path.read_text()", 1),
    ("path.read_bytes()", 0),
    ("subprocess.run(a, text=True)", 1), ("subprocess.run(a, encoding='utf-8')", 1), ("subprocess.run(a)", 0),
])  # fmt: skip
def test_text_mode_is_seen(source: str, seen: int) -> None:
    assert len(list(in_text_mode(ast.parse(source)))) == seen
