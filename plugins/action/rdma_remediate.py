# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of a remediation: what of a node's drift is mended next, and whether the node came back clean. Contacts no node."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.types import MINOR, SEVERITIES
from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import KNOWN_AREAS, Scope, choose, complaint, judge
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

OPTIONS = {
    "mode": {"type": "str", "choices": ["choose", "judge", "guard"], "default": "choose"},
    "drift": {"type": "dict", "default": {}},
    "before": {"type": "dict", "default": {}},
    "earlier": {"type": "dict", "default": {}},
    "plan": {"type": "dict", "default": {}},
    "error": {"type": "dict", "default": {}},
    "areas": {"type": "list", "elements": "str", "default": []},
    "severity": {"type": "str", "choices": list(SEVERITIES), "default": MINOR},
    "began": {"type": "str"},
}


class ActionModule(StepAction):
    """The node's answers come as data and stay data: they are compared and handed on, never templated."""

    _requires_connection = False
    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        if options["mode"] == "guard":
            return {**result, **guard(variables, options["began"])}
        unknown = [name for name in options["areas"] if name not in KNOWN_AREAS]
        if unknown:
            raise AnsibleActionFail(f"areas: {unknown[0]}: no such area; allowed: {', '.join(KNOWN_AREAS)}")
        consent = self._templar.template(variables.get("rdma_consent", []))
        scope = Scope(tuple(options["areas"]), options["severity"], tuple(consent))
        earlier = options["earlier"].get("remediation") or {}
        if options["mode"] == "choose":
            document = choose(options["drift"], scope, earlier, options["plan"])
            result.update(changed=False, remediation={**document, "consent": list(scope.consent)})
            return result
        error = words_of(options["error"])
        document = judge(options["before"], options["drift"], scope, earlier, error)
        result.update(changed=False, remediation={**document, "consent": list(scope.consent)})
        if not document["clean"]:
            result.update(failed=True, msg=complaint(document, error, waiting(variables, options["began"])))
        return result


def guard(variables: dict[str, Any], began: str | None) -> dict[str, Any]:
    """Ansible goes on with the next batch when it has lost a node: to it that is no failure."""
    active = variables.get("ansible_play_hosts", [])
    lost = [name for name in variables.get("ansible_play_hosts_all", []) if name not in active]
    found: dict[str, Any] = {"changed": False, "lost": lost}
    if lost:
        found["warnings"] = [f"lost: {', '.join(lost)}. Not touched: {', '.join(waiting(variables, began)) or 'none'}"]
    return found


def waiting(variables: dict[str, Any], began: str | None) -> list[str]:
    """The nodes of the play whose batch has not come yet: those that have not registered ``began``."""
    hosts = variables.get("hostvars", {})
    return [name for name in variables.get("ansible_play_hosts_all", []) if began is not None and began not in hosts[name]]


def words_of(failed: dict[str, Any]) -> str:
    """What a failed task said; of a loop, what its items said."""
    if not failed:
        return ""
    rows = failed.get("results")
    items = [item for item in rows if isinstance(item, dict) and item.get("failed")] if isinstance(rows, list) else []
    said = [str(item.get("msg") or "").strip() for item in (items or [failed])]
    return "; ".join(dict.fromkeys(text for text in said if text)) or "a task failed and gave no reason"
