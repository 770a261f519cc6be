# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of bench on the controller: every node's results together, as verdicts, counts and the ``bench`` document."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.node_view import versions_of

from .bench_arrivals import judge_late_ranks
from .bench_outliers import judge_alike_runs
from .nccl_tests.baseline import judge_baseline
from .nccl_tests.plan_jobs import Node
from .nccl_tests.verdicts import Run, job_left, judge, seen_by
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
