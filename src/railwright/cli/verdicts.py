# SPDX-License-Identifier: GPL-3.0-or-later
"""How verdicts are shown: what failed first, then what could not be judged; passes are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from railwright.cli import console
from railwright.report.cases import CLUSTER
from railwright.report.text import short

ORDER = ("fail", "warn", "unknown", "skipped", "pass")
COLUMNS = ("status", "node", "check", "HCA", "port", "subject", "expected", "found", "message")


def counts(verdicts: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Every status, also those that nothing has."""
    found = Counter(_status(verdict) for verdict in verdicts)
    return {status: found.get(status, 0) for status in ORDER}


def _status(verdict: dict[str, Any]) -> str:
    status = str(verdict.get("status"))
    return status if status in ORDER else "fail"


def ordered(verdicts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(verdicts, key=lambda verdict: (ORDER.index(_status(verdict)), str(verdict.get("node")), str(verdict.get("check"))))


def show(verdicts: list[dict[str, Any]], *, passes: bool) -> None:
    """The table of what needs a person; with ``passes`` every verdict."""
    hidden = () if passes else ("pass", "skipped")
    rows = [_row(verdict) for verdict in ordered(verdicts) if _status(verdict) not in hidden]
    if rows:
        console.table(COLUMNS, rows)
    console.say(line(counts(verdicts)))


def line(number: dict[str, int]) -> str:
    """`verdicts: 2 fail, 0 warn, 1 unknown, 0 skipped, 40 pass`."""
    return "verdicts: " + ", ".join(f"{many} {status}" for status, many in number.items())


def _row(verdict: dict[str, Any]) -> tuple[object, ...]:
    return (
        console.styled(_status(verdict)),
        verdict.get("node") or CLUSTER,
        verdict.get("check"),
        verdict.get("hca") or "-",
        "-" if verdict.get("port") is None else verdict["port"],
        verdict.get("subject") or "-",
        short(verdict.get("expected")) if verdict.get("expected") is not None else "-",
        short(verdict.get("found")) if verdict.get("found") is not None else "-",
        verdict.get("message") or "",
    )
