# SPDX-License-Identifier: GPL-3.0-or-later
"""How GPUs, rails and leaf switches hang together, as a drawing for the page: each rail in the colour of its worst result.

Nodes that are alike in all of it are drawn once. Rails and leaves are the inventory's; a search's own leaves win over them. The GPU
nearest to a rail is what bench saw. The drawing is worked out here; page.html.j2 writes it, and escapes what is in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from ansible_collections.railwright.rdma.plugins.module_utils.formats.sysfs_values import natural_key
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright.isolate.model import QUIET
from railwright.report import isolate as search
from railwright.report.cases import RESULT_OF_STATUS
from railwright.report.markdown import ORDER
from railwright.report.text import printable, short
from railwright.runs import Run

CARDS = 12  # groups of nodes that are drawn, the worst first
WIRES = 32  # rails, and GPUs, of a node
ROW, HEAD, GAP = 20, 26, 14  # pixels
EDGE, BOX, BETWEEN, FAR = 12, 240, 28, 120  # of a card; a box; between GPUs and rails; between rails and leaves
LONGEST = 26  # characters in a box
NONE = "skipped"  # nothing was judged


class Rail(NamedTuple):
    """``gpus``: those for which bench found it the nearest."""

    name: str
    device: str
    leaf: str
    result: str
    gpus: tuple[str, ...]


class Box(NamedTuple):
    """A rectangle with a line of text: its upper left corner, in pixels."""

    x: int
    y: int
    text: str
    result: str
    hover: str


class Line(NamedTuple):
    """From the right side of a box to the left side of another."""

    x1: int
    y1: int
    x2: int
    y2: int
    result: str


class Card(NamedTuple):
    """Nodes that are alike."""

    nodes: tuple[str, ...]
    y: int
    height: int
    title: str
    result: str


class Drawing(NamedTuple):
    cards: list[Card]
    boxes: list[Box]
    lines: list[Line]
    height: int
    width: int
    card: int  # width of a card
    left_out: int  # groups
    leaves: bool  # whether any is known


def drawing(run: Run, worst: Mapping[str, str]) -> Drawing | None:
    """``worst``: of each node. None where no rail is known."""
    every = _rails(run, [node for node, result in worst.items() if result == "error"])
    groups = grouped(((rails, worst[node]), node) for node, rails in every.items() if node in worst)
    if not any(rail.result not in (NONE, "error") for rails, _result in groups for rail in rails):
        return None
    order = sorted(groups.items(), key=lambda item: (ORDER.index(item[0][1]), natural_key(item[1][0])))
    return _placed([(rails, result, tuple(nodes)) for (rails, result), nodes in order[:CARDS]], max(0, len(order) - CARDS))


def _rails(run: Run, lost: Collection[str]) -> dict[str, tuple[Rail, ...]]:
    """By node, in the inventory's order; those of a node without a result are without one, too."""
    told = _searched(run) if run.isolate else _judged(run)
    leaves = mapping(run.leaves)
    gpus = {node: _nearest(own) for node, own in mapping(mapping(run.bench).get("topology")).items()}
    found = {}
    for node in sorted({*leaves, *told}, key=natural_key):
        of, own = mapping(leaves.get(node)), told.get(node, {})
        names = list(dict.fromkeys([*map(str, of), *own]))[:WIRES]
        rails = [(name, *own.get(name, ("", "", "error" if node in lost else NONE))) for name in names]
        if any(result != NONE for *_rest, result in rails):
            found[node] = tuple(Rail(name, device, leaf or str(of.get(name) or ""), result, gpus.get(node, {}).get(device, ()))
                                for name, device, leaf, result in rails)  # fmt: skip
    return found


Told = dict[str, dict[str, tuple[str, str, str]]]  # node -> rail -> (device/port, leaf, result)


def _judged(run: Run) -> Told:
    """By verdicts: one is of the rail that its subject names first, or else of the rail of its device and port."""
    found: Told = defaultdict(dict)
    for item in sorted(run.verdicts, key=lambda item: not _named(run, item)):
        node, device = str(item.get("node")), f"{item.get('hca')}/{item.get('port')}" if item.get("hca") and item.get("port") else ""
        own = found[node]
        name = _named(run, item) or next((rail for rail, (its, *_rest) in own.items() if device and its == device), "")
        if name:
            its, leaf, result = own.get(name, ("", "", NONE))
            status = RESULT_OF_STATUS.get(str(item.get("status")), "failed")
            own[name] = (its or device, leaf, min(status, result, key=_badness))
    return found


def _badness(result: str) -> int:
    return len(ORDER) if result == NONE else ORDER.index(result)


def _named(run: Run, item: Mapping[str, Any]) -> str:
    word = str(item.get("subject") or "").split(" ")[0].rstrip(",:")
    return word if word in mapping(mapping(run.leaves).get(str(item.get("node")))) else ""


def _searched(run: Run) -> Told:
    """By a search: its rails, its leaves, and what its findings blame."""
    document = search.document_of(run)
    if document is None:
        return {}
    measured = {node for ends in search.pairs(document) for node in ends}
    leaf = {tuple(end): name for name, ends in document["leaves"].items() for end in ends}
    found: Told = {node: {rail: ("", leaf.get((node, rail), ""), "passed" if node in measured else "unknown")
                          for rail in document["rails"]} for node in document["nodes"]}  # fmt: skip
    for row in document["findings"]:
        for node in row["nodes"]:
            for rail, (device, its, _result) in found.get(node, {}).items():
                if row["rail"] in (None, "", rail):
                    found[node][rail] = (device, its, "unknown" if row["kind"] in QUIET else "failed")
    return found


def _nearest(topology: Any) -> dict[str, tuple[str, ...]]:
    """Device/port -> the GPUs of which it is near."""
    near = [row for row in objects(mapping(topology).get("matrix")) if row.get("near")]
    found = grouped((f"{row.get('hca')}/{row.get('port')}", str(row.get("gpu"))) for row in near)
    return {device: tuple(gpus[:WIRES]) for device, gpus in found.items()}


def _placed(groups: list[tuple[tuple[Rail, ...], str, tuple[str, ...]]], left_out: int) -> Drawing:
    """Cards below each other with GPUs and rails in them; leaves in a column beside them, each near its rails."""
    cards, boxes, lines, y = list[Card](), list[Box](), list[Line](), 0
    ends: dict[str, list[tuple[int, str]]] = defaultdict(list)
    rail_x = EDGE + (BOX + BETWEEN if any(rail.gpus for rails, *_rest in groups for rail in rails) else 0)
    card, leaf_x = rail_x + BOX + EDGE, rail_x + BOX + FAR
    for rails, result, nodes in groups:
        gpus = list(dict.fromkeys(gpu for rail in rails for gpu in rail.gpus))[:WIRES]
        height = HEAD + ROW * max(len(rails), len(gpus))
        cards.append(Card(nodes, y, height, _title(nodes), result))
        at = {gpu: y + HEAD + ROW * place for place, gpu in enumerate(gpus)}
        boxes += [Box(EDGE, top, _text(f"GPU {gpu}"), NONE, _text(gpu, 200)) for gpu, top in at.items()]
        for place, rail in enumerate(rails):
            top = y + HEAD + ROW * place
            boxes.append(Box(rail_x, top, _text(f"{rail.name} {rail.device}".strip()), rail.result,
                             _text(f"{rail.name} {rail.device} of {_title(nodes)}: {rail.result}", 200)))
            lines += [Line(EDGE + BOX, at[gpu] + ROW // 2, rail_x, top + ROW // 2, NONE) for gpu in rail.gpus if gpu in at]
            if rail.leaf:
                ends[rail.leaf].append((top + ROW // 2, rail.result))
        y += height + GAP
    middles = sorted(ends, key=lambda leaf: (sum(top for top, _result in ends[leaf]) / len(ends[leaf]), natural_key(leaf)))
    step = max(ROW + 6, y // max(1, len(middles)))
    for place, leaf in enumerate(middles):
        top = place * step + max(0, (step - ROW) // 2)
        boxes.append(Box(leaf_x, top, _text(leaf), NONE, _text(leaf, 200)))
        lines += [Line(rail_x + BOX, start, leaf_x, top + ROW // 2, result) for start, result in ends[leaf]]
    lines.sort(key=lambda line: -_badness(line.result))  # the bad ones lie on top
    return Drawing(cards, boxes, lines, max(y, step * len(middles)), leaf_x + BOX + 1 if ends else card + 1, card, left_out, bool(middles))


def _title(nodes: Iterable[str]) -> str:
    first, *others = nodes
    return _text(first, 18) + (f" and {len(others)} like it" if others else "")


def _text(value: str, most: int = LONGEST) -> str:
    return printable(short(value, most))
