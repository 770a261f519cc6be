# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright rollback``: every node as it was right before a run, and the proof that it works."""

from typing import Annotated, Any

import typer

from railwright.cli import console, verdicts
from railwright.cli.apply import consented
from railwright.cli.changes import change_line, disruptions, host_line, nodes_line, show_changes, show_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Yes, option
from railwright.cli.session import Conclusion, Session, concluded, heading, overall, require
from railwright.cli.validate import judged_by_validate
from railwright.documents import moment
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError

HELP = """Bring every node back to how it was right before a run: files, values, commands, packages. Then validate.

Undoes that run and everything after it on the node, the newest first, from the restore points that every apply leaves there. What \
somebody else has changed since is refused by its name. Ends 0 when everything is as it was, 1 when something was refused or failed, \
3 when a node does not answer, 64 when every node answers and none knows the run.

\b
Examples:
  railwright rollback -i mycluster --list
  railwright rollback -i mycluster --to 20261121T120000Z-apply-1a2b3c4d --dry-run
  railwright rollback -i mycluster --to 20261121T120000Z-apply-1a2b3c4d --consent link,downgrade
"""

TO_HELP = "The run to go back to before; its name is in --list, in `railwright report` and in the output of apply."
FORCE_HELP = (
    "Restore this although somebody else has changed it since: a path, a package, or a change's key where its undo may fail; "
    "`packages` leaves all packages as they are. May be given several times."
)
CONSENT_HELP = "Disruption classes to allow in this run, in place of the inventory's list, as for apply."
To = Annotated[str | None, option("--to", metavar="RUN", help=TO_HELP)]
List = Annotated[bool, typer.Option("--list", help="Only list the runs that can be undone, node by node.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only show what would be restored.")]
Force = Annotated[list[str] | None, option("--force", metavar="NAME", help=FORCE_HELP)]
Validate = Annotated[bool, typer.Option("--validate/--no-validate", help="Run validate afterwards and judge by it.")]
Consent = Annotated[str | None, option("--consent", metavar="CLASS,...", help=CONSENT_HELP)]


def command(
    inventory: Inventory, limit: Limit = None, listed: List = False, to: To = None, dry_run: Dry = False, consent: Consent = None,
    force: Force = None, validate: Validate = True, yes: Yes = False, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    if listed == (to is not None):
        raise InputError("give --to RUN, or --list for the runs that can be undone")
    console.expect_answers("rollback", yes=yes or listed or dry_run, form=form)
    session = Session("rollback", inventory, limit, form)
    if to is None:
        _list(session)
        return
    wanted = {"rdma_rollback_to": to, "rdma_rollback_force": force or [], "rdma_rollback_plan_only": dry_run}
    if not (dry_run or yes):
        _agree(session, consented(consent) | wanted, to)
    outcome = _run(session, consented(consent) | wanted, to)
    judged = _validated(session, outcome) if validate and not dry_run else None
    codes = [] if judged is None else [overall(judged)]
    found = {"verdicts": [] if judged is None else judged.verdicts}
    end = concluded(
        outcome, lambda host: _document(host, to, dry_run=dry_run), lambda nodes: _totals(outcome, nodes, found["verdicts"]), codes=codes)
    more = {} if judged is None else {"traffic": judged.traffic, "reachability": judged.reachability}
    session.finish(end, lambda: _show(outcome, end, judged), found, **found, **more)


def _run(session: Session, extra: dict[str, Any], to: str) -> RunOutcome:
    outcome = session.run("rollback", extra)
    _known(outcome, to)
    require(outcome, lambda host: host.planned, "plan")
    return outcome


def _agree(session: Session, extra: dict[str, Any], to: str) -> None:
    """Show what would be restored, and ask."""
    outcome = _run(session, extra | {"rdma_rollback_plan_only": True}, to)
    end = concluded(outcome, lambda host: _document(host, to, dry_run=True), lambda nodes: _totals(outcome, nodes, []))
    _show(outcome, end, None)
    many = sum(bool(node["changes"]) for node in end.nodes.values())
    console.agree(f"Undo {console.count(end.summary['changes'], 'change')} on {console.count(many, 'node')}?", yes=not many)


def _known(outcome: RunOutcome, run: str) -> None:
    """A run that no node knows is a matter of what was typed; while one has not answered, nobody can say that."""
    documents = {name: host.rollback for name, host in sorted(outcome.hosts.items()) if host.rollback is not None}
    if not documents or any(document.get("known") for document in documents.values()):
        return
    silent = sorted(set(outcome.hosts) - set(documents))
    if silent:
        console.note(f"--to {run}: no node that answered has a restore point of this run; nobody knows whether {', '.join(silent)} has one")
        return
    first, document = next(iter(documents.items()))
    names = [str(point["run"]) for point in document["restore_points"]]
    raise InputError(
        f"--to {run}: no node has a restore point of this run; "
        + (f"{first} has those of {', '.join(names)}" if names else f"{first} has none at all")
    )


def _validated(session: Session, outcome: RunOutcome) -> RunOutcome | None:
    """Only when something was restored, and it is there as a whole."""
    if not any(host.restore_point for host in outcome.hosts.values()) or any(host.status != "ok" for host in outcome.hosts.values()):
        return None
    return judged_by_validate(session)


def _document(host: HostOutcome, run: str, *, dry_run: bool) -> dict[str, Any]:
    rollback = host.rollback or {}
    done = host.status == "ok" and not dry_run
    changes = [change | {"applied": done} for change in host.changes]
    left = {"restore_point": host.restore_point, "reboot_needed": host.reboot_needed, "reverted": host.reverted}
    return left | {
        "to": run, "known": bool(rollback.get("known")), "undone": rollback.get("undone", []), "changes": changes,
        "problems": host.problems, "notes": host.notes,
    }  # fmt: skip


def _totals(outcome: RunOutcome, nodes: dict[str, dict[str, Any]], found: list[dict[str, Any]]) -> dict[str, Any]:
    changes = [change for node in nodes.values() for change in node["changes"]]
    return {
        "changes": len(changes),
        "restored": sum(change["applied"] for change in changes),
        "unknown_on": [name for name, node in nodes.items() if node["status"] == "ok" and not node["known"]],
        "problems": sum(len(node["problems"]) for node in nodes.values()),
        "disruptions": disruptions(outcome.hosts.values()),
        "verdicts": verdicts.counts(found),
    }


def _show(outcome: RunOutcome, end: Conclusion, judged: RunOutcome | None) -> None:
    summary = end.summary

    def text(host: HostOutcome) -> str:
        unknown = host.name in summary["unknown_on"]
        return f"has no restore point of run {end.nodes[host.name]['to']}; nothing is done there" if unknown else host_line(host)

    show_hosts(outcome.hosts, "restore point of this rollback on the node", text)
    show_changes(end.nodes, state=bool(summary["restored"]))
    line = change_line(summary["changes"], summary["disruptions"])
    console.say(f"{nodes_line(summary)}: {line}, {summary['restored']} restored")
    if judged is not None:
        verdicts.show_verdicts(judged.verdicts, passes=False)


def _list(session: Session) -> None:
    """One table a node, the newest run first."""
    outcome = session.run("restore_points")
    require(outcome, lambda host: host.rollback is not None, "restore points")

    def document(host: HostOutcome) -> dict[str, Any]:
        points = (host.rollback or {}).get("restore_points", [])
        return {"restore_points": [point | {"when": moment(point.get("when"))} for point in points]}

    def show() -> None:
        for name, host in sorted(outcome.hosts.items()):
            points = end.nodes[name]["restore_points"]
            heading(host, console.count(len(points), "run"))
            if points:
                console.table(("run", "when", "state", "files", "values", "commands", "packages"), [_row(point) for point in points])

    end = concluded(outcome, document, lambda _nodes: {})
    session.show(end, show)
    raise typer.Exit(end.code)


def _row(point: dict[str, Any]) -> tuple[object, ...]:
    packages = f"{point['packages']}{' (assumed)' if point['packages_assumed'] else ''}"
    return (point["run"], point["when"] or "unknown", point["state"], point["files"], point["values"], point["commands"], packages)
