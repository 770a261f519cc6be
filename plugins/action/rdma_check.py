# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_check: what is expected comes from the inventory, and so do rails, which other nodes connect to."""

import time
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import CHECK
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import shortened
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import refusal
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import known_addresses
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.scanned import kept_answer
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import diffs, drift_summary

MODULE = "railwright.rdma.rdma_check"
Result = dict[str, Any]


class ActionModule(StepAction):
    """Runs the module with the host's validated wishes."""

    argument_spec = CHECK

    def answer(self, result: Result, variables: Result, options: Result) -> Result:
        spec, mode, node = host_spec(self._templar, variables), options["mode"], str(variables["inventory_hostname"])
        arguments = {"mode": mode, "node": node, "spec": spec.as_dict(), "now": time.time(), "seconds": options["seconds"]}
        answer = kept_answer(variables) if mode == "verdicts" else None
        if answer is None:
            answer = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        if mode == "verdicts":
            return result | with_address(spec, variables, answer)
        if mode == "drift" and not answer.get("failed"):
            answer["summary"] = drift_summary(node, answer)
            if self._task.diff:  # Ansible shows a diff only of what changed
                found = [item for item in answer["findings"] if (item["expected"], item["found"]) != (None, None)]
                answer.update(diff=diffs((item["key"], item["found"], item["expected"]) for item in found), changed=bool(found))
        return result | answer


def with_address(spec: Spec, variables: Result, answer: Result) -> Result:
    """A rail has the address that the inventory gives it. ``exchange``, which a rail without one is measured over, is a known one."""
    addresses = {rail.name: rail.address.partition("/")[0] if rail.address else None for rail in spec.rails}
    rails = answer.get("rails") or []
    for rail in rails:
        if rail["name"] not in addresses or rail["address"] != addresses[rail["name"]]:
            said = f"{shortened(rail['name'])} with the address {shortened(str(rail['address']))}"
            return refusal(MODULE, f"rails has {said}; allowed: the rails of the inventory with their addresses")
    if all(rail["address"] is not None and ":" not in rail["address"] for rail in rails):
        for rail in rails:
            rail["exchange"] = None  # nobody asks for it
    elif any(rail.get("exchange") for rail in rails):
        known = known_addresses(variables, str(variables["inventory_hostname"]))
        for rail in rails:
            if rail.get("exchange") not in known:
                rail["exchange"] = next((address for address in known if ":" not in address), None)
    return answer
