# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes' answers mean: who may be upgraded at all, and how a node came out of a step. What the journal keeps of it. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from railwright.events import HostOutcome, RunOutcome
from railwright.journal import Record
from railwright.report.text import short
from railwright.upgrade.order import Rules, canaries, next_batch

SHOWN = 3  # verdicts in a message; the record of the run has them all
LONGEST = 1000  # characters of a message: a node wrote it


def ending(step: str, node: str, outcome: RunOutcome) -> dict[str, Any]:
    """The fields of the journal's ``end``."""
    host = outcome.hosts.get(node)
    if host is None:
        return {"status": "failed", "message": "the run ended before this node"}
    status, message = judge_step(step, host, outcome)
    return {
        "status": status, "message": message[:LONGEST], "task": "" if status == "ok" else host.task,
        "after": {key: short(text) for key, text in host.drivers.items()}, "restore_point": host.restore_point,
        "notes": notes(step, host, outcome),
    }  # fmt: skip


def judge_step(step: str, host: HostOutcome, outcome: RunOutcome) -> tuple[str, str]:
    """Verdicts decide about validate and gate: the role's own assertion ends all nodes for the failure of one."""
    if step not in ("validate", "gate"):
        return host.status, host.message if host.status != "ok" else ""
    if host.status == "unreachable":
        return host.status, host.message
    own = [verdict for verdict in outcome.verdicts if str(verdict.get("node") or "") in (host.name, "")]
    wrong = [verdict for verdict in own if verdict.get("status") == "fail"]
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        return "failed", f"{len(wrong)} of {len(own)} verdicts failed: " + "; ".join(_words(verdict) for verdict in wrong[:SHOWN]) + more
    elsewhere = any(verdict.get("status") == "fail" for verdict in outcome.verdicts)
    if host.status == "failed" and not (elsewhere and host.action.endswith("assert")):
        return host.status, host.message
    if step == "validate" and not host.judged and not own:
        return "failed", "no verdict came: the run ended before this node's"
    return "ok", ""


def notes(step: str, host: HostOutcome, outcome: RunOutcome) -> list[str]:
    """What is to be said of a node that passed: what could not be proven, and where it was left as others had it."""
    found = []
    for verdict in outcome.verdicts if step in ("validate", "gate") else ():
        if verdict.get("status") == "unproven" and str(verdict.get("node") or "") in (host.name, ""):
            found.append(f"unproven: {_words(verdict)}"[:LONGEST])
    if step == "undrain" and host.drain is not None and host.drain.get("state") != "available" and host.drain.get("scheduler") != "none":
        reason = f": {host.drain['reason']}" if host.drain.get("reason") else ""
        found.append(f"not given back to its jobs, since it was not the upgrade that took it ({host.drain.get('state')}{reason})"[:LONGEST])
    return list(dict.fromkeys(found))[: SHOWN * 2]


def _words(verdict: dict[str, Any]) -> str:
    what = " ".join(str(verdict[part]) for part in ("check", "hca", "subject") if verdict.get(part))
    values = f" expected {short(verdict['expected'])}, found {short(verdict.get('found'))}" if verdict.get("expected") is not None else ""
    return f"{what}:{values} {verdict.get('message') or ''}".strip().rstrip(":")


def unavailable(drain: dict[str, Any] | None) -> str:
    """Why a node takes no work, by its scheduler's words; '' when it does, or when no scheduler is asked."""
    if drain is None or drain.get("scheduler") in (None, "none") or drain.get("state") == "available":
        return ""
    reason = f" ({drain['reason']})" if drain.get("reason") else ""
    return f"{drain.get('state')}{reason}"


THERE = "has the whole set already"


class Inspection(NamedTuple):
    refused: dict[str, str]  # node -> why it cannot be upgraded; one is enough that nothing begins
    unreachable: bool
    pending: list[str]
    away: dict[str, str]  # node -> why it takes no work now
    records: list[Record]


def inspection_of(nodes: Sequence[str], outcome: RunOutcome) -> Inspection:
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
        records.append({"kind": "inspect", "node": name, "before": before, "classes": upgrade["classes"]})
        if upgrade["pending"] or _unproved(upgrade["lease"], scheduler):
            pending.append(name)
        else:
            records.append({"kind": "done", "node": name, "why": THERE})
    found = [outcome.hosts[name].status for name in refused if name in outcome.hosts]
    return Inspection(refused, "unreachable" in found, pending, away, [*records, {"kind": "away", "nodes": away}])


def _unproved(lease: dict[str, Any] | None, scheduler: dict[str, Any] | None) -> bool:
    """An earlier upgrade left it behind, changed or drained: no plan says so, and without a validation nobody gives it back to its jobs."""
    return (lease or {}).get("step") == "change" or (scheduler or {}).get("by") == "us"


def ready(inspection: Inspection, rules: Rules) -> Record:
    return {"kind": "ready", "canary": canaries(inspection.pending, rules)}


def no_room(inspection: Inspection, rules: Rules) -> str:
    """Why nothing could begin although every node may be upgraded; '' where something can."""
    if not inspection.pending or next_batch(inspection.pending, canaries(inspection.pending, rules), rules, inspection.away):
        return ""
    away = ", ".join(f"{name} {why}" for name, why in inspection.away.items())
    left = [name for name in inspection.pending if name in inspection.away]
    first = f"; begin with what is away itself: --limit {','.join(left)}" if left else ""
    return f"upgrade_max_unavailable allows {rules.most} away, and so many are already: {away}{first}"
