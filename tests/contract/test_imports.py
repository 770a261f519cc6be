# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may import what: the core is pure, host.py alone does I/O, the controller is above the collection."""

import ast
import re
import sys
from collections.abc import Iterator

import repo

CORE = repo.python("plugins/module_utils/")
HOST = "plugins/module_utils/host/host.py"
WRITER = "plugins/module_utils/host/write.py"  # its other half
RUNNER = "plugins/module_utils/host/run.py"  # how it runs a command
ADAPTER = "plugins/module_utils/entry/state.py"
MODULE = "plugins/module_utils/entry/node_module.py"  # the only one that knows AnsibleModule
FACTS = "plugins/module_utils/entry/facts.py"  # asks its own environment who connected
IO_MODULES = {"os", "io", "pathlib", "shutil", "subprocess", "socket", "tempfile", "glob", "urllib", "http", "fcntl", "signal", "ctypes"}
# What those modules hold that computes and touches nothing: path text, address text, numbers of signals.
PURE = re.compile(r"os\.path\.(basename|dirname|join|normpath)|socket\.(inet_(aton|ntoa|ntop|pton)|AF_INET6?)|signal\.SIG[A-Z0-9]+")
# Judged on captured facts and inventories alone; a Host has no business there.
WITHOUT_HOST = ("catalogue/", "checks/", "spec/", "errors.py", "types.py")
IO_CALLS = {"open", "exec", "eval", "compile", "input", "print", "__import__"}


def test_the_core_is_there() -> None:
    """An empty list would let every other test here pass."""
    assert {HOST, ADAPTER, "plugins/module_utils/types.py"} <= set(CORE)


def imported(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """(file, file:line: module, module) of every import of these files."""
    for name in names:
        yield from ((name, f"{name}:{line}: {module}", module) for line, module in repo.imports(name))


def test_core_imports_only_the_standard_library_and_itself() -> None:
    known = set(sys.stdlib_module_names)
    foreign = [(name, place) for name, place, module in imported(CORE) if not module.startswith(".") and module.split(".")[0] not in known]
    wrong = [place for name, place in foreign if name != MODULE]
    assert not wrong, "AnsiballZ ships the core to nodes that have only Python"


def test_relative_imports_stay_in_module_utils() -> None:
    def too_far(name: str, module: str) -> bool:
        return len(module) - len(module.lstrip(".")) > name.removeprefix("plugins/module_utils/").count("/") + 1

    assert not [place for name, place, module in imported(CORE) if too_far(name, module)]


def dotted(node: ast.AST) -> str | None:
    """``os.path.join`` of an attribute chain; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else None
    return None


def io_of(name: str) -> list[str]:
    """Every place of a file that does I/O past Host."""
    wrong = []
    nodes = list(ast.walk(repo.tree(name)))
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] in IO_MODULES:
            wrong += [
                f"{name}:{node.lineno}: from {node.module}" for alias in node.names if not PURE.fullmatch(f"{node.module}.{alias.name}")
            ]
        if isinstance(node, ast.Import):
            wrong += [
                f"{name}:{node.lineno}: {alias.name} as {alias.asname}" for alias in node.names if alias.asname and alias.name in IO_MODULES
            ]
        used = dotted(node) if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner else None
        if used and used.split(".")[0] in IO_MODULES and not PURE.fullmatch(used) and used.split(".")[0] in _imported(name):
            wrong.append(f"{name}:{node.lineno}: {used}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            wrong.append(f"{name}:{node.lineno}: {node.func.id}()")
    return wrong


def _imported(name: str) -> set[str]:
    return {module for _line, module in repo.imports(name)}


def test_only_host_does_io() -> None:
    assert not [place for name in CORE if name not in (HOST, WRITER, RUNNER, FACTS) for place in io_of(name)], (
        "what the core reads, lists, runs or writes goes through Host: a captured tree must answer for it too"
    )


def test_host_would_be_caught() -> None:
    """The same eyes on the files that do I/O: they see it there."""
    seen = "\n".join(io_of(HOST) + io_of(WRITER) + io_of(RUNNER))
    assert "os.open" in seen
    assert "subprocess.Popen" in seen
    assert "tempfile.mkstemp" in seen


def test_judging_needs_no_host() -> None:
    judges = [name for name in CORE if name.removeprefix("plugins/module_utils/").startswith(WITHOUT_HOST)]
    assert not [place for _name, place, module in imported(judges) if re.match(r"\.+host\b", module)]


def test_plugins_never_import_the_controller() -> None:
    wrong = [place for _name, place, module in imported(repo.python("plugins/")) if module.split(".")[0] == "railwright"]
    assert not wrong, "the collection works from plain ansible-playbook, without the railwright package"


def test_only_run_imports_ansible_runner() -> None:
    users = {
        name for name in repo.python("src/", "plugins/") for _line, module in repo.imports(name) if module.startswith("ansible_runner")
    }
    assert users == {"src/railwright/run.py"}
