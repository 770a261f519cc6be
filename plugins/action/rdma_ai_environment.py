# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_ai_environment: the Spec, and the operator's lock, wheels and installer, read and refused here first."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.plugin_utils.ai_environment_files import bill_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction


class ActionModule(StepAction):
    """For role ai_environment."""

    argument_spec: ClassVar[dict[str, Any]] = {
        "mode": {"type": "str", "choices": ["look", "prepare", "verify", "settle", "link", "clean"], "required": True},
    }

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        spec = host_spec(self._templar, variables)
        try:
            bill = bill_of(spec)
        except RailwrightError as error:  # no exception: ansible-core would add its cause, which is the same line again
            return result | {"failed": True, "changed": False, "msg": f"ai_environment: {error}; no node was changed"}
        arguments = {"mode": options["mode"], "spec": spec.as_dict(), "bill": bill}
        result.update(self._execute_module(module_name="railwright.rdma.rdma_ai_environment", module_args=arguments, task_vars=variables))
        return result
