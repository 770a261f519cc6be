# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright env``: the Python environment that jobs run in, made on every node, or only shown."""

from typing import Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.changes import nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Conclusion, Session, concluded, require
from railwright.events import HostOutcome, RunOutcome

HELP = """Make the Python environment with torch that the inventory asks for (ai_environment_*), on every node.

It never changes an environment that is in place: it makes a new one, imports torch once, and then moves the link `current`. Ends 0 when \
every node has it, 1 when a node refuses or fails, 3 when a node does not answer; with --check 2 when there is something to make.

\b
Examples:
  railwright env make -i mycluster --check
  railwright env make -i mycluster --limit node1
"""

Check = Annotated[bool, typer.Option("--check", help="Show what would be made on which node; change nothing.")]


def make(inventory: Inventory, limit: Limit = None, check: Check = False, form: OutputFormat = Format.TEXT) -> None:
    session = Session("plan" if check else "environment", inventory, limit, form)
    outcome = session.run("ai_environment_plan" if check else "ai_environment")
    require(outcome, lambda host: host.planned, "environment")

    def document(host: HostOutcome) -> dict[str, Any]:
        """The last task asserts that it is there whole, so a node without a failure has what its plan said."""
        changes = [change | {"applied": not check and host.status == "ok"} for change in host.changes]
        return {"changes": changes, "notes": host.notes, "drivers": host.drivers}

    def totals(nodes: dict[str, dict[str, Any]]) -> dict[str, int]:
        changes = [change for node in nodes.values() for change in node["changes"]]
        return {"changes": len(changes), "made": sum(change["applied"] for change in changes)}

    end = concluded(outcome, document, totals, lambda node: check and node["changes"])
    session.finish(end, lambda: _show(outcome, end, check))


def _show(outcome: RunOutcome, end: Conclusion, check: bool) -> None:
    show_hosts(outcome.hosts)
    show_changes(end.nodes, state=not check)
    what = f"{end.summary['changes']} to make" if check else f"{end.summary['made']} made"
    console.say(f"{nodes_line(end.summary)}: {what}")


ABOUT, VERBS = "The Python environment that jobs run in.", {"make": (make, HELP)}
