# SPDX-License-Identifier: GPL-3.0-or-later
"""A short plain-text table of what did not pass, for people who run the playbook without the CLI."""

import json
from collections import Counter
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.types import VERDICT_STATUSES, Verdict

COLUMNS = ("status", "node", "check", "subject", "expected", "found", "why")
WIDEST = {"subject": 34, "expected": 26, "found": 34, "why": 90}
ORDER = ("fail", "warn", "unknown", "unproven", "skipped")


def verdict_table(verdicts: list[dict[str, Any]]) -> str:
    """What did not pass as rows, the rest as a count. Skips that only say "no expectation" are counted, not listed."""
    shown = [item for item in verdicts if item["status"] in ("fail", "warn", "unknown", "unproven")]
    shown.sort(key=lambda item: (ORDER.index(item["status"]), item["node"], item["check"], item["subject"]))
    rows = [COLUMNS, *(_row(item) for item in shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows] if shown else []
    counts = Counter(item["status"] for item in verdicts)
    total = ", ".join(f"{counts[status]} {status}" for status in ("pass", *ORDER) if counts[status])
    return "\n".join([*lines, f"verdicts: {total or 'none'}"])


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    where = item["node"] or "cluster"
    subject = item["subject"] if item["hca"] is None else f"{item['subject']} {item['hca']}/{item['port']}"
    cells = {"status": item["status"], "node": where, "check": item["check"], "subject": subject,
             "expected": _text(item, "expected"), "found": _text(item, "found"), "why": item["message"]}
    return tuple(_short(cells[column], WIDEST.get(column)) for column in COLUMNS)


def _text(item: dict[str, Any], key: str) -> str:
    """A value in a cell. In a planned change null means that the thing is not there, elsewhere that there is no value."""
    value = item[key]
    if value is None:
        planned = item["check"].startswith("config.") and item["expected"] != item["found"]
        return "absent" if planned else "-"
    if isinstance(value, str):
        return f"text of {value.count(chr(10))} lines" if value.count("\n") > 1 else value
    return json.dumps(value)


def _short(text: str, width: int | None) -> str:
    """One printable line: file contents and node data may hold newlines or escapes, and a terminal must not obey them."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    return clean if width is None or len(clean) <= width else clean[: width - 1] + "…"


def own_verdict(node: str, item: dict[str, Any]) -> dict[str, Any]:
    given = {field: item.get(field) for field in Verdict._fields}
    status = given["status"] if given["status"] in VERDICT_STATUSES else "fail"
    texts = {field: str(given[field] or "") for field in ("check", "subject", "message")}
    return {**given, **texts, "node": node, "status": status}


def summarise(nodes: list[str], verdicts: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Counts by node and status. A failure of the whole cluster ('' as its node) counts for every node: none of it is proven."""
    summary = {node: dict.fromkeys(VERDICT_STATUSES, 0) for node in nodes}
    for item in verdicts:
        concerned = [item["node"]] if item["node"] else nodes
        for node in concerned:
            summary.setdefault(node, dict.fromkeys(VERDICT_STATUSES, 0))[item["status"]] += 1
    return summary
