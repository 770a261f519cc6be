# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_drift: the Spec and the node's name in the inventory, then the module."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec


class ActionModule(ActionBase):
    """The expectation comes from here: from the inventory, before the node was looked at."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        spec = host_spec(self._templar, variables)
        arguments = {"node": str(variables["inventory_hostname"]), "spec": spec.as_dict(), "now": time.time()}
        result.update(self._execute_module(module_name="railwright.rdma.rdma_drift", module_args=arguments, task_vars=variables))
        return result
