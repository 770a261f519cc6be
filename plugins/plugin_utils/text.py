# SPDX-License-Identifier: GPL-3.0-or-later
"""Make text from a node harmless for a terminal: it must neither move the cursor nor look like another line."""

import json
import re
import unicodedata
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import hidden

_COLOUR = re.compile("\x1b\\[[0-9;]*m")  # of Ansible's own output; ECMA-48, SGR
# Cc: terminal control; Cf: bidirectional overrides that show a text in another order than it has; Cs: lone surrogates; Zl, Zp: ends of
# lines and paragraphs to many a reader.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
SHORT = 48


def printable(value: object) -> str:
    """One line without control characters; each is shown as its escape."""
    text = str(hidden(str(value)))
    if text.isprintable():  # as nearly every text is: nothing of these categories is in it
        return text
    return "".join(_shown(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def printable_lines(value: object) -> str:
    """Several lines without control characters: line ends and tabs stay, colours go, and each other one is shown as its escape."""
    lines = hidden(_COLOUR.sub("", str(value))).replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in lines)


def _shown(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or f"\\u{ord(char):04x}"


def value_text(value: Any) -> str:
    """A value of a plan or verdict as people write it: text bare, the rest as JSON; before it is cut, as half a secret is one."""
    value = hidden(value)
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
