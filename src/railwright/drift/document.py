# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of one node to `drift`, held to its form and its bounds: a node wrote it."""

from __future__ import annotations

import json
from typing import Any

from railwright.documents import FILE, items, mapping, number, record, text

FINDINGS = 4096  # of one node
LINES = 1024


def value(found: Any) -> Any:
    """A value of a plan: any JSON. What is larger than a file becomes text, and is cut."""
    try:
        size = len(json.dumps(found))
    except (TypeError, ValueError):
        return None
    return found if size <= FILE else text(FILE)(json.dumps(found))


FINDING = record(
    ("key", "kind", "area", "what", "severity"),
    key=text(),
    kind=text(32),
    area=text(64),
    what=text(),
    expected=value,
    found=value,
    severity=text(32),
    disruption=text(32),
    why=text(),
    since=number,
    by=text(),
)
DRIFT = record(
    findings=items(FINDING, FINDINGS),
    judged=items(text(64), LINES),
    unknown=items(text(), LINES),
    unasked=items(text(64), LINES),
    drivers=mapping(text(), 64),
    notes=items(text(), LINES),
)


def drift_document(result: Any) -> dict[str, Any] | None:
    """None when it is no answer to drift at all: nothing found and nothing said are two things."""
    if not isinstance(result, dict) or not isinstance(result.get("findings"), list):
        return None
    found: dict[str, Any] | None = DRIFT(result)
    return found
