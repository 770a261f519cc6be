# SPDX-License-Identifier: GPL-3.0-or-later
"""The training benchmark over all nodes: who is which rank, where they meet; the verdicts on it, and its document.

Pure. What a node said is checked before others are told; judged is what the ranks left in files, never what they printed.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import list_or_empty, number, usable_addresses
from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean, one_line
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.failure import cause
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import is_old
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import transport
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ACCEPT
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, number_text, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.outliers import judge_arrivals

SAME = ("backend", "steps", "warmup", "batch", "port", "timeout_s", "repeatable")  # ddp_benchmark_*: one job has one of each
FIRST_ROUND_S = 20
MARGIN_S = 60  # after the time limit: KILL comes ten seconds after TERM, and a node may be slow
LOOPBACK = "127.0.0.1"
KEY = "ddp_benchmark_min_samples_per_s"
VERSIONS = ("torch", "cuda", "nccl", "driver")
PERCENTILES = ("p50", "p75", "p90", "p95")
CHECKS = ("all_reduce", "broadcast", "gradients")
WATCHED = 64  # as the script; more is not its word
DAY_MS = 86400e3
Collected = Mapping[str, Mapping[str, Any] | None]


class PlanError(Exception):
    """Why there can be no job; nothing was started."""


def wishes(spec: Spec) -> dict[str, Any]:
    """What the inventory says about a host's part."""
    environment = {**spec["nccl_tests_environment"], **spec["ddp_benchmark_environment"]}
    network = spec["nccl_tests_network"]
    promise = {"fabric": spec.fabric, "network": network, "gdr": spec["gpudirect_path"] != "none" and network == "promised"}
    own = {name: spec[f"ddp_benchmark_{name}"] for name in (*SAME, "min_samples_per_s")}
    return {**own, "environment": environment, "promise": promise, "root": spec["job_user_root"] == ACCEPT}


def make_plan(
    run: str, looks: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]], known: Collection[str] | None = None
) -> dict[str, Any]:
    """``looks`` and ``wanted``: by node, in the inventory's order. ``known``: where the inventory knows the first one, where all others
    connect to; None: not asked. Raises PlanError."""
    hosts = list(looks)
    common = agreed(wanted)
    first = hosts[0]
    if looks[first].get("port_taken"):
        raise PlanError(f"TCP port {common['port']} on {first} is taken; set ddp_benchmark_port to a free one")
    nodes: dict[str, dict[str, Any]] = {}
    rank = 0
    for node_rank, node in enumerate(hosts):
        seen = looks[node]
        nodes[node] = {"user": seen["user"], "python": seen["python"], "node_rank": node_rank, "processes": seen["processes"],
                       "first_rank": rank, "interface": interface(node, seen, alone=len(hosts) == 1),
                       "environment": wanted[node]["environment"], "old_torch": is_old(seen["torch"])}
        rank += seen["processes"]
    master = LOOPBACK if len(hosts) == 1 else address(first, looks[first], known)
    return {"run": run, "hosts": hosts, "nodes": nodes, "processes": {node: nodes[node]["processes"] for node in hosts}, "world_size": rank,
            "master": master, **common, "rounds": rounds(common["timeout_s"]), "root": all(wanted[node]["root"] for node in hosts)}


def agreed(wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The values that one job has one of; the highest floor counts."""
    for name in SAME:
        if len({repr(item[name]) for item in wanted.values()}) > 1:
            each = ", ".join(f"{node} has {item[name]}" for node, item in wanted.items())
            raise PlanError(f"ddp_benchmark_{name} must be the same on every node: {each}")
    first = next(iter(wanted.values()))
    floors = [item["min_samples_per_s"] for item in wanted.values() if item["min_samples_per_s"] is not None]
    return {**{name: first[name] for name in (*SAME, "promise")}, "minimum": max(floors, default=None)}


def interface(node: str, seen: dict[str, Any], *, alone: bool) -> str:
    """A node by itself needs no network: its ranks meet over loopback, whatever becomes of its uplink."""
    if alone:
        return "lo"
    if seen["interface"] is None:
        raise PlanError(f"no interface of {node} carries the default route or the controller's connection; set rdma_bootstrap_interface")
    return str(seen["interface"]["name"])


def address(node: str, seen: dict[str, Any], known: Collection[str] | None = None) -> str:
    """Where the other nodes find the first one: on its bootstrap interface, IPv4 before IPv6. A node is believed no address but its own."""
    name = interface(node, seen, alone=False)
    good = usable_addresses(seen["interface"]["addresses"])
    if not good:
        raise PlanError(f"interface {name} of {node} has no address that other nodes could reach; set rdma_bootstrap_interface")
    if known is not None:
        good = [text for text in good if text in known]
        if not good:
            raise PlanError(f"the addresses that {node} says of {name} are none that the inventory has of it; name one in "
                            "ssh_mesh_addresses, or set rdma_bootstrap_interface")
    return min(good, key=lambda text: ":" in text)


def share(plan: dict[str, Any], node: str) -> dict[str, Any]:
    """One node's part, as module_utils/measure/ddp/launch.py wants it."""
    own = plan["nodes"][node]
    common = {name: plan[name] for name in ("run", "master", "port", "backend", "steps", "warmup", "batch", "timeout_s", "repeatable")}
    return {**own, **common, "nodes": len(plan["hosts"])}


def rounds(timeout_s: int) -> list[int]:
    """How old the job is at the end of each round of polls, every one twice as old as before; the last lies after its time limit.

    All nodes meet after a round, so what went wrong on one is noticed on all at the latest when the job is twice as old.
    """
    found = [FIRST_ROUND_S]
    while found[-1] < timeout_s + MARGIN_S:
        found.append(min(found[-1] * 2, timeout_s + MARGIN_S))
    return found


def judge(plan: Mapping[str, Any], collected: Collected, minimum: float | None) -> list[Verdict]:
    where = VerdictSubject("", None, None, "training on %d ranks of %d node%s (%s)" % (
        plan["world_size"], len(plan["hosts"]), "" if len(plan["hosts"]) == 1 else "s", plan["backend"]))
    result = result_of(plan, collected)
    return [_complete(plan, collected, result, where), _values(plan, collected, result, where), _speed(result, where, minimum),
            _versions(plan, collected, where), *_transport(plan, collected, where), *arrivals(plan, collected)[0]]


def _transport(plan: Mapping[str, Any], collected: Collected, where: VerdictSubject) -> list[Verdict]:
    """Of two ranks and more; gloo takes the bootstrap interface."""
    if plan["backend"] != "nccl" or plan["world_size"] == 1:
        return []
    ways = ways_of(collected)
    missing = transport.gaps(ways, plan["world_size"])
    return [transport.judge_run_transport(ways, where, plan["promise"], missing, alone=len(plan["hosts"]) == 1)]


def ways_of(collected: Collected) -> dict[str, Any]:
    return transport.parse_log("\n".join(clean((item or {}).get("way", "")) for item in collected.values()))


def arrivals(plan: Mapping[str, Any], collected: Collected) -> tuple[list[Verdict], list[dict[str, Any]]]:
    """Who comes late to the gradients' all-reduce, and whose own work takes longer: verdicts, and the rows of the document."""
    where = VerdictSubject("", None, None, f"arrivals of {plan['world_size']} ranks")
    if plan["world_size"] == 1:
        return [verdict("ddp.straggler", where, "skipped", None, None, "one rank waits for nobody")], []
    told, places = {}, {}
    for node in plan["hosts"]:
        first, device = plan["nodes"][node]["first_rank"], "GPU" if plan["backend"] == "nccl" else "process"
        for rank in range(first, first + plan["processes"][node]):
            places[rank] = (node, f"{device} {rank - first}")
            rows = [row for row in (collected.get(node) or {}).get("ranks", ()) if row.get("rank") == rank]
            told[rank] = [_milliseconds(rows[0].get(name)) if len(rows) == 1 else [] for name in ("own_ms", "wait_ms")]
    silent = [rank for rank, (own, waits) in told.items() if not own or len(own) != len(waits)]
    if silent:
        text = f"{len(silent)} of {len(told)} ranks did not tell when they came: {', '.join(map(str, silent[:8]))}"
        return [verdict("ddp.straggler", where, "unknown", "no rank late again and again", None, text)], []
    own, waits = ({rank: times[at] for rank, times in told.items()} for at in (0, 1))
    return judge_arrivals("ddp.straggler", where, "all-reduces", waits, own, places)


def _milliseconds(value: Any) -> list[float]:
    """[] for what is no list of times."""
    items = list_or_empty(value)
    found = [item for item in map(number, items[:WATCHED]) if item is not None and 0 <= item <= DAY_MS]
    return found if len(found) == len(items) else []


def ddp_document(plan: Mapping[str, Any], collected: Collected) -> dict[str, Any]:
    """The form of docs/bench.md; figures are None where there is no result."""
    result = result_of(plan, collected) or {}
    steps = result.get("step_ms") or {}
    return {
        "hosts": list(plan["hosts"]), "world_size": plan["world_size"], "backend": plan["backend"], "steps": plan["steps"],
        "batch": plan["batch"], "samples_per_s": result.get("samples_per_s"), "step_ms": {name: steps.get(name) for name in PERCENTILES},
        "versions": {node: versions_of(collected.get(node)) for node in plan["hosts"]}, "late": arrivals(plan, collected)[1],
        "checksums": checksums(plan, collected),
        "transport": transport.summary(ways_of(collected)) if plan["backend"] == "nccl" else None,
    }


def checksums(plan: Mapping[str, Any], collected: Collected) -> list[dict[str, Any]]:
    """What each rank ended with, together with the others and alone; [] of a job that did not ask for it."""
    rows = [(node, row) for node in plan["hosts"] for row in (collected.get(node) or {}).get("ranks", ())]
    return [{"rank": row.get("rank"), "node": node, "gpu": row.get("local_rank"), "device": row.get("device"),
             "uuid": row.get("uuid"), "together": row.get("together"), "alone": row.get("alone")} for node, row in rows if "alone" in row]


def result_of(plan: Mapping[str, Any], collected: Collected) -> dict[str, Any] | None:
    """Rank 0's result, if it is one of this very job."""
    found = (collected.get(plan["hosts"][0]) or {}).get("result")
    if not isinstance(found, dict):
        return None
    asked = {name: plan[name] for name in ("world_size", "backend", "steps", "batch")}
    given = {name: found.get(name) for name in asked}
    steps = found.get("step_ms")
    figures = [found.get("samples_per_s")] + [steps.get(name) for name in PERCENTILES] if isinstance(steps, dict) else [None]
    return found if given == asked and all(_is_figure(item) for item in figures) else None


def versions_of(item: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Of a node: what all of its ranks say; ranks that say different things are shown with both."""
    found: dict[str, str | None] = {}
    for name in VERSIONS:
        said = sorted({one_line(str(row[name]), 64) for row in (item or {}).get("ranks", ()) if row.get(name) is not None})
        found[name] = ", ".join(said) or None
    return found


def _is_figure(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _complete(plan: Mapping[str, Any], collected: Collected, result: dict[str, Any] | None, where: VerdictSubject) -> Verdict:
    expected = f"{plan['steps']} steps, and every rank ends well"
    ended = [node for node in plan["hosts"] if (collected.get(node) or {}).get("rc") == 0]
    if result is not None and len(ended) == len(plan["hosts"]):
        return verdict("ddp.complete", where, "pass", expected, f"{plan['steps']} steps", "all ranks ended as they should")
    found = f"{len(ended)} of {len(plan['hosts'])} nodes ended well"
    return verdict("ddp.complete", where, "fail", expected, found, cause(plan, collected))


def _values(plan: Mapping[str, Any], collected: Collected, result: dict[str, Any] | None, where: VerdictSubject) -> Verdict:
    expected = "exact sums, parameters and gradients"
    failures = [(node, failure) for node, item in collected.items() for failure in (item or {}).get("failures", ())]
    wrong = [(node, failure) for node, failure in failures if failure["kind"] == "values"]
    if wrong:
        node, first = min(wrong, key=lambda pair: float(pair[1]["at"]))
        return verdict("ddp.values", where, "fail", expected, one_line(first["message"]), "rank %d on %s: %s" % (
            first["rank"], node, one_line(first["message"])))
    if plan["world_size"] == 1:
        return verdict("ddp.values", where, "skipped", None, None, "one rank exchanges nothing")
    done = (result or {}).get("checks")
    if not isinstance(done, list) or not set(CHECKS) <= {item for item in done if isinstance(item, str)}:
        return verdict("ddp.values", where, "unknown", expected, None, "the job ended before its values were compared")
    return verdict("ddp.values", where, "pass", expected, expected, f"{', '.join(CHECKS)} compared on every rank")


def _speed(result: dict[str, Any] | None, where: VerdictSubject, minimum: float | None) -> Verdict:
    if result is None:
        status = "skipped" if minimum is None else "unknown"
        return verdict("ddp.throughput", where, status, minimum, None, "no figure: the job did not end")
    found = float(result["samples_per_s"])
    told = "%.1f samples/s; step times %s" % (found, ", ".join(f"{name} {result['step_ms'][name]:.3f} ms" for name in PERCENTILES))
    if minimum is None:
        return verdict("ddp.throughput", where, "skipped", None, found, f"{told}; nothing is expected ({KEY})")
    status = "pass" if found >= minimum else "fail"
    return verdict("ddp.throughput", where, status, minimum, found, "%s; %s %s" % (
        told, "at least" if status == "pass" else "below", number_text(float(minimum))))


def _versions(plan: Mapping[str, Any], collected: Collected, where: VerdictSubject) -> Verdict:
    expected = "the same on every rank"
    said = {node: versions_of(collected.get(node)) for node in plan["hosts"]}
    silent = [node for node in plan["hosts"] if len((collected.get(node) or {}).get("ranks", ())) < plan["processes"][node]]
    differing = []
    for name in VERSIONS:
        camps = grouped((said[node][name] or "none", str(node)) for node in plan["hosts"] if node not in silent)
        if len(camps) > 1 or any(", " in version for version in camps):
            differing.append("%s is %s" % (name, "; ".join(f"{version} on {', '.join(nodes)}" for version, nodes in camps.items())))
    if differing:
        return verdict("ddp.versions", where, "fail", expected, "different", ". ".join(differing))
    if silent:
        return verdict("ddp.versions", where, "unknown", expected, None, f"not every rank of {', '.join(silent)} told its versions")
    first = said[plan["hosts"][0]]
    told = ", ".join(f"{name} {first[name]}" for name in VERSIONS if first[name] is not None)
    return verdict("ddp.versions", where, "pass", expected, told, told)
