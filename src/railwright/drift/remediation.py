# SPDX-License-Identifier: GPL-3.0-or-later
"""What a remediation says of one node, held to its form and its bounds; what is left, with the command that would mend it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from railwright.documents import flag, integer, items, record, text
from railwright.drift.document import FINDINGS

LISTED = 64
OUT_OF_SCOPE = ("area", "severity")  # what nobody asked for: no drift to the exit code
ROW = record(
    ("key", "area", "what"),
    key=text(),
    kind=text(32),
    area=text(64),
    what=text(),
    severity=text(32),
    disruption=text(32),
    cause=text(32),
    reason=text(),
)
ROWS = items(ROW, FINDINGS)
REMEDIATION = record(
    ("stage",),
    stage=text(32),
    round=integer,
    mend=items(text(), FINDINGS),
    tried=ROWS,
    left=ROWS,
    mended=ROWS,
    still=ROWS,
    new=ROWS,
    clean=flag,
    consent=items(text(32), LISTED),
)


def remediation_document(result: Any) -> dict[str, Any] | None:
    """None where a task said nothing of the kind."""
    found: dict[str, Any] | None = REMEDIATION(result.get("remediation")) if isinstance(result, dict) else None
    return found


def out_of_scope(row: Mapping[str, Any]) -> bool:
    return row.get("cause") in OUT_OF_SCOPE


def command_for(row: Mapping[str, Any], inventory: str, nodes: Iterable[str], consent: Iterable[str], also: Iterable[str]) -> str | None:
    """The command that would mend what is left; None where none does.

    ``consent``: the classes that are allowed already, as --consent takes their place. ``also``: those of everything else that is left
    on these nodes, since apply makes the whole plan or nothing.
    """
    where = f"-i {shlex.quote(inventory)} --limit {shlex.quote(','.join(sorted(nodes)))}"
    cause, disruption = row.get("cause"), str(row.get("disruption") or "")
    allowed = {name for name in consent if name}
    if cause == "consent":
        return f"railwright remediate {where} --consent {','.join(sorted({*allowed, disruption}))}"
    if cause == "reboot":
        classes = {*allowed, *also, "reboot"} - {"", "none"}
        return f"railwright apply {where} --consent {','.join(sorted(classes))}"
    if cause in ("problem", "refused"):
        return f"railwright plan {where}"
    if cause in ("needs", "new", *OUT_OF_SCOPE):
        return f"railwright remediate {where}"
    return None
