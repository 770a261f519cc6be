# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark's part of report.md: what was judged in one table, then a section a collective with its plot and its sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from railwright.report import bench as rows
from railwright.report.series import Plot
from railwright.report.text import markdown_cell, markdown_table

SUMMARY = ("Collective", "Judged busbw GB/s", "Floor GB/s", "Floor from", "Complete", "Seconds", "Transport")
TAIL = 20  # lines of a run that broke off; report.json has all that was kept


def bench(document: dict[str, Any], plots: Sequence[Plot]) -> list[str]:
    """Lines. ``plots``: in the order of the runs that measured anything."""
    pictures = {plot.number: plot for plot in plots}
    runs = rows.objects(document.get("runs"))
    lines = ["", "## nccl-tests", "", *_table(*_facts(document))]
    header, table = rows.versions(document)
    if table:
        lines += ["", *_table(header, table)]
    if runs:
        lines += ["", *_table(SUMMARY, [_summary(run) for run in runs])]
    for number, run in enumerate(runs):
        lines += ["", f"### {markdown_cell(rows.title(document, run))}", "", *_run(run, pictures.get(number))]
    affinity = list(rows.affinity_rows(document))
    if affinity:
        lines += ["", "### GPUs and HCAs", "", *_table(rows.AFFINITY, affinity)]
    return lines


def _facts(document: dict[str, Any]) -> tuple[Sequence[str], list[Sequence[str]]]:
    facts: list[Sequence[str]] = [
        ("Purpose", rows.figure(document.get("purpose"))),
        ("Launcher", rows.figure(document.get("launcher"))),
        ("Ranks", rows.figure(document.get("ranks"))),
        ("Hosts in rank order", ", ".join(map(str, document.get("hosts") or [])) or "-"),
    ]
    return ("", ""), facts


def _summary(run: dict[str, Any]) -> Sequence[str]:
    node = f" on {run['node']}" if run.get("node") else ""
    return (
        f"{run['collective']}{node}",
        rows.figure(run.get("judged_busbw")),
        rows.figure(run.get("floor")),
        "-" if run.get("floor") is None else str(run.get("floor_source") or "-"),
        "yes" if run.get("complete") else "NO",
        rows.figure(run.get("seconds"), ".1f"),
        rows.transport(run),
    )


def _run(run: dict[str, Any], plot: Plot | None) -> list[str]:
    lines = []
    if plot is not None:
        before = f"; grey: the previous run, {plot.before_id}" if plot.before is not None else ""
        lines += [f"![busbw over message size]({plot.file}.svg)", "", f"[The same as PNG]({plot.file}.png){before}", ""]
    lines += [f"- busbw: {markdown_cell(rows.judged(run))}", f"- run: {markdown_cell(rows.ended(run))}"]
    lines += [f"- transport: {markdown_cell(rows.transport(run))}"]
    lines += [f"- {markdown_cell(line)}" for line in rows.hcas(run)]
    if run.get("argv"):
        lines += [f"- command: {markdown_cell(' '.join(run['argv']))}"]
    settings = rows.members(run.get("environment"))
    if settings:
        lines += ["- environment: " + markdown_cell(" ".join(f"{name}={value}" for name, value in settings.items()))]
    if not run.get("complete"):
        lines += [f"- output: {markdown_cell(line)}" for line in (run.get("tail") or [])[-TAIL:]]
    table = rows.size_rows(run)
    return lines + (["", *_table(rows.SIZES, table)] if table else [])


def training(ddp: dict[str, Any]) -> list[str]:
    """The training benchmark's section."""
    lines = ["", "## Training benchmark", "", markdown_cell(rows.training(ddp)), "", *_table(rows.STEPS, [rows.step_row(ddp)])]
    header, table = rows.versions(ddp)
    return lines + (["", *_table(header, table)] if table else [])


def _table(header: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    return markdown_table([markdown_cell(cell) for cell in header], [tuple(markdown_cell(cell) for cell in row) for row in cells])
