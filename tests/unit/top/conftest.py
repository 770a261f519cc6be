# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines as nodes write them, and documents of them."""

from typing import Any

from railwright.top.marks import mark
from railwright.top.sample import BYTES, COUNTED, view


def port(hca: str = "mlx5_0", **more: Any) -> dict[str, Any]:
    """One at rest, with every counter at zero."""
    counters = dict.fromkeys((*BYTES, *COUNTED), 0)
    return {"hca": hca, "port": 1, "rail": None, "netdev": "ens1np0", "state": "ACTIVE", "rate": 400, **counters, **more}


def gpu(index: int = 0, **more: Any) -> dict[str, Any]:
    known = {"pci": "0000:1a:00.0", "use": 100, "memory_used": 70 << 30, "memory_total": 80 << 30, "watts": 612.5, "limit_watts": 700.0,
             "mhz": 1755, "max_mhz": 1980, "celsius": 61, "held_back": [], "lost": False, "nvlink_out": 0, "nvlink_in": 0}
    return {"index": index, **known, **more}


def line(at: float, ports: list[dict[str, Any]], gpus: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"at": at, "gpus_at": at, "gpus_unknown": None, "ports": ports, "gpus": gpus or []}


def seen(gigabits: float = 380.0, rails: int = 2, slow: dict[int, float] | None = None, gpus: list[dict[str, Any]] | None = None,
         **more: Any) -> dict[str, Any]:
    """A node after a second of traffic: ``slow`` has the rails that moved another amount."""
    moved = [int((slow or {}).get(rail, gigabits) * 125_000_000) for rail in range(rails)]
    before = line(1.0, [port(f"mlx5_{rail}") for rail in range(rails)], gpus)
    after = line(2.0, [port(f"mlx5_{rail}", out_bytes=each, in_bytes=each // 2, **more) for rail, each in enumerate(moved)], gpus)
    return {"status": "ok", "message": "", "marks": [], "behind": None, **view(before, after)}


def document(**nodes: dict[str, Any]) -> dict[str, Any]:
    found = {"at": "2026-11-28T12:03:07+00:00", "nodes": nodes}
    mark(found)
    return found
