# SPDX-License-Identifier: GPL-3.0-or-later
"""A benchmark's documents as docs/bench.md has them, and runner events around them."""

from typing import Any

from railwright.events import Collector, RunOutcome
from railwright.runs import Run

Object = dict[str, Any]


def half(busbw: float, wrong: int | None = 0) -> Object:
    return {"time_us": 10.5, "algbw": busbw / 2, "busbw": busbw, "wrong": wrong}


def row(size: int, busbw: float, in_place: float | None = None) -> Object:
    second = None if in_place is None else half(in_place)
    return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": half(busbw), "in_place": second}


def one_run(collective: str = "all_reduce", **more: Any) -> Object:
    rows = [row(1 << 20, 40.0, 39.0), row(1 << 28, 200.0, 198.0), row(1 << 30, 341.5, 339.5), row(1 << 32, 345.5, 344.25)]
    return {
        "collective": collective, "argv": ["mpirun", "-np", "4", "-x", "NCCL_DEBUG=INFO", "all_reduce_perf", "-b", "1048576"],
        "environment": {"NCCL_DEBUG": "INFO"}, "seconds": 12.25, "rc": 0, "rows": rows, "avg_busbw": 231.0, "out_of_bounds": 0,
        "complete": True,
        "judged_busbw": 342.9, "floor": 340.0, "floor_source": "0.85 of 8 NICs x 400 Gb/s", "tail": [], "node": "",
        "init_seconds": {"n1": 1.25, "n2": 1.5}, "late": [],
        "transport": {"networks": ["IB"], "connections": {"NET/IB/GDRDMA": 32}, "hcas": {"0": ["n1 mlx5_0:1"], "10": ["n2 mlx5_1:1"]}},
    } | more


def document(*runs: Object, **more: Any) -> Object:
    versions = {"driver": "580.95.05", "cuda": "13.0", "nccl": "2.30.7", "mpi": "openmpi 4.1.4", "nccl_tests": "2.19.6"}
    near = {"gpu": "0000:1b:00.0", "hca": "mlx5_0", "port": 1, "path": "PIX", "near": True}
    return {
        "purpose": "quick", "launcher": "openmpi4", "hosts": ["n1", "n2"], "ranks": 4,
        "gpus": {"n1": ["NVIDIA H200"] * 2, "n2": ["NVIDIA H200"] * 2}, "versions": {"n1": versions, "n2": versions},
        "runs": list(runs) or [one_run()], "topology": {"n1": {"matrix": [near], "nccl_topo": "<system/>", "nccl_graph": None}},
    } | more


def training() -> Object:
    return {
        "hosts": ["n1", "n2"], "world_size": 4, "backend": "nccl", "steps": 100, "batch": 64, "samples_per_s": 5120.5,
        "step_ms": {"p50": 50.0, "p75": 51.25, "p90": 53.5, "p95": 60.75}, "versions": {"n1": {"torch": "2.9.0", "nccl": "2.27.5"}},
        "late": [{"rank": 3, "node": "n2", "gpu": "GPU 1", "collective": "all-reduces", "ms": 4.5, "most_ms": 9.0, "share": 0.09,
                  "late": 63, "of": 64, "own_ms": 20.25}],
        "checksums": [],
        "transport": {"networks": ["IB"], "connections": {"NET/IB/GDRDMA": 8}, "hcas": {"0": ["n1 mlx5_0:1"]}},
    }


def stored_run(identity: str, bench: Object | None, inventory: str = "/inv") -> Run:
    return Run(identity, "bench", inventory, None, "2026-01-01T00:00:00+00:00", "0.1.0", finished="f", nodes={"n1": {"status": "ok"}},
               bench=bench)


def event(kind: str, host: str, result: Object, action: str = "railwright.rdma.rdma_bench", task: str = "Judge") -> Object:
    """As ansible-runner 2.4 hands it over."""
    data = {"host": host, "task": task, "task_action": action, "resolved_action": action, "res": result}
    return {"event": kind, "event_data": data, "stdout": ""}


def stats(*names: str) -> Object:
    empty: Object = {key: {} for key in ("ok", "dark", "failures", "ignored", "rescued", "skipped")}
    return {"event": "playbook_on_stats", "event_data": empty | {"processed": dict.fromkeys(names, 1)}}


def outcome(*events: Object) -> RunOutcome:
    collector = Collector()
    for item in events:
        collector.handle(item)
    return collector.finish()
