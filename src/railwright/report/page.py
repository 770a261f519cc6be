# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as one HTML page that needs no network: the verdict, the nodes by state, what is not good and what to do, the figures.

What comes from nodes is text: Jinja2 escapes it, and the page's own policy lets no script run but page.js.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from ansible_collections.railwright.rdma.plugins.module_utils.formats.sysfs_values import natural_key
from railwright.report import bench as rows
from railwright.report import isolate as search
from railwright.report import network, topology
from railwright.report.cases import Case
from railwright.report.markdown import ORDER, SUMMARY, summary_row
from railwright.report.text import CLUSTER, printable, short
from railwright.runs import Run, readable, stored

MARKS = {"error": "\N{MULTIPLICATION X}", "failed": "\N{MULTIPLICATION X}", "warning": "!", "unknown": "?", "unproven": "?",
         "skipped": "\N{EN DASH}", "passed": "\N{CHECK MARK}"}  # fmt: skip
HEADLINES = {"error": "without a result", "failed": "failed", "warning": "with warnings", "unknown": "not known in full",
             "unproven": "not proven"}  # fmt: skip
COUNTED = ("failed", "warning", "unknown", "unproven")  # of the headline; "error" is a node without a result
ROWS, PICTURES, LONGEST = 5000, 24, 300  # a page that opens at once; report.json has everything
HISTORY = 50  # stored runs of drift that are read
GRID = 200  # nodes that stand beside each other; more are by leaf


class Picture(NamedTuple):
    """``kind``: image/png, image/svg+xml. An SVG within an image runs no script and loads nothing."""

    title: str
    kind: str
    content: bytes


def as_page(run: Run, cases: Sequence[Case], pictures: Sequence[Picture]) -> str:
    """The whole document."""
    worst = _worst(cases)
    rank = {result: place for place, result in enumerate(ORDER)}
    bad = sorted((case for case in cases if case.result != "passed"), key=lambda case: (rank[case.result], natural_key(case.node)))
    counted = Counter(case.result for case in bad)
    script = _environment().get_template("page.js").render()
    page = _environment().get_template("page.html.j2")
    return page.render(
        title=f"railwright {run.verb}", marks=MARKS, digest=b64encode(sha256(script.encode()).digest()).decode(),
        worst=min(worst.values(), key=ORDER.index, default="passed"), headline=_headline(worst, counted),
        facts=[printable(fact) for fact in (
            f"{run.started} to {run.finished}", run.inventory, f"limit {run.limit}" if run.limit else "all nodes",
            f"exit code {run.exit_code}", f"railwright {run.railwright}", run.id)],
        leaves=_leaves(run, worst, Counter(case.node for case in bad if case.result != "skipped")),
        used=[result for result in ORDER if result in worst.values()],
        counted=[(result, counted[result]) for result in ORDER if counted[result]], passed=len(cases) - len(bad),
        topology=topology.drawing(run, worst), box_width=topology.BOX,
        rows=[_shown(case) for case in bad[:ROWS]], left_out=max(0, len(bad) - ROWS), tables=_tables(run),
        pictures=[{"title": printable(one.title), "kind": one.kind, "data": b64encode(one.content).decode()}
                  for one in pictures[:PICTURES]])  # fmt: skip


@cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def _worst(cases: Sequence[Case]) -> dict[str, str]:
    """What is worst of each node. What is skipped takes nothing from a node that is good."""
    found: dict[str, str] = {}
    for case in cases:
        result = "passed" if case.result == "skipped" else case.result
        found[case.node] = min(found.get(case.node, "passed"), result, key=ORDER.index)
    return found


def _headline(worst: Mapping[str, str], counted: Mapping[str, int]) -> str:
    """Nodes by their worst result, then all results: a node without a result hides its failures otherwise. The cluster's own stand last."""
    nodes = Counter(result for name, result in worst.items() if name != CLUSTER)
    total = sum(nodes.values())
    parts = [f"{nodes[result]} {word}" for result, word in HEADLINES.items() if nodes[result]]
    said = f"{', '.join(parts or ['all good'])}, of {total} node{'' if total == 1 else 's'}" if total else "no node took part"
    said += "".join(f"{'; results: ' if place == 0 else ', '}{counted[result]} {result}" for place, result in enumerate(
        result for result in COUNTED if counted.get(result)))
    cluster = worst.get(CLUSTER, "passed")
    return said if cluster == "passed" else f"{said}; the cluster as a whole: {cluster}"


def _leaves(run: Run, worst: Mapping[str, str], bad: Mapping[str, int]) -> list[dict[str, Any]]:
    """The grid, the worst leaf first; one of all nodes where they are few."""
    document = search.document_of(run)
    leaf_of = {node: leaf or "no leaf" for leaf, nodes in (search.grouped(document) if document else ()) for node in nodes}
    nodes: dict[str, list[str]] = defaultdict(list)
    names = sorted((name for name in worst if name != CLUSTER), key=natural_key)
    for place, name in enumerate(names):
        nodes[leaf_of.get(name, _range(names, place)) if len(names) > GRID else ""].append(name)
    if CLUSTER in worst:
        nodes.setdefault("" if len(names) <= GRID else CLUSTER, []).append(CLUSTER)
    found = [{"name": printable(leaf), "bad": any(worst[name] != "passed" for name in own),
              "said": _said(Counter(worst[name] for name in own)),
              "nodes": [{"name": printable(name), "result": worst[name], "bad": bad.get(name, 0)} for name in own]}
             for leaf, own in nodes.items()]  # fmt: skip
    return sorted(found, key=lambda leaf: not leaf["bad"])


def _range(names: Sequence[str], place: int) -> str:
    """Nodes whose leaf nobody knows, by their names."""
    start = place - place % GRID
    return f"{names[start]} to {names[min(start + GRID, len(names)) - 1]}"


def _said(results: Mapping[str, int]) -> str:
    return ", ".join(f"{results[result]} {result}" for result in ORDER if results.get(result))


def _shown(case: Case) -> dict[str, str]:
    return {name: _cell(text) for name, text in case._asdict().items()}


def _cell(value: object) -> str:
    return printable(short(str(value), LONGEST)) if value else ""


def _tables(run: Run) -> list[dict[str, Any]]:
    """What else was measured, as report.md has it."""
    bench, document = run.bench or {}, search.document_of(run)
    runs = [summary_row(bench, own) for own in objects(bench.get("runs"))]
    found: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = [
        ("Drift by area over time", *_history(run)), ("nccl-tests", SUMMARY, runs), ("What ran", *rows.versions(bench)),
        ("GPUs and HCAs", rows.AFFINITY, list(rows.affinity_rows(bench))),
        ("Bandwidth of rails", network.BANDWIDTH, network.bandwidth_rows(run.verdicts)),
        ("Counters while traffic ran", network.HEADER, network.rows(run.traffic))]  # fmt: skip
    if document is not None:
        found += [("Measurements behind the findings", search.EVIDENCE, search.evidence_rows(document)),
                  ("Rounds", search.ROUNDS, search.round_rows(document)), ("Slowest pairs", search.PAIRS, search.pair_rows(document))]
    return [{"title": title, "head": [_cell(cell) for cell in head], "rows": [[_cell(cell) for cell in cells] for cells in table[:ROWS]]}
            for title, head, table in found if table]  # fmt: skip


def _history(run: Run) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """How many differences each area had in the last runs of drift over this inventory, this one among them; the newest first."""
    ids = [identity for identity in stored() if "-drift" in identity and identity[:16] <= run.id[:16]] if run.verb == "drift" else []
    counts: dict[str, Counter[str]] = {}
    for other in readable(ids[-HISTORY:]):
        if (other.inventory, other.limit) == (run.inventory, run.limit):
            findings = [row for node in other.nodes.values() for row in objects(node.get("findings"))]
            counts[other.started] = Counter(str(row.get("area")) for row in findings)
    areas = sorted(set().union(*counts.values()))
    return ("Run", *areas), [(when, *(str(own[area]) for area in areas)) for when, own in reversed(counts.items())] if areas else []
