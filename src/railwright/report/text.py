# SPDX-License-Identifier: GPL-3.0-or-later
"""Make text from a node harmless for where it is shown.

Host names, device names, messages and file contents come from nodes. A node may be
compromised or merely odd; its text must not move a terminal's cursor, end an XML
attribute or add a row to a table.
"""

import re
from collections.abc import Iterable, Sequence

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import hidden
from ansible_collections.railwright.rdma.plugins.plugin_utils.text import is_shortened, printable, printable_lines, short, value_text

__all__ = [
    "CLUSTER", "is_shortened", "markdown_cell", "markdown_section", "markdown_table", "printable", "printable_lines", "ranges", "short",
    "size_text", "value_text", "xml_text",
]  # fmt: skip

CLUSTER = "cluster"  # where verdicts about all nodes together go
# XML 1.0 section 2.2: the characters that a document may hold at all, escaped or not; without C1, which it discourages and terminals obey.
_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What has a meaning inside a line. Without brackets and angles there is no link, image or tag; a list or a heading needs a line of its own.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&@])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}  # a backslash does not stop an @mention


def size_text(size: int) -> str:
    """``16 GiB``; what is no whole multiple of a unit keeps two digits."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size} B"


def ranges(numbers: Iterable[int], width: int = 0) -> str:
    """``0-2,4-7``: each with at least so many digits."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        first = found.pop()[0] if found and number == found[-1][1] + 1 else number
        found.append((first, number))
    return ",".join(f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}" for first, last in found)


def xml_text(value: object) -> str:
    """Text without the characters that XML cannot hold; the XML writer escapes the rest."""
    return _NOT_XML.sub("\ufffd", hidden(str(value)))


def markdown_cell(value: object) -> str:
    """Text that is only text in a Markdown table, whichever dialect reads it."""
    return _MARKDOWN.sub(lambda match: _ENTITIES.get(match[1], "\\" + match[1]), printable(value))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table; no cell is more than text."""
    escaped = [[markdown_cell(cell) for cell in cells] for cells in (header, *rows)]
    return ["| " + " | ".join(cells) + " |" for cells in (escaped[0], ["---"] * len(header), *escaped[1:])]


def markdown_section(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], before: Sequence[str] = ()) -> list[str]:
    """A heading with its table, behind an empty line; [] without rows. ``title``: with its #. ``before``: lines above the table."""
    return ["", title, "", *before, *markdown_table(header, rows)] if rows else []
