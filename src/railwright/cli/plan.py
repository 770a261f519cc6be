# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright plan``: every change that apply would make, nothing done."""

from __future__ import annotations

from typing import Any

from railwright.cli import console
from railwright.cli.changes import change_line, disruptions, nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Session, node_counts, node_document, overall, require
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
    session.finish({"nodes": nodes, "summary": summary}, code, lambda: _show(outcome, nodes, summary))


def _summary(outcome: RunOutcome, code: ExitCode) -> dict[str, Any]:
    hosts = outcome.hosts.values()
    return node_counts(outcome) | {
        "changes": sum(len(host.changes) for host in hosts),
        "problems": sum(len(host.problems) for host in hosts),
        "disruptions": disruptions(hosts),
        "exit_code": int(code),
    }


def _show(outcome: RunOutcome, nodes: dict[str, dict[str, Any]], summary: dict[str, Any]) -> None:
    show_hosts(outcome.hosts, lambda host: host.drivers)
    show_changes(nodes)
    changes, problems = change_line(summary["changes"], summary["disruptions"]), console.count(summary["problems"], "problem")
    console.say(f"{nodes_line(summary)}: {changes}, {problems}")
    asked = [name for name in summary["disruptions"] if name != "none"]
    if asked:
        console.note(f"apply needs consent to {', '.join(asked)}: in the inventory's rdma_consent, or --consent {','.join(asked)}")
