# SPDX-License-Identifier: GPL-3.0-or-later
"""Two stored runs beside each other: what has become worse, what better, which figures moved. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import number
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from railwright.report import bench as rows
from railwright.report.cases import Case, cases_of
from railwright.report.markdown import ORDER
from railwright.runs import Run

GOOD = ("passed", "skipped")
ABSENT = "not judged"


class Moved(NamedTuple):
    """One judged thing whose result differs. ``way``: worse, better, or other where one run has not judged it."""

    way: str
    node: str
    check: str
    name: str
    before: str
    after: str
    message: str  # of the second run, or of the first where that alone has it


class Speed(NamedTuple):
    """busbw in GB/s, judged on the largest sizes; None where a run has none."""

    what: str
    before: float | None
    after: float | None
    percent: float | None


def moved(one: Run, other: Run) -> list[Moved]:
    """From ``one`` to ``other``, the worse first. What is new or gone and good is left out: nobody has to do anything about it."""
    before, after = _by_place(one), _by_place(other)
    found = []
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        results = [case.result if case is not None else "" for case in (old, new)]
        case = new or old
        if case is None or results[0] == results[1] or (not all(results) and case.result in GOOD):
            continue
        found.append(Moved(_way(*results), *place, results[0] or ABSENT, results[1] or ABSENT, case.message))
    return sorted(found, key=lambda row: ("worse", "other", "better").index(row.way))


def _by_place(run: Run) -> dict[tuple[str, str, str], Case]:
    """The worst of what has one name."""
    found: dict[tuple[str, str, str], Case] = {}
    for case in sorted(cases_of(run), key=lambda case: -ORDER.index(case.result)):
        found[case.node, case.group, case.name] = case
    return found


def _way(before: str, after: str) -> str:
    if not before or not after:
        return "worse" if after and after not in GOOD else "other"
    return "worse" if ORDER.index(after) < ORDER.index(before) else "better"


def speeds(one: Run, other: Run) -> list[Speed]:
    """Of each collective that one of them has measured."""
    before, after = (dict(_busbw(run.bench or {})) for run in (one, other))
    names = [*before, *(name for name in after if name not in before)]
    return [Speed(name, before.get(name), after.get(name), _percent(before.get(name), after.get(name))) for name in names]


def _busbw(bench: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    for run in objects(bench.get("runs")):
        yield rows.title(bench, run), number(run.get("judged_busbw"))


def _percent(before: float | None, after: float | None) -> float | None:
    return 100 * (after / before - 1) if before and after is not None else None
