# SPDX-License-Identifier: GPL-3.0-or-later
"""Long YAML and JSON inventories, read once: hosts that stand below each other and whose lines differ in plain scalars only.

YAML's parser, and Ansible's, see the first of them; the others get its value with their own scalars in it. A scalar counts as plain if any
other of its form in its place would be text, too, and nothing else: in quotes and without escapes, or like an address, a MAC or eth0. That
each stands for a value of its own is what the parser says of the first host. Where anything is otherwise the whole file is parsed.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible.parsing.dataloader import DataLoader

from railwright.inventory_values import NOT_STATIC, static

LONG = 1 << 17  # characters; of less nobody waits for the parser
SHORTER = 0.5  # of the text that is left, at most
HEAD = r'(?P<quote>"?)(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?P=quote):(?P<brace> \{)?\n'
HEADS = re.compile(rf"^( *){HEAD}", re.MULTILINE)
NOT_TEXT = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE)
CLEAN = re.compile(r"[A-Za-z0-9_ .:/@+,{}\[\]\"'\n-]*")
QUOTED = r"[A-Za-z0-9_ .:/@+-]*"
PLAIN = (
    r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?|[A-Za-z][A-Za-z_./-]*[0-9][A-Za-z0-9_./-]*"
    r"|(?=[0-9:]*[a-f])[0-9a-f]+(?::[0-9a-f]+)+(?:\.[0-7])?|0[0-9]{0,8}(?::[0-9]{1,9}){1,9}"
)
WITHIN = r"[A-Za-z0-9_.:/@+\"'-]"
TOKEN = re.compile(rf"""((?<=[ \[{{,])(?:"{QUOTED}"|'{QUOTED}')|(?<!{WITHIN})(?:{PLAIN})(?!{WITHIN}))(?! *:)""")
QUOTES = "\"'"


class Slot(NamedTuple):
    """The place of a scalar in a host's value."""

    at: int


@dataclass
class First:
    """A host that stands for those below it."""

    name: str
    line: int  # in the file, from 0
    column: int
    body: str
    followers: dict[str, tuple[int, list[str]]] = field(default_factory=dict)  # name: line in the file, scalars
    path: tuple[str, ...] = ()
    slots: dict[tuple[Any, ...], int] = field(default_factory=dict)  # place in the value: number of the scalar


@dataclass
class Condensed:
    text: str
    kept: list[int]  # where a piece of the text begins: its line, from 0
    lines: list[int]  # and the same in the file
    firsts: dict[int, First]  # by the line in the text
    order: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)  # mappings with firsts: the line in the file of each key

    def line(self, number: int) -> int:
        """Of the file, from 1, for one of the text."""
        at = bisect_right(self.kept, number - 1) - 1
        return number - self.kept[at] + self.lines[at]

    def expand(self, data: Any, *, bare: bool) -> dict[str, dict[str, Any]] | None:
        """Write the hosts out (``bare``: without values) in what a parser has made of the text; the values of each.

        None where one is not plain data.
        """
        found: dict[str, dict[str, Any]] = {}
        for path, lines in self.order.items():
            above = data
            for step in path:
                above = above[step]
            for first in [first for first in self.firsts.values() if first.path == path]:
                shape = static(above[first.name])
                if shape is NOT_STATIC:
                    return None
                shape = _with_slots(shape, (), first.slots)
                rest = {name: _filled(shape, words) for name, (_line, words) in first.followers.items()}
                lines |= {name: line for name, (line, _words) in first.followers.items()}
                above |= dict.fromkeys(rest) if bare else rest
                found |= rest
            own = {name: above.pop(name) for name in sorted(above, key=lines.__getitem__)}
            above |= own
        return found


def _with_slots(value: Any, place: tuple[Any, ...], slots: Mapping[tuple[Any, ...], int]) -> Any:
    if place in slots:
        return Slot(slots[place])
    if isinstance(value, dict):
        return {key: _with_slots(item, (*place, key), slots) for key, item in value.items()}
    return [_with_slots(item, (*place, at), slots) for at, item in enumerate(value)] if isinstance(value, list) else value


def _filled(shape: Any, words: list[str]) -> Any:
    kind = type(shape)
    if kind is Slot:
        return words[shape.at]
    if kind is dict:
        return {key: _filled(item, words) for key, item in shape.items()}
    return [_filled(item, words) for item in shape] if kind is list else shape


def condensed(text: str) -> Condensed | None:
    """The text without hosts that are like the one above them; None where that is not much shorter."""
    names: dict[str, set[str]] = {}
    for blanks, _quote, name, _brace in HEADS.findall(text) if len(text) > LONG else ():
        names.setdefault(blanks, set()).add(name)
    indent = max(names, key=lambda blanks: len(names[blanks]), default="")
    if not indent:
        return None
    block = re.compile(rf"^{indent}{HEAD}(?P<body>(?:{indent} +\S.*\n)+)(?(brace){indent}\}}(?P<comma>,?)\n)", re.MULTILINE)
    pieces: list[str] = []
    kept, lines, firsts = [0], [0], {}
    done = line = short = 0  # characters of the text, its lines, and the lines of the pieces
    forms: dict[Any, First] = {}  # of hosts that stand below each other without anything between
    seen: set[str] = set()
    for found in block.finditer(text):
        name, body = found["name"], found["body"]
        if name in seen or (not found["quote"] and NOT_TEXT.fullmatch(name)):
            return None
        seen.add(name)
        if "{{" in body or not CLEAN.fullmatch(body):
            continue
        split = [_split(row) for row in body.split("\n")]
        like = (found["quote"], found["brace"], found["comma"], *[form for form, _words in split])
        between = text[done : found.start()]
        line += between.count("\n")
        height = found[0].count("\n")
        if like in forms and not between:
            forms[like].followers[name] = (line, [word for _form, words in split for word in words])
        else:
            kept.append(short)
            lines.append(line - between.count("\n"))
            short += between.count("\n")
            pieces += [between, found[0]]
            forms = {} if between else forms
            forms[like] = firsts[short] = First(name, line, len(indent), body)
            short += height
        line, done = line + height, found.end()
    kept.append(short)
    lines.append(line)
    pieces.append(text[done:])
    short_text = "".join(pieces)
    firsts = {at: first for at, first in firsts.items() if first.followers}
    return Condensed(short_text, kept, lines, firsts) if len(short_text) < len(text) * SHORTER else None


@lru_cache(4096)  # most lines of a host are another one's, too
def _split(row: str) -> tuple[Any, list[str]]:
    """A line without its plain scalars, but with the form of each; and these."""
    literals, words = (parts := TOKEN.split(row))[::2], parts[1::2]
    return (*literals, *[word[0] if word[0] in QUOTES else ":" in word for word in words]), [word.strip(QUOTES) for word in words]


def understood(text: Condensed, top: yaml.Node | None) -> bool:
    """Whether YAML sees in the first hosts what was taken for a host and its scalars; notes where each is."""
    missing = dict(text.firsts)
    for path, mapping in _mappings(top, ()):
        for key, value in mapping.value:
            first = missing.pop(key.start_mark.line, None) if _is_text(key) else None
            if first is None:
                continue
            if (key.value, key.start_mark.column) != (first.name, first.column) or not _noted(first, value, key.start_mark.line + 1):
                return False
            first.path = path
            if not all(_is_text(other) and other.value not in first.followers for other, _value in mapping.value):
                return False
            text.order[path] = {other.value: text.line(other.start_mark.line + 1) - 1 for other, _value in mapping.value}
    return not missing


def _noted(first: First, value: yaml.Node, line: int) -> bool:
    scalars = {(node.start_mark.line - line, node.start_mark.column): (place, node) for place, node in _scalars(value, ())}
    for number, token in enumerate(TOKEN.finditer(first.body)):
        before = first.body[: token.start()]
        place, node = scalars.get((before.count("\n"), len(before) - before.rfind("\n") - 1), (None, None))
        if place is None or node is None or not _is_text(node) or node.value != token[1].strip(QUOTES):
            return False
        first.slots[place] = number
    return isinstance(value, yaml.MappingNode)


def _is_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str"


def _mappings(node: yaml.Node | None, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], yaml.MappingNode]]:
    if isinstance(node, yaml.MappingNode):
        yield path, node
        for key, value in node.value:
            if _is_text(key):
                yield from _mappings(value, (*path, key.value))


def _scalars(node: yaml.Node, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if _is_text(key):
                yield from _scalars(value, (*place, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield from _scalars(value, (*place, at))
    else:
        yield place, node


# Ansible reads a file first to see whether it configures a plugin, and then as an inventory, whose templates ansible-core 2.19 trusts.
TRUSTED = {"trusted_as_template": True} if "trusted_as_template" in signature(DataLoader.load_from_file).parameters else {}


class Loader(DataLoader):
    """Ansible's, which gives it the hosts of long files without having it read each.

    Ansible takes long for each value that it is given, too. So it gets none where nobody else may ask it for one, or add one: ``alone``.
    """

    def __init__(self, texts: Mapping[Path, Condensed], *, alone: bool) -> None:
        super().__init__()
        self._alone = alone
        self._texts = {str(path.absolute()): text for path, text in texts.items()}
        self._data: dict[str, Any] = {}
        self.values: dict[str, dict[str, Any]] = {}  # host: what Ansible was not given; plain data without templates

    def _get_file_contents(self, file_name: str) -> tuple[bytes, bool]:
        if file_name in self._texts:
            return self._texts[file_name].text.encode(), True
        found: tuple[bytes, bool] = super()._get_file_contents(file_name)
        return found

    def load_from_file(self, file_name: str, *args: Any, **named: Any) -> Any:
        if file_name in self._texts and file_name not in self._data:
            data = super().load_from_file(file_name, *args, **named | TRUSTED)
            values = self._texts[file_name].expand(data, bare=self._alone)
            if values is None:
                del self._texts[file_name]
            else:
                self._data[file_name] = data
                self.values |= values if self._alone else {}
        return self._data[file_name] if file_name in self._data else super().load_from_file(file_name, *args, **named)
