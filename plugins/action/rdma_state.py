# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_state: build the Spec from the host's variables, then run the module."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec


class ActionModule(ActionBase):
    """Adds what only the controller knows: the validated wishes and its clock."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args, spec=host_spec(self._templar, variables).as_dict(), now=time.time())
        result.update(self._execute_module(module_name="railwright.rdma.rdma_state", module_args=arguments, task_vars=variables))
        return result
