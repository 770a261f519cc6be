# SPDX-License-Identifier: GPL-3.0-or-later
"""A benchmark's documents as rows of text: the same for the terminal and for Markdown, which escape them each in its way.

Documents may come from an older or newer release, or be cut: nothing but the collective's name is taken to be there.
"""

from collections.abc import Iterator
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL
from railwright.report.text import size_text

Object = dict[str, Any]
Row = tuple[str, ...]

SIZES = ("size", "type", "out of place us", "busbw GB/s", "wrong", "in place us", "busbw GB/s", "wrong")
AFFINITY = ("node", "GPU", "HCA", "port", "path", "near")
GROUP = ("by topology", "nodes", "GB/s busbw", "floor", "ceiling", "run")
STEPS = ("samples/s", "p50 ms", "p75 ms", "p90 ms", "p95 ms")
NEAR: dict[object, str] = {True: "yes", False: "no"}


def figure(value: Any, form: str = ".2f") -> str:
    if isinstance(value, bool) or value is None:
        return "-"
    return format(value, form) if isinstance(value, float) else str(value)


def title(bench: Object, run: Object) -> str:
    """``all_reduce: 16 ranks on 2 nodes, mpi``."""
    node, hosts, ranks = run.get("node"), run.get("nodes") or bench.get("hosts") or [], run.get("ranks") or bench.get("ranks")
    many = f"on {len(hosts)} node{'' if len(hosts) == 1 else 's'}"
    if node:  # launched there for itself alone; the document's number is that of all nodes
        many, ranks = f"on {node}", run.get("ranks") or len(mapping(bench.get("gpus")).get(node) or []) or None
    parts = [f"{ranks} rank{'' if ranks == 1 else 's'} {many}" if ranks is not None else many, str(bench.get("launcher") or "")]
    return f"{name(run)}: " + ", ".join(part for part in parts if part)


def name(run: Object) -> str:
    """``all_reduce``, ``all_reduce within rack1``."""
    return f"{run['collective']} {run.get('label') or ''}".strip()


def in_group(run: Object) -> bool:
    """Whether it is one over some of the nodes, or of their rails. Older documents have no such runs, and name no group."""
    return run.get("group") not in (None, ALL)


def group_row(run: Object) -> Row:
    figures = [figure(run.get(key)) for key in ("judged_busbw", "floor", "ceiling")]
    return name(run), str(len(run.get("nodes") or [])), *figures, "complete" if run.get("complete") else "NOT complete"


def size_rows(run: Object) -> list[Row]:
    rows = []
    for row in objects(run.get("rows")):
        halves = [_half(row.get(half)) for half in ("out_of_place", "in_place")]
        rows.append((size_text(int(row["size"])), str(row.get("type") or "-"), *halves[0], *halves[1]))
    return rows


def _half(half: Any) -> Row:
    if not isinstance(half, dict):
        return "-", "-", "-"
    return figure(half.get("time_us")), figure(half.get("busbw")), "unchecked" if half.get("wrong") is None else str(half["wrong"])


def busbw_text(run: Object) -> str:
    """``345.20 GB/s on the largest sizes; ceiling 370.8 by NVLink; floor 326.3 (where it comes from)``."""
    found = run.get("judged_busbw")
    text = "none measured" if found is None else f"{figure(found)} GB/s on the largest sizes"
    if run.get("ceiling") is not None:
        text += f"; ceiling {figure(run['ceiling'])} by {run.get('limit') or 'nothing that was said'}"
    if run.get("floor") is None:
        return f"{text}; not judged: {run.get('floor_source') or 'no floor is known'}"
    source = f" ({run['floor_source']})" if run.get("floor_source") else ""
    return f"{text}; floor {figure(run['floor'])}{source}"


def ended(run: Object) -> str:
    """``complete, 12.3 s, average 100.1 GB/s, out of bounds 0``."""
    status = "" if run.get("rc") in (None, 0) else f", exit status {run['rc']}"
    word = "complete" if run.get("complete") else "NOT complete"
    seconds, average = figure(run.get("seconds"), ".1f"), figure(run.get("avg_busbw"))
    return f"{word}{status}, {seconds} s, average busbw {average} GB/s, out of bounds {figure(run.get('out_of_bounds'))}"


def transport(run: Object) -> str:
    """``NET/IB/GDRDMA 32, P2P 16``: how many connections went which way."""
    found = mapping(run.get("transport"))
    ways = ", ".join(f"{way} {many}" for way, many in mapping(found.get("connections")).items())
    return ways or ", ".join(str(name) for name in found.get("networks") or []) or "not in the log"


def hcas(run: Object) -> list[str]:
    """``rank 0: node1 mlx5_0:1``, in the order of ranks."""
    found = mapping(mapping(run.get("transport")).get("hcas"))
    return [f"rank {rank}: {', '.join(map(str, found[rank]))}" for rank in sorted(found, key=lambda rank: (len(rank), rank))]


def versions(document: Object) -> tuple[Row, list[Row]]:
    """What ran on each node; nodes that are alike share a row."""
    found = mapping(document.get("versions"))
    names = list(dict.fromkeys(name for node in found.values() for name in mapping(node)))
    gpus = mapping(document.get("gpus"))
    alike: dict[Row, list[str]] = {}
    for node, values in sorted(found.items()):
        counted = (_counted(gpus.get(node) or []),) if gpus else ()
        alike.setdefault((*counted, *(str(mapping(values).get(name) or "-") for name in names)), []).append(node)
    header = ("nodes", *(("GPUs",) if gpus else ()), *names)
    return header, [(", ".join(nodes), *key) for key, nodes in alike.items() if any(cell != "-" for cell in key)]


def _counted(gpus: list[Any]) -> str:
    return ", ".join(f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)) or "-"


def affinity_rows(bench: Object) -> Iterator[Row]:
    for node, own in sorted(mapping(bench.get("topology")).items()):
        for row in objects(mapping(own).get("matrix")):
            cells = [figure(row.get(name)) for name in ("gpu", "hca", "port", "path")]
            yield (node, *cells, NEAR.get(row.get("near"), "-"))


def step_row(ddp: Object) -> Row:
    steps = mapping(ddp.get("step_ms"))
    return figure(ddp.get("samples_per_s"), ".1f"), *(figure(steps.get(name)) for name in ("p50", "p75", "p90", "p95"))


def training(ddp: Object) -> str:
    """``16 ranks on 2 nodes, nccl, 100 steps, 64 samples a rank``."""
    hosts = ddp.get("hosts") or []
    ranks = f"{figure(ddp.get('world_size'))} ranks on {len(hosts)} node{'' if len(hosts) == 1 else 's'}"
    work = f"{figure(ddp.get('steps'))} steps, {figure(ddp.get('batch'))} samples a rank and step"
    way = f"; transport: {transport(ddp)}" if ddp.get("transport") is not None else ""
    return f"{ranks}, {ddp.get('backend') or '-'}, {work}{way}"
