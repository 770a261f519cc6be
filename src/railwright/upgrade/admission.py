# SPDX-License-Identifier: GPL-3.0-or-later
"""What the look at all nodes means: who may not be upgraded, who need not, and what the journal keeps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from railwright.events import HostOutcome, RunOutcome
from railwright.report.text import short
from railwright.upgrade.journal import Record
from railwright.upgrade.judge import unavailable
from railwright.upgrade.order import Rules, canaries, next_batch

THERE = "has the whole set already"


class Look(NamedTuple):
    refused: dict[str, str]  # node -> why it cannot be upgraded; one is enough that nothing begins
    unreachable: bool
    pending: list[str]
    away: dict[str, str]  # node -> why it takes no work now
    records: list[Record]


def looked(nodes: Sequence[str], outcome: RunOutcome) -> Look:
    """``nodes`` in the order of the upgrade."""
    refused, pending, away = {}, [], {}
    records: list[Record] = []
    for name in nodes:
        host = outcome.hosts.get(name) or HostOutcome(name, "failed", message="the run ended before this node")
        upgrade = host.upgrade
        if host.status != "ok" or upgrade is None:
            refused[name] = host.message or "it was not said what the upgrade means for this node"
            status = "failed" if host.status == "ok" else host.status
            records.append({"kind": "refused", "node": name, "why": refused[name], "status": status, "task": host.task})
            continue
        scheduler = upgrade["scheduler"] or host.drain
        reason = unavailable(scheduler)
        if reason:
            away[name] = reason
        before = {key: short(text) for key, text in upgrade["before"].items()}
        records.append({"kind": "look", "node": name, "before": before, "classes": upgrade["classes"]})
        if upgrade["pending"] or _unproved(upgrade["lease"], scheduler):
            pending.append(name)
        else:
            records.append({"kind": "done", "node": name, "why": THERE})
    found = [outcome.hosts[name].status for name in refused if name in outcome.hosts]
    return Look(refused, "unreachable" in found, pending, away, [*records, {"kind": "away", "nodes": away}])


def _unproved(lease: dict[str, Any] | None, scheduler: dict[str, Any] | None) -> bool:
    """An earlier upgrade left it behind, changed or drained: no plan says so, and without a validation nobody gives it back to its jobs."""
    return (lease or {}).get("step") == "change" or (scheduler or {}).get("by") == "us"


def ready(look: Look, rules: Rules) -> Record:
    return {"kind": "ready", "canary": canaries(look.pending, rules)}


def no_room(look: Look, rules: Rules) -> str:
    """Why nothing could begin although every node may be upgraded; '' where something can."""
    if not look.pending or next_batch(look.pending, canaries(look.pending, rules), rules, look.away):
        return ""
    away = ", ".join(f"{name} {why}" for name, why in look.away.items())
    left = [name for name in look.pending if name in look.away]
    first = f"; begin with what is away itself: --limit {','.join(left)}" if left else ""
    return f"upgrade_max_unavailable allows {rules.most} away, and so many are already: {away}{first}"
