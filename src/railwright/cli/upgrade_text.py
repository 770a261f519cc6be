# SPDX-License-Identifier: GPL-3.0-or-later
"""How an upgrade is shown: the nodes that need a person first, then one line for each other one."""

from __future__ import annotations

from typing import Any

from railwright.cli import console
from railwright.drift.fleet import fold
from railwright.report.text import short

STYLES = {"done": "ok", "failed": "failed", "rolled_back": "warn", "waiting": "dim"}


def show(document: dict[str, Any]) -> None:
    """The end of an upgrade, or where it is."""
    nodes = document["nodes"]
    if nodes:
        console.table(
            ("node", "state", "batch", "time", "what changed, or what is wrong"), [_row(name, node) for name, node in nodes.items()]
        )
    for name, node in nodes.items():
        for text in node["notes"]:
            console.say(console.styled("  note:", "dim"), f"{name}: {text}")
        if node["help"]:
            _help(name, node)
    _leftovers(document["inventory_changes"])
    counted = ", ".join(f"{many} {state.replace('_', ' ')}" for state, many in document["summary"]["states"].items())
    if document["stopped"]:
        console.say(console.styled("stopped:", "failed"), document["stopped"])
    console.say(f"upgrade to {document['release']['name']}, run {document['run']}: {console.count(len(nodes), 'node')}: {counted}")


def _row(name: str, node: dict[str, Any]) -> tuple[object, ...]:
    took = "" if node["seconds"] is None else f"{node['seconds']:.0f} s"
    wrong = node["message"] if node["state"] != "done" or not node["after"] else ""
    state = console.styled(node["state"].replace("_", " "), STYLES.get(node["state"], "warn"))
    return console.styled(name, "node"), state, node["batch"] or "", took, wrong or ", ".join(changed(node["before"], node["after"]))


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """``kernel 6.1.0-44-amd64 -> 6.1.0-48-amd64``, of what is another one now."""
    return [f"{label} {before.get(label, 'none')} -> {text}" for label, text in after.items() if before.get(label) != text]


def _help(name: str, node: dict[str, Any]) -> None:
    console.out().line()
    where = f" (task: {node['task']})" if node["task"] else ""
    at = "rolled back" if node["state"] == "rolled_back" else f"{node['status']} at {node['step']}"
    console.say(console.styled(name, "node"), console.styled(at, "failed"), node["message"] + where)
    if node["restore_points"]:
        console.say(f"  restore points on the node: {', '.join(node['restore_points'])}")
    words = ("go on:", "take it back:", "give it back to its jobs as it is:")
    chosen = words if len(node["help"]) == len(words) else [words[0], words[1] if "rollback" in node["help"][-1] else words[2]]
    for word, command in zip(chosen, node["help"], strict=False):
        console.say(f"  {word} {command}")


def _leftovers(rows: list[dict[str, Any]]) -> None:
    """Until the inventory says what the nodes have, drift reports it and apply takes it back."""
    if not rows:
        return
    console.out().line()
    console.say("Write this into the inventory now; until then drift reports the release, and apply would undo it:")
    console.table(
        ("key", "inventory has", "write", "nodes"),
        [(row["key"], short(row["found"]), short(row["write"]), fold(list(row["nodes"]))) for row in rows],
    )


def show_look(names: list[str], batches: list[list[str]], look: Any, outcome: Any) -> None:
    """A dry run: what each node would go through, and when."""
    place = {name: number for number, batch in enumerate(batches, start=1) for name in batch}
    rows: list[tuple[object, ...]] = []
    for name in names:
        upgrade = outcome.hosts[name].upgrade if name in outcome.hosts else None
        if name in look.refused:
            rows.append((console.styled(name, "node"), "", console.styled("cannot be upgraded", "failed"), look.refused[name]))
        elif upgrade is not None:
            what = f"{console.count(len(upgrade['plan']), 'change')} ({', '.join(upgrade['classes']) or 'none'})"
            packages = ", ".join(f"{row['name']} {row['from'] or 'none'} -> {row['to'] or 'none'}" for row in upgrade["packages"][:SHOWN])
            more = f" and {len(upgrade['packages']) - SHOWN} more" if len(upgrade["packages"]) > SHOWN else ""
            said = [packages + more] + ([f"takes no work now: {look.away[name]}"] if name in look.away else [])
            rows.append(
                (
                    console.styled(name, "node"),
                    place.get(name, ""),
                    what if upgrade["pending"] else console.styled("has the set already", "ok"),
                    "; ".join(text for text in said if text),
                )
            )
    console.table(("node", "batch", "plan", "what"), rows)


SHOWN = 4  # packages of a node in a dry run; JSON has them all
