# SPDX-License-Identifier: GPL-3.0-or-later
"""How plan and apply show changes: grouped by area, values cut to fit, nothing hidden in silence."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from railwright.cli import console
from railwright.cli.session import heading
from railwright.events import HostOutcome
from railwright.report.text import is_shortened, short

NAMES = 6  # nodes named above a table; the rest is counted


def by_area(changes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of the plan, the changes of one area together."""
    areas = {area: index for index, area in reversed(list(enumerate(change.get("area") for change in changes)))}
    return sorted(changes, key=lambda change: areas[change.get("area")])


def sections(nodes: Mapping[str, list[dict[str, Any]]]) -> list[tuple[list[str], list[dict[str, Any]]]]:
    """Changes with the nodes that all have them: what many nodes share is shown once.

    The largest sets of nodes come first; within a set the changes keep the order of the plan.
    """
    rows: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, changes in nodes.items():
        for change in changes:
            signature = json.dumps([change.get(part) for part in ("key", "before", "after", "disruption", "applied")], sort_keys=True)
            rows.setdefault(signature, (change, []))[1].append(name)
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for change, names in rows.values():
        found.setdefault(tuple(names), []).append(change)
    return [(list(names), changes) for names, changes in sorted(found.items(), key=lambda item: (-len(item[0]), item[0]))]


def show_hosts(hosts: Mapping[str, HostOutcome], restore_point: str = "", text: Callable[[HostOutcome], str] | None = None) -> None:
    """Each node with its problems, notes and refusals.

    ``restore_point``: how it is called, of a verb that leaves one; of any other the drivers are shown. ``text``: in place of the count
    of changes.
    """
    for _name, host in sorted(hosts.items()):
        heading(host, (text or host_line)(host))
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


def _show_refusal(host: HostOutcome) -> None:
    """Exactly what lacks consent, and the two ways to give it."""
    classes = sorted({str(change.get("disruption")) for change in host.refused})
    for name in classes:
        needing = [str(change.get("what")) for change in host.refused if change.get("disruption") == name]
        console.say(f"  needs consent to {name}: {', '.join(needing)}")
    console.say(f"  to give it: rdma_consent: [{', '.join(classes)}] in the inventory, or --consent {','.join(classes)}")


def show_changes(documents: Mapping[str, Mapping[str, Any]], *, state: bool = False) -> None:
    """Print every change of the nodes' documents once, below the nodes that have it."""
    nodes = {name: document["changes"] for name, document in documents.items() if document["changes"]}
    cut = False
    for names, changes in sections(nodes):
        if len(nodes) > 1:
            shown = ", ".join(names[:NAMES]) + (f" … ({len(names)} nodes)" if len(names) > NAMES else "")
            console.say("on", console.styled(shown, "node"))
        cut = change_table(changes, state=state) or cut
    if cut:
        console.say("Values are shortened here; --format json has them whole.")


def change_table(changes: list[dict[str, Any]], *, state: bool = False) -> bool:
    """Print the table; True when a value was shortened."""
    rows = []
    last = None
    for change in by_area(changes):
        area = str(change.get("area"))
        cells: list[object] = [area if area != last else "", change.get("what"), short(change.get("before")), short(change.get("after"))]
        cells.append(console.styled(change.get("disruption")))
        if state:
            cells.append(console.styled("applied", "ok") if change.get("applied") else console.styled("not applied", "fail"))
        rows.append(cells)
        last = area
    columns = ["area", "what", "before", "after", "disruption"] + (["result"] if state else [])
    console.table(columns, rows)
    return any(is_shortened(change.get(key)) for change in changes for key in ("before", "after"))


def disruptions(hosts: Iterable[HostOutcome]) -> dict[str, int]:
    return dict(sorted(Counter(str(change.get("disruption")) for host in hosts for change in host.changes).items()))


def change_line(number: int, classes: dict[str, int]) -> str:
    """`4 changes (link 1, none 3)`."""
    inside = ", ".join(f"{name} {many}" for name, many in classes.items())
    return console.count(number, "change") + (f" ({inside})" if inside else "")


def host_line(host: HostOutcome) -> str:
    """`3 changes`, and problems where there are any."""
    changes = console.count(len(host.changes), "change")
    return f"{changes}, {console.count(len(host.problems), 'problem')}" if host.problems else changes


def nodes_line(counts: dict[str, int]) -> str:
    """`2 nodes`, and how many of them gave no result."""
    bad = [f"{counts[status]} {status}" for status in ("failed", "unreachable") if counts[status]]
    return console.count(counts["nodes"], "node") + (f" ({', '.join(bad)})" if bad else "")
