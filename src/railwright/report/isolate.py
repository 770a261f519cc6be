# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for slow parts as rows of text, as its matrix of pairs, and as a section of report.md.

The record may be another release's, cut, or changed by hand: it passes the form of documents.py again before anything is taken from it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.sysfs_values import natural_key
from railwright import documents
from railwright.isolate.model import rate_text
from railwright.report.bench import figure
from railwright.report.text import markdown_cell, markdown_section
from railwright.runs import Run

Object = dict[str, Any]
Ends = tuple[str, str]
Rows = list[tuple[str, ...]]

PICTURE = "isolate-pairs"  # the file of plot.py's heat map
SHOWN = 20  # pairs
EVIDENCE = ("Finding", "Round", "Partner", "Gb/s", "Its like", "Judged")
ROUNDS = ("Round", "Pairs", "Seconds", "Failures", "Slowest")
PAIRS = ("Nodes", "Share of its like", "Slowest", "Round")


class Worst(NamedTuple):
    """The lowest figure of a trial against its like."""

    share: float
    rail: str  # '' of all at once
    way: str
    gbps: float
    like: float
    round: int

    def __str__(self) -> str:
        way = f" {self.way}" if self.way != "both" else ""
        reached = "hung" if self.share <= 0 else f"{rate_text(self.gbps)} of {rate_text(self.like)} Gb/s"
        return f"{self.rail or 'all rails'}{way}, {reached}"


def document_of(run: Run) -> Object | None:
    found: Object | None = documents.search_document(run.isolate)
    return found


def _trials(document: Object, round_: Object) -> Iterator[tuple[Worst, Ends]]:
    """Those that say something."""
    for trial in round_["trials"]:
        worst = _worst(trial, document["likes"], round_["number"])
        if worst is not None and len(set(trial["nodes"])) == 2:
            one, other = sorted(trial["nodes"])
            yield worst, (one, other)


def _worst(trial: Object, likes: Object, number: int) -> Worst | None:
    scopes: dict[str, dict[str, float | None]] = defaultdict(dict)
    for asked in trial["figures"]:
        scopes[asked["rails"][0] if len(asked["rails"]) == 1 else ""][asked["way"]] = asked["gbps"]
    hung = trial["failure"] == "hang"
    if hung and not any(gbps for ways in scopes.values() for gbps in ways.values()):
        return Worst(0.0, "", "both", 0.0, 0.0, number)
    found = []
    for scope, ways in scopes.items():
        like = likes.get(scope) or 0.0
        fastest = max([gbps for way, gbps in ways.items() if way != "both" and gbps], default=like)
        for way, gbps in ways.items():
            value = 0.0 if gbps is None and hung else gbps
            against = like if way == "both" or "both" not in ways else fastest  # nccl-tests: one way is held against the other one
            if value is not None and (against > 0 or not value):
                found.append(Worst(value / against if against else 0.0, scope, way, value, against, number))
    return min(found, default=None)


def pairs(document: Object) -> dict[Ends, Worst]:
    """Every pair that was measured, by the lowest of its trials."""
    every = sorted((found for round_ in document["rounds"] for found in _trials(document, round_)), reverse=True)
    return {ends: worst for worst, ends in every}


def grouped(document: Object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Leaf -> its nodes that were measured. Where each rail has leaves of its own, the first rail's."""
    leaves = {end[0]: leaf for leaf, ends in document["leaves"].items() for end in ends if end[1:] == document["rails"][:1]}
    found: dict[str, list[str]] = defaultdict(list)
    for node in sorted({node for ends in pairs(document) for node in ends}, key=natural_key):
        found[leaves.get(node, "")].append(node)
    return tuple((leaf, tuple(found[leaf])) for leaf in sorted(found, key=natural_key))


def summary(document: Object) -> str:
    """``perftest, 8 nodes, 4 rails: 3 rounds in 245 s, 65.3 node minutes; findings: 1``."""
    size = f"{document['tool'] or '-'}, {len(document['nodes'])} nodes, {len(document['rails'])} rails"
    spent = f"{len(document['rounds'])} rounds in {figure(document['seconds'])} s, {figure(document['node_minutes'])} node minutes"
    stopped = f"; it ended before everything was told: {document['stopped']}" if document["stopped"] else ""
    return f"{size}: {spent}; findings: {len(document['findings'])}{stopped}"


def evidence_rows(document: Object) -> Rows:
    return [(str(number), figure(one["round"]), one["partner"] or "-", figure(one["figure"], ".1f"), figure(one["like"], ".1f"),
             "good" if one["good"] else "slow")
            for number, row in enumerate(document["findings"], start=1) for one in row["evidence"]]  # fmt: skip


def round_rows(document: Object) -> Rows:
    rows: Rows = []
    for round_ in document["rounds"]:
        failed = Counter(trial["failure"] for trial in round_["trials"] if trial["failure"])
        slowest = min((found for found in _trials(document, round_) if found[0].share > 0), default=None)  # a hang is a failure
        said = "no figure" if slowest is None else f"{' and '.join(slowest[1])}: {slowest[0]}"
        failures = ", ".join(f"{many} {kind}" for kind, many in failed.items()) or "none"
        rows.append((str(round_["number"]), str(len(round_["trials"])), figure(round_["seconds"], ".1f"), failures, said))
    return rows


def pair_rows(document: Object) -> Rows:
    found = sorted((worst, ends) for ends, worst in pairs(document).items())
    return [(" and ".join(ends), f"{worst.share:.1%}", str(worst), str(worst.round)) for worst, ends in found[:SHOWN]]


def section(document: Object) -> list[str]:
    """Of report.md."""
    lines = ["", "## Slow parts", "", markdown_cell(summary(document))]
    image = [f"![share of its like, of every pair]({PICTURE}.svg)", "", f"[The same as PNG]({PICTURE}.png); the slowest pairs:", ""]
    findings = [(str(number), row["kind"], row["text"]) for number, row in enumerate(document["findings"], start=1)]
    drained = [(row["node"], row["state"], row["text"] or "-") for row in document["drained"]]
    lines += markdown_section("### Findings", ("", "Finding", "What"), findings)
    lines += markdown_section("### Measurements behind the findings", EVIDENCE, evidence_rows(document))
    lines += markdown_section("### Drained", ("Node", "State", "What"), drained)
    lines += markdown_section("### Rounds", ROUNDS, round_rows(document))
    return lines + markdown_section("### Pairs", PAIRS, pair_rows(document), image)
