# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_facts: the facts in their form, under their own name and as the one fact that is a host fact too."""

from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import refusal
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import facts_summary

MODULE = "railwright.rdma.rdma_facts"


class ActionModule(StepAction):
    """Of what the node calls facts only ours become facts."""

    argument_spec: ClassVar[dict[str, Any]] = {}

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        del options
        result.update(self._execute_module(module_name=MODULE, module_args={}, task_vars=variables))
        if "rdma" not in result:
            return result
        try:
            result["summary"] = facts_summary(str(variables["inventory_hostname"]), result["rdma"])
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # the gate lets parts of them through in any form
            return refusal(MODULE, f"its facts have another form ({type(error).__name__})")
        result["ansible_facts"] = {**result.get("ansible_facts", {}), "rdma": result["rdma"]}
        return result
