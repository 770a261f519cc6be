# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright drift``: what differs from the inventory, since when, and by whom; one inspection a node."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright.cli import console, one_line
from railwright.cli.changes import alike, nodes_line
from railwright.cli.options import Areas, Format, Inventory, Limit, Transport, TransportOption, option, settings
from railwright.cli.rollout import Batch, Canary, MaxFailures, MaxUnavailable, asked, in_batches
from railwright.cli.session import Session, concluded, heading, require
from railwright.documents import moment
from railwright.drift import SEVERITIES, as_prometheus, fleet, folded_cell, rank, read_history, remember, unasked, write_history
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.report.text import is_shortened, short
from railwright.runs import Run
from railwright.writing import json_text, write_output

HELP = """Show what differs from the inventory: by node, area and severity, since when, and by whom where a node has a record of it. \
Change nothing.

One scan of all nodes. The same difference on many nodes is one line. Beside everything that `apply` would change it holds what devices \
and ports show, and the variables of NCCL that login shells, ssh commands and systemd services really get. Ends 0 when nothing differs, \
2 when something does, 1 when a node could not be judged, 3 when one does not answer.

\b
Examples:
  railwright drift -i mycluster
  railwright drift -i mycluster --severity critical --format json
  railwright drift -i mycluster --format prometheus -o /var/lib/node_exporter/railwright.prom
"""


class DriftFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    PROMETHEUS = "prometheus"


class Severity(StrEnum):
    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"


FORMAT_HELP = "text for people; json: one document; junit: for CI; prometheus: for node_exporter's textfile collector."
DriftForm = Annotated[DriftFormat, typer.Option("--format", "-f", metavar="FORM", help=FORMAT_HELP)]
WORST_HELP = "Only this and what is worse: critical, major or minor."
Worst = Annotated[Severity, typer.Option("--severity", metavar="SEVERITY", help=WORST_HELP)]
OUTPUT_HELP = "Write the result there instead of to stdout: whole or not at all. Not for text."
Output = Annotated[Path | None, option("--output", "-o", metavar="FILE", help=OUTPUT_HELP)]


def command(
    inventory: Inventory, limit: Limit = None, area: Areas = None, severity: Worst = Severity.MINOR, form: DriftForm = DriftFormat.TEXT,
    output: Output = None, batch: Batch = None, canary: Canary = None, max_failures: MaxFailures = None,
    max_unavailable: MaxUnavailable = None, transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    check_output(form, output)
    known_areas(area or [])
    session = Session("drift", inventory, limit, Format.JSON if form is DriftFormat.JSON else Format.TEXT)
    said = asked(batch, canary, max_failures, max_unavailable)
    outcome = in_batches(session, said, lambda part: part.scan("drift", transport))
    require(outcome, lambda host: host.drift is not None, "drift")
    seen = keep_history(session, outcome)

    end = concluded(outcome, lambda host: _node(host, seen.get(host.name, {}), area or [], severity), _totals,
                    lambda node: node["findings"])
    run = session.store(end) or session.record(end)
    if form is DriftFormat.TEXT and settings.one_line:
        one_line.show(end.nodes)
    elif form is DriftFormat.TEXT:
        _show(outcome, end.nodes, end.summary)
    else:
        rows = [{"nodes": row.nodes, **row.finding} for row in fleet({name: node["findings"] for name, node in end.nodes.items()})]
        document = {"nodes": end.nodes, "fleet": rows, "summary": end.summary}
        print_result(machine_form(form, run, partial(as_prometheus, end.nodes), document), output)
    raise typer.Exit(end.code)


def check_output(form: DriftFormat, output: Path | None) -> None:
    """Before a node is contacted."""
    if output is not None and form is DriftFormat.TEXT:
        raise InputError("--output is for --format json, junit or prometheus")
    if output is not None:
        expect_writable(output, "--output")


def expect_writable(file: Path, name: str) -> None:
    """Before a node is contacted: what all of them said would be lost. ``name``: of the option."""
    if file.is_dir():
        raise InputError(f"{name} {file}: is a directory; allowed: a file")
    if not file.parent.is_dir():
        raise InputError(f"{name} {file}: there is no directory {file.parent}")
    if not (file.exists() and not file.is_file()) and not os.access(file.parent, os.W_OK | os.X_OK):  # a device is written as it is
        raise InputError(f"{name} {file}: {file.parent} cannot be written to: permission denied")


def known_areas(names: list[str], allowed: Collection[str] = ()) -> None:
    """``allowed``: those of drift, where no other ones are given."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import KNOWN_AREAS

    allowed = allowed or KNOWN_AREAS
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise InputError(f"--area {unknown[0]}: no such area; allowed: {', '.join(allowed)}")


def _node(host: HostOutcome, seen: dict[str, str], areas: list[str], worst: Severity) -> dict[str, Any]:
    """One node of the document: its findings that were asked for, each with when it was first seen here."""
    drift = host.drift or {}
    findings = []
    for finding in drift.get("findings", []):
        if (areas and finding.get("area") not in areas) or rank(finding.get("severity")) > SEVERITIES.index(worst):
            continue
        findings.append({**finding, "since": moment(finding.get("since")), "first_seen": seen.get(str(finding.get("key")))})
    return {"findings": findings, "unknown": drift.get("unknown", []), "drivers": drift.get("drivers", {})}


def _totals(nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    counted = Counter(str(finding.get("severity")) for node in nodes.values() for finding in node["findings"])
    drifted = sum(bool(node["findings"]) for node in nodes.values())
    return {"drifted": drifted, "findings": {severity: counted.get(severity, 0) for severity in SEVERITIES}}


def keep_history(session: Session, outcome: RunOutcome) -> dict[str, dict[str, str]]:
    """Since when each difference is there, this run's last inspection included. A remediation is one too: what it fixed is forgotten."""
    before = read_history(session.inventory)
    answers = {name: host.drift for name, host in outcome.hosts.items() if host.drift is not None}
    keys = {name: [str(finding.get("key")) for finding in drift.get("findings", [])] for name, drift in answers.items()}
    found = {name: own + unasked(before.get(name, {}), answers[name].get("unasked", [])) for name, own in keys.items()}
    seen = remember(before, found, session.started.isoformat(timespec="seconds"))
    try:
        write_history(session.inventory, seen)
    except OSError as error:
        console.note(f"railwright: warning: not kept since when this drift is there: {error.filename}: {error.strerror}")
    return seen


def machine_form(form: DriftFormat, run: Run, prometheus: Callable[[float], str], document: dict[str, Any]) -> str:
    """``prometheus``: the text of a run that ended at this time."""
    if form is DriftFormat.JUNIT:
        from railwright.report.cases import as_junit, cases_of

        return as_junit(run, cases_of(run))
    return prometheus(datetime.now(UTC).timestamp()) if form is DriftFormat.PROMETHEUS else json_text(document)


def print_result(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    write_output(output, text, "--output")


def _show(outcome: RunOutcome, nodes: dict[str, dict[str, Any]], summary: dict[str, Any]) -> None:
    rows = fleet({name: node["findings"] for name, node in nodes.items()})
    cut = any(is_shortened(row.finding.get(part)) for row in rows for part in ("expected", "found"))
    unknown = grouped((str(text), name) for name, node in nodes.items() for text in node["unknown"])
    with console.paged():
        for host in alike({name: host for name, host in outcome.hosts.items() if host.status != "ok"}, lambda _host: ""):
            heading(host)
        if rows:
            console.out().line()
            console.table(("severity", "nodes", "area", "what", "expected", "found", "since", "by"), [_row(row) for row in rows])
        for text, names in unknown.items():
            console.say(console.styled("  unknown:", "unknown"), f"{folded_cell(names)}: {text}")
        if cut:
            console.say("Values are shortened here; --format json has them whole.")
        counted = ", ".join(f"{many} {severity}" for severity, many in summary["findings"].items())
        console.say(f"{nodes_line(summary)}, {summary['drifted']} drifted: {counted}")
    if any(row.finding.get("kind") == "setting" for row in rows):
        console.note("apply fixes what is a setting; `railwright plan` shows how")


def _row(row: Any) -> tuple[object, ...]:
    finding = row.finding
    severity = console.styled(finding.get("severity"), {"critical": "fail", "major": "warn"}.get(str(finding.get("severity")), "dim"))
    values = (finding.get("expected"), finding.get("found"))
    shown = ("", finding.get("why")) if values == (None, None) else (short(values[0]), short(values[1]))
    since = finding.get("since") or f"seen {finding.get('first_seen')}"
    return severity, folded_cell(row.nodes), finding.get("area"), finding.get("what"), *shown, since, finding.get("by") or ""
