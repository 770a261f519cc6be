# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright bench``: nccl-tests on the provisioned cluster, judged; and the training benchmark."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ACROSS, LEAF, RAIL
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.baseline import KEY, baseline_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.groups import by_leaf, leaf_of
from railwright.burn_in.rounds import WORK as BURN_IN
from railwright.burn_in.rounds import Options
from railwright.cli import console, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Transport, option
from railwright.cli.session import Judged, Session, failed_headings, node_counts
from railwright.cli.validate import All, conclusion, judged_by_validate
from railwright.events import RunOutcome
from railwright.exitcodes import CommandError, InputError
from railwright.report import bench as rows
from railwright.runs import Run, runs_directory
from railwright.writing import usual_mode, write_atomic

ACCEPTANCE = "acceptance"
HEAD = "# What a trusted run reached; written by railwright bench --save-baseline. Later runs are judged by it.\n---\n"
LONGEST_NAME = 200
HOURS = 48.0  # of a burn-in

HELP = """Run nccl-tests over all GPUs and judge it: whole, no wrong value, fast enough, over the network that was promised.

Options stand in for the inventory's variables and are checked like them. `apply` comes first: no setting of a node is changed here, only \
nccl-tests is built and brought to the nodes. Ends 0 when no verdict failed, 1 when one did, 3 when a node does not answer.

\b
Examples:
  railwright bench -i mycluster
  railwright bench -i mycluster --purpose acceptance
  railwright bench -i mycluster --group leaf --group across
  railwright bench -i mycluster --ddp --no-nccl-tests
  railwright bench -i mycluster --purpose burn-in --hours 48
"""

PURPOSE_HELP = "quick, acceptance or soak: sizes, iterations and time limit; burn-in: rounds of all for --hours. Default: as the \
inventory says, else quick."
COLLECTIVE_HELP = "Which collective to run; several times. Default: as the inventory says, else all_reduce, for acceptance alltoall too."
GROUP_HELP = "node, leaf, across, rail or all: which nodes run together; several times. Default: all, and for acceptance every group."
BUSBW_HELP = "GB/s busbw that a collective must reach, such as all_reduce=340; may be given several times. Adds to the inventory's."
LAUNCHER_HELP = "auto, local, mpi or slurm. Default: as the inventory says, else auto."
TESTS_HELP = "Run nccl-tests; --no-nccl-tests leaves the training benchmark alone."

Purpose = Annotated[str | None, option("--purpose", metavar="NAME", help=PURPOSE_HELP)]
Collectives = Annotated[list[str] | None, option("--collective", metavar="NAME", help=COLLECTIVE_HELP)]
Groups = Annotated[list[str] | None, option("--group", metavar="NAME", help=GROUP_HELP)]
MinBusbw = Annotated[list[str] | None, option("--min-busbw", metavar="NAME=GBPS", help=BUSBW_HELP)]
Launcher = Annotated[str | None, option("--launcher", metavar="NAME", help=LAUNCHER_HELP)]
Ddp = Annotated[bool, typer.Option("--ddp", help="Run the training benchmark (PyTorch DDP) too, after nccl-tests.")]
NcclTests = Annotated[bool, typer.Option("--nccl-tests/--no-nccl-tests", help=TESTS_HELP)]

SAVE_HELP = "Write this run's figures as a baseline for later runs: a file for the inventory's group_vars/all. Needs --approved-by."
HOURS_HELP = "How long a burn-in takes; a round that began is finished. Default: 48."
RESUME_HELP = "Go on with the last burn-in of this inventory that was stopped, with the options that it was begun with."
Hours = Annotated[float | None, option("--hours", min=0.05, max=336, metavar="N", help=HOURS_HELP)]
Resume = Annotated[bool, typer.Option("--resume", help=RESUME_HELP)]
SaveBaseline = Annotated[Path | None, option("--save-baseline", metavar="FILE", help=SAVE_HELP)]
ApprovedBy = Annotated[str | None, option("--approved-by", metavar="NAME", help="Who vouches for the baseline.")]

OPTIONS = {
    "nccl_tests_purpose": "--purpose",
    "nccl_tests_collectives": "--collective",
    "nccl_tests_groups": "--group",
    "nccl_tests_min_busbw": "--min-busbw",
    "nccl_tests_launcher": "--launcher",
}


def command(
    inventory: Inventory, limit: Limit = None, purpose: Purpose = None, collective: Collectives = None, group: Groups = None,
    min_busbw: MinBusbw = None, launcher: Launcher = None, ddp: Ddp = False, nccl_tests: NcclTests = True,
    save_baseline: SaveBaseline = None, approved_by: ApprovedBy = None, hours: Hours = None, resume: Resume = False, every: All = False,
    form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    if not ddp and not nccl_tests:
        raise InputError("--no-nccl-tests: nothing is left to run; allowed: together with --ddp")
    signed = signature(save_baseline, approved_by, nccl_tests=nccl_tests)
    burns = purpose == BURN_IN
    check_burn_in(burns=burns, only=hours is not None or resume, never=save_baseline is not None,
                  again=resume and bool(collective or group or min_busbw or launcher or ddp or hours or not nccl_tests))  # fmt: skip
    wanted = {
        "nccl_tests_purpose": "soak" if burns else purpose,
        "nccl_tests_collectives": list(dict.fromkeys(collective or [])),
        "nccl_tests_groups": list(dict.fromkeys(group or [])),
        "nccl_tests_min_busbw": floors(min_busbw or []),
        "nccl_tests_launcher": launcher,
    }
    session = Session("bench", inventory, limit, form)
    given = {name: value for name, value in wanted.items() if value}
    judged = session.judge({**given, **({"ddp_benchmark_repeatable": True} if burns else {})}, {name: OPTIONS[name] for name in given})
    if nccl_tests:
        check_groups(judged, given)
    from railwright.job_user import expect_job_user

    for key in ["nccl_tests_user"] * nccl_tests + ["ddp_benchmark_user"] * ddp:
        expect_job_user(judged.inventory, judged.specs, key)
    try:
        if burns:
            from railwright.cli.burn_in import burn_in

            stored, code = burn_in(session, judged, run_bench, Options(hours or HOURS, judged.variables, nccl_tests, ddp), resume=resume)
            if stored is not None:
                report(stored, form)
            raise typer.Exit(code)
        accepts = nccl_tests and next(iter(judged.specs.values()))["nccl_tests_purpose"] == ACCEPTANCE
        outcome = run_bench(session, judged.variables, nccl_tests=nccl_tests, ddp=ddp, validate=accepts)
    except KeyboardInterrupt:
        console.note("what was started on the nodes ends by itself within three minutes; until then they refuse another run")
        raise
    end, documents = conclusion(outcome), {"bench": outcome.bench, "ddp": outcome.ddp, "traffic": outcome.traffic}
    documents |= {"reachability": outcome.reachability} if outcome.reachability else {}
    stored = session.store(end, outcome.verdicts, **documents)
    session.show(end, lambda: show_bench(outcome, every=every), verdicts=verdicts.ordered(outcome.verdicts), **documents)
    if stored is not None:
        report(stored, form)
    if save_baseline is not None:
        keep_baseline(save_baseline, signed, outcome, session.started.strftime("%Y-%m-%d"), session.id)
    raise typer.Exit(end.code)


def check_burn_in(*, burns: bool, only: bool, never: bool, again: bool) -> None:
    """Options that go with a burn-in ``only``, or ``never``; and those that a resumed one was begun with."""
    if only and not burns:
        raise InputError("--hours and --resume are those of a burn-in: give --purpose burn-in too")
    if burns and never:
        raise InputError("--save-baseline does not go with a burn-in")
    if again:
        raise InputError("--resume goes on with the options that the burn-in was begun with; allowed beside it: --limit, --format")


def check_groups(judged: Judged, given: Collection[str]) -> None:
    """Groups that were asked for by name and that these nodes do not have; what the inventory alone rules out is the linter's to say."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value

    inventory, (host, spec) = judged.inventory, next(iter(judged.specs.items()))
    leaves = leaf_of(site_value(judged.specs.values(), "leaves"), inventory.groups)
    for group in spec["nccl_tests_groups"] or ():
        parts, omitted = by_leaf(group, list(inventory.hosts), leaves) if group in (LEAF, ACROSS) else ([], [])
        why = next((item.why for item in omitted), "") if group in (LEAF, ACROSS) and not parts else ""
        if group in (LEAF, ACROSS, RAIL) and len(inventory.hosts) < 2:
            why = "one node alone"
        if why:
            origin = None if GROUPS_KEY in given else inventory.origin(host, GROUPS_KEY)
            where = OPTIONS[GROUPS_KEY] if origin is None else f"{origin.file}:{origin.line}: {GROUPS_KEY}"
            raise InputError(f"{where}: {group}: cannot be had: {why}; allowed: other groups, or more nodes (--limit)")


def signature(file: Path | None, approved_by: str | None, *, nccl_tests: bool) -> str:
    """Who signs; found before anything runs. A file that holds something else is not written over."""
    if file is None:
        if approved_by is not None:
            raise InputError("--approved-by signs a baseline: give --save-baseline FILE too")
        return ""
    name = (approved_by or "").strip()
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise InputError(f"--save-baseline {file}: nobody vouches for it; allowed: --approved-by NAME, up to {LONGEST_NAME} characters")
    if not nccl_tests:
        raise InputError("--save-baseline holds figures of nccl-tests; it does not go with --no-nccl-tests")
    if not file.parent.is_dir():
        raise InputError(f"--save-baseline {file}: {file.parent} is no directory")
    if file.exists() and not (file.is_file() and file.read_text(encoding="utf-8", errors="replace").startswith(HEAD)):
        raise InputError(f"--save-baseline {file}: holds something else; allowed: a new file, or one that bench wrote")
    return name


def keep_baseline(file: Path, approved_by: str, outcome: RunOutcome, date: str, run: str) -> None:
    """Of a run without a failure alone: whatever failed, its figures are no promise."""
    import yaml

    failing = {str(item.get("check")) for item in outcome.verdicts if item.get("status") == "fail"}
    failed = sorted(failing - {"nccl.baseline"})  # the one that is to be replaced
    if outcome.bench is None or failed or any(host.status != "ok" for host in outcome.hosts.values()):
        raise CommandError(f"--save-baseline {file}: not written: {', '.join(failed) + ' failed' if failed else 'the run did not end'}")
    try:
        found = baseline_of(outcome.bench, approved_by, date, run)
    except ValueError as error:
        raise CommandError(f"--save-baseline {file}: not written: {error}") from error
    write_atomic(file, HEAD + yaml.safe_dump({KEY: found}, sort_keys=False, allow_unicode=True), usual_mode())
    console.note(f"baseline written: {file}; later runs are judged by it once the inventory has it (group_vars/all)")


def floors(options: list[str]) -> dict[str, float]:
    """``all_reduce=340`` as the inventory's mapping; whether there is such a collective is the linter's to say."""
    found = {}
    for text in options:
        name, equals, value = text.partition("=")
        try:
            figure = float(value)
        except ValueError:
            figure = math.nan
        if not name or not equals or not math.isfinite(figure):
            raise InputError(f"--min-busbw {text}: is no floor; allowed: NAME=GBPS such as all_reduce=340")
        found[name] = figure
    return found


def run_bench(session: Session, extra: dict[str, Any], *, nccl_tests: bool, ddp: bool, validate: bool = False) -> RunOutcome:
    """One playbook or both, behind those of validate; what one found out about a node holds beside what the others did."""
    if validate:
        before = judged_by_validate(session, extra, Transport.AUTO)
        if any(host.status != "ok" for host in before.hosts.values()):
            console.note("nothing is measured on GPUs: validate did not get to its end on every node")
            return before
        before.add(run_bench(session, extra, nccl_tests=nccl_tests, ddp=ddp))
        return before
    if not nccl_tests:
        return _play(session, "ddp_benchmark", extra)
    first = _play(session, "nccl_tests", extra)
    if not ddp:
        return first
    if any(host.status != "ok" for host in first.hosts.values()):
        console.note("the training benchmark is not run: nccl-tests did not get that far on every node")
        return first
    first.add(_play(session, "ddp_benchmark", extra))
    return first


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


def show_bench(outcome: RunOutcome, *, every: bool) -> None:
    if outcome.bench is not None:
        show_figures(outcome.bench)
    if outcome.ddp is not None:
        show_ddp(outcome.ddp)
    failed_headings(outcome)
    verdicts.show_verdicts(outcome.verdicts, passes=every)
    console.say(nodes_line(node_counts(outcome)))


def report(stored: Run, form: Format) -> None:
    """The report is written at once, beside the record: a run of hours is not to be asked for its plots again."""
    directory = runs_directory() / stored.id
    try:
        from railwright.report.files import write_report

        written = write_report(stored, directory)
    except OSError as error:
        console.note(f"railwright: warning: the report is not written: {error.filename}: {error.strerror}")
        return
    line = f"report: {written.forms['markdown']}"
    if form is Format.JSON:
        console.note(line)
    else:
        console.say(line)


GROUPS_KEY = "nccl_tests_groups"
HCAS = 8  # ranks whose HCAs are shown; the report has all


def show_figures(bench: dict[str, Any]) -> None:
    _show_table(*rows.versions(bench))
    runs = objects(bench.get("runs"))
    by_group = [rows.group_row(run) for run in runs if rows.in_group(run)]
    if by_group:
        console.out().line()
    _show_table(rows.GROUP, by_group)
    for run in runs:
        if not rows.in_group(run) or not run.get("complete"):
            _show_run(bench, run)
    for why in bench.get("left_out") or []:
        console.say(f"not run: {why}")


def _show_run(bench: dict[str, Any], run: dict[str, Any]) -> None:
    console.out().line()
    console.say(console.styled(rows.title(bench, run), "node"))
    _show_table(rows.SIZES, rows.size_rows(run))
    hcas = rows.hcas(run)
    more = f"; {len(hcas) - HCAS} more" if len(hcas) > HCAS else ""
    lines = {"busbw": rows.busbw_text(run), "run": rows.ended(run), "transport": rows.transport(run)}
    console.pairs(lines | ({"HCAs": "; ".join(hcas[:HCAS]) + more} if hcas else {}))
    if not run.get("complete"):
        for line in run.get("tail") or []:
            console.say(console.styled(f"    {line}", "dim"))


def _show_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        console.table(header, rows)


def show_ddp(ddp: dict[str, Any]) -> None:
    console.out().line()
    console.say(console.styled("training", "node"), rows.training(ddp))
    _show_table(*rows.versions(ddp))
    console.table(rows.STEPS, [rows.step_row(ddp)])
