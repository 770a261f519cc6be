# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright env``: the Python environment that jobs run in, made on every node, or only shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.changes import nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Session, node_counts, node_document, overall, require
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import ExitCode

HELP = """Make the Python environment with torch that the inventory asks for (ai_environment_*), on every node.

It never changes an environment that is in place: it makes a new one, imports torch once, and then moves the link `current`. Ends 0 when \
every node has it, 1 when a node refuses or fails, 3 when a node does not answer; with --check 2 when there is something to make.

\b
Examples:
  railwright env make -i mycluster --check
  railwright env make -i mycluster --limit node1
"""

CHECK_HELP = "Show what would be made on which node; change nothing."
Check = Annotated[bool, typer.Option("--check", help=CHECK_HELP)]


def build() -> typer.Typer:
    app = typer.Typer(help="The Python environment that jobs run in.", no_args_is_help=True)
    app.command("make", help=HELP)(make)
    return app


def make(inventory: Inventory, limit: Limit = None, check: Check = False, form: OutputFormat = Format.TEXT) -> None:
    session = Session("plan" if check else "environment", inventory, limit, form)
    outcome = session.run("ai_environment_plan" if check else "ai_environment")
    require(outcome, lambda host: host.planned, "environment")
    drift = [ExitCode.DRIFT for host in outcome.hosts.values() if check and host.changes]
    code = overall(outcome, *drift)
    nodes = {name: _document(host, check) for name, host in sorted(outcome.hosts.items())}
    made = sum(change["applied"] for node in nodes.values() for change in node["changes"])
    summary = node_counts(outcome) | {"changes": sum(len(node["changes"]) for node in nodes.values()), "made": made, "exit_code": int(code)}
    session.finish({"nodes": nodes, "summary": summary}, code, lambda: _show(outcome, nodes, summary, check))


def _document(host: HostOutcome, check: bool) -> dict[str, Any]:
    """The last task asserts that it is there whole, so a node without a failure has what its plan said."""
    changes = [change | {"applied": not check and host.status == "ok"} for change in host.changes]
    return node_document(host) | {"changes": changes, "notes": host.notes, "drivers": host.drivers}


def _show(outcome: RunOutcome, nodes: dict[str, dict[str, Any]], summary: dict[str, Any], check: bool) -> None:
    show_hosts(outcome.hosts, lambda host: host.drivers)
    show_changes(nodes, state=not check)
    what = f"{summary['changes']} to make" if check else f"{summary['made']} made"
    console.say(f"{nodes_line(summary)}: {what}")
