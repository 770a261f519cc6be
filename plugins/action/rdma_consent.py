# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side gate between a plan and everything that changes a node; and which part of a node's drift becomes a plan."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.types import MINOR, SEVERITIES
from ansible_collections.railwright.rdma.plugins.plugin_utils.consent import judged_plan, mixed_modes
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import KNOWN_AREAS, Scope, choose_fixes, complaint, judge
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import names, result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.saved_plan import departure, part_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.mode_entries import CHECKS, entries_of

Result = dict[str, Any]


class ActionModule(StepAction):
    """The node's answers come as data and stay data: they are compared and handed on, never templated."""

    _requires_connection = False
    argument_spec: ClassVar[Result] = {
        "mode": {"type": "str", "choices": ["refuse", "choose", "judge", "guard"], "default": "refuse"},
        "consent_needed": {"type": "bool", "default": True},
        "registered": {"type": "str"},
        **{name: {"type": "dict", "default": {}} for name in ("plan", "drift", "before", "earlier", "error")},
        "areas": {"type": "list", "elements": "str", "default": []},
        "severity": {"type": "str", "choices": list(SEVERITIES), "default": MINOR},
        "began": {"type": "str"},
    }

    def answer(self, result: Result, variables: Result, options: Result) -> Result:
        result["changed"] = False
        if options["mode"] == "guard":
            return result | guard(variables, options["began"])
        consent = self._templar.template(variables.get("rdma_consent", []))
        if options["mode"] == "refuse":
            return result | refuse(variables, options, consent)
        checks = self._templar.template(variables.get(CHECKS, {}))
        return result | remediate(variables, options, consent, entries_of(checks if isinstance(checks, dict) else {}))


def refuse(variables: Result, options: Result, consent: list[str]) -> Result:
    """Fail the host on problems and, if asked, on missing consent."""
    if "plan" not in options["plan"]:
        raise AnsibleActionFail("rdma_consent got no plan: register the result of railwright.rdma.rdma_state and pass it")
    mixed = mixed_modes(plans_of(variables, options["registered"])) if options["registered"] is not None else None
    part = part_of(variables) if options["consent_needed"] else None
    if part is not None and (why := departure(part, options["plan"]["plan"], on_the_way=options["registered"] is None)):
        return {"failed": True, "msg": why, "refused": []}
    return judged_plan(options["plan"], consent, mixed, consent_needed=options["consent_needed"])


def plans_of(variables: Result, registered: str) -> list[tuple[str, Result | None]]:
    """Each node of the play, and its plan. ``registered``: under which name every node has it."""
    return [(node, result_of(variables, node, registered)) for node in names(variables, "ansible_play_hosts_all")]


def remediate(variables: Result, options: Result, consent: list[str], checks: Mapping[str, Any]) -> Result:
    """Modes choose and judge."""
    unknown = [name for name in options["areas"] if name not in KNOWN_AREAS]
    if unknown:
        raise AnsibleActionFail(f"areas: {unknown[0]}: no such area; allowed: {', '.join(KNOWN_AREAS)}")
    scope = Scope(tuple(options["areas"]), options["severity"], tuple(consent), checks)
    earlier = options["earlier"].get("remediation") or {}
    if options["mode"] == "choose":
        return {"remediation": {**choose_fixes(options["drift"], scope, earlier, options["plan"]), "consent": consent}}
    error = failure_text(options["error"])
    document = judge(options["before"], options["drift"], scope, earlier, error)
    failure = {"failed": True, "msg": complaint(document, error, waiting(variables, options["began"]))}
    return {"remediation": {**document, "consent": consent}, **({} if document["clean"] else failure)}


def guard(variables: Result, began: str | None) -> Result:
    """Ansible goes on with the next batch when it has lost a node: to it that is no failure."""
    active = variables.get("ansible_play_hosts", [])
    lost = [name for name in variables.get("ansible_play_hosts_all", []) if name not in active]
    found: Result = {"lost": lost}
    if lost:
        found["warnings"] = [f"lost: {', '.join(lost)}. Not touched: {', '.join(waiting(variables, began)) or 'none'}"]
    return found


def waiting(variables: Result, began: str | None) -> list[str]:
    """The nodes of the play whose batch has not come yet: those that have not registered ``began``."""
    hosts = variables.get("hostvars", {})
    return [name for name in variables.get("ansible_play_hosts_all", []) if began is not None and began not in hosts[name]]


def failure_text(failed: Result) -> str:
    """What a failed task said; of a loop, what its items said."""
    if not failed:
        return ""
    rows = failed.get("results")
    items = [item for item in rows if isinstance(item, dict) and item.get("failed")] if isinstance(rows, list) else []
    said = [str(item.get("msg") or "").strip() for item in (items or [failed])]
    return "; ".join(dict.fromkeys(text for text in said if text)) or "a task failed and gave no reason"
