# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of the NCCL catalogue's rows."""

from __future__ import annotations

from typing import NamedTuple


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
