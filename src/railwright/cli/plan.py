# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright plan``: every change that apply would make, nothing done."""

from __future__ import annotations

from typing import Any

import typer

from railwright.cli import console
from railwright.cli.changes import CUT, change_line, disruptions, host_line, nodes_line, note_lines, problem_table, show_changes
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Session, heading, node_counts, node_document, overall, require
from railwright.events import RunOutcome
from railwright.exitcodes import ExitCode

HELP = """Show every change that `apply` would make; change nothing.

Ends 0 when nothing differs, 2 when something does, 1 when a node has a problem that no change can mend, \
3 when a node does not answer.

\b
Example:
  railwright plan -i mycluster --limit node1
"""


def command(inventory: Inventory, limit: Limit = None, form: OutputFormat = Format.TEXT) -> None:
    session = Session("plan", inventory, limit, form)
    outcome = session.run("plan")
    require(outcome, lambda host: host.planned, "plan")
    drift = [ExitCode.DRIFT for host in outcome.hosts.values() if host.changes]
    code = overall(outcome, *drift)
    nodes = {
        name: node_document(host) | {"changes": host.changes, "problems": host.problems, "notes": host.notes, "drivers": host.drivers}
        for name, host in sorted(outcome.hosts.items())
    }
    summary = _summary(outcome, code)
    session.store(nodes, [], summary, code)
    if form is Format.JSON:
        console.print_json({"nodes": nodes, "summary": summary})
    else:
        _show(outcome, summary)
    raise typer.Exit(code)


def _summary(outcome: RunOutcome, code: ExitCode) -> dict[str, Any]:
    hosts = outcome.hosts.values()
    return node_counts(outcome) | {
        "changes": sum(len(host.changes) for host in hosts),
        "problems": sum(len(host.problems) for host in hosts),
        "disruptions": disruptions(hosts),
        "exit_code": int(code),
    }


def _show(outcome: RunOutcome, summary: dict[str, Any]) -> None:
    for _name, host in sorted(outcome.hosts.items()):
        heading(host, host_line(host))
        if host.problems:
            problem_table(host.problems)
        console.pairs(host.drivers)
        note_lines(host.notes)
    cut = show_changes({name: host.changes for name, host in sorted(outcome.hosts.items()) if host.changes})
    if cut:
        console.say(CUT)
    changes, problems = change_line(summary["changes"], summary["disruptions"]), console.count(summary["problems"], "problem")
    console.say(f"{nodes_line(summary)}: {changes}, {problems}")
    asked = [name for name in summary["disruptions"] if name != "none"]
    if asked:
        console.note(f"apply needs consent to {', '.join(asked)}: in the inventory's rdma_consent, or --consent {','.join(asked)}")
