# SPDX-License-Identifier: GPL-3.0-or-later
"""The same difference on many nodes is one line: findings grouped by what they say, node names folded into ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SEVERITIES = ("critical", "major", "minor")
SAME = ("key", "kind", "severity", "expected", "found", "why")
CELL = 40  # characters of folded names in a table


class Row(NamedTuple):
    """One difference and every node that has it."""

    finding: dict[str, Any]
    nodes: list[str]


def rank(severity: object) -> int:
    """0 is the worst. An unknown word is a newer node's; it must not hide at the end."""
    return SEVERITIES.index(str(severity)) if severity in SEVERITIES else 0


def fleet(nodes: Mapping[str, Iterable[dict[str, Any]]]) -> list[Row]:
    """Worst first, then what most nodes have. The earliest `first_seen` and `since` of a group stand for it."""
    groups: dict[str, Row] = {}
    for name, findings in nodes.items():
        for finding in findings:
            same = json.dumps([finding.get(part) for part in SAME], sort_keys=True)
            row = groups.setdefault(same, Row(dict(finding), []))
            row.nodes.append(name)
            for part in ("first_seen", "since"):
                times = [value for value in (row.finding.get(part), finding.get(part)) if value]
                row.finding[part] = min(times) if times else None
    return sorted(
        groups.values(), key=lambda row: (rank(row.finding.get("severity")), -len(row.nodes), str(row.finding.get("key")), row.nodes)
    )


def fold(names: Iterable[str]) -> str:
    """`gpu[001-004,007],login1`: ranges over the last number of a name, its zeros kept, everything in natural order.

    Where one number of a width is filled up with zeros, all of that width are: `gpu[001-400]`. The rest goes together as `gpu[1-400]`.
    """
    plain: list[str] = []
    found: list[tuple[str, str, str]] = []
    for name in sorted(set(names)):
        match = _last_number(name)
        if match is None:
            plain.append(name)
        else:
            found.append(match)
    padded = {(head, tail, len(digits)) for head, digits, tail in found if len(digits) > 1 and digits.startswith("0")}
    series: dict[tuple[str, str, int], list[int]] = {}
    for head, digits, tail in found:
        width = len(digits)
        series.setdefault((head, tail, width if (head, tail, width) in padded else 0), []).append(int(digits))
    folded = [_folded(head, tail, width, sorted(numbers)) for (head, tail, width), numbers in series.items()]
    return ",".join(sorted(folded + plain))


def folded_cell(names: list[str]) -> str:
    """The same for a table: at most 40 characters, and the number of nodes where there are several."""
    folded = fold(names)
    several = f" ({len(names)})" if len(names) > 1 else ""
    return (folded if len(folded) <= CELL else folded[: CELL - 1] + "…") + several


def _last_number(name: str) -> tuple[str, str, str] | None:
    numbers = list(re.finditer(r"[0-9]+", name))
    if not numbers:
        return None
    last = numbers[-1]
    return name[: last.start()], last[0], name[last.end() :]


def _folded(head: str, tail: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{head}{numbers[0]:0{width}d}{tail}"
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    parts = [f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}" for first, last in runs]
    return f"{head}[{','.join(parts)}]{tail}"
