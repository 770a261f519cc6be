# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``railwright explain speed`` says of a node: from its facts to ceilings with their reasons. Pure."""

from collections.abc import Mapping
from typing import Any

from .ceilings import COLLECTIVES, Ceiling, ceiling, over_host_memory, perftest_gbps
from .machine import CAN, RUNS, UNBOUNDED, Machine, machine_of


def explain_speed(facts: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """``rows``: each collective within the node, over two and over ``nodes``; ``runs``: as it is, where that is slower than it can be."""
    can, runs = machine_of(facts, CAN), machine_of(facts, RUNS)
    counts = sorted({1, 2, nodes})
    host = can._replace(gpudirect=False)
    return {
        "gpus": len(can.gpus), "board": can.gpus[0].name if can.gpus else None, "nvlink_gbs": can.nvlink_gbs or None,
        "rails": [{"name": port.name, "gbps": port.gbps if port.gbps != UNBOUNDED else None} for port in can.ports],
        "unread": list(can.unread),
        "rows": [_row(can, runs, name, count) for name in COLLECTIVES for count in counts],
        "without_gpudirect": _row(host, runs._replace(gpudirect=False), "all_reduce", nodes) if can.ports and can.gpus else None,
        "over_host_memory": _figure(over_host_memory(can)) if len(can.gpus) > 1 else None,
        "perftest": [_perftest(can, runs, port.name, gpu=gpu) for port in can.ports for gpu in (False, True) if can.gpus or not gpu],
    }


def _row(can: Machine, runs: Machine, name: str, nodes: int) -> dict[str, Any]:
    best, now = ceiling(can, name, nodes), ceiling(runs, name, nodes)
    slower = now.gbs is not None and (best.gbs is None or now.gbs < best.gbs)
    return {"collective": name, "nodes": nodes, **_figure(best), "runs": _figure(now) if slower else None}


def _figure(found: Ceiling) -> dict[str, Any]:
    return {"gbs": found.gbs, "algorithm": found.algorithm or None, "limit": found.limit}


def _perftest(can: Machine, runs: Machine, port: str, *, gpu: bool) -> dict[str, Any]:
    (best, limit), (now, why) = perftest_gbps(can, port, gpu=gpu), perftest_gbps(runs, port, gpu=gpu)
    slower = now is not None and best is not None and now < best
    return {"rail": port, "memory": "GPU" if gpu else "host", "gbps": best, "limit": limit,
            "runs": {"gbps": now, "limit": why} if slower else None}
