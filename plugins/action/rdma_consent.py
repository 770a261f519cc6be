# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side gate between a plan and everything that changes a node."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTION_MEANING, needs_consent
from ansible_collections.railwright.rdma.plugins.plugin_utils.erdma_modes import mixed_modes
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction


class ActionModule(NodeAction):
    """Fail the host on problems and, if asked, on missing consent."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec={"plan": {"type": "dict", "required": True}, "consent_needed": {"type": "bool", "default": True},
                           "registered": {"type": "str"}},
        )
        plan = arguments["plan"]
        if "plan" not in plan:
            raise AnsibleActionFail("rdma_consent got no plan: register the result of railwright.rdma.rdma_state and pass it")
        consent = self._templar.template((task_vars or {}).get("rdma_consent", []))
        refused = [change for change in plan["plan"] if needs_consent(change["disruption"], consent)]
        result.update(changed=False, refused=refused)
        problems = [f"{item['area']}: {item['subject']}: {item['message']}" for item in plan.get("problems", [])]
        mixed = mixed_modes(task_vars or {}, arguments["registered"]) if arguments["registered"] is not None else None
        if problems or mixed is not None:
            result.update(failed=True, msg="; ".join(problems + ([mixed] if mixed is not None else [])))
        elif refused and arguments["consent_needed"]:
            result.update(failed=True, msg=refusal(refused))
        return result


def refusal(refused: list[dict[str, Any]]) -> str:
    """One line for every class: what it means, which changes need it, and how to give it."""
    classes = sorted({change["disruption"] for change in refused})
    needs = "; ".join(
        f"{name} ({DISRUPTION_MEANING[name]}): " + ", ".join(change["what"] for change in refused if change["disruption"] == name)
        for name in classes
    )
    wanted = ", ".join(classes)
    return f"refused without consent; nothing was changed. Needed: {needs}. To allow it, add {wanted} to rdma_consent in the inventory."
