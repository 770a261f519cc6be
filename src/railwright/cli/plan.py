# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright plan``: every change that apply would make, nothing done."""

from typing import Any

from railwright.cli import console, one_line
from railwright.cli.changes import change_line, disruptions, nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Transport, TransportOption, settings
from railwright.cli.session import Conclusion, Session, concluded, require
from railwright.events import HostOutcome, RunOutcome

HELP = """Show every change that `apply` would make; change nothing.

Ends 0 when nothing differs, 2 when something does, 1 when a node has a problem that no change can fix, \
3 when a node does not answer.

\b
Example:
  railwright plan -i mycluster --limit node1
"""


def command(
    inventory: Inventory, limit: Limit = None, form: OutputFormat = Format.TEXT, transport: TransportOption = Transport.AUTO
) -> None:  # fmt: skip
    session = Session("plan", inventory, limit, form)
    outcome = session.scan("plan", transport)
    require(outcome, lambda host: host.planned, "plan")
    end = concluded(outcome, _document, lambda nodes: _totals(outcome, nodes), lambda node: node["changes"])
    session.finish(end, lambda: one_line.show(end.nodes) if settings.one_line else _show(outcome, end))


def _document(host: HostOutcome) -> dict[str, Any]:
    return {"changes": host.changes, "problems": host.problems, "notes": host.notes, "drivers": host.drivers}


def _totals(outcome: RunOutcome, nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    counted = {part: sum(len(node[part]) for node in nodes.values()) for part in ("changes", "problems")}
    return counted | {"disruptions": disruptions(outcome.hosts.values())}


def _show(outcome: RunOutcome, end: Conclusion) -> None:
    summary = end.summary
    changes, problems = change_line(summary["changes"], summary["disruptions"]), console.count(summary["problems"], "problem")
    with console.paged():
        show_hosts(outcome.hosts)
        show_changes(end.nodes)
        console.say(f"{nodes_line(summary)}: {changes}, {problems}")
    asked = [name for name in summary["disruptions"] if name != "none"]
    if asked:
        console.note(f"apply needs consent to {', '.join(asked)}: in the inventory's rdma_consent, or --consent {','.join(asked)}")
