# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks come late to the collectives of nccl-tests, from what NCCL's inspector plugin wrote on each node. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.affinity import gpus_of_ranks
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.inspector import NAMES
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .cluster.stragglers import judge_arrivals
from .nccl_tests.plan_jobs import Node
from .nccl_tests.verdicts import Run, job_left, short_name

CHECK = "nccl.straggler"
Told = tuple[str, dict[int, int]]  # the node that told it; microseconds in each collective, by its number


def judge_late_ranks(run: Run, runs: Sequence[dict[str, Any]]) -> list[Verdict]:
    """``runs``: of the bench document; each over all nodes gets its ``late`` ranks. Nothing on what did not run."""
    if runs and run.nodes[0].wishes["nccl_tests_inspector"] is None:
        return [verdict(CHECK, VerdictSubject("", None, None, "arrivals of ranks"), "skipped", None, None,
                        "no inspector plugin of NCCL is named (nccl_tests_inspector)")]
    found = []
    for item in [item for item in runs if item["rows"] and item["group"] == ALL]:
        verdicts, item["late"] = _judge(run, [node for node in run.nodes if item["node"] in ("", node.name)], item)
        found += verdicts
    return found


def _judge(run: Run, nodes: Sequence[Node], item: Mapping[str, Any]) -> tuple[list[Verdict], list[dict[str, Any]]]:
    name, ranks = str(item["collective"]), sum(len(node.gpus) for node in nodes)
    where = VerdictSubject(item["node"], None, None, f"arrivals of {ranks} ranks at {name}")
    if ranks < 2 or name not in NAMES.values():
        text = "one rank waits for nobody" if ranks < 2 else f"a rank may leave {name} before the last one has come"
        return [verdict(CHECK, where, "skipped", None, None, text)], []
    size, told = told_by_most(run, nodes, name, ranks)
    if len(told) < ranks:
        return [verdict(CHECK, where, "unknown", "no rank late again and again", None, _untold(nodes, told, ranks))], []
    joint = sorted(set.intersection(*(set(times) for _own, times in told.values())))
    waits = {rank: [times[number] / 1000 for number in joint] for rank, (_own, times) in told.items()}
    where = where._replace(subject=f"{where.subject}, {size} bytes each")
    return judge_arrivals(CHECK, where, f"calls of {name}", waits, {}, _places(run, nodes, name, told))


def _untold(nodes: Sequence[Node], told: Mapping[int, Told], ranks: int) -> str:
    if not told:
        return "the plugin wrote nothing: NCCL loads it since 2.28, one that was built for the same release (PROFILER/Plugin in its log)"
    silent = [str(rank) for rank in range(ranks) if rank not in told]
    dark = [node.name for node in nodes if node.name not in {own for own, _times in told.values()}]
    nothing = f"; nothing is from {', '.join(dark[:4])}" if dark else ""
    return f"the plugin told of {len(told)} of {ranks} ranks, not of {', '.join(silent[:8])}{nothing}"


def told_by_most(run: Run, nodes: Sequence[Node], name: str, ranks: int) -> tuple[int, dict[int, Told]]:
    """(bytes, rank -> who told what) of the communicator and size that most ranks told of; a rank that two tell of has told nothing."""
    groups: dict[tuple[str, int], dict[int, list[Told]]] = {}
    for node in nodes:
        for row in (run.left.get(node.name) or {}).get("spent", ()):
            if row["collective"] == name and row["rank"] < ranks:
                own = groups.setdefault((row["comm"], row["bytes"]), {}).setdefault(row["rank"], [])
                own.append((node.name, dict(row["times"])))
    sure = {key: {rank: own[0] for rank, own in group.items() if len(own) == 1} for key, group in groups.items()}
    best = max(sure, key=lambda key: (len(sure[key]), key[1]), default=None)
    return (0, {}) if best is None else (best[1], sure[best])


def _places(run: Run, nodes: Sequence[Node], name: str, told: Mapping[int, Told]) -> dict[int, tuple[str, str]]:
    """Node and GPU of each rank. The GPU is the log's word, if that is of the same node."""
    jobs = [job_left(run.left.get(node.name), name) for node in nodes]
    seats = gpus_of_ranks("".join(clean(str(job.get(key) or "")) for key in ("log", "text") for job in jobs))
    hosts = {node.name: short_name(node) for node in nodes}
    known = {rank: gpu for rank, (host, gpu) in seats.items() if rank in told and host.partition(".")[0] == hosts[told[rank][0]]}
    return {rank: (node, f"GPU {known[rank]}" if rank in known else "its GPU is not known") for rank, (node, _times) in told.items()}
