# SPDX-License-Identifier: GPL-3.0-or-later
"""The text and the YAML tree of an inventory's files, with what Ansible lets pass, or reports without a place, refused.

Ansible takes the last of two equal keys in silence, and of a value that begins with ``{{``
it says neither file nor line. Aliases that multiply themselves would keep any reader busy for hours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from railwright.exitcodes import InputError

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT = "tag:yaml.org,2002:str"
MERGE = "tag:yaml.org,2002:merge"
STANDARD = tuple(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "binary", "seq", "map", "set", "omap", "pairs", "merge", "value")
)
ANSIBLE_TAGS = ("!vault", "!vault-encrypted", "!unsafe")
# Values after every alias is followed. A site of 10,000 hosts with 8 rails has some 500,000.
MOST_VALUES = 5_000_000


def read(path: Path) -> str:
    """The text of a file of the inventory. Raises InputError."""
    try:
        if path.exists() and not path.is_file():
            # Reading a pipe or a device may never end.
            raise InputError(f"{path}: is not a regular file; allowed: a file of YAML or INI text")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start}); allowed: YAML or INI text") from error


def compose(path: Path, text: str) -> yaml.Node | None:
    """The YAML tree of a file. Raises InputError for what is not YAML and for what no inventory can mean."""
    try:
        node = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        what = " ".join((error.problem or error.context or "cannot be parsed").split())
        line = text.splitlines()[mark.line : mark.line + 1] if mark is not None else []
        tab = "; a tab indents this line, allowed: spaces" if line and "\t" in line[0][: len(line[0]) - len(line[0].lstrip())] else ""
        raise InputError(f"{path}{where}: is not YAML: {what}{tab}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if node is not None:
        _check(path, node, {}, set())
    return node


def _check(path: Path, node: yaml.Node, sizes: dict[int, int], above: set[int]) -> int:
    """Refuse what is wrong in a node and below; returns how many values it stands for."""
    if id(node) in above:
        raise InputError(f"{_place(path, node)}: an anchor contains itself; allowed: aliases of something else")
    if id(node) in sizes:
        return sizes[id(node)]
    if node.tag not in STANDARD + ANSIBLE_TAGS:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise InputError(f"{_place(path, node)}: {tag}: is no tag that Ansible reads; allowed: {', '.join(ANSIBLE_TAGS)}")
    above.add(id(node))
    size = 1
    if isinstance(node, yaml.SequenceNode):
        size += sum(_check(path, child, sizes, above) for child in node.value)
    elif isinstance(node, yaml.MappingNode):
        _check_keys(path, node)
        size += sum(_check(path, value, sizes, above) for _key, value in node.value)
    above.discard(id(node))
    if size > MOST_VALUES:
        raise InputError(f"{_place(path, node)}: aliases make {size} values of this; allowed: {MOST_VALUES}")
    sizes[id(node)] = size
    return size


def _check_keys(path: Path, node: yaml.MappingNode) -> None:
    seen: dict[str, int] = {}
    for key, _value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            hint = "put quotes around a value that begins with {{" if isinstance(key, yaml.MappingNode) else "allowed: text"
            raise InputError(f"{_place(path, key)}: a key cannot be a {key.id}; {hint}")
        if key.tag == MERGE:
            continue
        if key.value in seen:
            raise InputError(
                f"{_place(path, key)}: {key.value}: is written twice (first in line {seen[key.value]}); allowed: each key once"
            )
        seen[key.value] = key.start_mark.line + 1


def _place(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
