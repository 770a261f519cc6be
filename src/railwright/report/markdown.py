# SPDX-License-Identifier: GPL-3.0-or-later
"""Markdown for a ticket or a pull request: the bad news first, the rest counted; then network, search, and a section a collective."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from railwright.report import bench as rows
from railwright.report import burn_in
from railwright.report import isolate as search
from railwright.report.cases import Case
from railwright.report.network import bandwidth, counters, reachability
from railwright.report.plot import Plot
from railwright.report.text import markdown_cell, markdown_section, markdown_table, short
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
        "Run": run.id, "Started": run.started, "Finished": run.finished, "Inventory": run.inventory, "Limit": run.limit or "all nodes",
        "Exit code": run.exit_code, "railwright": run.railwright,
    }  # fmt: skip
    lines += markdown_table(("", ""), facts.items())
    lines += ["", "## Nodes", "", *_nodes(cases)]
    for result in ORDER:
        chosen = [case for case in cases if case.result == result]
        if chosen:
            title = "Drift" if (result, run.verb) == ("failed", "plan") else TITLES[result]
            lines += markdown_section(f"## {title} ({len(chosen)})", CASES, [_case(case) for case in chosen])
    lines += reachability(run.reachability) + bandwidth(run.verdicts) + counters(run.traffic)
    if (found := search.document_of(run)) is not None:
        lines += search.section(found)
    if (burnt := burn_in.document_of(run)) is not None:
        lines += burn_in.section(burnt)
    if run.bench is not None:
        lines += bench(run.bench, plots)
    if run.ddp is not None:
        lines += training(run.ddp)
    return "\n".join(lines) + "\n"


def _nodes(cases: list[Case]) -> list[str]:
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        counted[case.node][case.result] += 1
    rows = [(node, *(str(own[result]) for result in ORDER)) for node, own in counted.items()]
    return markdown_table(("Node", *(result.capitalize() for result in ORDER)), rows)


CASES = ("Node", "Check", "What", "Expected", "Found", "Message")


def _case(case: Case) -> list[str]:
    return [short(text, LONGEST) for text in (case.node, case.group, case.name, case.expected, case.found, case.message)]


SUMMARY = ("Collective", "Nodes", "Judged busbw GB/s", "Floor GB/s", "Floor from", "Ceiling GB/s", "Complete", "Seconds", "Transport")
TAIL = 20  # lines of a run that broke off; report.json has all that was kept


def bench(document: dict[str, Any], plots: Sequence[Plot]) -> list[str]:
    """What was judged in one table, then a section a collective. ``plots``: in the order of the runs that measured anything."""
    pictures = {plot.number: plot for plot in plots}
    runs = objects(document.get("runs"))
    facts = {name: rows.figure(document.get(name.lower())) for name in ("Purpose", "Launcher", "Ranks")}
    facts["Hosts in rank order"] = ", ".join(map(str, document.get("hosts") or [])) or "-"
    lines = ["", "## nccl-tests", *_table(("", ""), facts.items()), *_table(*rows.versions(document))]
    lines += _table(SUMMARY, [summary_row(document, run) for run in runs])
    lines += ["", *(f"- not run: {markdown_cell(why)}" for why in document["left_out"])] if document.get("left_out") else []
    for number, run in enumerate(runs):
        lines += ["", f"### {markdown_cell(rows.title(document, run))}", "", *_run(run, pictures.get(number))]
    return lines + markdown_section("### GPUs and HCAs", rows.AFFINITY, list(rows.affinity_rows(document)))


def summary_row(document: dict[str, Any], run: dict[str, Any]) -> Sequence[str]:
    node = f" on {run['node']}" if run.get("node") and not run.get("label") else ""
    nodes = "1" if run.get("node") else str(len(run.get("nodes") or document.get("hosts") or []))
    source = "-" if run.get("floor") is None else str(run.get("floor_source") or "-")
    figures = (rows.figure(run.get("judged_busbw")), rows.figure(run.get("floor")), source, rows.figure(run.get("ceiling")),
               "yes" if run.get("complete") else "NO")  # fmt: skip
    return (f"{rows.name(run)}{node}", nodes, *figures, rows.figure(run.get("seconds"), ".1f"), rows.transport(run))


def _run(run: dict[str, Any], plot: Plot | None) -> list[str]:
    lines = []
    if plot is not None:
        before = f"; grey: the previous run, {plot.before_id}" if plot.before is not None else ""
        lines += [f"![busbw over message size]({plot.file}.svg)", "", f"[The same as PNG]({plot.file}.png){before}", ""]
    facts = [f"busbw: {rows.busbw_text(run)}", f"run: {rows.ended(run)}", f"transport: {rows.transport(run)}", *rows.hcas(run)]
    if rows.in_group(run):
        facts.append(f"nodes: {', '.join(map(str, run.get('nodes') or []))}")
    if run.get("argv"):
        facts.append(f"command: {' '.join(run['argv'])}")
    if settings := mapping(run.get("environment")):
        facts.append("environment: " + " ".join(f"{name}={value}" for name, value in settings.items()))
    if not run.get("complete"):
        facts += [f"output: {line}" for line in (run.get("tail") or [])[-TAIL:]]
    return lines + [f"- {markdown_cell(fact)}" for fact in facts] + _table(rows.SIZES, rows.size_rows(run))


def training(ddp: dict[str, Any]) -> list[str]:
    lines = ["", "## Training benchmark", "", markdown_cell(rows.training(ddp)), ""]
    lines += [f"- {markdown_cell(fact)}" for fact in rows.hcas(ddp)]
    return lines + _table(rows.STEPS, [rows.step_row(ddp)]) + _table(*rows.versions(ddp))


def _table(header: Sequence[str], cells: Collection[Sequence[str]]) -> list[str]:
    """With the empty line before it; nothing where there is no row."""
    return ["", *markdown_table(header, cells)] if cells else []
