# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright diagnose``: which rank of a job everybody else waits for, and why."""

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import json_object
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import expand
from railwright.cli import console
from railwright.cli.changes import nodes_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Transport, TransportOption, option
from railwright.cli.session import Judged, Session, concluded, node_counts
from railwright.events import HostOutcome
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.hangs import Judgement, judged, seen_ranks

if TYPE_CHECKING:
    from railwright.scan.questions import Question

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
PROCESS_HELP = "Instead of a job: the name of a program or a script, such as train.py."
SECONDS_HELP = "How long the processes are looked at."
RAS_HELP = "What `ncclras -f json` said of the job. Its users ask it, once no communicator is initialised any more: docs/diagnose.md."
STEP = re.compile(r"[0-9_]+\.[0-9]+")  # of a Slurm job
Job = Annotated[str | None, typer.Argument(metavar="[JOB]", help="The job as its scheduler names it.", show_default=False)]
Process = Annotated[str | None, option("--process", metavar="NAME", help=PROCESS_HELP)]
Seconds = Annotated[int, typer.Option("--seconds", min=1, max=600, help=SECONDS_HELP)]
Ras = Annotated[Path | None, option("--ras", metavar="FILE", help=RAS_HELP)]


def command(
    inventory: Inventory, job: Job = None, limit: Limit = None, process: Process = None, seconds: Seconds = 10, ras: Ras = None,
    form: OutputFormat = Format.TEXT, transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    if (job is None) == (process is None):
        raise InputError("whose processes? allowed: JOB, or --process NAME")
    said = None if ras is None else json_object(ras.read_text(encoding="utf-8", errors="replace"))
    if ras is not None and said is None:
        raise InputError(f"--ras {ras}: is no JSON object; allowed: what ncclras -f json printed")
    session = Session("diagnose", inventory, limit, form)
    given: dict[str, Any] = {"mode": "ranks", "seconds": seconds, "process": process, "job": None, "uid": None, "pods": []}
    step, down, unread = None, dict[str, str](), dict[str, str]()
    if job is not None:
        if STEP.fullmatch(job):
            job, step = job.split(".")
        placed, down, unread = _place(session.judge(), job)
        given |= {"job": None if placed["pods"] else placed["id"], "uid": placed["uid"], "pods": placed["pods"]}
        session.limit = ",".join(down)
    outcome = session.scan("diagnose", transport, {f"diagnose_{key}": value for key, value in given.items()}, lambda _judged: _asks(given))
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


def _asks(given: dict[str, Any], task: str = "Inspect the processes of the job") -> "Question":
    from railwright.scan.questions import Question, module_step

    return Question("rdma_facts", task, lambda _node, _spec: given, module_step)


def _place(judged: Judged, job: str) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """What the scheduler says of the job; its hosts in the inventory, each with the word for it if it is down; nodes beyond it."""
    places = {(str(spec["upgrade_scheduler"]), str(spec["upgrade_scheduler_host"])) for spec in judged.specs.values()}
    scheduler, where = places.pop()
    if places or scheduler not in ("slurm", "kubernetes"):
        raise InputError(f"JOB {job}: upgrade_scheduler is {'not the same everywhere' if places else scheduler}; allowed: slurm or "
                         "kubernetes, and one upgrade_scheduler_host for all of these nodes, or --process NAME")
    found = _asked(judged, where, {"mode": "job", "scheduler": scheduler, "job": job})
    names = {str(spec["upgrade_node_name"] or host): host for host, spec in judged.specs.items()}
    hosts = {names[node["name"]]: f"{scheduler} says {node['raw']}" if node["down"] else ""
             for node in found["nodes"] if node["name"] in names}
    if not hosts:
        on = ", ".join(node["name"] for node in found["nodes"][:5])
        where = f"on {on}: no node of this inventory" if on else "and no node"
        raise CommandError(f"job {job}: {scheduler} says {found['state']}, {where}")
    beyond = {node["name"]: "not in this inventory, or beyond its limit" for node in found["nodes"] if node["name"] not in names}
    return {**found, "names": {node["name"] for node in found["nodes"]}}, hosts, beyond


def _asked(judged: Judged, where: str, given: dict[str, Any]) -> dict[str, Any]:
    """The scheduler's answer, from the host that has its commands."""
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.inspection import answer
    from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed
    from railwright.scan.scan import Node, scan

    if where == "localhost":
        said = passed(f"{NAMESPACE}rdma_facts", "job", answer({}, {"module": "rdma_facts", "given": given, "derived": {}}))
        outcome = HostOutcome(where, job=said.get("job"), message=str(said.get("msg") or ""))
    else:
        node = Node(where, next(iter(judged.specs.values())), judged.inventory.connection[where], {})
        scanned = scan(_asks(given, "Ask the scheduler"), [node], None, None)
        outcome = scanned.outcome.hosts.get(where) or HostOutcome(where, message=scanned.by_ansible.get(where, ""))
    if outcome.job is None:
        raise CommandError(f"{where}, where the scheduler is asked (upgrade_scheduler_host): {outcome.message or 'no answer'}")
    return outcome.job


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
