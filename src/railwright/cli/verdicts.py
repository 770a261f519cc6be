# SPDX-License-Identifier: GPL-3.0-or-later
"""How verdicts are shown: what failed first, then what could not be judged; passes are counted."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.text import Text

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import CHECK, UNIT
from railwright.cli import console
from railwright.report.text import CLUSTER, printable, short

ORDER = ("fail", "warn", "unknown", "unproven", "skipped", "pass")
GBS = dict.fromkeys(("nccl.busbw", "nccl.baseline"), "GB/s")
UNITS = {check: UNIT[test] for test, check in CHECK.items()} | GBS | {"ddp.throughput": "samples/s"}
SHOWN = 3  # different values found that are shown for a check that passed
WIDE = 150  # columns of a terminal that nine columns of verdicts need
NARROW_COLUMNS = ("status", "node", "check", "what")
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


def show_verdicts(verdicts: list[dict[str, Any]], *, passes: bool) -> None:
    """The table of what needs a person; with ``passes`` every verdict."""
    hidden = () if passes else ("pass", "skipped")
    chosen = [verdict for verdict in ordered(verdicts) if _status(verdict) not in hidden]
    if chosen and console.out().width < WIDE:
        console.table(NARROW_COLUMNS, [_narrow_row(verdict) for verdict in chosen])
    elif chosen:
        console.table(COLUMNS, [_row(verdict) for verdict in chosen])
    if not passes:
        _show_passed([verdict for verdict in verdicts if _status(verdict) == "pass"])
    console.say(line(counts(verdicts)))


def _show_passed(passed: list[dict[str, Any]]) -> None:
    """What was proven, a line for every check: how often, and what was found."""
    found: dict[str, Counter[str]] = {}
    # Measurements last, where the eye rests when the run has ended.
    for verdict in sorted(passed, key=lambda verdict: (verdict.get("check") in UNITS, str(verdict.get("check")))):
        value = "" if verdict.get("found") is None else f"{short(verdict['found'])} {UNITS.get(str(verdict.get('check')), '')}".rstrip()
        found.setdefault(str(verdict.get("check")), Counter())[value] += 1
    rows = []
    for check, values in found.items():
        shown = [value for value in values if value]
        more = f" … {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
        rows.append((console.styled("pass"), check, sum(values.values()), ", ".join(shown[:SHOWN]) + more))
    if rows:
        console.table(("status", "check", "times", "found"), rows)


def _narrow_row(verdict: dict[str, Any]) -> tuple[object, ...]:
    """All that is not the verdict's address goes into one column, line by line: nine columns would be a letter wide."""
    status, node, check, hca, port, subject, expected, found, message = _row(verdict)
    place = " ".join(str(part) for part in ("" if hca == "-" else hca, "" if port == "-" else f"port {port}", subject) if part)
    lines = [place] + ([f"expected {expected}, found {found}"] if (expected, found) != ("-", "-") else []) + ([message] if message else [])
    return status, node, check, Text("\n".join(printable(text) for text in lines))


def worst(number: dict[str, int]) -> str:
    """The first status of ORDER that something has and that needs a person; else ok."""
    return next((status for status in ORDER if number[status] and status not in ("skipped", "pass")), "ok")


def line(number: dict[str, int]) -> str:
    """`verdicts: 2 fail, 0 warn, 1 unknown, 0 unproven, 0 skipped, 40 pass`."""
    return "verdicts: " + ", ".join(f"{many} {status}" for status, many in number.items())


def _row(verdict: dict[str, Any]) -> tuple[object, ...]:
    node, hca, subject = verdict.get("node") or CLUSTER, verdict.get("hca") or "-", verdict.get("subject") or "-"
    port = "-" if verdict.get("port") is None else verdict["port"]
    expected, found = ("-" if verdict.get(part) is None else short(verdict[part]) for part in ("expected", "found"))
    return console.styled(_status(verdict)), node, verdict.get("check"), hca, port, subject, expected, found, verdict.get("message") or ""
