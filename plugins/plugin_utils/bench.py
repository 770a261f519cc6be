# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of bench on the controller: every node's results together, as verdicts, counts and the ``bench`` document; what stands out among
nodes that run by themselves and ranks' set-ups of NCCL; and which ranks come late, by what NCCL's inspector plugin wrote on each node.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean, one_line
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.affinity import gpus_of_ranks
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.inspector import NAMES
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.transport import init_seconds
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict, as_dicts

from .cluster.outliers import PEERS, WORSE, Kind, judge_alike, judge_arrivals
from .nccl_tests.baseline import judge_baseline
from .nccl_tests.plan_jobs import Node
from .nccl_tests.verdicts import Run, job_left, judge, seen_by, short_name, versions_of
from .results import result_of
from .table import own_verdict, summarise

NCCL_TESTS = re.compile(r"^# nccl-tests version (\d{1,9}(?:\.\d{1,9}){1,3})\b", re.MULTILINE)
SHOWN = 3  # messages of failed verdicts in the line that a play ends with


def judge_bench(variables: dict[str, Any], planned: dict[str, Any], registered: str) -> dict[str, Any]:
    """``{"verdicts", "summary", "failures", "bench"}``; ``registered``: the name of a mode's result, with {} in the mode's place."""
    run = run_of(variables, planned, registered)
    verdicts, runs = judge(run)
    document = bench_document(run, runs)
    verdicts += judge_late_ranks(run, runs)
    verdicts += judge_alike_runs(run, runs)
    verdicts += judge_baseline(run.nodes[0].wishes["nccl_tests_baseline"] if run.nodes else {}, document)
    started = any(job_left(left, job["name"]).get("started") for left in run.left.values() for job in planned["jobs"])
    grown = judge_grown(run.left, planned["hosts"]) if started and planned["between_nodes"] else []
    found = [*(own_verdict(node.name, item) for node in run.nodes for item in node.seen["verdicts"]), *as_dicts(verdicts), *grown]
    hosts = list(planned["hosts"])
    return {"verdicts": found, "summary": summarise(hosts, found), "failures": {node: failures(node, found) for node in hosts},
            "bench": document}


def judge_grown(left: Mapping[str, Mapping[str, Any] | None], hosts: Sequence[str]) -> list[dict[str, Any]]:
    """What the nodes say of their rails' counters; of a node that was lost nothing is known."""
    lost = [verdict("port.errors", VerdictSubject(node, None, None, "rails with the other nodes"), "unknown", "no growth", None,
                    "the node was lost before its counters were read again") for node in hosts if left.get(node) is None]
    return [*(own_verdict(node, item) for node in hosts for item in (left.get(node) or {}).get("counters", ())), *as_dicts(lost)]


def run_of(variables: dict[str, Any], planned: dict[str, Any], registered: str) -> Run:
    looks, probes, stopped, collected = (
        {node: found for node in planned["hosts"] if (found := result_of(variables, node, registered.format(mode))) is not None}
        for mode in ("inspect", "probe", "stop", "collect"))
    nodes = [Node(name, found["wishes"], found["seen"]) for name, found in looks.items()]  # the plan was made of these very results
    # What was collected counts the processes that were ended between the jobs too.
    ended = {name: (collected.get(name) or stopped.get(name) or {}).get("ended", 0) for name in planned["hosts"]}
    return Run(planned, nodes, probes, collected, ended)


def failures(node: str, verdicts: list[dict[str, Any]]) -> str:
    """What failed on this node or on all of them, in a line."""
    said = [one_line(str(item["message"])) for item in verdicts if item["status"] == "fail" and item["node"] in (node, "")]
    rest = len(said) - SHOWN
    return "; ".join(said[:SHOWN]) + (f"; and {rest} more" if rest > 0 else "")


def bench_document(run: Run, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Its form: docs/bench.md."""
    plan = run.plan
    own = next((item for item in map(nccl_tests_version, texts(run)) if item is not None), None)
    versions = {node.name: {**versions_of(node, seen_by(run, node)), "nccl_tests": own} for node in run.nodes}
    topology = {}
    for node in run.nodes:
        left = run.left.get(node.name) or {}
        topology[node.name] = {"matrix": node.seen["affinity"], "nccl_topo": left.get("nccl_topo"), "nccl_graph": left.get("nccl_graph")}
    return {
        "purpose": plan["purpose"], "launcher": plan["launcher"], "hosts": list(plan["hosts"]), "ranks": plan["ranks"],
        "gpus": {node.name: [str(device[0]) for device in node.gpus] for node in run.nodes}, "versions": versions, "runs": runs,
        "topology": topology, "left_out": [item["why"] for item in plan["omitted"]],
    }


def texts(run: Run) -> list[str]:
    return [str(job_left(run.left.get(start), job["name"]).get("text") or "") for job in run.plan["jobs"] for start in job["argv"]]


def nccl_tests_version(text: str) -> str | None:
    """Since 2.17.4 it says so itself."""
    found = NCCL_TESTS.search(text)
    return found.group(1) if found else None


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


STRAGGLER = "nccl.straggler"
Told = tuple[str, dict[int, int]]  # the node that told it; microseconds in each collective, by its number


def judge_late_ranks(run: Run, runs: Sequence[dict[str, Any]]) -> list[Verdict]:
    """``runs``: of the bench document; each over all nodes gets its ``late`` ranks. Nothing on what did not run."""
    if runs and run.nodes[0].wishes["nccl_tests_inspector"] is None:
        return [verdict(STRAGGLER, VerdictSubject("", None, None, "arrivals of ranks"), "skipped", None, None,
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
        return [verdict(STRAGGLER, where, "skipped", None, None, text)], []
    size, told = told_by_most(run, nodes, name, ranks)
    if len(told) < ranks:
        return [verdict(STRAGGLER, where, "unknown", "no rank late again and again", None, _untold(nodes, told, ranks))], []
    joint = sorted(set.intersection(*(set(times) for _own, times in told.values())))
    waits = {rank: [times[number] / 1000 for number in joint] for rank, (_own, times) in told.items()}
    where = where._replace(subject=f"{where.subject}, {size} bytes each")
    return judge_arrivals(STRAGGLER, where, f"calls of {name}", waits, {}, _places(run, nodes, name, told))


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
