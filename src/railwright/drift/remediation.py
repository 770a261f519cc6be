# SPDX-License-Identifier: GPL-3.0-or-later
"""What a remediation says of one node, held to its form and its bounds; what is left, with the command that would mend it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from railwright.documents import flag, integer, items, record, text
from railwright.drift.document import FINDINGS
from railwright.drift.fleet import SEVERITIES, rank

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
    needs=text(),
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


class Asked(NamedTuple):
    """The options of this run that say how much it does, as they were given; what stands here by itself is the options' default."""

    areas: tuple[str, ...] = ()
    severity: str = SEVERITIES[-1]
    batch: str = "10%"
    consent: tuple[str, ...] | None = None  # None: the inventory's list holds


class Remedy(NamedTuple):
    """A command without its nodes: it may be the same for several of them, and is then printed once."""

    verb: str
    options: tuple[str, ...] = ()

    def line(self, inventory: str, nodes: Iterable[str]) -> str:
        return shlex.join(("railwright", self.verb, "-i", inventory, "--limit", ",".join(sorted(nodes)), *self.options))


def remedy(row: Mapping[str, Any], asked: Asked, consent: Iterable[str], others: Iterable[Mapping[str, Any]]) -> Remedy | None:
    """What would mend one row that is left on one node; None where no command does.

    ``consent``: the classes that are allowed there already, as --consent takes their place. ``others``: everything that is left on the
    node. A row that needs another one first is mended by whatever mends that one; apply makes the whole plan or nothing.
    """
    others = list(others)
    ground = _ground(row, others)
    cause = ground.get("cause")
    if cause == "consent":
        return Remedy("remediate", _same(asked, ground) + _consent({*consent, str(ground.get("disruption"))}))
    if cause == "reboot":
        also = {str(other.get("disruption") or "") for other in others if not out_of_scope(other)}
        return Remedy("apply", _consent({*consent, *also, "reboot"}))
    if cause in ("problem", "refused"):
        return Remedy("plan")
    if cause in ("needs", "new", *OUT_OF_SCOPE):
        return Remedy("remediate", _same(asked, ground) + (() if asked.consent is None else _consent(set(asked.consent))))
    return None


def _ground(row: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row that is to be fixed first; the row itself where it stands by itself."""
    by_key = {str(other.get("key")): other for other in others}
    for _step in by_key:  # a node wrote it: rows that need each other in a ring end, too
        row = by_key.get(str(row.get("needs") or ""), row)
    return row


def _same(asked: Asked, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The run's own options again, without those that would leave the row out."""
    found = [word for area in asked.areas for word in ("--area", area)] if row.get("area") in asked.areas else []
    if asked.severity != Asked().severity and rank(row.get("severity")) <= SEVERITIES.index(asked.severity):
        found += ["--severity", asked.severity]
    return (*found, *(("--batch", asked.batch) if asked.batch != Asked().batch else ()))


def _consent(classes: set[str]) -> tuple[str, ...]:
    return ("--consent", ",".join(sorted(classes - {"", "none"})))
