# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable that NCCL 2.32.3 reads, and names that its own library does not read: its in-tree plugins', removed, never existing,
other software's. Controller only; the rows, with what they were read from, are in tables/nccl_variables.yml.
"""

from typing import NamedTuple

from ..tables.rows import read_table, rows

VERSION = "2.32.3"


class Variable(NamedTuple):
    """A variable that NCCL (or a plugin in its source tree) reads."""

    name: str
    type: str  # int, bool, enum, list, string
    default: str  # as in the source; "unset" when there is none
    since: str  # the first tag that reads it; v2.3.5 stands for that or earlier
    meaning: str
    values: tuple[str, ...] = ()
    deprecated: str | None = None  # what to use instead ('': nothing); None: not deprecated


class Removed(NamedTuple):
    """A variable that NCCL no longer reads."""

    name: str
    existed: str  # first .. last tag
    replacement: str | None


class Other(NamedTuple):
    """A variable (or a glob of them) that looks like NCCL's and is read by other software."""

    name: str
    owner: str
    use_instead: str | None


_TABLE = read_table("nccl_variables")
VARIABLES: dict[str, Variable] = {row.name: row for row in rows(Variable, _TABLE["variables"])}
PLUGIN_VARIABLES: dict[str, Variable] = {row.name: row for row in rows(Variable, _TABLE["plugin_variables"])}
RANGES: dict[str, tuple[int, int]] = {name: (least, most) for name, (least, most) in _TABLE["ranges"].items()}
REMOVED: dict[str, Removed] = {row.name: row for row in rows(Removed, _TABLE["removed"])}
NEVER_IN_NCCL: dict[str, str | None] = _TABLE["never"]
OWNED_BY_OTHERS = rows(Other, _TABLE["others"])
NAMES = {*VARIABLES, *PLUGIN_VARIABLES, *REMOVED, *NEVER_IN_NCCL, *(row.name for row in OWNED_BY_OTHERS)}
