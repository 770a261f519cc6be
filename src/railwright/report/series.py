# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plots show: the measured series of a run, and those of the run before it that can be compared with it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from railwright.exitcodes import InputError
from railwright.report import bench as rows
from railwright.runs import Run, load, stored

Points = tuple[tuple[int, float], ...]
SEARCHED = 50  # stored runs that are read in search of the previous one


class Series(NamedTuple):
    """busbw in GB/s over message size in bytes."""

    out_of_place: Points
    in_place: Points


class Plot(NamedTuple):
    """One picture."""

    number: int  # of the run in the document
    file: str  # without what says in which form
    title: str
    now: Series
    floor: float | None
    floor_source: str
    wrong: Points  # points at which values were damaged
    before: Series | None
    before_id: str


def series(run: dict[str, Any]) -> Series:
    return Series(_points(run, "out_of_place"), _points(run, "in_place"))


def _points(run: dict[str, Any], half: str, *, wrong: bool = False) -> Points:
    found = []
    for row in rows.objects(run.get("rows")):
        values = rows.members(row.get(half))
        busbw, size = values.get("busbw"), row.get("size")
        # A row of size 0 has no place on a logarithmic axis; nor has it a bandwidth.
        if isinstance(busbw, int | float) and isinstance(size, int) and size > 0 and (not wrong or values.get("wrong")):
            found.append((size, float(busbw)))
    return tuple(sorted(found))


def plots(run: Run) -> list[Plot]:
    """A picture for each run that measured anything; [] for a record without a benchmark."""
    bench = run.bench or {}
    found: list[Plot] = []
    for number, own in enumerate(rows.objects(bench.get("runs"))):
        now = series(own)
        if not any(now):
            continue
        before_id, before = _previous(run, own)
        wrong = tuple(sorted(set(_points(own, "out_of_place", wrong=True) + _points(own, "in_place", wrong=True))))
        floor = own["floor"] if isinstance(own.get("floor"), int | float) else None
        names = [plot.file for plot in found]
        found.append(
            Plot(number, _file(str(own["collective"]), names), rows.title(bench, own), now, floor, str(own.get("floor_source") or ""),
                 wrong, before, before_id))
    return found


def _file(collective: str, taken: list[str]) -> str:
    """``busbw-all_reduce``; a second run of the same collective gets a number. No other characters, whatever the record says."""
    name = "busbw-" + (re.sub(r"[^A-Za-z0-9_]", "", collective)[:40] or "run")
    number = 2
    chosen = name
    while chosen in taken:
        chosen, number = f"{name}-{number}", number + 1
    return chosen


def _previous(run: Run, own: dict[str, Any]) -> tuple[str, Series | None]:
    """The newest stored run before this one with the same inventory, collective, launcher, ranks and, of local runs, node."""
    ids = [identity for identity in stored() if identity.endswith("-bench") or "-bench-" in identity]
    before = ids[: ids.index(run.id)] if run.id in ids else [identity for identity in ids if identity[:16] <= run.id[:16]]
    for identity in reversed(before[-SEARCHED:]):
        try:
            other = load(identity)
        except InputError:  # a broken or foreign record is no reason to have no plot
            continue
        if other.inventory != run.inventory or not _alike(other.bench or {}, run.bench or {}):
            continue
        for candidate in rows.objects((other.bench or {}).get("runs")):
            same = all(candidate.get(key) == own.get(key) for key in ("collective", "node"))
            if same and any(series(candidate)):
                return identity, series(candidate)
    return "", None


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("launcher", "ranks"))
