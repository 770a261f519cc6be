# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright agent``: what the agents of nodes report and remember, and who is drained by it (``agent_drain.py``)."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import WATCHED
from railwright.agent.decide import Decision, Limits, Node, decide
from railwright.cli import console, one_line
from railwright.cli.agent_drain import act, breaker, breaker_state, kept_holds
from railwright.cli.agent_hold import HELP as HOLD_HELP
from railwright.cli.agent_hold import fleet_codes, held_text, hold, hold_masses
from railwright.cli.agent_trial import DEMOTE_HELP, PROMOTE_HELP, TRIAL_HELP, demote, promote, record_outages, trial
from railwright.cli.check import Hosts, Sudo
from railwright.cli.check import asked as asked_hosts
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Yes, option, settings
from railwright.cli.session import Judged, Session, concluded, failed_headings
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import BY_STATUS, ExitCode, InputError, combine
from railwright.inventories import quoted

STATUS_HELP = """Show what the agents of all nodes report, and what `agent drain` would do. Nothing is changed.

Would be drained: a node whose agent_mode is drain and whose agent reports refuse, or shared unless the whole leaf has it. With \
agent_mode observe such a node is only listed. Ends 0 when no node is sick, 1 when one is or the breaker is open, 3 when a node does not \
answer.

\b
Examples:
  railwright agent status -i mycluster
  railwright agent status -i mycluster --limit rack3 --one-line
"""
DRAIN_HELP = """Keep new jobs from the nodes that `agent status` would drain, through the inventory's scheduler, and give cured nodes back.

No job is ended. When more nodes would be drained than rdma_drain_most, rdma_drain_share and rdma_drain_leaf_most allow, the breaker \
opens: no node is drained, not even the first few, until --reset. A node that it drained is given back once nothing fails there, by \
rdma_drain_gate. There is no --limit: the limits are those of all nodes. Ends as `agent status` does.

\b
Examples:
  railwright agent drain -i mycluster
  railwright agent drain -i mycluster --yes  # each minute, by a timer: docs/agent.md
  railwright agent drain -i mycluster --reset
"""
EVENTS_HELP = """What has happened on this node, or on each HOST: what its agent found, and how often each link went down.

\b
Examples:
  railwright agent events
  railwright agent events gpu017 root@gpu018
"""
ACK_HELP = """Acknowledge a finding of this node, as root: it counts no more. `agent events` prints the ids.

\b
Example:
  railwright agent ack 3fa90c1e --reason 'cable ordered'
"""

LIMITS = ("drain_most", "drain_share", "drain_leaf_most", "mass_share", "mass_hours")
ONLY_ANSIBLE = "our own ssh does not reach it, and agents are heard by that alone"

Reset = Annotated[bool, typer.Option("--reset", help="Close the breaker: go by what is true now.")]
Finding = Annotated[str, typer.Argument(metavar="ID", show_default=False, help="Of the finding.")]
Reason = Annotated[str, option("--reason", metavar="TEXT", help="What is known of it, and what is done about it: at most 200 characters.")]


class Heard(NamedTuple):
    """What the agents of all nodes report, and what their schedulers report of them."""

    judged: Judged
    nodes: list[Node]
    outcome: RunOutcome


def status(inventory: Inventory, limit: Limit = None, form: OutputFormat = Format.TEXT) -> None:
    session = Session("agent", inventory, limit, form)
    judged = judged_with_agents(session)
    heard = hear(session, judged)
    record_outages(session, heard.nodes)
    finish(session, heard, decided(heard, str(breaker_state(session).get("tripped") or ""), kept_holds(session)))


def drain(inventory: Inventory, reset: Reset = False, yes: Yes = False, form: OutputFormat = Format.TEXT) -> None:
    console.expect_answers("agent drain", yes=yes, form=form)
    session = Session("agent", inventory, None, form)
    judged = judged_with_agents(session)
    with breaker(session) as kept:
        if reset:
            kept["tripped"] = ""
        heard = hear(session, judged)
        record_outages(session, heard.nodes)
        found = decided(heard, str(kept.get("tripped") or ""), kept_holds(session))
        kept["tripped"] = found.tripped
        stopped = hold_masses(session, judged, found.mass, heard.nodes)
        if found.drain or found.cured:
            many = f"Drain {console.count(len(found.drain), 'node')}, and give back {len(found.cured)} that the gate passes"
            console.agree(f"{many} ({', '.join([*found.drain, *found.cured])})?", yes=yes)
        if held_text(session):  # begun while the question was open
            found.drain, found.cured = {}, []
        done = stopped + act(session, judged, found, {node.name: node for node in heard.nodes}, kept)
    finish(session, heard, found, done)


def judged_with_agents(session: Session) -> Judged:
    """Return the inventory without errors. Raises InputError when no node has an agent."""
    judged = session.judge()
    if all(spec["agent_mode"] == "off" and not spec["out_of_service"] for spec in judged.specs.values()):
        raise InputError("no node has an agent; allowed: agent_mode: observe, or drain, in the inventory")
    return judged


def hear(session: Session, judged: Judged) -> Heard:
    """Ask each agent, and each scheduler about its nodes."""
    from railwright.scan.questions import Question, module_step

    answers: dict[str, dict[str, Any]] = {}
    question = Question("rdma_check", "Hear the agent", lambda node, _spec: {"mode": "agent", "node": node}, module_step)
    scanned = session.ask_all(question, judged, answers.__setitem__)
    drains: dict[str, Any] = {}
    if placed := [name for name, spec in judged.specs.items() if spec["upgrade_scheduler"] != "none"]:
        drains = {name: host.drain for name, host in session.run("scheduler_state", {}, placed).hosts.items()}
    for name in scanned.by_ansible:
        scanned.outcome.hosts[name] = HostOutcome(name, "unreachable", message=ONLY_ANSIBLE)
    nodes = []
    for name, spec in judged.specs.items():
        answer = (answers.get(name) or {}).get("agent")
        nodes.append(Node(name, spec["agent_mode"], answer, drains.get(name), spec["out_of_service"], name in placed))
    return Heard(judged, nodes, scanned.outcome)


def decided(heard: Heard, tripped: str, holds: Mapping[str, Any]) -> Decision:
    """Return who is to be drained and given back. ``tripped``: why the breaker is open, or ``""``; ``holds``: what is held."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value

    specs, groups = heard.judged.specs, heard.judged.inventory.groups
    leaves = {group: groups[group] & specs.keys() for group in site_value(specs.values(), "leaves")}
    limits = Limits(*(site_value(specs.values(), field) for field in LIMITS))
    held = (holds.get("hold") or {}).get("codes", ())
    return decide(heard.nodes, leaves, limits, tripped, held, fleet_codes(holds))


def finish(session: Session, heard: Heard, found: Decision, done: list[str] | None = None) -> None:
    """Store and print what was decided, and end. ``done``: what came of it, a line each; None where nothing was to be done."""
    sick = bool(found.drain or found.observed or found.held or found.tripped or found.leaves or found.mass or found.waiting)
    document = {"drain": found.drain, "observed": found.observed, "held": found.held, "cured": found.cured, "leaves": found.leaves,
                "mass": [item._asdict() for item in found.mass], "waiting": found.waiting, "hold": held_text(session),
                "silent": found.silent, "unasked": found.unasked, "breaker": found.tripped, "done": done or []}  # fmt: skip
    agents = {node.name: node.said for node in heard.nodes}
    number = len(found.drain) + len(found.observed) + len(found.held)
    end = concluded(heard.outcome, lambda host: {"agent": agents.get(host.name)}, lambda _nodes: {"sick": number},
                    codes=[ExitCode.FAILED] if sick or found.unasked else [])
    session.finish(end, lambda: show(found, heard.outcome, session, done, end.nodes), {"agent": document})


def show(found: Decision, outcome: RunOutcome, session: Session, done: list[str] | None, nodes: dict[str, dict[str, Any]]) -> None:
    rows = [(word, "fail", name, text.removeprefix(WATCHED).strip()) for word, texts in (
        ("would drain" if done is None else "drain", found.drain), ("observed", found.observed), ("leaf", found.leaves),
        ("waits", found.waiting))
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
    for item in found.mass:
        console.say(console.styled("fleet", "fail"), f"{item.text}; nobody is drained for it")
    if held := held_text(session):
        console.say(console.styled("hold", "fail"), f"{held}: nobody is drained or given back until: "
                    f"railwright agent hold -i {quoted(session.inventory)} --end")  # fmt: skip
    for line in done or ():
        console.say(line)
    if found.tripped:
        console.say(console.styled("breaker", "fail"), f"open: {found.tripped}; nobody is drained until: "
                    f"railwright agent drain -i {quoted(session.inventory)} --reset")  # fmt: skip
    if not rows and not found.tripped and not settings.one_line:
        console.say("every agent that answers says ok")


def events(hosts: Hosts = None, sudo: Sudo = False, form: OutputFormat = Format.TEXT) -> None:
    outcomes, _verdicts = asked_hosts("agent", hosts or [], sudo=sudo)
    if form is Format.JSON:
        console.print_json({"nodes": {name: {"status": host.status, "message": host.message, "agent": host.agent}
                                      for name, host in outcomes.items()}})  # fmt: skip
    for name, host in outcomes.items() if form is Format.TEXT else ():
        if host.status != "ok" or host.agent is None:
            console.note(f"{name}: {host.status}: {host.message or 'it answered without its events'}")
        elif host.agent["word"] == "none" and not host.agent["findings"] and not host.agent["downs"]:
            console.say(f"{name}: no agent runs here: agent_mode, in the inventory; docs/agent.md")
        else:
            console.say("\n".join(host.agent["text"]))
    raise typer.Exit(combine([ExitCode(BY_STATUS[host.status]) for host in outcomes.values()]))


def ack(finding: Finding, reason: Reason) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.agent.main import say_known
    from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host

    if not reason.isprintable() or len(reason) > 200:
        raise InputError("--reason: is not one line of at most 200 characters; allowed: railwright agent ack ID --reason TEXT")
    host = Host()
    try:
        say_known(host, finding, reason, host.login())
    except ValueError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; allowed: as root, on the node itself") from error
    console.say("the agent takes it up within a minute")


ABOUT = "Agents of nodes: status, events, and draining by what they report."
VERBS = {
    "status": (status, STATUS_HELP), "events": (events, EVENTS_HELP), "ack": (ack, ACK_HELP), "drain": (drain, DRAIN_HELP),
    "hold": (hold, HOLD_HELP), "trial": (trial, TRIAL_HELP), "promote": (promote, PROMOTE_HELP), "demote": (demote, DEMOTE_HELP),
}
