# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of a module that looks at a node and judges it: the Spec, the node's name in the inventory, the controller's clock."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec


class JudgingAction(ActionBase):
    """The expectation comes from here: from the inventory, before the node was looked at."""

    TRANSFERS_FILES = False
    module: ClassVar[str]  # its full name

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        spec = host_spec(self._templar, variables)
        arguments = {"node": str(variables["inventory_hostname"]), "spec": spec.as_dict(), "now": time.time()}
        result.update(self._execute_module(module_name=self.module, module_args=arguments, task_vars=variables))
        return result
