# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_check: see plugin_utils/judging_action.py. Rails, which other nodes connect to, are the inventory's."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import shortened
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import refusal
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import known_addresses
from ansible_collections.railwright.rdma.plugins.plugin_utils.judging_action import JudgingAction


class ActionModule(JudgingAction):
    """Runs the module with the host's validated wishes."""

    module = "railwright.rdma.rdma_check"

    def held(self, spec: Spec, variables: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """A rail has the address that the inventory gives it. ``exchange``, which a rail without one is measured over, is a known one."""
        addresses = {rail.name: rail.address.partition("/")[0] if rail.address else None for rail in spec.rails}
        rails = answer.get("rails") or []
        for rail in rails:
            if rail["name"] not in addresses or rail["address"] != addresses[rail["name"]]:
                said = f"{shortened(rail['name'])} with the address {shortened(str(rail['address']))}"
                return refusal(self.module, f"rails has {said}; allowed: the rails of the inventory with their addresses")
        if all(rail["address"] is not None and ":" not in rail["address"] for rail in rails):
            for rail in rails:
                rail["exchange"] = None  # nobody asks for it
        elif any(rail.get("exchange") for rail in rails):
            known = known_addresses(variables, str(variables["inventory_hostname"]))
            for rail in rails:
                if rail.get("exchange") not in known:
                    rail["exchange"] = next((address for address in known if ":" not in address), None)
        return answer
