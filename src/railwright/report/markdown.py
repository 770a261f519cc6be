# SPDX-License-Identifier: GPL-3.0-or-later
"""Markdown for a ticket or a pull request: the bad news first, the rest counted."""

from __future__ import annotations

from collections.abc import Sequence

from railwright.report import bench_markdown, reach, traffic
from railwright.report.cases import Case
from railwright.report.series import Plot
from railwright.report.text import markdown_cell, markdown_table, short
from railwright.runs import Run

LONGEST = 200  # characters of one cell; report.json has the whole text
ORDER = ("error", "failed", "warning", "unknown", "unproven", "skipped", "passed")
TITLES = {
    "error": "Nodes without a result",
    "failed": "Failed",
    "warning": "Warnings",
    "unknown": "Unknown",
    "unproven": "Unproven",
    "skipped": "Skipped",
    "passed": "Passed",
}


def as_markdown(run: Run, cases: list[Case], plots: Sequence[Plot] = ()) -> str:
    """The whole document; every cell that may hold node data is escaped. ``plots``: pictures that lie beside it."""
    lines = [f"# railwright {markdown_cell(run.verb)}", ""]
    facts = {
        "Run": run.id,
        "Started": run.started,
        "Finished": run.finished,
        "Inventory": run.inventory,
        "Limit": run.limit or "all nodes",
        "Exit code": run.exit_code,
        "railwright": run.railwright,
    }
    lines += markdown_table(("", ""), [(name, markdown_cell(value)) for name, value in facts.items()])
    lines += ["", "## Nodes", "", *_nodes(cases)]
    for result in ORDER:
        chosen = [case for case in cases if case.result == result]
        if chosen:
            lines += ["", f"## {_title(result, run.verb)} ({len(chosen)})", "", *_cases(chosen)]
    lines += reach.markdown(run.reachability) + traffic.markdown(run.traffic)
    if run.bench is not None:
        lines += bench_markdown.bench(run.bench, plots)
    if run.ddp is not None:
        lines += bench_markdown.training(run.ddp)
    return "\n".join(lines) + "\n"


def _title(result: str, verb: str) -> str:
    return "Drift" if (result, verb) == ("failed", "plan") else TITLES[result]


def _nodes(cases: list[Case]) -> list[str]:
    rows = []
    for node in dict.fromkeys(case.node for case in cases):
        own = [case.result for case in cases if case.node == node]
        rows.append((markdown_cell(node), *(str(own.count(result)) for result in ORDER)))
    return markdown_table(("Node", *(result.capitalize() for result in ORDER)), rows)


def _cases(cases: list[Case]) -> list[str]:
    texts = [(case.node, case.group, case.name, case.expected, case.found, case.message) for case in cases]
    rows = [tuple(markdown_cell(short(text, LONGEST)) for text in row) for row in texts]
    return markdown_table(("Node", "Check", "What", "Expected", "Found", "Message"), rows)

