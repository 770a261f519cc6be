# SPDX-License-Identifier: GPL-3.0-or-later
"""How every action plugin with options begins: they are checked before anything else happens, then the plugin answers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from .node_action import NodeAction

KEPT = ("mode", "private_key")  # options of their own all the same: the gate's, and the one that AnsibleModule hides


class StepAction(NodeAction):
    """A plugin that has ``argument_spec`` and says in ``answer`` what it does with the checked options."""

    argument_spec: ClassVar[dict[str, Any]]
    fills: ClassVar[bool] = False  # whether the node is asked by the one option ``filled``: entry/node_module.py unpacks it

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(argument_spec=self.argument_spec)
        return self.answer(result, task_vars or {}, options)

    @abstractmethod
    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """``result``, as Ansible began it, with what came of the step."""

    def _execute_module(self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, **more: Any) -> dict[str, Any]:
        arguments = dict(module_args or {})
        if self.fills:
            kept = {name: arguments.pop(name) for name in KEPT if name in arguments}
            arguments = {**kept, "filled": arguments}
        return super()._execute_module(module_name=module_name, module_args=arguments, task_vars=task_vars, **more)
