# SPDX-License-Identifier: GPL-3.0-or-later
"""How plan and apply show changes: grouped by area, values cut to fit, nothing hidden in silence."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS
from railwright.cli import console
from railwright.cli.session import heading
from railwright.drift import as_json, folded_cell
from railwright.events import HostOutcome
from railwright.report.text import is_shortened, short, value_text

NAMES = 6  # nodes that are shown one by one; of more, those that are alike are one
DIFFERS = "(differs)"


def hurt(change: Mapping[str, Any]) -> int:
    """0 where nothing that runs notices; a word that we do not know hurts most."""
    word = change.get("disruption")
    return DISRUPTIONS.index(word) if word in DISRUPTIONS else len(DISRUPTIONS)


def by_area(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes of one area together, in the order of the plan; the area that hurts most comes first."""
    worst: dict[Any, int] = {}
    for change in changes:
        worst[change.get("area")] = max(worst.get(change.get("area"), 0), hurt(change))
    areas = sorted(worst, key=lambda area: -worst[area])
    return sorted(changes, key=lambda change: areas.index(change.get("area")))


def sections(nodes: Mapping[str, list[dict[str, Any]]]) -> list[tuple[list[str], list[dict[str, Any]]]]:
    """Changes with the nodes that all have them: what many nodes share is shown once.

    The sets with what hurts most come first, the largest of these before the others; within a set the changes keep the order of the plan.
    """
    parts = ("key", "before", "after", "disruption", "applied")
    rows = grouped((as_json([change.get(part) for part in parts]), (name, change)) for name, own in nodes.items() for change in own)
    found = grouped((tuple(name for name, _change in row), row[0][1]) for row in rows.values())
    return [(list(names), changes) for names, changes in sorted(found.items(), key=_first)]


def _first(item: tuple[tuple[str, ...], list[dict[str, Any]]]) -> tuple[Any, ...]:
    names, changes = item
    return -max(map(hurt, changes)), -len(names), names


def show_hosts(hosts: Mapping[str, HostOutcome], restore_point: str = "", text: Callable[[HostOutcome], str] | None = None) -> None:
    """Each node with its problems, notes and refusals.

    ``restore_point``: how it is called, of a verb that leaves one; of any other the drivers are shown. ``text``: in place of the count
    of changes.
    """
    text = text or host_line
    for host in alike(hosts, text):
        heading(host, text(host))
        if host.problems:
            rows = [(console.styled(item.get("area"), "failed"), item.get("subject"), item.get("message")) for item in host.problems]
            console.table(("problem in", "subject", "message"), rows)
        if not restore_point:
            console.pairs(host.drivers)
        elif host.restore_point:
            console.pairs({restore_point: host.restore_point})
        for note in host.notes:
            console.say(console.styled("  note:", "dim"), note)
        if host.refused:
            _show_refusal(host)


def alike(hosts: Mapping[str, HostOutcome], text: Callable[[HostOutcome], str]) -> list[HostOutcome]:
    """The nodes, by name. Of more than a handful those that would be shown alike are one, whose name is all of theirs, folded."""
    if len(hosts) <= NAMES:
        return [host for _name, host in sorted(hosts.items())]

    def shown(host: HostOutcome) -> str:
        more = (host.problems, host.drivers, host.restore_point, host.notes, host.refused)
        return as_json([host.status, host.task, host.message, text(host), *more])

    found = grouped((shown(host), name) for name, host in sorted(hosts.items()))
    return [replace(hosts[names[0]], name=folded_cell(names)) for names in found.values()]


def _show_refusal(host: HostOutcome) -> None:
    """Exactly what lacks consent, and the two ways to give it."""
    classes = sorted({str(change.get("disruption")) for change in host.refused})
    for name in classes:
        needing = [str(change.get("what")) for change in host.refused if change.get("disruption") == name]
        console.say(f"  needs consent to {name}: {', '.join(needing)}")
    console.say(f"  to give it: rdma_consent: [{', '.join(classes)}] in the inventory, or --consent {','.join(classes)}")


def show_changes(documents: Mapping[str, Mapping[str, Any]], *, state: bool = False) -> None:
    """Print every change of the nodes' documents once, below the nodes that have it; of more than a handful of nodes as a fleet."""
    nodes = {name: document["changes"] for name, document in documents.items() if document["changes"]}
    cut = _fleet_table(nodes, state=state) if len(nodes) > NAMES else False
    for names, changes in sections(nodes) if len(nodes) <= NAMES else ():
        if len(nodes) > 1:
            console.say("on", console.styled(", ".join(names), "node"))
        cut = change_table(changes, state=state) or cut
    if cut:
        console.say("Values are shortened here; --format json has them whole.")


def fleet_changes(nodes: Mapping[str, list[dict[str, Any]]]) -> list[tuple[list[str], dict[str, Any]]]:
    """A change that is the same on many nodes but for its values, such as each node's own address, with these nodes: most nodes first."""
    rows: dict[tuple[Any, ...], tuple[list[str], dict[str, Any]]] = {}
    for name, changes in nodes.items():
        for change in changes:
            same = tuple(str(change.get(part)) for part in ("key", "area", "what", "disruption", "applied"))
            names, row = rows.setdefault(same, ([], dict(change)))
            names.append(name)
            for part in ("before", "after"):
                if row.get(part) != change.get(part):
                    row[part] = DIFFERS
    return sorted(rows.values(), key=lambda row: (-hurt(row[1]), -len(row[0])))


def _fleet_table(nodes: Mapping[str, list[dict[str, Any]]], *, state: bool) -> bool:
    rows = fleet_changes(nodes)
    change_table([change for _names, change in rows], state=state, nodes=[folded_cell(names) for names, _change in rows])
    if any(DIFFERS in (change.get("before"), change.get("after")) for _names, change in rows):
        console.say(f"{DIFFERS}: another value on each node; --limit NODE shows its own, --format json has all.")
    return any(is_shortened(change.get(part)) for _names, change in rows for part in ("before", "after"))


def change_table(changes: list[dict[str, Any]], *, state: bool = False, nodes: Sequence[str] = ()) -> bool:
    """Print the table; True when a value was shortened. ``nodes``: who has each change, which keeps their order."""
    rows = []
    last = None
    for at, change in enumerate(changes if nodes else by_area(changes)):
        area = str(change.get("area"))
        cells: list[object] = [nodes[at], area] if nodes else [area if area != last else ""]
        cells += [change.get("what"), short(change.get("before")), short(change.get("after"))]
        cells.append(console.styled(change.get("disruption")))
        if state:
            cells.append(console.styled("applied", "ok") if change.get("applied") else console.styled("not applied", "fail"))
        rows.append(cells)
        last = area
    columns = (["nodes"] if nodes else []) + ["area", "what", "before", "after", "disruption"] + (["result"] if state else [])
    console.table(columns, rows)
    return any(is_shortened(change.get(key)) for change in changes for key in ("before", "after"))


MARKS = {"+": "ok", "-": "fail", "~": "warn"}
DIFF_LINES = 200  # of one file


def show_diffs(documents: Mapping[str, Mapping[str, Any]]) -> None:
    """Nodes with the same plan are one block. A change is ``+`` (new), ``-`` (gone) or ``~``; a file's lines stand below it, once."""
    seen: set[str] = set()
    blocks = grouped((as_json(document["changes"]), name) for name, document in documents.items() if document["changes"])
    for names, changes in sorted(((tuple(names), documents[names[0]]["changes"]) for names in blocks.values()), key=_first):
        console.out().line()
        line = change_line(len(changes), dict(Counter(str(change.get("disruption")) for change in changes)))
        console.say(console.styled(folded_cell(list(names)), "node"), line)
        last = None
        for change in sorted(changes, key=lambda change: -hurt(change)):
            word = change.get("disruption")
            if word != last:
                console.say(console.styled(f"  {word}", str(word)))
            last = word
            _show_diff(change, seen)


def _show_diff(change: Mapping[str, Any], seen: set[str]) -> None:
    before, after = change.get("before"), change.get("after")
    mark = "+" if before is None else "-" if after is None else "~"
    head = (f"  {mark}", f"{change.get('area')}: {change.get('what')}")
    old, new = (lines_in(value) if isinstance(value, str) else [] for value in (before, after))
    if max(len(old), len(new)) < 2:
        values = {"+": value_text(after), "-": value_text(before), "~": f"{value_text(before)} → {value_text(after)}"}
        console.say(console.styled(head[0], MARKS[mark]), f"{head[1]}  {values[mark]}")
        return
    again = (same := as_json([change.get("key"), before, after])) in seen
    seen.add(same)
    console.say(console.styled(head[0], MARKS[mark]), head[1] + ("  (as above)" if again else ""))
    if again:
        return
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    for line in lines[:DIFF_LINES]:
        console.say("      ", console.styled(line, MARKS.get(line[:1], "dim")))
    if len(lines) > DIFF_LINES:
        console.say(f"      … and {len(lines) - DIFF_LINES} lines more; --format json has them whole")


def disruptions(hosts: Iterable[HostOutcome]) -> dict[str, int]:
    return dict(sorted(Counter(str(change.get("disruption")) for host in hosts for change in host.changes).items()))


def change_line(number: int, classes: dict[str, int]) -> str:
    """`4 changes (link 1, none 3)`."""
    inside = ", ".join(f"{name} {many}" for name, many in classes.items())
    return console.count(number, "change") + (f" ({inside})" if inside else "")


def host_line(host: HostOutcome) -> str:
    """`3 changes`, and problems where there are any. A node that failed before it was planned has no count of changes."""
    unplanned = host.status == "failed" and not host.planned
    changes = "not planned" if unplanned else console.count(len(host.changes), "change")
    return f"{changes}, {console.count(len(host.problems), 'problem')}" if host.problems else changes


def nodes_line(counts: dict[str, int]) -> str:
    """`2 nodes`, and how many of them gave no result."""
    bad = [f"{counts[status]} {status}" for status in ("failed", "unreachable") if counts[status]]
    return console.count(counts["nodes"], "node") + (f" ({', '.join(bad)})" if bad else "")
