# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_erdma: the Spec."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

MODULE = "railwright.rdma.rdma_erdma"


class ActionModule(StepAction):
    """The driver's source, for role erdma."""

    argument_spec: ClassVar[dict[str, Any]] = {"mode": {"type": "str", "choices": ["look", "unpack", "clean"], "required": True}}

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        arguments = {"mode": options["mode"], "spec": host_spec(self._templar, variables).as_dict()}
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables))
        return result
