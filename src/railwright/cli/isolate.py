# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright isolate``: which node, rail, path or switch is slow, found by rounds of measured pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from railwright.cli import console, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.job_nodes import placed_job
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Yes, option
from railwright.cli.session import Judged, Session, concluded, failed_headings, node_counts
from railwright.events import RunOutcome
from railwright.exitcodes import ExitCode, InputError, RunError
from railwright.inventories import quoted
from railwright.isolate import journal
from railwright.isolate.model import QUIET, TOOLS, Finding, Fleet, Options, make_fleet
from railwright.isolate.solve import Outcome, Search, isolate_document, shuffled
from railwright.journal import last_of, place_of

if TYPE_CHECKING:
    from railwright.isolate.launching import Site
    from railwright.isolate.nccl import NcclLauncher
    from railwright.isolate.perftest import PerftestLauncher

HELP = """Find slow or failing parts: a node, a rail, one direction of it, a path, a leaf switch, a link that flaps.

Pairs of nodes measure each other with perftest, or with nccl-tests between their GPUs, all at once, round by round; whoever was slow is \
measured again with partners that proved good. No setting is changed, but the rails are busy: nodes on which the scheduler has jobs are \
left out. Ctrl-C stops it, --resume goes on. Ends 0 when every part is good, 1 when one is not or could not be told, 3 when a node does \
not answer.

\b
Examples:
  railwright isolate -i mycluster
  railwright isolate -i mycluster --limit 'rack3:!gpu7' --minutes 10
  railwright isolate -i mycluster --job 4711
  railwright isolate -i mycluster --resume
"""

MINUTES_HELP = "How long it may take: no round begins that would not end in time."
SAMPLES_HELP = "How often each figure is measured, a second or less each. Default: five, with nccl-tests nine."
AT_ONCE_HELP = "How many pairs measure at the same time. 1 where the nodes share what they run on, as virtual machines do."
RESUME_HELP = "Go on with the last search of this inventory, with the options that it was begun with."
DRAIN_HELP = "Keep new jobs from the nodes that a finding blames, through the inventory's scheduler, with the reason."
JOB_HELP = "Measure the nodes of this job, while it runs on them, with as many idle ones, and no others."
TOOL_HELP = "perftest, nccl or auto: nccl-tests, which are brought to the nodes, where each has GPUs and a launcher (mpirun, srun)."
PARTNERS = 3  # for the nodes of a job, at least: what it takes to name one of them
SHOWN = 5  # nodes that are left out, each with its reason

Minutes = Annotated[float, typer.Option("--minutes", min=1, max=1440, metavar="N", help=MINUTES_HELP)]
Rounds = Annotated[int, typer.Option("--rounds", min=1, max=100, metavar="N", help="How many rounds at most.")]
Samples = Annotated[int | None, option("--samples", min=1, max=15, metavar="N", help=SAMPLES_HELP)]
AtOnce = Annotated[int, option("--at-once", min=1, max=4096, metavar="PAIRS", help=AT_ONCE_HELP)]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Draws other pairs.")]
Tool = Annotated[str, typer.Option("--tool", metavar="NAME", help=TOOL_HELP)]
Resume = Annotated[bool, typer.Option("--resume", help=RESUME_HELP)]
Drain = Annotated[bool, typer.Option("--drain", help=DRAIN_HELP)]
Job = Annotated[str | None, option("--job", metavar="ID", help=JOB_HELP)]
Busy = Annotated[bool, typer.Option("--busy", help="Measure nodes on which jobs run, too.")]


def command(
    inventory: Inventory, limit: Limit = None, tool: Tool = "auto", minutes: Minutes = 20.0, rounds: Rounds = 8, samples: Samples = None,
    at_once: AtOnce = 1024, seed: Seed = 1, drained: Drain = False, busy: Busy = False, job: Job = None, resume: Resume = False,
    yes: Yes = False, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    from railwright.isolate.drain import check_drain

    _agree(tool, job, resume=resume)
    console.expect_answers("isolate --drain", yes=yes or not drained, form=form)
    session = Session("isolate", inventory, limit, form)
    judged = session.judge()
    _expect_nodes(judged, tool)
    if drained:
        check_drain(judged)
    place = last_of("isolate", session.inventory, journal.WORK) if resume else place_of("isolate", session.inventory, session.id)
    begun_with = journal.begun_with(place, judged.inventory.hosts) if resume else ()
    left_out = left_out_of(session, judged, job, seed, all_of_them=busy or resume)
    tool = "perftest" if job is not None and tool == "auto" else tool  # the GPUs are the job's
    sites, outcome = measurable(session, judged, left_out)
    if len(sites) < 2:
        end = concluded(outcome, lambda _host: {}, lambda _nodes: {}, codes=[ExitCode.FAILED])
        why = f"{len(sites)} of {len(judged.inventory.hosts)} nodes can be measured, and two are needed"
        session.finish(end, lambda: nothing(outcome, why))
    rails = shared_rails(sites)
    run = f"isolate-{hashlib.sha256(place.name.encode()).hexdigest()[:16]}"  # the same for a search that goes on
    tool, launcher = launcher_of(session, judged, sites, tool, rails, run, at_once, resumed=resume)
    nodes = begun_with or tuple(launcher.nodes)
    fleet = make_fleet(nodes, rails, leaves_of(judged, nodes), tool)
    options = Options(minutes, rounds, seed, samples or 0)
    book, options = journal.reopen(place, fleet) if resume else (journal.create(place, fleet, options), options)
    try:
        found = Search(fleet, launcher, book, options, console.note).run()
    except KeyboardInterrupt:
        console.note(f"what was measured is kept: railwright isolate -i {quoted(session.inventory)} --resume goes on")
        raise
    finally:
        book.close()
    outcome.verdicts = [*map(as_verdict, found.findings), *launcher.grown.verdicts()]
    document = isolate_document(fleet, measured(place, fleet), found)
    if drained:
        document["drained"] = drained_rows(session, found.findings, yes=yes)
    failed = not found.clean or any(row["state"] == "failed" for row in document.get("drained", ()))
    totals = {"findings": len(found.findings), "rounds": found.rounds}
    end = concluded(outcome, lambda _host: {}, lambda _nodes: totals, codes=[ExitCode.FAILED] if failed else [])
    session.store(end, outcome.verdicts, isolate=document)
    place.unlink(missing_ok=True)
    session.show(end, lambda: show(found, outcome, document), isolate=document, verdicts=verdicts.ordered(outcome.verdicts))
    raise typer.Exit(end.code)


def _agree(tool: str, job: str | None, *, resume: bool) -> None:
    if tool not in ("auto", *TOOLS):
        raise InputError(f"--tool {tool}: is no such tool; allowed: auto, {', '.join(TOOLS)}")
    if job is not None and resume:
        raise InputError("--resume goes on with the nodes of the search that was interrupted; allowed: without --job")


def _expect_nodes(judged: Judged, tool: str) -> None:
    """Raise InputError where nothing can be measured by this tool, whatever the nodes answer."""
    from railwright.job_user import expect_job_user

    if len(judged.inventory.hosts) < 2:
        raise InputError("isolate measures nodes against each other, and one node is all that was given; allowed: two nodes or more")
    if tool == "nccl":
        expect_job_user(judged.inventory, judged.specs)


def drained_rows(session: Session, findings: Collection[Finding], *, yes: bool) -> list[dict[str, Any]]:
    """What became of each node that was to be drained. Who does not agree still gets what was found."""
    from railwright.isolate.drain import drain, reasons_of

    reasons = reasons_of(session.id, list(findings))
    try:
        console.agree(f"Drain {', '.join(f'{name} ({why})' for name, why in reasons.items())}?", yes=yes or not reasons)
    except console.Declined:
        console.note("not agreed to; nobody is drained")
        return []
    return [row._asdict() for row in drain(session, reasons)]


def measured(place: Path, fleet: Fleet) -> tuple[journal.Done, ...]:
    """Every whole round, those before a resume among them."""
    book, _options = journal.reopen(place, fleet)
    book.close()
    return book.done


def left_out_of(session: Session, judged: Judged, job: str | None, seed: int, *, all_of_them: bool) -> dict[str, str]:
    """Node -> why it is not measured. With a job, its nodes are, and as many others."""
    suspects = placed_job(judged, job)[1] if job is not None else {}
    found = {} if all_of_them else at_work(session, judged, suspects)
    if job is not None:
        found |= not_needed(judged, suspects, found, seed)
        count = len(judged.inventory.hosts.keys() - found.keys() - suspects.keys())
        console.note(f"job {job}: {console.count(len(suspects), 'node')} of it, and {count} beside them")
    return found


def not_needed(judged: Judged, suspects: Collection[str], left_out: Collection[str], seed: int) -> dict[str, str]:
    """Every other node, when those of one job are measured, each with a partner: the partners are drawn."""
    idle = [name for name in shuffled(judged.inventory.hosts, f"{seed} partners ") if name not in suspects and name not in left_out]
    return dict.fromkeys(idle[max(PARTNERS, len(suspects)) :], "is not needed")


def at_work(session: Session, judged: Judged, suspects: Collection[str]) -> dict[str, str]:
    """Node -> why it is not measured: a job runs there, or its scheduler does not say. ``suspects``: are, though a job runs there."""
    nodes = [name for name, spec in judged.specs.items() if spec["upgrade_scheduler"] != "none" and name not in suspects]
    if not nodes:
        return {}
    found = {}
    hosts = session.run("scheduler_state", {}, nodes).hosts
    for name in nodes:
        state = hosts[name].drain
        if state is None:
            found[name] = f"its scheduler does not say whether jobs run there: {hosts[name].message}"
        elif not state.get("empty"):
            found[name] = "jobs run there: " + first_of([str(job) for job in state.get("holders") or state.get("jobs") or ["(unnamed)"]], 3)
    for name, why in list(found.items())[:SHOWN]:
        console.note(f"{name}: is left out: {why}")
    if found:
        console.note(f"{len(found)} of {len(judged.inventory.hosts)} nodes are left out for their jobs; --busy measures them all the same")
    return found


def leaves_of(judged: Judged, nodes: Collection[str]) -> dict[str, Collection[str | tuple[str, str]]]:
    """Leaf -> its nodes, or its (node, rail) where each rail has switches of its own; {} where the inventory does not say."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value
    from railwright.leaves import leaf_name

    specs = judged.specs.values()
    spec, per_rail = next(iter(specs)), site_value(specs, "leaf_per_rail")
    found: dict[str, Collection[str | tuple[str, str]]] = {}
    for group in site_value(specs, "leaves"):
        members = [node for node in judged.inventory.groups[group] if node in nodes]
        if per_rail:
            found |= {leaf_name(spec, group, rail.name): [(node, rail.name) for node in members] for rail in spec.rails if members}
        elif members:
            found[group] = members
    return found


def measurable(session: Session, judged: Judged, left_out: Collection[str]) -> tuple[dict[str, Site], RunOutcome]:
    """Every other node that answers, with its rails as it sees them."""
    from railwright.isolate.launching import Site
    from railwright.scan.nodes import nodes_of
    from railwright.scan.questions import QUESTIONS

    views: dict[str, dict[str, Any]] = {}
    scanned = session.ask_all(QUESTIONS["validate"], judged, views.__setitem__)
    for name in scanned.by_ansible:
        scanned.outcome.hosts.pop(name, None)
        console.note(f"{name}: is not measured: isolate reaches nodes over its own ssh alone, and this one by Ansible only")
    nodes = {node.name: node for node in nodes_of(judged.inventory, judged.specs) if node.name in views.keys() - set(left_out)}
    return {name: Site(node, views[name]) for name, node in nodes.items()}, scanned.outcome


def shared_rails(sites: Mapping[str, Site]) -> list[str]:
    """Names of rails that all nodes have, in the order of the first."""
    names = [[str(rail["name"]) for rail in site.view["rails"]] for site in sites.values()]
    shared = [name for name in names[0] if all(name in others for others in names)] if names else []
    if not shared:
        raise InputError("no rail has the same name on all nodes, so there is nothing to compare; allowed: rails of one name on all nodes")
    return shared


def launcher_of(
    session: Session, judged: Judged, sites: Mapping[str, Site], tool: str, rails: list[str], run: str, at_once: int, *, resumed: bool
) -> tuple[str, PerftestLauncher | NcclLauncher]:  # fmt: skip
    """nccl-tests where they can be run and are wished for; they are brought first, as by bench. ``run``: the search's name on the nodes."""
    from railwright.isolate.perftest import PerftestLauncher
    from railwright.job_user import root_logins

    possible = tool == "auto" and all(site.view["facts"]["gpus"] for site in sites.values())
    refused = root_logins(judged.inventory, judged.specs) if possible else []
    for finding in refused:
        console.note(f"nccl-tests cannot be run, so perftest is: {finding}")
    if tool == "nccl" or (possible and not refused):
        from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, wishes_of
        from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import lossless_of
        from railwright.isolate.nccl import PROGRAMS, Member, NcclLauncher, nccl_launcher

        hosts = session.run("nccl_tests_programs", {"nccl_tests_collectives": list(dict.fromkeys(PROGRAMS.values()))}, list(sites)).hosts
        wishes = {name: {**wishes_of(spec), **lossless_of(spec)} for name, spec in judged.specs.items()}
        members = {name: Member(site, Node(name, wishes[name], seen)) for name, site in sites.items()
                   if hosts[name].status == "ok" and (seen := hosts[name].readiness) is not None}  # fmt: skip
        for name in [name for name in sites if name not in members]:
            console.note(f"{name}: is not measured by nccl-tests: {hosts[name].message or 'the run ended before it'}")
        how = nccl_launcher([member.plan for member in members.values()]) if len(members) > 1 else "fewer than two nodes are ready"
        if not isinstance(how, str):
            return "nccl", NcclLauncher(members, rails, how, run, at_once, console.note, resumed=resumed)
        if tool == "nccl":
            raise RunError(f"--tool nccl: {how}")
        console.note(f"nccl-tests cannot be run, so perftest is: {how}")
    return "perftest", PerftestLauncher(sites, at_once, console.note)


def as_verdict(finding: Finding) -> dict[str, Any]:
    status = "unknown" if finding.kind in QUIET else "fail"
    node = finding.nodes[0] if len(finding.nodes) == 1 else ""
    return {"check": "isolate.part", "node": node, "hca": None, "port": None, "subject": finding.rail or finding.leaf or finding.kind,
            "status": status, "expected": "like the others", "found": round(finding.share, 3), "message": finding.text}  # fmt: skip


def nothing(outcome: RunOutcome, why: str) -> None:
    failed_headings(outcome)
    console.say(f"nothing was measured: {why}")


def show(found: Outcome, outcome: RunOutcome, document: Mapping[str, Any]) -> None:
    failed_headings(outcome)
    for finding in found.findings:
        console.say(console.styled(finding.kind, "node"), finding.text)
    if found.stopped:
        console.say(console.styled("stopped", "node"), found.stopped)
    for row in document.get("drained", ()):
        console.say(console.styled("drain", "node"), row["text"])
    if found.clean:
        console.say("every part is as fast as its like")
    console.say(f"{found.rounds} rounds, {found.trials} pairs measured, {found.seconds:.0f} s, {found.node_minutes:.1f} node-minutes")
    console.say(nodes_line(node_counts(outcome)))
