# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright plan``: every change that apply would make, nothing done."""

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from railwright.cli import console, one_line
from railwright.cli.changes import change_line, disruptions, nodes_line, show_changes, show_diffs, show_hosts
from railwright.cli.drift import expect_writable, known_areas
from railwright.cli.options import Areas, Format, Limit, OptionalInventory, Transport, TransportOption, option, settings
from railwright.cli.rollout import Asked, Batch, Canary, MaxFailures, MaxUnavailable, asked, in_batches
from railwright.cli.session import Conclusion, Session, concluded, require
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.runs import Run, load_run

HELP = """Show every change that `apply` would make; change nothing.

With -o the plan is a file, and `apply FILE` makes exactly that, here or elsewhere. What hurts most stands first. Ends 0 when nothing \
differs, 2 when something does, 1 when a node has a problem that no change can fix, 3 when a node does not answer.

\b
Examples:
  railwright plan -i mycluster --limit node1 --diff
  railwright plan -i mycluster --area nccl -o friday.plan
  railwright plan --recorded friday.plan --format markdown
"""


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


FORMAT_HELP = "text for people; json: one JSON document on stdout and nothing else; markdown: for a review."
PlanForm = Annotated[PlanFormat, typer.Option("--format", "-f", metavar="FORM", help=FORMAT_HELP)]
Output = Annotated[Path | None, option("--output", "-o", metavar="FILE", help="Save the plan there, for `apply FILE`.")]
Diff = Annotated[bool, typer.Option("--diff", help="Show files line by line and values as before → after; nodes with one plan together.")]
RECORDED_HELP = "Show a plan again, by its run's name or its file; contact no node."
Recorded = Annotated[str | None, option("--recorded", metavar="RUN", help=RECORDED_HELP)]


def command(
    inventory: OptionalInventory = None, limit: Limit = None, area: Areas = None, diff: Diff = False, output: Output = None,
    recorded: Recorded = None, form: PlanForm = PlanFormat.TEXT, batch: Batch = None, canary: Canary = None,
    max_failures: MaxFailures = None, max_unavailable: MaxUnavailable = None, transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    show = show_diffs if diff else show_changes
    if recorded is not None:
        _again(recorded, form, show, given=bool(inventory or limit or area or output))
        return
    if inventory is None:
        raise InputError("no inventory is named: give -i INVENTORY, or --recorded RUN")
    if output is not None:
        expect_writable(output, "--output")
    from railwright.saved_plan import files_of

    session = Session("plan", inventory, limit, Format.JSON if form is PlanFormat.JSON else Format.TEXT)
    said = asked(batch, canary, max_failures, max_unavailable)
    files = files_of(session.inventory) if output is not None else ""  # as they are before nodes are asked
    outcome = in_batches(session, said, lambda part: planned(part, area or [], transport))
    if output is not None:
        save(session, output, area or [], outcome, said, files)
        console.note(f"saved; make exactly this with: railwright apply {shlex.quote(str(output))}")
    end = conclusion(outcome)
    _print(form, session.store(end) or session.record(end), outcome, end, show)
    raise typer.Exit(end.code)


def planned(session: Session, areas: list[str], transport: Transport = Transport.AUTO) -> RunOutcome:
    """What each node's plan is now."""
    session.judge()  # what is wrong with Ansible's configuration is said in one line there
    from railwright.scan.questions import plan_question

    known_plan_areas(areas)
    extra = {"rdma_areas": areas} if areas else {}
    outcome = session.scan("plan", transport, extra, lambda _judged: plan_question(areas))
    require(outcome, lambda host: host.planned, "plan")
    return outcome


def known_plan_areas(areas: list[str]) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import BY_NAME

    known_areas(areas, BY_NAME)


def save(session: Session, path: Path, areas: list[str], outcome: RunOutcome, said: Asked, files: str = "") -> None:
    from railwright.saved_plan import write_plan

    created = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        write_plan(path, session.inventory, areas, created, outcome, session.wishes(), list(said), files)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _again(name: str, form: PlanFormat, show: Callable[..., None], *, given: bool) -> None:
    if given:
        raise InputError("--recorded is a plan that is made already; it does not go with -i, --limit, --area or --output")
    outcome, run = _of_file(name) if Path(name).is_file() else _of_run(name)
    _print(form, run, outcome, conclusion(outcome), show)


def _of_file(name: str) -> tuple[RunOutcome, Run]:
    """A file that was never a run here."""
    from railwright.saved_plan import read_plan

    saved = read_plan(Path(name))
    outcome = RunOutcome(saved.nodes)
    end = conclusion(outcome)
    return outcome, Run(name, "plan", str(saved.inventory), None, saved.created, "", exit_code=int(end.code), nodes=end.nodes,
                        summary=end.summary)  # fmt: skip


def _of_run(name: str) -> tuple[RunOutcome, Run]:
    from railwright.saved_plan import hosts_of

    run = load_run(name)
    if run.verb != "plan":
        raise InputError(f"--recorded {name}: is a run of {run.verb}; allowed: one of plan, or a file that plan -o has written")
    return RunOutcome(hosts_of(run.nodes)), run


def _print(form: PlanFormat, run: Run, outcome: RunOutcome, end: Conclusion, show: Callable[..., None]) -> None:
    if form is PlanFormat.MARKDOWN:
        from railwright.report.cases import cases_of
        from railwright.report.markdown import as_markdown

        console.raw(as_markdown(run, cases_of(run)))
    elif form is PlanFormat.JSON:
        console.print_json({"nodes": end.nodes, "summary": end.summary})
    elif settings.one_line:
        one_line.show(end.nodes)
    else:
        show_plan(outcome, end, show)


def conclusion(outcome: RunOutcome) -> Conclusion:
    return concluded(outcome, _document, lambda nodes: _totals(outcome, nodes), lambda node: node["changes"])


def _document(host: HostOutcome) -> dict[str, Any]:
    return {"planned": host.planned, "changes": host.changes, "problems": host.problems, "notes": host.notes, "drivers": host.drivers}


def _totals(outcome: RunOutcome, nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    counted = {part: sum(len(node[part]) for node in nodes.values()) for part in ("changes", "problems")}
    unplanned = sum(not host.planned for host in outcome.hosts.values())
    return counted | {"not_planned": unplanned, "disruptions": disruptions(outcome.hosts.values())}


def _planned_line(changes: str, summary: dict[str, Any]) -> str:
    """`4 changes (link 1, none 3)`; a node that was not planned may have any number of them."""
    if summary["nodes"] and summary["not_planned"] == summary["nodes"]:
        return "not planned"
    unplanned = summary["not_planned"] - summary["unreachable"]  # those are counted before
    if not unplanned:
        return changes
    return f"{changes}, {console.count(unplanned, 'node')} not planned"


def show_plan(outcome: RunOutcome, end: Conclusion, show: Callable[..., None] = show_changes) -> None:
    summary = end.summary
    changes, problems = change_line(summary["changes"], summary["disruptions"]), console.count(summary["problems"], "problem")
    with console.paged():
        told = outcome.hosts.items()  # with their lines below, nodes are not listed for their counts
        show_hosts({name: host for name, host in told if show is show_changes or host.status != "ok" or host.problems or host.notes})
        show(end.nodes)
        console.say(f"{nodes_line(summary)}: {_planned_line(changes, summary)}, {problems}")
    asked = [name for name in summary["disruptions"] if name != "none"]
    if asked:
        console.note(f"apply needs consent to {', '.join(asked)}: in the inventory's rdma_consent, or --consent {','.join(asked)}")
