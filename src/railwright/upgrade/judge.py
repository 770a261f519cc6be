# SPDX-License-Identifier: GPL-3.0-or-later
"""How one node came out of one step, and what the journal keeps of it. Pure."""

from __future__ import annotations

from typing import Any

from railwright.events import HostOutcome, RunOutcome
from railwright.report.text import short

SHOWN = 3  # verdicts in a message; the record of the run has them all
LONGEST = 1000  # characters of a message: a node wrote it


def ending(step: str, node: str, outcome: RunOutcome) -> dict[str, Any]:
    """The fields of the journal's ``end``."""
    host = outcome.hosts.get(node)
    if host is None:
        return {"status": "failed", "message": "the run ended before this node"}
    status, message = judged(step, host, outcome)
    return {
        "status": status,
        "message": message[:LONGEST],
        "task": "" if status == "ok" else host.task,
        "after": {key: short(text) for key, text in host.drivers.items()},
        "restore_point": host.restore_point,
        "notes": notes(step, host, outcome),
    }


def judged(step: str, host: HostOutcome, outcome: RunOutcome) -> tuple[str, str]:
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
