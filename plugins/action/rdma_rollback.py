# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_rollback: the Spec for what needs one, and the confirmation of networking that rdma_state has too."""

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.action.rdma_state import ActionModule as StateAction
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import ROLLBACK
from ansible_collections.railwright.rdma.plugins.module_utils.types import PACKAGE
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec

MODULE = "railwright.rdma.rdma_rollback"
PLANNING = ("plan", "prove", "apply")


class ActionModule(StateAction):
    """A rollback cuts a connection as an apply does, so it is guarded by the same code."""

    module = MODULE
    argument_spec = ROLLBACK

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        arguments = {**options, "rows": rows_of(options["plan"])}
        del arguments["plan"]  # it may be large
        if options["mode"] in PLANNING:
            if not options["to"]:
                raise AnsibleActionFail("rdma_rollback: to: missing; the run that the node is to be brought back to before")
            spec = host_spec(self._templar, variables)
            arguments["spec"] = spec.as_dict()
            if options["mode"] == "apply" and not self._task.check_mode:
                return result | self._guarded(arguments, int(spec["confirm_timeout_s"]), variables)
        return result | self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)


def rows_of(plan: Any) -> dict[str, list[str]]:
    """Area and class by package, all that a record needs of a plan, which may be large."""
    changes = plan.get("plan") or [] if isinstance(plan, dict) else []
    return {
        str(change["subject"]["name"]): [str(change["area"]), str(change["disruption"])]
        for change in changes
        if change["subject"]["kind"] == PACKAGE
    }
