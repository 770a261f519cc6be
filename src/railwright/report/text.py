# SPDX-License-Identifier: GPL-3.0-or-later
"""Make text from a node harmless for where it is shown.

Host names, device names, messages and file contents come from nodes. A node may be
compromised or merely odd; its text must not move a terminal's cursor, end an XML
attribute or add a row to a table.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

# XML 1.0 section 2.2: the characters that a document may hold at all, escaped or not; without C1, which it discourages and terminals obey.
_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What has a meaning inside a line. Without brackets and angles there is no link, image or tag; a list or a heading needs a line of its own.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&@])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}  # a backslash does not stop an @mention
_COLOUR = re.compile("\x1b\\[[0-9;]*m")  # of Ansible's own output; ECMA-48, SGR
# Cc: terminal control; Cf: bidirectional overrides that show a text in another order than it has; Cs: lone surrogates.
_HIDDEN = ("Cc", "Cf", "Cs")
SHORT = 48


def printable(value: object) -> str:
    """One line without control characters; each is shown as its escape."""
    return "".join(_shown(char) if unicodedata.category(char) in _HIDDEN else char for char in str(value))


def printable_lines(value: object) -> str:
    """Several lines without control characters: line ends and tabs stay, colours go, and each other one is shown as its escape."""
    lines = _COLOUR.sub("", str(value)).replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in lines)


def _shown(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or f"\\u{ord(char):04x}"


def value_text(value: Any) -> str:
    """A value of a plan or verdict as people write it: text bare, the rest as JSON."""
    if value is None:
        return "absent"
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def short(value: Any, limit: int = SHORT) -> str:
    """A value in one table cell: files become their first line and their length."""
    text = value_text(value)
    lines = text.rstrip("\n").split("\n")
    if len(lines) > 1:
        first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), lines[0])
        note = f" … ({len(lines)} lines)"
        return printable(_cut(first, limit - len(note)).removesuffix("…")) + note
    return printable(_cut(lines[0], limit))


def is_shortened(value: Any, limit: int = SHORT) -> bool:
    text = value_text(value).rstrip("\n")
    return "\n" in text or len(text) > limit


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(1, limit - 1)] + "…"


def xml_text(value: object) -> str:
    """Text without the characters that XML cannot hold; the XML writer escapes the rest."""
    return _NOT_XML.sub("\ufffd", str(value))


def markdown_cell(value: object) -> str:
    """Text that is only text in a Markdown table, whichever dialect reads it."""
    return _MARKDOWN.sub(lambda match: _ENTITIES.get(match[1], "\\" + match[1]), printable(value))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; the cells are escaped already."""
    return ["| " + " | ".join(cells) + " |" for cells in [header, ("---",) * len(header), *rows]]
