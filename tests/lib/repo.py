# SPDX-License-Identifier: GPL-3.0-or-later
"""The repository as contract tests read it: its files as git knows them, parsed.

What git ignores does not exist here; what is new and not yet committed does.
"""

import ast
import importlib.machinery
import importlib.util
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULE_UTILS = "plugins/module_utils"
TARGET_CODE = ("plugins/modules/", "plugins/module_utils/")


def tool(name: str) -> ModuleType:
    """A program of tools/ as a module; its main does not run."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "tools" / name))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def files() -> tuple[str, ...]:
    """Every file, relative to the root, sorted. Captured output of machines (fixtures) is not ours to judge."""
    listed = subprocess.run(("git", "ls-files", "-co", "--exclude-standard", "-z"), cwd=ROOT, check=True, capture_output=True, text=True)
    found = sorted({name for name in listed.stdout.split("\0") if name})
    return tuple(name for name in found if (ROOT / name).is_file() and not name.startswith("tests/fixtures/"))


def matching(*prefixes: str, suffix: str = "") -> list[str]:
    """Files below any of the prefixes with this suffix."""
    return [name for name in files() if name.startswith(prefixes) and name.endswith(suffix)]


def python(*prefixes: str) -> list[str]:
    """Python files below any of the prefixes; all of them without one."""
    return matching(*(prefixes or ("",)), suffix=".py")


@cache
def text(name: str) -> str:
    """The text of a file."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree(name: str) -> ast.Module:
    """A Python file, parsed."""
    return ast.parse(text(name), filename=name)


def imports(name: str) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import; relative ones keep their dots: ``..types``."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, module + ("" if module.endswith(".") else ".") + alias.name) for alias in node.names)


class _Tagged(yaml.SafeLoader):
    """Reads Ansible's own tags (!vault, !unsafe) as plain values."""


_Tagged.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def read_yaml(name: str) -> Any:
    """A YAML file."""
    return yaml.load(text(name), Loader=_Tagged)  # noqa: S506 - a SafeLoader with two more tags


def tasks(value: Any) -> Iterator[dict[str, Any]]:
    """Every task of a task file or playbook, however deep in blocks and plays."""
    for item in value if isinstance(value, list) else []:
        if not isinstance(item, dict):
            continue
        nested = [key for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers") if key in item]
        if not nested:
            yield item
        for key in nested:
            yield from tasks(item[key])


def task_files() -> list[str]:
    """Files that hold tasks: of roles and of playbooks."""
    roles = [name for name in matching("roles/", suffix=".yml") if "/tasks/" in name or "/handlers/" in name]
    return roles + matching("playbooks/", suffix=".yml")
