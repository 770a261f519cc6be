# SPDX-License-Identifier: GPL-3.0-or-later
"""A golden run: figures that an operator signed, and what they hold for. Pure. It lies in the inventory, as variable nccl_tests_baseline.

A later run is judged by it while the nodes, their GPUs and all versions are the same; where they are not, it says so and judges nothing.
"""

from collections.abc import Mapping
from statistics import median
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .groups import figure_of

KEY = "nccl_tests_baseline"
# Judged figures of one machine lie within two in a hundred of each other (docs/bench.md, two H200); imbue rejects what is five below
# its peers.
SHARE = 0.95
VERSIONS = ("driver", "cuda", "nccl", "mpi", "nccl_tests")
HARDWARE = ("nodes", "ranks", "gpu", "launcher")


def baseline_of(document: Mapping[str, Any], approved_by: str, date: str, run: str) -> dict[str, Any]:
    """``document``: of a bench without a failure; of several runs of one group the median counts. Raises ValueError for half a run."""
    figures: dict[str, list[float]] = {}
    for item in document["runs"]:
        if not item["complete"] or item["judged_busbw"] is None:
            raise ValueError(f"{figure_of(item)} did not run to its end")
        figures.setdefault(figure_of(item), []).append(item["judged_busbw"])
    if not figures:
        raise ValueError("nothing was measured")
    return {**conditions(document), "approved_by": approved_by, "date": date, "run": run,
            "busbw": {name: round(median(values), 2) for name, values in figures.items()}}


def conditions(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a baseline holds for. Raises ValueError where nodes differ: no single figure holds for them."""
    gpus = {name for names in document["gpus"].values() for name in names}
    versions = {tuple((key, row.get(key)) for key in VERSIONS) for row in document["versions"].values()}
    if len(gpus) != 1 or len(versions) != 1:
        raise ValueError("the nodes have not all the same GPUs and versions")
    return {"nodes": len(document["hosts"]), "ranks": document["ranks"], "gpu": gpus.pop(), "launcher": document["launcher"],
            "versions": {key: value for key, value in versions.pop() if value is not None}}


def judge_baseline(baseline: Mapping[str, Any], document: Mapping[str, Any]) -> list[Verdict]:
    """A verdict for each run of the document that the baseline has a figure of."""
    if not baseline:
        return []
    signed = f"the baseline of {one_line(str(baseline['date']))}, approved by {one_line(str(baseline['approved_by']))}"
    differs = _differences(baseline, document)
    found = []
    for run in document["runs"]:
        figure = figure_of(run)
        floor = baseline["busbw"].get(figure)
        where = VerdictSubject(run["node"], None, None, f"{run['collective']} {run.get('label') or ''}".strip() + " against its baseline")
        if differs:
            found.append(verdict("nccl.baseline", where, "warn", floor, run["judged_busbw"], f"not judged: {signed} is of other nodes or "
                                 f"versions ({'; '.join(differs)}); bench --save-baseline writes a new one"))
        elif floor is None:
            found.append(verdict("nccl.baseline", where, "skipped", None, run["judged_busbw"], f"{signed} has no {figure}"))
        elif run["judged_busbw"] is None or not run["complete"]:
            found.append(verdict("nccl.baseline", where, "unknown", floor, None, "the run did not end as it should"))
        else:
            share = run["judged_busbw"] / floor
            found.append(verdict("nccl.baseline", where, "pass" if share >= SHARE else "fail", floor, round(run["judged_busbw"], 2),
                                 f"{run['judged_busbw']:.1f} GB/s busbw, {share:.2f} of {floor:g} ({signed}; at least {SHARE:g})"))
    return found


def _differences(baseline: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    try:
        now = conditions(document)
    except ValueError as error:
        return [str(error)]
    before, after = ({**{key: side[key] for key in HARDWARE}, **{key: side["versions"].get(key, "unknown") for key in VERSIONS}}
                     for side in (baseline, now))
    return [f"{key} was {one_line(str(before[key]))}, is {one_line(str(after[key]))}" for key in before if before[key] != after[key]]
