# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright apply``: make the planned changes, show what was done on each node."""

from typing import Annotated, Any

from railwright.cli import console, verdicts
from railwright.cli.changes import change_line, disruptions, nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, option
from railwright.cli.session import Conclusion, Session, concluded, require
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
    "downgrade, reload, storage, management, secure_boot, firmware, reboot."
)
Consent = Annotated[str | None, option("--consent", metavar="CLASS,...", help=CONSENT_HELP)]


def command(inventory: Inventory, limit: Limit = None, consent: Consent = None, form: OutputFormat = Format.TEXT) -> None:
    extra = consented(consent)
    session = Session("apply", inventory, limit, form)
    outcome = session.run("apply", extra)
    require(outcome, lambda host: host.planned, "plan")
    drift = [ExitCode.DRIFT for host in outcome.hosts.values() if host.remaining or host.reboot_needed]
    end = concluded(outcome, _document, lambda nodes: _totals(outcome, nodes), codes=drift)
    judged = {"verdicts": outcome.verdicts}
    session.finish(end, lambda: _show(outcome, end), judged, **judged, traffic=outcome.traffic, reachability=outcome.reachability)


def consented(text: str | None) -> dict[str, list[str]]:
    """The variable that --consent sets, its classes each known; nothing where it was not given."""
    if text is None:
        return {}
    from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS

    classes = [part.strip() for part in text.split(",") if part.strip()]
    for name in classes:
        if name not in DISRUPTIONS[1:]:
            raise InputError(f"--consent {name}: no such disruption class; allowed: {', '.join(DISRUPTIONS[1:])}")
    return {"rdma_consent": classes}


def _document(host: HostOutcome) -> dict[str, Any]:
    # Every planned change is made or the node fails; of a failed node only what a task reported done is known to be.
    done = set(host.applied)
    changes = [change | {"applied": host.status == "ok" or change.get("key") in done} for change in host.changes]
    left = {"restore_point": host.restore_point, "reboot_needed": host.reboot_needed, "reverted": host.reverted}
    return {"changes": changes, "problems": host.problems, "notes": host.notes} | left


def _totals(outcome: RunOutcome, nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    changes = [change for node in nodes.values() for change in node["changes"]]
    return {
        "changes": sum(change["applied"] for change in changes),
        "not_applied": sum(not change["applied"] for change in changes),
        "problems": sum(len(node["problems"]) for node in nodes.values()),
        "disruptions": disruptions(outcome.hosts.values()),
        "verdicts": verdicts.counts(outcome.verdicts),
    }


def _show(outcome: RunOutcome, end: Conclusion) -> None:
    summary = end.summary
    show_hosts(outcome.hosts, "restore point on the node")
    show_changes(end.nodes, state=True)
    if outcome.verdicts:
        verdicts.show_verdicts(outcome.verdicts, passes=False)
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
