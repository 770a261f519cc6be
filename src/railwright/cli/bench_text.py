# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of `bench` on a terminal: a table a collective, what was judged, which way the data went."""

from __future__ import annotations

from typing import Any

from railwright.cli import console
from railwright.report import bench as rows

HCAS = 8  # ranks whose HCAs are shown; the report has all


def show_bench(bench: dict[str, Any]) -> None:
    header, table = rows.versions(bench)
    if table:
        console.table(header, table)
    for run in rows.objects(bench.get("runs")):
        _show_run(bench, run)


def _show_run(bench: dict[str, Any], run: dict[str, Any]) -> None:
    console.out().line()
    console.say(console.styled(rows.title(bench, run), "node"))
    table = rows.size_rows(run)
    if table:
        console.table(rows.SIZES, table)
    hcas = rows.hcas(run)
    more = f"; {len(hcas) - HCAS} more" if len(hcas) > HCAS else ""
    lines = {"busbw": rows.judged(run), "run": rows.ended(run), "transport": rows.transport(run)}
    console.pairs(lines | ({"HCAs": "; ".join(hcas[:HCAS]) + more} if hcas else {}))
    if not run.get("complete"):
        for line in run.get("tail") or []:
            console.say(console.styled(f"    {line}", "dim"))


def show_ddp(ddp: dict[str, Any]) -> None:
    console.out().line()
    console.say(console.styled("training", "node"), rows.training(ddp))
    header, table = rows.versions(ddp)
    if table:
        console.table(header, table)
    console.table(rows.STEPS, [rows.step_row(ddp)])
