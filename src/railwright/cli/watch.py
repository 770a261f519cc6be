# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright watch``: what the agents of all nodes say, and who is drained by it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import json_object
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import WATCHED
from railwright.cli import console
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Judged, Session, concluded, failed_headings
from railwright.exitcodes import ExitCode, InputError
from railwright.inventories import quoted
from railwright.journal import directory
from railwright.runs import site_name
from railwright.writing import json_text, make_directories, write_atomic

if TYPE_CHECKING:
    from railwright.events import RunOutcome
    from railwright.watch.decide import Decision, Node

HELP = """What do the agents of all nodes say? With --drain, keep new jobs from the sick ones, through the inventory's scheduler.

Drained is a node whose agent_mode is drain and whose agent says refuse; of observe it is only told. Never more than rdma_drain_most, \
rdma_drain_share and rdma_drain_leaf_most allow: beyond that nobody is drained any more until --reset. What it drained it gives back \
once the agent finds nothing, by rdma_drain_gate. No job is ended. Ends 0 when nobody is sick, 1 when one is or the breaker is open, 3 \
when a node does not answer.

\b
Examples:
  railwright watch -i mycluster
  railwright watch -i mycluster --drain        # each minute, by a timer: docs/agent.md
  railwright watch -i mycluster --drain --reset
"""

Drain = Annotated[bool, typer.Option("--drain", help="Drain and give back; else it is only told who would be.")]
Reset = Annotated[bool, typer.Option("--reset", help="Close the breaker: go by what is true now.")]


def command(
    inventory: Inventory, limit: Limit = None, drained: Drain = False, reset: Reset = False, form: OutputFormat = Format.TEXT
) -> None:  # fmt: skip
    from railwright.watch.decide import Limits, decide

    session = Session("watch", inventory, limit, form)
    judged = session.judge()
    if all(spec["agent_mode"] == "off" and not spec["out_of_service"] for spec in judged.specs.values()):
        raise InputError("no node has an agent; allowed: agent_mode: observe, or drain, in the inventory")
    nodes, outcome = asked(session, judged)
    spec = next(iter(judged.specs.values()))
    leaves = {group: judged.inventory.groups[group] & judged.specs.keys() for group in spec["leaves"]}
    breaker = directory("watch") / f"{site_name(session.inventory)}.json"
    tripped = "" if reset else str((json_object(breaker.read_text("utf-8")) or {}).get("tripped") or "") if breaker.exists() else ""
    found = decide(nodes, leaves, Limits(spec["drain_most"], spec["drain_share"], spec["drain_leaf_most"]), tripped)
    done: list[str] = []
    if drained:
        make_directories(breaker.parent, 0o700)
        write_atomic(breaker, json_text({"tripped": found.tripped}), 0o600)
        done = act(session, judged, found)
    sick = bool(found.drain or found.observed or found.tripped or found.leaves)
    document = {"drain": found.drain, "observed": found.observed, "cured": found.cured, "leaves": found.leaves, "silent": found.silent,
                "breaker": found.tripped, "done": done}  # fmt: skip
    agents = {node.name: node.said for node in nodes}
    end = concluded(outcome, lambda host: {"agent": agents.get(host.name)}, lambda _nodes: {"sick": len(found.drain) + len(found.observed)},
                    codes=[ExitCode.FAILED] if sick else [])
    session.store(end, [])
    session.show(end, lambda: show(found, outcome, session, done), watch=document)
    raise typer.Exit(end.code)


def asked(session: Session, judged: Judged) -> tuple[list[Node], RunOutcome]:
    """What each agent says, and what each scheduler says of its nodes."""
    from railwright.scan.questions import Question, module_step
    from railwright.watch.decide import Node

    answers: dict[str, dict[str, Any]] = {}
    question = Question("rdma_check", "Hear the agent", lambda node, _spec: {"mode": "agent", "node": node}, module_step)
    scanned = session.ask_all(question, judged, answers.__setitem__)
    drains: dict[str, Any] = {}
    if placed := [name for name, spec in judged.specs.items() if spec["upgrade_scheduler"] != "none"]:
        drains = {name: host.drain for name, host in session.run("scheduler_state", {}, placed).hosts.items()}
    found = []
    for name, spec in judged.specs.items():
        host = scanned.outcome.hosts.get(name)
        why = "our own ssh does not reach it" if host is None else host.message
        found.append(Node(name, spec["agent_mode"], (answers.get(name) or {}).get("agent"), why, drains.get(name), spec["out_of_service"]))
    return found, scanned.outcome


def act(session: Session, judged: Judged, found: Decision) -> list[str]:
    """Drain, and give back what is cured and passes its gate. What came of it, a line each."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import plain_reason
    from railwright.isolate.drain import drain

    reasons = {name: plain_reason(reason) for name, reason in found.drain.items() if judged.specs[name]["upgrade_scheduler"] != "none"}
    lines = [f"{name} has no scheduler: upgrade_scheduler is none" for name in found.drain if name not in reasons]
    lines += [row.text for row in drain(session, reasons)]
    ready = []
    for name in found.cured:
        gate = judged.specs[name]["drain_gate"]
        if gate == "person":
            lines.append(f"{name} is cured and stays drained: rdma_drain_gate is person")
        elif gate == "none" or passes(session, gate, name):
            ready.append(name)
        else:
            lines.append(f"{name} stays drained: {gate} did not pass")
    if ready:
        hosts = session.run("watch_open", {}, ready).hosts
        lines += [f"{name} takes jobs again" if hosts[name].status == "ok" else f"{name} stays drained: {hosts[name].message}"
                  for name in ready]  # fmt: skip
    return lines


def passes(session: Session, gate: str, node: str) -> bool:
    """A run of its own, stored like any: its verdicts are kept apart from ours."""
    inventories = [word for path in session.inventory for word in ("-i", str(path))]
    argv = [sys.executable, "-m", "railwright", gate, *inventories, "--limit", node]
    console.note(f"gate of {node}: railwright {gate} --limit {node}")
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode == 0


def show(found: Decision, outcome: RunOutcome, session: Session, done: list[str]) -> None:
    failed_headings(outcome)
    rows: list[tuple[str, Mapping[str, str]]] = [("drain", found.drain), ("observed", found.observed), ("leaf", found.leaves)]
    for word, texts in rows:
        for name, text in texts.items():
            console.say(console.styled(word, "fail"), console.styled(name, "node"), text.removeprefix(WATCHED).strip())
    for name in found.silent:
        console.say(console.styled("silent", "unknown"), console.styled(name, "node"), "its agent has said nothing for five minutes")
    for name in found.cured:
        console.say(console.styled("cured", "pass"), console.styled(name, "node"), "its agent finds nothing any more")
    for line in done:
        console.say(line)
    if found.tripped:
        console.say(console.styled("breaker", "fail"), f"open: {found.tripped}; nobody is drained until: "
                    f"railwright watch -i {quoted(session.inventory)} --drain --reset")  # fmt: skip
    if not (found.drain or found.observed or found.leaves or found.silent or found.cured or found.tripped):
        console.say("every agent says ok")
