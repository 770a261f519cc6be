# SPDX-License-Identifier: GPL-3.0-or-later
"""A search as the document of its run's record: documents.py bounds it, report/isolate.py shows it. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from railwright.isolate.journal import Done
from railwright.isolate.model import Fleet, Result, Trial
from railwright.isolate.readings import History, likes
from railwright.isolate.solve import Outcome


def isolate_document(fleet: Fleet, done: Iterable[Done], outcome: Outcome) -> dict[str, Any]:
    """``done``: every whole round, those of the runs before a resume among them."""
    history, rounds = History(fleet), []
    for one in done:
        history.add(one.round, one.results)
        trials = [_trial(trial, result) for trial, result in zip(one.round.trials, one.results, strict=True)]
        rounds.append({"number": one.round.number, "seconds": one.seconds, "trials": trials})
    leaves: dict[str, list[list[str]]] = defaultdict(list)
    for (node, rail), leaf in fleet.leaves.items():
        leaves[leaf].append([node, rail])
    findings = [{**found._asdict(), "nodes": list(found.nodes), "share": round(found.share, 4),
                 "evidence": [row._asdict() for row in found.evidence]} for found in outcome.findings]  # fmt: skip
    return {
        "tool": fleet.tool, "nodes": list(fleet.nodes), "rails": list(fleet.rails), "leaves": dict(leaves),
        "likes": {scope: round(like.value, 4) for scope, like in likes(history.views).items()}, "rounds": rounds, "findings": findings,
        "stopped": outcome.stopped, "seconds": round(outcome.seconds, 1), "node_minutes": round(outcome.node_minutes, 1),
    }  # fmt: skip


def _trial(trial: Trial, result: Result) -> dict[str, Any]:
    samples = result.figures or ((),) * len(trial.asks)
    figures = [{"rails": list(ask.rails), "way": ask.way, "gbps": round(median(found), 4) if found else None}
               for ask, found in zip(trial.asks, samples, strict=True)]  # fmt: skip
    return {"nodes": list(trial.nodes), "failure": result.failure, "figures": figures}
