# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_ping: whom to ping, from the schedule and the peers' registered rails."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import probes
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import Where, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.pings import holders, merged
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

OPTIONS = {
    "schedule": {"type": "dict", "required": True},
    "check": {"type": "str", "required": True},
    "count": {"type": "int", "default": 2},
    "wait": {"type": "int", "default": 1},
}


class ActionModule(StepAction):
    """Pairs the rails of this node with those of its peers by name."""

    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        node = str(variables["inventory_hostname"])
        mine = result_of(variables, node, options["check"])
        if mine is None:
            raise AnsibleActionFail(f"{options['check']} holds no result of railwright.rdma.rdma_check for {node}")
        peers = [str(peer) for peer in options["schedule"]["peers"].get(node, [])]
        theirs = {peer: view["rails"] for peer in peers if (view := result_of(variables, peer, options["check"])) is not None}
        wanted = probes(mine["rails"], theirs)
        own = [{key: rail[key] for key in ("name", "netdev", "address")} for rail in mine["rails"] if rail["netdev"] and rail["address"]]
        why = "no other node answered" if not theirs else "no rail has an address on both sides"
        result.update(changed=False, pings=[], rails=[], verdicts=[])
        if not wanted:
            result["verdicts"] = as_dicts([verdict("ping.mtu", Where(node, None, None, "rails"), "skipped", None, None, why)])
        if not own:
            return result
        arguments = {"probes": wanted, "rails": own, "count": options["count"], "wait": options["wait"]}
        answer = self._execute_module(module_name="railwright.rdma.rdma_ping", module_args=arguments, task_vars=variables)
        if answer.get("failed") or answer.get("unreachable"):
            return {**result, **answer}
        pings = merged(wanted, answer.get("pings"))
        if pings is None:
            raise AnsibleActionFail("the node's answer to the pings is not one to what it was asked")
        result.update(pings=pings, rails=holders(own, answer.get("rails")))
        return result
