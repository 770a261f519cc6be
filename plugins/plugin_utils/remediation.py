# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node's drift is fixed, what is left and why, and whether the node came back clean. Pure: findings in, a document out.

A reboot is never made here, whatever the consent list says: who reboots a node first sees to its jobs. That is for `apply` and
`upgrade`. The same holds for the pinned kernel and for a key of Secure Boot, which are nothing without their reboot.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import ENFORCE
from ansible_collections.railwright.rdma.plugins.module_utils.types import SEVERITIES, needs_consent

Object = dict[str, Any]

ROUNDS = 3  # a fixed module brings a device, the device a setting of its own; what needs more is no drift
KNOWN_AREAS = (*(area.name for area in AREAS), "hca")
KEPT = ("key", "kind", "area", "what", "severity", "disruption")
WHY = ("cause", "reason", "needs")  # of what is left; ``needs``: the key of what it builds on, where that is the cause
REBOOTING = ("kernel", "secure_boot")


class Scope(NamedTuple):
    """What was asked for. No areas: all of them. ``checks``: the host's rdma_checks; config.AREA in observe or off is not remediated."""

    areas: tuple[str, ...]
    severity: str
    consent: tuple[str, ...]
    checks: Mapping[str, Any] = MappingProxyType({})


def findings_of(drift: Mapping[str, Any]) -> list[Object]:
    """Of a registered rdma_check with mode drift; an inspection that failed has none."""
    return rows(drift.get("findings"))


def choose_fixes(drift: Mapping[str, Any], scope: Scope, earlier: Mapping[str, Any], plan: Mapping[str, Any]) -> Object:
    """What to fix in the next round: ``fix`` (keys), ``tried`` (every row so far), ``left`` (with reasons).

    ``earlier``: the choice of the round before, ``plan``: that round's cut plan, in which the node may have left out more.
    """
    findings = findings_of(drift)
    tried = {str(row["key"]): row for row in earlier.get("tried", [])}
    held = {**earlier.get("held", {}), **_held(plan, tried)}
    problem = _problem(findings)
    left, fix = [], []
    number = int(earlier.get("round", 0)) + 1
    for finding in findings:
        key = str(finding.get("key"))
        why = held.get(key) or reason(finding, scope, problem)
        if why is not None:
            left.append(_row(finding, why))
        elif key not in tried and number <= ROUNDS:
            fix.append(key)
            tried[key] = _row(finding)
    return {"stage": "chosen", "round": number, "fix": fix, "tried": list(tried.values()), "held": held, "left": left}


def judge(before: Mapping[str, Any], after: Mapping[str, Any], scope: Scope, earlier: Mapping[str, Any], error: str) -> Object:
    """What became of it. ``clean``: all that was tried is gone, or left with a reason, and nothing came that was not there before."""
    tried = {str(row["key"]): row for row in earlier.get("tried", [])}
    held = earlier.get("held", {})
    looked = isinstance(after.get("findings"), list)
    findings = findings_of(after)
    known = {str(item.get("key")) for item in findings_of(before)}
    problem = _problem(findings)
    document: Object = {"stage": "judged", "fixed": [], "still": [], "new": [], "left": []}
    for finding in findings:
        key = str(finding.get("key"))
        why = held.get(key) or reason(finding, scope, problem)
        if key in tried and key not in held:
            document["still"].append(_row(finding))
        elif key not in known and _harms(finding, scope, why):
            document["new"].append(_row(finding))
        else:
            document["left"].append(_row(finding, why or ("new", "came to light too late to be fixed in this run")))
    there = {str(item.get("key")) for item in findings}
    if looked:
        document["fixed"] = [row for key, row in tried.items() if key not in there]
    return {**document, "clean": looked and not error and not document["still"] and not document["new"]}


def complaint(document: Mapping[str, Any], error: str, waiting: Iterable[str]) -> str:
    """One line for a node that did not come back clean, and the nodes that are left alone for it."""
    parts = [error] if error else []
    for part, words in (("still", "still there"), ("new", "new since")):
        if document[part]:
            parts.append(f"{words}: " + "; ".join(str(row["key"]) for row in document[part]))
    if not parts:
        parts = ["it could not be inspected again"]
    names = ", ".join(waiting)
    return "did not come back clean: " + ". ".join(parts) + (f". Not touched: {names}" if names else "")


def reason(finding: Mapping[str, Any], scope: Scope, problem: str = "") -> tuple[str, ...] | None:
    """(cause, text) of why a finding is not fixed; None where it is. ``problem``: why apply refuses the whole node."""
    kind, disruption = finding.get("kind"), str(finding.get("disruption") or "")
    if (outside := _outside(finding, scope)) is not None:
        return outside
    if kind == "problem":
        return "problem", f"apply refuses the node for it: {finding.get('why')}"
    if kind == "effective":
        return "effective", f"not ours: {finding.get('by') or 'whatever sets it'}; whoever put it there takes it out"
    if kind != "setting":
        return "state", f"no setting fixes it: {finding.get('why')}"
    if problem:
        return "refused", f"apply refuses the node: {problem}"
    if disruption == "reboot" or finding.get("area") in REBOOTING:
        return "reboot", "needs a reboot"
    return ("consent", f"needs consent to {disruption}") if needs_consent(disruption, scope.consent) else None


def _outside(finding: Mapping[str, Any], scope: Scope) -> tuple[str, str] | None:
    """(cause, text) of a finding that was not asked for; None of any other."""
    entry = scope.checks.get(f"config.{finding.get('area')}")
    if scope.areas and finding.get("area") not in scope.areas:
        return "area", "of an area that was not asked for"
    if entry is not None and entry["mode"] != ENFORCE:
        return "mode", f"config.{finding.get('area')} is {entry['mode']} by rdma_checks"
    if _rank(finding) > SEVERITIES.index(scope.severity):
        return "severity", "less severe than what was asked for"
    return None


def _harms(finding: Mapping[str, Any], scope: Scope, why: tuple[str, ...] | None) -> bool:
    """Whether a finding that was not there before speaks against going on, of whatever area it is.

    A line of somebody else shows only when our own file is right; a setting that waits for a reboot is what the repair was for.
    """
    return _rank(finding) <= SEVERITIES.index(scope.severity) and finding.get("kind") != "effective" and (why is None or why[0] != "reboot")


def _rank(finding: Mapping[str, Any]) -> int:
    """An unknown word is a newer node's; it must not hide."""
    severity = finding.get("severity")
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def _problem(findings: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(f"{item.get('area')}: {item.get('what')}" for item in findings if item.get("kind") == "problem")


def _held(plan: Mapping[str, Any], tried: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What the node itself left out of the cut plan: it alone sees what a change builds on."""
    return {
        str(row.get("key")): tuple(str(row.get(name) or "") for name in WHY)
        for row in rows(plan.get("left"))
        if row.get("key") in tried and row.get("cause") in ("needs", "consent")
    }


def _row(finding: Mapping[str, Any], why: tuple[str, ...] | None = None) -> Object:
    """Without the values: a file's whole text is in the drift already."""
    row = {name: finding.get(name) for name in KEPT}
    return row if why is None else {**row, **dict(zip(WHY, why, strict=False))}
