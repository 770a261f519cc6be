# SPDX-License-Identifier: GPL-3.0-or-later
"""What an upgrade knows of one node, out of what its tasks registered. Pure; the words of nodes are only passed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Products of rdma_prefix, and what people call them.
PREFIXES = {"nccl": "NCCL", "hpcx": "HPC-X"}


def report(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options``: of rdma_upgrade with mode report. A task that was skipped has registered nothing that counts."""
    plan = options["plan"]
    changes = [change for change in plan["plan"] if isinstance(change, dict)]
    proof = registered(options["proof"], "resolved") or {}
    missing = [line for look in options["prefixes"] for line in missing_prefixes(look)]
    return {
        "run": options["run"],
        "pending": bool(changes or missing),
        "plan": [str(change["key"]) for change in changes],
        "classes": sorted({str(change["disruption"]) for change in changes} - {"none"}),
        "before": plan.get("drivers") or {},
        "packages": [{name: row.get(name) for name in ("name", "from", "to")} for row in proof.get("resolved", [])],
        "proved": bool(proof),
        "later": bool(proof.get("later")),
        "prefixes": missing,
        "notes": [*(plan.get("notes") or []), *(str(look["msg"]) for look in options["prefixes"] if look.get("msg"))],
        "scheduler": scheduler_state(options["scheduler"]),
        "lease": (registered(options["lease"], "lease") or {}).get("lease"),
    }


def registered(result: Mapping[str, Any] | None, has: str) -> Mapping[str, Any] | None:
    return result if result and has in result else None


def missing_prefixes(look: Mapping[str, Any]) -> list[str]:
    """``NCCL 2.30.7-1``, where the inspection says that it has to be made, or the link current has to be moved."""
    wanted = look.get("release")
    if not isinstance(wanted, dict) or not wanted.get("needed"):
        return []
    return [f"{PREFIXES.get(str(look.get('product')), 'release')} {wanted.get('version')}"]


def scheduler_state(result: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """rdma_drain's answer on this node; the registered result has it under ``drain``."""
    state = (result or {}).get("drain", result)
    return state if isinstance(state, dict) and "state" in state else None
