# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright watch``: what the agents of all nodes say, and who is drained by it."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import json_object
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import open_own
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import WATCHED
from railwright.cli import console, one_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Yes, settings
from railwright.cli.session import Judged, Session, concluded, failed_headings
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.given import given
from railwright.inventories import quoted
from railwright.journal import directory
from railwright.runs import site_name
from railwright.watch.decide import Decision, Limits, Node, decide
from railwright.writing import json_text, make_directories, write_atomic

HELP = """What do the agents of all nodes say? With --drain, keep new jobs from the sick ones, through the inventory's scheduler.

Drained is a node whose agent_mode is drain and whose agent says refuse, or shared where not the whole leaf has it; of observe it is only \
reported. Where more would have to go than rdma_drain_most, rdma_drain_share and rdma_drain_leaf_most allow nobody is drained, not even \
the first few, until --reset. What it drained it gives back once nothing fails there, by rdma_drain_gate. No job is ended. Ends 0 when \
nobody is sick, 1 when one is or the breaker is open, 3 when a node does not answer.

\b
Examples:
  railwright watch -i mycluster
  railwright watch -i mycluster --drain --yes  # each minute, by a timer: docs/agent.md
  railwright watch -i mycluster --drain --reset
"""

ONLY_ANSIBLE = "our own ssh does not reach it, and agents are heard by that alone"
GATE_REST_S = 3600.0  # between two gates of one node

Drain = Annotated[bool, typer.Option("--drain", help="Drain and give back; else it is only told who would be.")]
Reset = Annotated[bool, typer.Option("--reset", help="Close the breaker: go by what is true now.")]


def command(
    inventory: Inventory, limit: Limit = None, drained: Drain = False, reset: Reset = False, yes: Yes = False,
    form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value

    if drained and limit is not None:
        raise InputError("--limit: the limits of a drain are those of all nodes; allowed: --drain without --limit")
    if reset and not drained:
        raise InputError("--reset closes the breaker of --drain; allowed: watch --drain --reset")
    console.expect_answers("watch --drain", yes=yes or not drained, form=form)
    session = Session("watch", inventory, limit, form)
    judged = session.judge()
    if all(spec["agent_mode"] == "off" and not spec["out_of_service"] for spec in judged.specs.values()):
        raise InputError("no node has an agent; allowed: agent_mode: observe, or drain, in the inventory")
    with breaker(session, drained=drained) as kept:
        nodes, outcome = asked(session, judged)
        specs = judged.specs.values()
        leaves = {group: judged.inventory.groups[group] & judged.specs.keys() for group in site_value(specs, "leaves")}
        limits = Limits(*(site_value(specs, field) for field in ("drain_most", "drain_share", "drain_leaf_most")))
        found = decide(nodes, leaves, limits, "" if reset else str(kept.get("tripped") or ""))
        kept["tripped"] = found.tripped
        if drained and (found.drain or found.cured):
            many = f"Drain {console.count(len(found.drain), 'node')}, and give back {len(found.cured)} that the gate passes"
            console.agree(f"{many} ({', '.join([*found.drain, *found.cured])})?", yes=yes)
        done = act(session, judged, found, {node.name: node for node in nodes}, kept) if drained else []
    sick = bool(found.drain or found.observed or found.held or found.tripped or found.leaves)
    document = {"drain": found.drain, "observed": found.observed, "held": found.held, "cured": found.cured, "leaves": found.leaves,
                "silent": found.silent, "unasked": found.unasked, "breaker": found.tripped, "done": done}  # fmt: skip
    agents = {node.name: node.said for node in nodes}
    number = len(found.drain) + len(found.observed) + len(found.held)
    end = concluded(outcome, lambda host: {"agent": agents.get(host.name)}, lambda _nodes: {"sick": number},
                    codes=[ExitCode.FAILED] if sick or found.unasked else [])
    session.finish(end, lambda: show(found, outcome, session, done, end.nodes, drained=drained), {"watch": document})


@contextmanager
def breaker(session: Session, *, drained: bool) -> Iterator[dict[str, Any]]:
    """What is kept between two drains of this inventory: ``tripped``, and when each node's gate ran. One drain at a time."""
    file = directory("watch") / f"{site_name(session.inventory)}.json"

    def kept_before() -> dict[str, Any]:
        return (json_object(file.read_text("utf-8")) or {}) if file.exists() else {}

    if not drained:
        yield kept_before()
        return
    make_directories(file.parent, 0o700)
    with os.fdopen(open_own(str(file.with_suffix(".lock")), os.O_RDWR), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError("another watch --drain of this inventory is at work; allowed: one at a time") from error
        kept = kept_before()
        yield kept
        write_atomic(file, json_text(kept), 0o600)


def asked(session: Session, judged: Judged) -> tuple[list[Node], RunOutcome]:
    """What each agent says, and what each scheduler says of its nodes."""
    from railwright.scan.questions import Question, module_step

    answers: dict[str, dict[str, Any]] = {}
    question = Question("rdma_check", "Hear the agent", lambda node, _spec: {"mode": "agent", "node": node}, module_step)
    scanned = session.ask_all(question, judged, answers.__setitem__)
    drains: dict[str, Any] = {}
    if placed := [name for name, spec in judged.specs.items() if spec["upgrade_scheduler"] != "none"]:
        drains = {name: host.drain for name, host in session.run("scheduler_state", {}, placed).hosts.items()}
    for name in scanned.by_ansible:
        scanned.outcome.hosts[name] = HostOutcome(name, "unreachable", message=ONLY_ANSIBLE)
    found = []
    for name, spec in judged.specs.items():
        answer = (answers.get(name) or {}).get("agent")
        found.append(Node(name, spec["agent_mode"], answer, drains.get(name), spec["out_of_service"], name in placed))
    return found, scanned.outcome


def act(session: Session, judged: Judged, found: Decision, nodes: Mapping[str, Node], kept: dict[str, Any]) -> list[str]:
    """Drain, and give back what is cured and passes its gate, one gate a run. What came of it, a line each."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import plain_reason
    from railwright.isolate.drain import drain

    reasons = {name: plain_reason(reason) for name, reason in found.drain.items() if judged.specs[name]["upgrade_scheduler"] != "none"}
    lines = [f"{name} has no scheduler: upgrade_scheduler is none" for name in found.drain if name not in reasons]
    lines += [row.text for row in drain(session, reasons)]
    ready, gates, ran = [], kept.setdefault("gates", {}), False
    for name in found.cured:
        gate, since = judged.specs[name]["drain_gate"], time.time() - float(gates.get(name, 0.0))
        if gate == "person":
            lines.append(f"{name} is cured and stays drained: rdma_drain_gate is person")
        elif gate == "none":
            ready.append(name)
        elif not (nodes[name].drain or {}).get("empty"):
            lines.append(f"{name} is cured; its gate waits for the jobs on it")
        elif ran or since < GATE_REST_S:
            lines.append(f"{name} is cured; its gate waits its turn")
        elif ran := passes(session, gate, name):
            ready.append(name)
        else:
            ran, gates[name] = True, time.time()
            lines.append(f"{name} stays drained: {gate} did not pass")
    if ready:
        try:
            hosts = session.run("watch_open", {}, ready).hosts
        except CommandError as error:
            return [*lines, f"{', '.join(ready)}: not given back: {error}"]
        lines += [f"{name} takes jobs again" if hosts[name].status == "ok" else f"{name}: {hosts[name].message}"
                  for name in ready]  # fmt: skip
    return lines


def passes(session: Session, gate: str, node: str) -> bool:
    """A run of its own, stored like any: its verdicts are kept apart from ours."""
    inventories = [word for path in session.inventory for word in ("-i", str(path))]
    argv = [sys.executable, "-m", "railwright", gate, *inventories, *given.for_ourselves(), "--limit", node]
    console.note(f"gate of {node}: railwright {gate} --limit {node}")
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode == 0


def show(
    found: Decision, outcome: RunOutcome, session: Session, done: list[str], nodes: dict[str, dict[str, Any]], *, drained: bool
) -> None:  # fmt: skip
    rows = [(word, "fail", name, text.removeprefix(WATCHED).strip()) for word, texts in (
        ("drain" if drained else "would drain", found.drain), ("observed", found.observed), ("leaf", found.leaves))
        for name, text in texts.items()]  # fmt: skip
    rows += [(word, style, name, text) for word, style, names, text in (
        ("drained", "fail", found.held, "is still sick"), ("cured", "pass", found.cured, "nothing fails there any more"),
        ("silent", "unknown", found.silent, "its agent has not looked for five minutes"),
        ("unasked", "unknown", found.unasked, "its scheduler does not say whether it takes jobs; nothing was decided"),
    ) for name in names]  # fmt: skip
    if settings.one_line:
        one_line.show(nodes, rows=[(name, word.replace(" ", "-"), text) for word, _style, name, text in rows])
    else:
        failed_headings(outcome)
        for word, style, name, text in rows:
            console.say(console.styled(word, style), console.styled(name, "node"), text)
    for line in done:
        console.say(line)
    if found.tripped:
        console.say(console.styled("breaker", "fail"), f"open: {found.tripped}; nobody is drained until: "
                    f"railwright watch -i {quoted(session.inventory)} --drain --reset")  # fmt: skip
    if not rows and not found.tripped and not settings.one_line:
        console.say("every agent that answers says ok")
