# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of one node to `rollback`, held to its form and its bounds: a node wrote it."""

from __future__ import annotations

from typing import Any

from railwright.documents import flag, integer, items, number, record, text

POINTS = 4096  # of one node; a node keeps those of twenty runs

RUN = record(
    ("run",),
    run=text(),
    points=integer,
    when=number,
    state=text(64),
    files=integer,
    values=integer,
    commands=integer,
    packages=integer,
    packages_assumed=flag,
    undid=items(text(), POINTS),
)
ROLLBACK = record(known=flag, to=text(), undone=items(text(), POINTS), restore_points=items(RUN, POINTS))


def rollback_document(result: Any) -> dict[str, Any] | None:
    """None when it is no answer to rollback: a record of packages is none."""
    if not isinstance(result, dict) or not isinstance(result.get("restore_points"), list):
        return None
    found: dict[str, Any] | None = ROLLBACK(result)
    return found
