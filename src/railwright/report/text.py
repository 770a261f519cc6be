# SPDX-License-Identifier: GPL-3.0-or-later
"""Make text from a node harmless for where it is shown.

Host names, device names, messages and file contents come from nodes. A node may be
compromised or merely odd; its text must not move a terminal's cursor, end an XML
attribute or add a row to a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ansible_collections.railwright.rdma.plugins.plugin_utils.text import is_shortened, printable, printable_lines, short, value_text

__all__ = ["is_shortened", "markdown_cell", "markdown_table", "printable", "printable_lines", "short", "value_text", "xml_text"]

# XML 1.0 section 2.2: the characters that a document may hold at all, escaped or not; without C1, which it discourages and terminals obey.
_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What has a meaning inside a line. Without brackets and angles there is no link, image or tag; a list or a heading needs a line of its own.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&@])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}  # a backslash does not stop an @mention


def xml_text(value: object) -> str:
    """Text without the characters that XML cannot hold; the XML writer escapes the rest."""
    return _NOT_XML.sub("\ufffd", str(value))


def markdown_cell(value: object) -> str:
    """Text that is only text in a Markdown table, whichever dialect reads it."""
    return _MARKDOWN.sub(lambda match: _ENTITIES.get(match[1], "\\" + match[1]), printable(value))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; the cells are escaped already."""
    return ["| " + " | ".join(cells) + " |" for cells in [header, ("---",) * len(header), *rows]]
