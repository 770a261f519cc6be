# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of an inventory as trees of YAML with lines, and what no inventory can mean refused: Ansible lets it pass, or says no place.

It takes the last of two equal keys in silence, and of a value that begins with ``{{`` it says neither file nor line. Aliases that multiply
themselves would keep any reader busy for hours, and values nested hundreds of levels deep end every reader.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import plain
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
LARGEST = 1 << 28  # bytes of a file: more than so many values take


DEEPEST = 100  # values within values; nobody writes ten, and every reader of them goes one call deeper for each
BRACKET = re.compile(r"[\[\]{}]")


def wrong(path: Path, line: int, text: str, column: int | None = None) -> InputError:
    """An error that names its place."""
    return InputError(f"{path}:{line}{'' if column is None else f':{column}'}: {text}", path, line)


def read(path: Path) -> str:
    """The text of a file of the inventory. Raises InputError."""
    try:
        if path.exists() and not path.is_file():
            # Reading a pipe or a device may never end.
            raise InputError(f"{path}: is not a regular file; allowed: a file of YAML or INI text", path)
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path}: is larger than {LARGEST >> 20} MiB; allowed: a file of YAML or INI text", path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}", path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start}); allowed: YAML or INI text", path) from error


def compose(path: Path, text: str) -> yaml.Node | None:
    """The YAML tree of a file. Raises InputError for what is not YAML and for what no inventory can mean."""
    try:
        if may_be_deep(text):
            _check_depth(path, text)
        node = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join((error.problem or error.context or "cannot be parsed").split())
        line = lines_in(text)[mark.line : mark.line + 1] if mark is not None else []
        tab = "; a tab indents this line, allowed: spaces" if line and "\t" in line[0][: len(line[0]) - len(line[0].lstrip())] else ""
        if mark is None:
            raise InputError(f"{path}: is not YAML: {what}", path) from error
        raise wrong(path, mark.line + 1, f"is not YAML: {what}{tab}", mark.column + 1) from error
    except yaml.YAMLError as error:
        raise InputError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if node is not None:
        _check(path, node, {}, set())
    return node


def may_be_deep(text: str) -> bool:
    """Whether brackets or blanks before a line are enough for it; those in a text count too."""
    depth = 0
    for bracket in BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            return True
    return re.search(rf"^ {{{DEEPEST}}}|^(?: *[-?] ){{{DEEPEST // 2}}}", text, re.MULTILINE) is not None


def _check_depth(path: Path, text: str) -> None:
    """Before anybody goes down into it."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST and event.start_mark is not None:
            mark = event.start_mark
            raise wrong(path, mark.line + 1, f"values are nested more than {DEEPEST} levels deep", mark.column + 1)


def items(node: yaml.Node | None) -> Iterator[tuple[str, int, yaml.Node]]:
    """Key, line and value of a mapping, and of those merged into it (``<<``); nothing of anything else: Ansible reports wrong shapes."""
    if isinstance(node, yaml.MappingNode):
        own = {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}
        for name, (key, value) in own.items():
            if key.tag != MERGE:
                yield name, key.start_mark.line + 1, value
                continue
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            found = {row[0]: row for other in reversed(merged) for row in items(other)}
            yield from (row for name, row in found.items() if name not in own)


def _check(path: Path, node: yaml.Node, sizes: dict[int, int], above: set[int]) -> int:
    """Refuse what is wrong in a node and below; returns how many values it stands for."""
    if id(node) in above:
        raise _wrong_node(path, node, "an anchor contains itself; allowed: aliases of something else")
    if id(node) in sizes:
        return sizes[id(node)]
    if node.tag not in STANDARD + ANSIBLE_TAGS:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise _wrong_node(path, node, f"{tag}: is no tag that Ansible reads; allowed: {', '.join(ANSIBLE_TAGS)}")
    above.add(id(node))
    size = 1
    if isinstance(node, yaml.SequenceNode):
        size += sum(_check(path, child, sizes, above) for child in node.value)
    elif isinstance(node, yaml.MappingNode):
        _check_keys(path, node)
        size += sum(_check(path, value, sizes, above) for _key, value in node.value)
    above.discard(id(node))
    if size > MOST_VALUES:
        raise _wrong_node(path, node, f"aliases make {size} values of this; allowed: {MOST_VALUES}")
    sizes[id(node)] = size
    return size


def _check_keys(path: Path, node: yaml.MappingNode) -> None:
    seen: dict[str, int] = {}
    for key, _value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            hint = "put quotes around a value that begins with {{" if isinstance(key, yaml.MappingNode) else "allowed: text"
            raise _wrong_node(path, key, f"a key cannot be a {key.id}; {hint}")
        if key.tag == MERGE:
            continue
        if key.value in seen:
            raise _wrong_node(path, key, f"{key.value}: is written twice (first in line {seen[key.value]}); allowed: each key once")
        seen[key.value] = key.start_mark.line + 1


def _wrong_node(path: Path, node: yaml.Node, text: str) -> InputError:
    return wrong(path, node.start_mark.line + 1, text, node.start_mark.column + 1)


WRITTEN: Any = type("Written", (LOADER,), {})  # YAML's own values; of one that is hidden only that it is
for _tag in ANSIBLE_TAGS:
    WRITTEN.add_constructor(_tag, lambda *_of: HIDDEN)


def written(said: Any) -> Any:
    """The plain value that a node of YAML or a text of INI stands for, with its templates as they are."""
    try:
        with warnings.catch_warnings(action="ignore"):  # what looks like Python and is none
            return plain(ast.literal_eval(said) if isinstance(said, str) else WRITTEN("").construct_document(said))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, yaml.YAMLError):
        return said if isinstance(said, str) else f"({said.id})"  # Ansible takes the one as text, and refuses the other


def same_value(one: yaml.Node | str, other: yaml.Node | str) -> bool:
    """As they are written."""
    if isinstance(one, str) or isinstance(other, str):
        return bool(written(one) == written(other))
    if isinstance(one, yaml.ScalarNode) and isinstance(other, yaml.ScalarNode):
        return (one.tag, one.value) == (other.tag, other.value)
    if isinstance(one, yaml.SequenceNode) and isinstance(other, yaml.SequenceNode):
        return len(one.value) == len(other.value) and all(map(same_value, one.value, other.value))
    if isinstance(one, yaml.MappingNode) and isinstance(other, yaml.MappingNode):
        ours, theirs = ({name: value for name, _line, value in items(node)} for node in (one, other))
        return ours.keys() == theirs.keys() and all(same_value(value, theirs[name]) for name, value in ours.items())
    return False
