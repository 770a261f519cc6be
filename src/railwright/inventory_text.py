# SPDX-License-Identifier: GPL-3.0-or-later
"""Long YAML and JSON inventories, read once: hosts that stand below each other and whose lines differ in plain scalars only.

YAML's parser, and Ansible's, see the first of them; the others get its value with their own scalars in it. A scalar counts as plain if any
other of its form in its place would be text, too, and nothing else: in quotes and without escapes, or like an address, a MAC or eth0. That
each stands for a value of its own is what the parser says of the first host. Where anything is otherwise the whole file is parsed.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible.parsing.dataloader import DataLoader

from railwright.inventory_values import NOT_STATIC, static

LONG = 1 << 17  # characters; of less nobody waits for the parser
SHORTER = 0.5  # of the text that is left, at most
NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
HEAD = rf'(?P<quote>"?)(?P<name>{NAME})(?P=quote):(?P<brace> \{{)?\n'
HEADS = re.compile(rf"^( *){HEAD}", re.MULTILINE)
NOT_TEXT = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE)
CLEAN = re.compile(r"[A-Za-z0-9_ .:/@+,{}\[\]\"'\n-]*")
QUOTED = r"[A-Za-z0-9_ .:/@+-]*"
PLAIN = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?|[A-Za-z][A-Za-z_./-]*[0-9][A-Za-z0-9_./-]*"
COLONS = r"(?=[0-9:]*[a-f])[0-9a-f]+(?::[0-9a-f]+)+(?:\.[0-7])?|0[0-9]{0,8}(?::[0-9]{1,9}){1,9}"
WITHIN = r"[A-Za-z0-9_.:/@+\"'-]"
TOKEN = re.compile(rf"""((?<=[ \[{{,])(?:"{QUOTED}"|'{QUOTED}')|(?<!{WITHIN})(?:{PLAIN}|{COLONS})(?!{WITHIN}))(?! *:)""")
QUOTES = "\"'"
MANY = 50  # hosts of one form: from then on a pattern of its own pays


class Form(NamedTuple):
    """What hosts have in common whose lines differ in plain scalars only."""

    quote: str  # about the name
    brace: str | None
    comma: str | None
    texts: tuple[str, ...]  # around the scalars
    kinds: tuple[str | bool, ...]  # of each scalar: its quote, or whether there are colons in it

    def pattern(self, indent: str) -> re.Pattern[str]:
        """Of such a host: its name, and its scalars."""
        groups: dict[str | bool, str] = {True: f"({COLONS})", False: f"({PLAIN})"}
        groups |= {quote: f"{quote}({QUOTED}){quote}" for quote in QUOTES}
        scalars = "".join(groups[kind] + re.escape(text) for kind, text in zip(self.kinds, self.texts[1:], strict=True))
        end = rf"{indent}\}}{self.comma}\n" if self.brace else rf"(?!{indent} +\S)"
        head = rf"{indent}{self.quote}({NAME}){self.quote}:{re.escape(self.brace or '')}\n"
        return re.compile(f"{head}{re.escape(self.texts[0])}{scalars}{end}")


class Host(NamedTuple):
    """The lines of one host."""

    name: str
    begin: int
    end: int
    form: Form | None  # None: not to be told by its form
    words: Sequence[str]  # its plain scalars
    body: str


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
    followers: dict[str, tuple[int, Sequence[str]]] = field(default_factory=dict)  # name: line in the file, scalars
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

    def of_host(self, name: str, key: str, value: Any) -> Any:
        """A host's value of a variable, where the text has that of the host which stands for it."""
        first = next((first for first in self.firsts.values() if name in first.followers), None)
        return value if first is None else _filled(_with_slots(value, (key,), first.slots), first.followers[name][1])

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


def _filled(shape: Any, words: Sequence[str]) -> Any:
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
    pieces: list[str] = []
    kept, lines, firsts = [0], [0], {}
    done = line = short = 0  # characters of the text, its lines, and the lines of the pieces
    forms: dict[Form, First] = {}  # of hosts that stand below each other without anything between
    seen: set[str] = set()
    for host in _hosts(text, indent):
        if host.name in seen or (text[host.begin + len(indent)] != '"' and NOT_TEXT.fullmatch(host.name)):
            return None
        seen.add(host.name)
        if host.form is None:
            continue
        between, own = text[done : host.begin], text[host.begin : host.end]
        line += between.count("\n")
        height = own.count("\n")
        if host.form in forms and not between:
            forms[host.form].followers[host.name] = (line, host.words)
        else:
            kept.append(short)
            lines.append(line - between.count("\n"))
            short += between.count("\n")
            pieces += [between, own]
            forms = {} if between else forms
            forms[host.form] = firsts[short] = First(host.name, line, len(indent), host.body)
            short += height
        line, done = line + height, host.end
    kept.append(short)
    lines.append(line)
    pieces.append(text[done:])
    short_text = "".join(pieces)
    firsts = {at: first for at, first in firsts.items() if first.followers}
    return Condensed(short_text, kept, lines, firsts) if len(short_text) < len(text) * SHORTER else None


def _hosts(text: str, indent: str) -> Iterator[Host]:
    """In their order. What follows hosts of one form is first tried by the pattern of that form."""
    block = re.compile(rf"^{indent}{HEAD}(?P<body>(?:{indent} +\S.*\n)+)(?(brace){indent}\}}(?P<comma>,?)\n)", re.MULTILINE)
    often: Counter[Form] = Counter()
    patterns: dict[Form, re.Pattern[str]] = {}
    form: Form | None = None
    at = 0
    while True:
        if form in patterns and (found := patterns[form].match(text, at)):
            name, *words = found.groups()
            yield Host(name, at, found.end(), form, words, "")
        elif found := block.search(text, at):
            form, words = _form(found)
            yield Host(found["name"], found.start(), found.end(), form, words, found["body"])
            if form is not None:
                often[form] += 1
                if often[form] == MANY:
                    patterns[form] = form.pattern(indent)
        else:
            return
        at = found.end()


def _form(host: re.Match[str]) -> tuple[Form | None, list[str]]:
    body = host["body"]
    if "{{" in body or not CLEAN.fullmatch(body):
        return None, []
    texts, words = (parts := TOKEN.split(body))[::2], parts[1::2]
    kinds = tuple(word[0] if word[0] in QUOTES else ":" in word for word in words)
    return Form(host["quote"], host["brace"], host["comma"], tuple(texts), kinds), [word.strip(QUOTES) for word in words]


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
