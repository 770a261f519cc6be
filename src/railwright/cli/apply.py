# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright apply``: make the planned changes, show what was done on each node."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from railwright.cli import console, verdicts
from railwright.cli.changes import change_line, disruptions, nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Session, node_counts, node_document, overall, require
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import ExitCode, InputError

HELP = """Make the changes that `plan` shows, as one transaction a node, and nothing else.

Changes that disturb a running node need consent: the inventory's `rdma_consent`, or --consent. Ends 0 also when \
something was changed, 1 when a task failed or consent was refused, 2 when the changes brought further needs to light \
(apply again), 3 when a node does not answer.

\b
Examples:
  railwright apply -i mycluster
  railwright apply -i mycluster --limit node1 --consent link,restart
"""

CONSENT_HELP = (
    "Disruption classes to allow in this run, in place of the inventory's list: restart, link, repair, "
    "downgrade, reload, storage, management, firmware, reboot."
)
Consent = Annotated[str | None, typer.Option("--consent", metavar="CLASS,...", help=CONSENT_HELP, show_default=False)]


def command(inventory: Inventory, limit: Limit = None, consent: Consent = None, form: OutputFormat = Format.TEXT) -> None:
    extra = {} if consent is None else {"rdma_consent": consented(consent)}
    session = Session("apply", inventory, limit, form)
    outcome = session.run("apply", extra)
    require(outcome, lambda host: host.planned, "plan")
    drift = [ExitCode.DRIFT for host in outcome.hosts.values() if host.remaining or host.reboot_needed]
    code = overall(outcome, *drift)
    nodes = {name: _document(host) for name, host in sorted(outcome.hosts.items())}
    summary = _summary(outcome, nodes, code)
    document = {"nodes": nodes, "verdicts": outcome.verdicts, "summary": summary}
    more = {"traffic": outcome.traffic, "reachability": outcome.reachability}
    session.finish(document, code, lambda: _show(outcome, nodes, summary), outcome.verdicts, **more)


def consented(text: str) -> list[str]:
    """The classes of --consent, each known."""
    from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS

    classes = [part.strip() for part in text.split(",") if part.strip()]
    for name in classes:
        if name not in DISRUPTIONS[1:]:
            raise InputError(f"--consent {name}: no such disruption class; allowed: {', '.join(DISRUPTIONS[1:])}")
    return classes


def _document(host: HostOutcome) -> dict[str, Any]:
    # Every planned change is made or the node fails; of a failed node only what a task reported done is known to be.
    done = set(host.applied)
    changes = [change | {"applied": host.status == "ok" or change.get("key") in done} for change in host.changes]
    left = {"restore_point": host.restore_point, "reboot_needed": host.reboot_needed, "taken_back": host.taken_back}
    return node_document(host) | {"changes": changes, "problems": host.problems, "notes": host.notes} | left


def _summary(outcome: RunOutcome, nodes: dict[str, dict[str, Any]], code: ExitCode) -> dict[str, Any]:
    changes = [change for node in nodes.values() for change in node["changes"]]
    return node_counts(outcome) | {
        "changes": sum(change["applied"] for change in changes),
        "not_applied": sum(not change["applied"] for change in changes),
        "problems": sum(len(node["problems"]) for node in nodes.values()),
        "disruptions": disruptions(outcome.hosts.values()),
        "verdicts": verdicts.counts(outcome.verdicts),
        "exit_code": int(code),
    }


def _show(outcome: RunOutcome, nodes: dict[str, dict[str, Any]], summary: dict[str, Any]) -> None:
    show_hosts(outcome.hosts, lambda host: {"restore point on the node": host.restore_point} if host.restore_point else {})
    show_changes(nodes, state=True)
    if outcome.verdicts:
        verdicts.show(outcome.verdicts, passes=False)
    line = change_line(summary["changes"], summary["disruptions"] if not summary["not_applied"] else {})
    for name, host in sorted(outcome.hosts.items()):
        if host.remaining:
            found = ", ".join(str(change.get("what")) for change in host.remaining)
            console.say(console.styled(name, "node"), f"needs another apply, for what these changes brought to light: {found}")
        if host.reboot_needed:
            waiting = "; ".join(host.reboot_needed)
            console.say(console.styled(name, "node"), f"waits for a reboot (consent to reboot, and apply again): {waiting}")
    left = f", {summary['not_applied']} not applied" if summary["not_applied"] else ""
    console.say(f"{nodes_line(summary)}: {line}{left}")
