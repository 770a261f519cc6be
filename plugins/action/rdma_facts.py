# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_facts: the facts in their form, under their own name and as the one fact that is a host fact too."""

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import FACTS
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import with_facts_summary

MODULE = "railwright.rdma.rdma_facts"


class ActionModule(StepAction):
    """Of what the node calls facts only ours become facts."""

    argument_spec = FACTS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        answer = self._execute_module(module_name=MODULE, module_args=options, task_vars=variables)
        if options["mode"] != "facts":
            return {**result, **answer}
        result = with_facts_summary(MODULE, str(variables["inventory_hostname"]), {**result, **answer})
        if "rdma" in result:
            result["ansible_facts"] = {**result.get("ansible_facts", {}), "rdma": result["rdma"]}
        return result
