# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of nccl-tests measures over things that are alike: the ranks' set-up of NCCL, nodes that run by themselves. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.transport import init_seconds
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .cluster.outliers import PEERS, WORSE, Kind, judge_alike
from .nccl_tests.plan_jobs import Node
from .nccl_tests.verdicts import Run, job_left

SETUP = "NCCL's set-up"
SETUP_FLOOR_S = 0.1  # NCCL prints hundredths, and a set-up is three of them: what they hide is nobody's loss


def judge_alike_runs(run: Run, runs: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """``runs``: of the bench document. Nothing where nothing ran: other verdicts say that."""
    if not runs:
        return []
    kinds = {node.name: ", ".join(sorted({str(device[0]) for device in node.gpus})) or "no GPU" for node in run.nodes}
    found = _setup(run, kinds)
    figures = grouped(((item["collective"], kinds[item["node"]]), _measured(item["node"], item["collective"], item["judged_busbw"]))
                      for item in runs if item["node"] and item["complete"] and item["judged_busbw"] is not None and len(run.nodes) > 1)
    for (collective, kind), alike in sorted(figures.items()):
        found += judge_alike(Kind(f"busbw of {collective}", f"nodes with {kind}", "GB/s", WORSE["write_bw"], low_is_bad=True), alike)
    return found


def _setup(run: Run, kinds: Mapping[str, str]) -> list[Verdict]:
    """Of each rank the time that it spent by itself, in the median of the jobs: while it waits for a slow one, others are as slow."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for node in run.nodes:
        seconds = grouped((rank, own) for times in setup_times(run, node).values() for rank, (_total, own) in times.items())
        alike.setdefault(kinds[node.name], []).extend(
            _measured(node.name, f"{SETUP} on rank {rank}", round(median(own), 3)) for rank, own in sorted(seconds.items()))
    if not any(alike.values()):
        where = VerdictSubject("", None, None, SETUP)
        if run.plan["ranks"] < PEERS:
            few = f"{run.plan['ranks']} ranks: not enough to tell"
            return [verdict("cluster.outlier", where, "skipped", PEERS, run.plan["ranks"], few)]
        return [verdict("cluster.outlier", where, "unknown", None, None, "the logs tell no time of it: NCCL does since 2.22")]
    return [item for kind, ranks in sorted(alike.items()) if ranks for item in judge_alike(
        Kind(SETUP, f"ranks on {kind}", "s", WORSE["read_lat"], low_is_bad=False, floor=SETUP_FLOOR_S), ranks)]


def setup_times(run: Run, node: Node) -> dict[str, dict[int, tuple[float, float]]]:
    """By job, then by rank."""
    jobs = run.plan["jobs"]  # in another group a rank has another number, and others to wait for
    names = [str(job["name"]) for job in jobs if job["group"] == jobs[-1]["group"]]
    return {name: init_seconds(clean(str(job_left(run.left.get(node.name), name).get("log") or ""))) for name in names}


def _measured(node: str, subject: str, found: float) -> dict[str, Any]:
    return {"node": node, "hca": None, "port": None, "subject": subject, "found": found}
