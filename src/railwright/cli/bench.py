# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright bench``: nccl-tests on the provisioned cluster, judged; and the training benchmark."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from railwright.cli import bench_text, console, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Session, heading, node_counts, node_document, overall
from railwright.cli.validate import All
from railwright.events import RunOutcome
from railwright.exitcodes import InputError
from railwright.report import write_report
from railwright.runs import Run, runs_directory

HELP = """Run nccl-tests over all GPUs and judge it: whole, no wrong value, fast enough, over the network that was promised.

Options stand in for the inventory's variables and are checked like them. `apply` comes first: no setting of a node is changed here, only \
nccl-tests is built and brought to the nodes. Ends 0 when no verdict failed, 1 when one did, 3 when a node does not answer.

\b
Examples:
  railwright bench -i mycluster
  railwright bench -i mycluster --purpose acceptance --collective all_reduce --collective alltoall
  railwright bench -i mycluster --ddp --no-nccl-tests
"""

PURPOSE_HELP = "quick, acceptance or soak: sizes, iterations and time limit. Default: as the inventory says, else quick."
COLLECTIVE_HELP = "Which collective to run; may be given several times. Default: as the inventory says, else all_reduce."
BUSBW_HELP = "GB/s busbw that a collective must reach, such as all_reduce=340; may be given several times. Adds to the inventory's."
LAUNCHER_HELP = "auto, local, mpi or slurm. Default: as the inventory says, else auto."
DDP_HELP = "Run the training benchmark (PyTorch DDP) too, after nccl-tests."
TESTS_HELP = "Run nccl-tests; --no-nccl-tests leaves the training benchmark alone."

Purpose = Annotated[str | None, typer.Option("--purpose", metavar="NAME", help=PURPOSE_HELP, show_default=False)]
Collectives = Annotated[list[str] | None, typer.Option("--collective", metavar="NAME", help=COLLECTIVE_HELP, show_default=False)]
MinBusbw = Annotated[list[str] | None, typer.Option("--min-busbw", metavar="NAME=GBPS", help=BUSBW_HELP, show_default=False)]
Launcher = Annotated[str | None, typer.Option("--launcher", metavar="NAME", help=LAUNCHER_HELP, show_default=False)]
Ddp = Annotated[bool, typer.Option("--ddp", help=DDP_HELP)]
NcclTests = Annotated[bool, typer.Option("--nccl-tests/--no-nccl-tests", help=TESTS_HELP)]

OPTIONS = {
    "nccl_tests_purpose": "--purpose",
    "nccl_tests_collectives": "--collective",
    "nccl_tests_min_busbw": "--min-busbw",
    "nccl_tests_launcher": "--launcher",
}


def command(
    inventory: Inventory,
    limit: Limit = None,
    purpose: Purpose = None,
    collective: Collectives = None,
    min_busbw: MinBusbw = None,
    launcher: Launcher = None,
    ddp: Ddp = False,
    nccl_tests: NcclTests = True,
    every: All = False,
    form: OutputFormat = Format.TEXT,
) -> None:
    if not ddp and not nccl_tests:
        raise InputError("--no-nccl-tests: nothing is left to run; allowed: together with --ddp")
    wanted = {
        "nccl_tests_purpose": purpose,
        "nccl_tests_collectives": list(dict.fromkeys(collective or [])),
        "nccl_tests_min_busbw": floors(min_busbw or []),
        "nccl_tests_launcher": launcher,
    }
    session = Session("bench", inventory, limit, form)
    given = {name: value for name, value in wanted.items() if value}
    extra = session.judge(given, {name: OPTIONS[name] for name in given}).variables
    try:
        outcome = run(session, extra, nccl_tests=nccl_tests, ddp=ddp)
    except KeyboardInterrupt:
        console.note("what was started on the nodes ends by itself within three minutes; until then they refuse another run")
        raise
    code = overall(outcome)
    nodes = {name: node_document(host) | {"problems": host.problems} for name, host in sorted(outcome.hosts.items())}
    summary = node_counts(outcome) | {"verdicts": verdicts.counts(outcome.verdicts), "exit_code": int(code)}
    stored = session.store(nodes, outcome.verdicts, summary, code, bench=outcome.bench, ddp=outcome.ddp)
    if form is Format.JSON:
        document = {"nodes": nodes, "verdicts": verdicts.ordered(outcome.verdicts), "bench": outcome.bench, "ddp": outcome.ddp}
        console.print_json(document | {"summary": summary})
    else:
        show(outcome, every=every)
    if stored is not None:
        report(stored, form)
    raise typer.Exit(code)


def floors(options: list[str]) -> dict[str, float]:
    """``all_reduce=340`` as the inventory's mapping; whether there is such a collective is the linter's to say."""
    found = {}
    for option in options:
        name, equals, value = option.partition("=")
        try:
            figure = float(value)
        except ValueError:
            figure = math.nan
        if not name or not equals or not math.isfinite(figure):
            raise InputError(f"--min-busbw {option}: is no floor; allowed: NAME=GBPS such as all_reduce=340")
        found[name] = figure
    return found


def run(session: Session, extra: dict[str, Any], *, nccl_tests: bool, ddp: bool) -> RunOutcome:
    """One playbook or both; what one found out about a node holds beside what the other did."""
    if not nccl_tests:
        return _play(session, "ddp_benchmark", extra)
    first = _play(session, "nccl_tests", extra)
    if not ddp:
        return first
    if any(host.status != "ok" for host in first.hosts.values()):
        console.note("the training benchmark is not run: nccl-tests did not get that far on every node")
        return first
    second = _play(session, "ddp_benchmark", extra)
    second.bench, second.verdicts = first.bench, first.verdicts + second.verdicts
    return second


def _play(session: Session, playbook: str, extra: dict[str, Any]) -> RunOutcome:
    outcome = session.run(playbook, extra)
    settle(outcome)
    document = outcome.bench if playbook == "nccl_tests" else outcome.ddp
    if document is None and not outcome.verdicts and all(host.status == "ok" for host in outcome.hosts.values()):
        for host in outcome.hosts.values():
            host.status, host.message = "failed", "the run ended without a result"
    return outcome


def settle(outcome: RunOutcome) -> None:
    """The roles end with an assertion for ansible-playbook's sake; here the verdicts themselves say what failed."""
    if not any(verdict.get("status") == "fail" for verdict in outcome.verdicts):
        return
    for host in outcome.hosts.values():
        if host.status == "failed" and host.action.endswith("assert"):
            host.status, host.task, host.action, host.message = "ok", "", "", ""


def show(outcome: RunOutcome, *, every: bool) -> None:
    if outcome.bench is not None:
        bench_text.show_bench(outcome.bench)
    if outcome.ddp is not None:
        bench_text.show_ddp(outcome.ddp)
    for _name, host in sorted(outcome.hosts.items()):
        if host.status != "ok":
            heading(host)
    verdicts.show(outcome.verdicts, passes=every)
    console.say(nodes_line(node_counts(outcome)))


def report(stored: Run, form: Format) -> None:
    """The report is written at once, beside the record: a run of hours is not to be asked for its plots again."""
    directory = runs_directory() / stored.id
    try:
        written = write_report(stored, directory)
    except OSError as error:
        console.note(f"railwright: warning: the report is not written: {error.filename}: {error.strerror}")
        return
    line = f"report: {written.forms['markdown']}"
    if form is Format.JSON:
        console.note(line)
    else:
        console.say(line)
