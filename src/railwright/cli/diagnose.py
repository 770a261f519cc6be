# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright diagnose``: which rank of a job everybody else waits for, and why."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import LIMIT, json_object
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import expand
from railwright.cli import console
from railwright.cli.changes import nodes_line
from railwright.cli.job_nodes import facts_question, placed_job
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Transport, TransportOption, option
from railwright.cli.session import Session, concluded, node_counts
from railwright.exitcodes import ExitCode, InputError
from railwright.hangs import Judgement, judged, seen_ranks
from railwright.reading import read_bounded

HELP = """Say which rank of a job all others wait for, on which node, and why; or that it cannot tell, and what would tell. Change \
nothing: no process is stopped, traced or signalled.

JOB: a job of Slurm (123, 123_4, 123.0 for one step), or [NAMESPACE/]NAME of one of Kubernetes, as upgrade_scheduler says. Without one \
--process: all processes of a program or script on the nodes. Ends 0 when nobody hangs, 1 when somebody is named or it cannot tell, \
3 when a node does not answer.

\b
Examples:
  railwright diagnose 4711 -i mycluster
  railwright diagnose -i mycluster --limit node1,node2 --process train.py
"""
PROCESS_HELP = "Instead of a job: the program, script or Python module that the ranks execute, such as train.py."
RAS_HELP = "What `ncclras -f json` said of the job. Its users ask it, once no communicator is initialised any more: docs/diagnose.md."
STEP = re.compile(r"[0-9_]+\.[0-9]+")  # of a Slurm job
Job = Annotated[str | None, typer.Argument(metavar="[JOB]", help="The job as its scheduler names it.", show_default=False)]
Process = Annotated[str | None, option("--process", metavar="NAME", help=PROCESS_HELP)]
Seconds = Annotated[int, typer.Option("--seconds", metavar="N", min=1, max=600, help="How long to inspect the processes.")]
Ras = Annotated[Path | None, option("--ras", metavar="FILE", help=RAS_HELP)]


def command(
    inventory: Inventory, limit: Limit = None, job: Job = None, process: Process = None, seconds: Seconds = 10, ras: Ras = None,
    form: OutputFormat = Format.TEXT, transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    if (job is None) == (process is None):
        raise InputError("whose processes? allowed: JOB, or --process NAME")
    beyond = f"is larger than {LIMIT >> 20} MiB"
    said = None if ras is None else json_object(read_bounded(ras, str(ras), LIMIT, beyond).decode("utf-8", "replace"))
    if ras is not None and said is None:
        raise InputError(f"--ras {ras}: is no JSON object; allowed: what ncclras -f json printed")
    session = Session("diagnose", inventory, limit, form)
    given: dict[str, Any] = {"mode": "ranks", "seconds": seconds, "process": process, "job": None, "uid": None, "pods": []}
    step, down, unread = None, dict[str, str](), dict[str, str]()
    if job is not None:
        if STEP.fullmatch(job):
            job, step = job.split(".")
        placed, down, unread = placed_job(session.judge(), job)
        given |= {"job": None if placed["pods"] else placed["id"], "uid": placed["uid"], "pods": placed["pods"]}
        session.limit = ",".join(down)
    question = facts_question(given, "Inspect the processes of the job")
    outcome = session.scan("diagnose", transport, {f"diagnose_{key}": value for key, value in given.items()}, lambda _judged: question)
    hosts = outcome.hosts.values()
    gone = {host.name: ", ".join(filter(None, (down.get(host.name), host.message))) for host in hosts if host.status == "unreachable"}
    nodes = {host.name: host.ranks for host in hosts if host.ranks is not None}
    if job is not None:
        gone |= dict.fromkeys(_began_on(nodes) - placed["names"], "its scheduler has it in the job no longer")
    unread |= {host.name: host.message or "no answer" for host in hosts if host.name not in (*gone, *nodes)}
    found = judged(nodes, gone, unread, seconds, step, said)
    end = concluded(outcome, lambda host: {"ranks": host.ranks}, lambda _nodes: {"diagnosis": found.status},
                    codes=[] if found.status == "moves" else [ExitCode.FAILED])
    session.finish(end, lambda: _show(found, nodes, step, nodes_line(node_counts(outcome))), {"diagnosis": found._asdict()})


def _began_on(nodes: dict[str, Any]) -> set[str]:
    """The nodes that a job of Slurm had when its ranks began: with --no-kill Slurm takes those out that go down."""
    found = set[str]()
    for text in {row["began_on"] for seen in nodes.values() for row in seen["ranks"]} - {None}:
        with suppress(ValueError):  # any process can write there what it likes
            found |= set(expand(text))
    return found


def _show(found: Judgement, nodes: dict[str, Any], step: str | None, counts: str) -> None:
    named = {(each["node"], each["pid"]) for each in found.awaited}
    shown = [(rank.row["rank"], rank.node, rank.row["pid"], rank.row["name"],
              console.styled(rank.kind, "fail" if (rank.node, rank.row["pid"]) in named else "ok"), ", ".join(rank.row["waits"]),
              rank.row["moved"], rank.row["unread"]) for rank in seen_ranks(nodes, step)]
    if shown:
        console.table(("rank", "node", "pid", "program", "what", "in", "bytes moved", "unread"), shown)
    for node, seen in sorted(nodes.items()):
        for line in [*seen["xids"], *(f"{each['hca']} port {each['port']}: {each['growth']}" for each in seen["counters"])]:
            console.say(f"  {node}: {line}")
    console.say(found.message)
    if found.awaited:
        console.say(f"collective: {found.collective or 'not known: no flight recorder has written it down'}")
    for text in found.would_tell:
        console.say(f"  what would tell: {text}")
    console.say(counts)
