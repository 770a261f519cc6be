# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory runs on this controller when it is loaded, or when its nodes are reached; found without loading it."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import yaml
from jinja2 import Environment, TemplateError, nodes

from railwright.inventory_content import Content
from railwright.inventory_yaml import LOADER, items, may_be_deep, written

LOOKUPS = frozenset(("lookup", "query", "q"))  # how a template reaches one; Ansible's own filters and tests run nothing
REACHES = re.compile(r"ansible_(connection|\w+_(args|executable|provider))")  # variables that say what runs here to reach a node
PLAIN = ("ssh", "smart")
OUT = "../"  # in the name of a host or a group: its variables are read from there
OUTSIDE = "a path that leads out of the inventory"
NO_QUOTES = str.maketrans("", "", "\"'\\")


def programs(content: Content) -> Iterator[str]:
    """Name each with its place. A file in a vault is not opened: who encrypted it knows the operator's password."""
    yield from (f"{path}: an executable file" for path in content.executables)
    yield from (f"{path}: a plugin that ansible.cfg names" for path in content.plugins)
    for path in content.files:
        text = path.read_bytes().decode("utf-8", "replace")
        found = [*_programs(text), *(_in_toml(text) if path.suffix == ".toml" else ())]
        yield from dict.fromkeys(f"{path}: {what}" for what in found)


def _programs(text: str) -> Iterator[str]:
    """Find them in a file in whatever form Ansible reads it: as YAML, and each line of INI for itself."""
    if may_be_deep(text):
        yield "values nested too deeply to be read"
        return
    top = None
    with suppress(yaml.YAMLError):  # Ansible takes it for INI, or refuses it
        top = yaml.compose(text, Loader=LOADER)
    if any(key == "plugin" for key, _line, _value in items(top)):
        yield "an inventory plugin"
    yield from _in_yaml(top)
    for number, line in enumerate(text.split("\n"), 1):
        if "=" in line or OUT in line.translate(NO_QUOTES):
            yield from (f"line {number}: {what}" for what in _in_line(line.strip()))


def _in_toml(text: str) -> Iterator[str]:
    """Find them in what TOML stands for: its keys have escapes too. Lines are those of the whole file as one."""
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        yield from _in_yaml(yaml.compose(json.dumps(tomllib.loads(text), default=str), Loader=LOADER))


def _in_yaml(top: Any) -> Iterator[str]:
    pending, seen = [top], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode) and _has_lookup(node.value):
            yield f"line {node.start_mark.line + 1}: a lookup"
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                pending += key, value
                if OUT in str(key.value):
                    yield f"line {key.start_mark.line + 1}: {OUTSIDE}"
                if REACHES.fullmatch(str(key.value)) and value.value not in PLAIN:
                    yield f"line {key.start_mark.line + 1}: {key.value}"


def _in_line(line: str) -> Iterator[str]:
    """``line``: of INI, whose quotes and escapes are Python's below [GROUP:vars], and a shell's around them beside a host."""
    words = [line]
    with suppress(ValueError):
        words += shlex.split(line, comments=True)
    if OUT in (line if line.startswith("[") else words[1] if words[1:] else line):
        yield OUTSIDE
    for word in words:
        key, _equals, value = (part.strip() for part in word.partition("="))
        if REACHES.fullmatch(key) and value not in PLAIN:
            yield key
        if any(_has_lookup(text) for text in _texts(written(value))):
            yield "a lookup"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a plain value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple | set):
        for part in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _texts(part)


def _has_lookup(text: str) -> bool:
    """Whether a value is a template that may call one. A template that nobody can read runs nothing."""
    if "#jinja2:" in text:  # it says itself how templates begin
        return True
    if "{{" not in text and "{%" not in text:
        return False
    try:
        tree = Environment(autoescape=True, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(text)
    except (TemplateError, RecursionError):
        return True
    return any(node.name in LOOKUPS for node in tree.find_all(nodes.Name))
