# SPDX-License-Identifier: GPL-3.0-or-later
"""How many rounds and measurements the search of `railwright.isolate` takes, against what none can do without; and whom it blames wrongly.

    python -m tests.bench.isolate [--clusters 1000] [--first 0] [--output build/bench/isolate.json]

Clusters are drawn (tests/lib/simulated_fabric.py): rails, leaves, tool, and what is slow in secret, at 0.2 to 0.9 of its like. Each sample
has noise of 3 %; of all measurements 0.5 % are outliers, of all launches 0.5 % fail. A round takes 60 to 120 s to launch, and its
measurements. One process. A figure that misses its limit is said, and ends the command with 1; all are written before.

The bound: every node is measured once (half as many measurements as nodes), and each slow node, or one node of each slow leaf, with three
good partners more, one a round. That says more than the bits that name the faults, which are printed too.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.lib.isolate_scores import false_blame, found, missed, searched
from tests.lib.simulated_fabric import KINDS, Fabric, drawn_faults, drawn_fleet

from railwright.isolate.model import Options

ROOT = Path(__file__).resolve().parents[2]
PARTNERS = 3
MINUTES = 20.0


class Row(NamedTuple):
    nodes: int
    faults: int
    kinds: Sequence[str]
    part: float  # of --clusters
    rounds: int  # at most; 0: no limit of its own


LIKE = ("node", "rail", "leaf")
ROWS: tuple[Row, ...] = (
    Row(1024, 1, LIKE, 1, 6), Row(1024, 5, LIKE, 1, 8), Row(4096, 5, LIKE, 0.01, 8), Row(64, 3, KINDS, 1, 0), Row(16, 2, KINDS, 1, 0),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.isolate")
    parser.add_argument("--clusters", type=int, default=1000, help="of a row; of the larger ones a part")
    parser.add_argument("--first", type=int, default=0, help="the number of the first cluster; others are drawn with other numbers")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench" / "isolate.json")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows, wrong = [], []
    for row in ROWS:
        figures = measure(row, max(1, int(options.clusters * row.part)), options.first)
        rows.append(figures)
        options.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(", ".join(f"{key} {value}" for key, value in figures.items()), flush=True)
        wrong += [f"{row.nodes} nodes, {row.faults} faults: {text}" for text in over(row, figures)]
    for line in wrong:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if wrong else 0


def over(row: Row, figures: dict[str, Any]) -> list[str]:
    limits = {"false_blame": 0, "missed": 0, "minutes_max": MINUTES, **({"rounds_max": row.rounds} if row.rounds else {})}
    return [f"{key} {figures[key]}, limit {limit}" for key, limit in limits.items() if figures[key] > limit]


def measure(row: Row, clusters: int, first: int) -> dict[str, Any]:
    rounds, trials, minutes, node_minutes, blamed, lost, bounds, stopped = [], [], [], [], 0, 0, [], 0
    pairs = tested = told = 0
    began = time.process_time()
    for seed in range(first, first + clusters):
        draw = random.Random(f"{row.nodes} {row.faults} {seed}")
        fleet = drawn_fleet(draw, row.nodes)
        faults = drawn_faults(draw, fleet, row.faults, row.kinds)
        fabric = Fabric(fleet, faults, seed)
        outcome = searched(fabric, Options(seed=seed, minutes=MINUTES))
        rounds.append(outcome.rounds)
        trials.append(outcome.trials)
        minutes.append(outcome.seconds / 60)
        node_minutes.append(outcome.node_minutes)
        bounds.append(-(-row.nodes // 2) + PARTNERS * len(faults))
        stopped += bool(outcome.stopped)
        wrong = [*false_blame(outcome.findings, faults, fleet), *missed(outcome.findings, faults, fleet)]
        blamed += len(false_blame(outcome.findings, faults, fleet))
        lost += len(missed(outcome.findings, faults, fleet))
        for what in wrong[:3]:
            print(f"bench: {row.nodes} nodes, {row.faults} faults, cluster {seed}: {str(what)[:200]}", file=sys.stderr)
        met = {frozenset(trial.nodes) for round_ in fabric.launched for trial in round_.trials}
        bad = [fault for fault in faults if fault.kind == "pair"]
        pairs += len(bad)
        tested += sum(frozenset((fault.node, fault.other)) in met for fault in bad)
        told += sum(found(outcome.findings, fault, fleet) for fault in bad if frozenset((fault.node, fault.other)) in met)
    return {
        "nodes": row.nodes, "faults": row.faults, "clusters": clusters, "rounds_max": max(rounds), "rounds_median": median(rounds),
        "measurements_median": median(trials), "measurements_max": max(trials), "false_blame": blamed, "missed": lost,
        "kinds": list(row.kinds), "bound_rounds": 1 + PARTNERS, "bound_measurements": median(bounds),
        "bound_bits": round(math.log2(math.comb(row.nodes, row.faults)), 1), "minutes_median": round(median(minutes), 1),
        "minutes_max": round(max(minutes), 1), "node_minutes_median": round(median(node_minutes)), "ended_early": stopped,
        "bad_pairs": pairs, "bad_pairs_tested": tested, "bad_pairs_told": told, "cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
