# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of error lines in logs of jobs (tables/nccl_lines.yml), and the row of a line. Pure."""

import re
from functools import cache
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.xids import ACTIONS, APP, XIDS
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.rows import read_table, rows

CAUSE, LEAD, CONSEQUENCE, BENIGN, UNKNOWN = "cause", "lead", "consequence", "benign", "unknown"
KINDS = (CAUSE, LEAD, CONSEQUENCE, BENIGN)
UNLISTED = "this release does not know the line"


class Means(NamedTuple):
    """One value of a lookup table. ``value``: a number, or a part of the text; "" is every other."""

    value: str
    kind: str
    means: str
    next: str = ""


class LineRow(NamedTuple):
    """A row of ``lines``. ``by``: the table that decides on kind, meaning and next step instead."""

    name: str
    of: str
    pattern: str
    source: str
    kind: str = ""
    means: str = ""
    next: str = ""
    by: str = ""
    shutdown: bool = False


class Line(NamedTuple):
    """What the table says of one line."""

    row: str
    kind: str
    means: str
    next: str
    shutdown: bool
    fields: dict[str, str]


class Table(NamedTuple):
    nccl: tuple[tuple[LineRow, re.Pattern[str]], ...]
    text: tuple[tuple[LineRow, re.Pattern[str]], ...]
    values: dict[str, tuple[Means, ...]]


@cache
def table() -> Table:
    given = read_table("nccl_lines")
    compiled = [(row, re.compile(row.pattern)) for row in rows(LineRow, given.pop("lines"))]
    return Table(tuple(item for item in compiled if item[0].of == "nccl"), tuple(item for item in compiled if item[0].of == "text"),
                 {name: rows(Means, own) for name, own in given.items()})


def look_up(text: str, *, nccl: bool) -> Line | None:
    """The first row that fits a line; ``nccl``: the text is what follows "NCCL WARN"."""
    found = table()
    for row, pattern in found.nccl if nccl else found.text:
        line = pattern.search(text)
        if line is not None:
            fields = {name: value for name, value in line.groupdict().items() if value}
            means = _means(row, fields, found)
            return Line(row.name, means.kind, means.means, means.next, row.shutdown, fields)
    return None


def _means(row: LineRow, fields: dict[str, str], found: Table) -> Means:
    if not row.by:
        return Means("", row.kind, row.means, row.next)
    status, text = fields.get("status", ""), fields.get("text", "")
    if row.by == "xids":
        return _xid(int(status))
    named = [item for item in found.values[row.by] if item.value]
    fitting = [item for item in named if item.value == status] or [item for item in named if len(item.value) > 3 and item.value in text]
    return fitting[0] if fitting else found.values[row.by][-1]


def _xid(number: int) -> Means:
    """An application's own Xid follows from what the program did; another is the GPU's."""
    known = XIDS.get(number)
    if known is None:
        return Means("", UNKNOWN, "an Xid that this release does not know", "NVIDIA's catalogue of Xids")
    status, todo = ACTIONS[known.action]
    kind = CAUSE if status == "fail" else LEAD if known.action == APP else CONSEQUENCE
    return Means("", kind, f"Xid {number}: {known.name}", todo)
