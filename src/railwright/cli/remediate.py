# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright remediate``: fix what has drifted, only there, in batches; name everything that is left, with the command for it."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright.cli import console, rollout
from railwright.cli.apply import Consent, consented
from railwright.cli.changes import nodes_line
from railwright.cli.drift import Severity, Worst, keep_history, known_areas
from railwright.cli.options import Areas, Format, Inventory, Limit, OutputFormat, Transport, Yes
from railwright.cli.session import Conclusion, Session, concluded, heading, require
from railwright.drift import Asked, Remedy, fold, folded_cell, out_of_scope, remedy
from railwright.events import HostOutcome, RunOutcome
from railwright.inventories import quoted

HELP = """Fix what differs from the inventory: only that, only on the nodes that have it, a batch of nodes at a time.

Inspects as `drift` does, makes those changes of the plan, as one transaction a node with a restore point, and inspects again. The first \
batch that does not come back clean ends the run; later batches are not touched. What needs consent that nobody gave, or a reboot \
(never made here), and what no setting of ours fixes is listed with its reason. Ends 0 when nothing that was asked for is left, \
2 when something is, 1 when a node failed, 3 when one does not answer.

\b
Examples:
  railwright remediate -i mycluster
  railwright remediate -i mycluster --severity critical --batch 1
  railwright remediate -i mycluster --area nccl --area limits --consent restart
"""

BATCH_HELP = "How many nodes at a time: a number, or a share of the nodes that have drifted."
Batch = Annotated[str, typer.Option("--batch", metavar="N[%]", help=BATCH_HELP)]
# What became of a node, beside ok, failed and unreachable.
CLEAN, FIXED, LEFT, BROKEN, WAITING = "no drift", "fixed", "left as it is", "not clean", "not touched"


def command(
    inventory: Inventory, limit: Limit = None, area: Areas = None, severity: Worst = Severity.MINOR, batch: Batch = Asked().batch,
    consent: Consent = None, yes: Yes = False, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    rollout.asked(batch, None, None, None)
    known_areas(area or [])
    console.expect_answers("remediate", yes=yes, form=form)
    allowed = consented(consent)
    asked = Asked(tuple(area or []), severity.value, batch, tuple(allowed["rdma_consent"]) if allowed else None)
    extra = {"rdma_remediate_areas": area or [], "rdma_remediate_severity": severity.value, "rdma_batch": batch} | allowed
    session = Session("remediate", inventory, limit, form)
    if not yes:
        _agree(session, asked)
    outcome = session.run("remediate", extra)
    require(outcome, lambda host: host.remediation is not None, "look for drift")
    keep_history(session, outcome)
    site = str(session.inventory)
    end = concluded(outcome, lambda host: _node(host, site, asked), _totals, lambda node: node["findings"] or node["waiting"])
    session.finish(end, lambda: _show(outcome, end, site, asked))


def _agree(session: Session, asked: Asked) -> None:
    """Show what would be fixed, and ask; where nothing would be, nobody is asked."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import Scope, choose_fixes

    found = session.scan("drift", Transport.AUTO)
    specs = session.judge().specs
    fixes = {}
    for name, host in found.hosts.items():
        consent = specs[name].consent if asked.consent is None else asked.consent
        chosen = choose_fixes(host.drift or {}, Scope(asked.areas, asked.severity, consent, specs[name]["checks"]), {}, {})
        fixes[name] = [row for row in chosen["tried"] if row["key"] in chosen["fix"]]
    many = sum(map(bool, fixes.values()))
    if many:
        rows = [(folded_cell(names), row["area"], row["what"], console.styled(row["disruption"])) for row, names in _grouped(fixes, ())]
        console.table(("nodes", "area", "what", "disruption"), rows)
    total = console.count(sum(map(len, fixes.values())), "difference")
    console.agree(f"Fix {total} on {console.count(many, 'node')}, {asked.batch} at a time?", yes=not many)


def _node(host: HostOutcome, inventory: str, asked: Asked) -> dict[str, Any]:
    """``findings`` is what is left of what was asked for, ``waiting`` what a stopped run did not come to."""
    said = host.remediation or {}
    judged = said.get("stage") == "judged"
    left = said.get("left", [])
    findings = [*_marked("still", said.get("still", [])), *_marked("new", said.get("new", []))]
    findings += _marked("left", [row for row in left if not out_of_scope(row)])
    # What was tried of a node that was lost half-way is neither fixed nor untouched: nobody knows.
    waiting = said.get("tried", []) if not judged and host.status == "ok" else []
    node = {
        "result": _result(host, said, findings, waiting), "fixed": said.get("fixed", []), "findings": findings, "waiting": waiting,
        "left_out": [row for row in left if out_of_scope(row)], "consent": said.get("consent", []), "restore_point": host.restore_point,
        "reverted": host.reverted,
    }  # fmt: skip
    for row, found in _remedies(node, asked):
        row["command"] = None if found is None else found.line(inventory, [host.name])
    return node


def _remedies(node: dict[str, Any], asked: Asked) -> Iterator[tuple[dict[str, Any], Remedy | None]]:
    """What is left on a node, each with what would fix it."""
    for row in node["findings"]:
        yield row, remedy(row, asked, node["consent"], [*node["findings"], *node["left_out"]])


def _marked(result: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``why`` is what every report shows of a finding."""
    words = {"still": "was tried and is still there", "new": "was not there before"}
    return [{**row, "result": result, "why": row.get("reason") or words.get(result)} for row in rows]


def _result(host: HostOutcome, said: dict[str, Any], findings: list[dict[str, Any]], waiting: list[dict[str, Any]]) -> str:
    if host.status == "unreachable" or not said:
        return ""
    if waiting:
        return WAITING
    if said.get("clean") is False:
        return BROKEN
    if said.get("fixed"):
        return FIXED
    return LEFT if findings else CLEAN


def _totals(nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    rows = {"fixed": "fixed", "left": "findings", "left_out": "left_out"}
    counted = {name: sum(len(node[part]) for node in nodes.values()) for name, part in rows.items()}
    return counted | {"not_touched": sum(node["result"] == WAITING for node in nodes.values())}


def _show(outcome: RunOutcome, end: Conclusion, inventory: str, asked: Asked) -> None:
    nodes, summary = end.nodes, end.summary
    for host in outcome.hosts.values():
        if host.status != "ok":
            heading(host)
    done = _grouped({name: node["fixed"] for name, node in nodes.items()}, ())
    if done:
        console.out().line()
        rows = [(console.styled("fixed", "ok"), folded_cell(names), row.get("area"), row.get("what")) for row, names in done]
        console.table(("result", "nodes", "area", "what"), rows)
    for name, node in nodes.items():
        if node["restore_point"]:
            console.say(f"  restore point on {name}: {node['restore_point']}")
    _show_left(nodes, inventory, asked)
    late = [name for name, node in nodes.items() if node["waiting"]]
    if late:
        console.say(console.styled("not touched", "warn"), f"since the run stopped before: {fold(late)}")
    if summary["left_out"]:
        console.say(f"{summary['left_out']} more of other areas or less severe than was asked for: railwright drift -i {quoted(inventory)}")
    touched = f", {summary['not_touched']} not touched" if summary["not_touched"] else ""
    console.say(f"{nodes_line(summary)}{touched}: {summary['fixed']} fixed, {summary['left']} left")


def _show_left(nodes: dict[str, dict[str, Any]], inventory: str, asked: Asked) -> None:
    """Every difference that is left once, with its nodes and its reason; then each command once, for all nodes that it is for.

    A node that allows other classes has a command of its own: what one of them allows is not granted to another.
    """
    left = _grouped({name: node["findings"] for name, node in nodes.items()}, ("result", "why"))
    if not left:
        return
    console.out().line()
    style = {"still": "fail", "new": "fail"}
    rows = [
        (console.styled(row.get("result"), style.get(str(row.get("result")), "warn")), folded_cell(names), row.get("area"), row.get("what"),
         row.get("why"))
        for row, names in left
    ]  # fmt: skip
    console.table(("result", "nodes", "area", "what", "why"), rows)
    commands: dict[Remedy, set[str]] = {}
    for name, node in nodes.items():
        for _row, found in _remedies(node, asked):
            if found is not None:
                commands.setdefault(found, set()).add(name)
    for found, names in commands.items():
        console.say(f"  {found.line(inventory, names)}")


def _grouped(nodes: dict[str, list[dict[str, Any]]], more: tuple[str, ...]) -> list[tuple[dict[str, Any], list[str]]]:
    parts = ("key", *more)
    found = grouped((tuple(str(row.get(part)) for part in parts), (row, name)) for name, rows in nodes.items() for row in rows)
    return [(same[0][0], [name for _row, name in same]) for same in found.values()]
