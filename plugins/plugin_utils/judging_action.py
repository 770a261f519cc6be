# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of a module that looks at a node and judges it: the Spec, the node's name in the inventory, the controller's clock.

One round trip a node: the module goes to Python's input over the connection (Ansible's pipelining) instead of making a directory, copying
a file, running and removing it, which is an ssh client each. Where the operator has said anything about pipelining, that holds.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .host_spec import host_spec
from .node_action import NodeAction

PIPELINING = "pipelining"
# sudo's words where its policy has requiretty, which pipelining cannot serve: nothing has run then.
NO_TTY = "you must have a tty to run sudo"


class JudgingAction(NodeAction):
    """The expectation comes from here: from the inventory, before the node was looked at."""

    module: ClassVar[str]  # its full name

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        spec = host_spec(self._templar, variables)
        arguments = {"node": str(variables["inventory_hostname"]), "spec": spec.as_dict(), "now": time.time()}
        ours = self._one_trip(variables)
        answer: dict[str, Any] = self._execute_module(module_name=self.module, module_args=arguments, task_vars=variables)
        if ours and answer.get("failed") and NO_TTY in f"{answer.get('module_stderr')}{answer.get('module_stdout')}{answer.get('msg')}":
            self._connection.set_option(PIPELINING, False)
            answer = self._execute_module(module_name=self.module, module_args=arguments, task_vars=variables)
        result.update(self.held(spec, variables, answer))
        return result

    def held(self, spec: Spec, variables: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, held against the inventory where it goes to other nodes."""
        del spec, variables
        return answer

    def _one_trip(self, variables: dict[str, Any]) -> bool:
        """Whether pipelining is on because of us. The connection is this task's own: nobody else sees it."""
        if not self._connection.has_pipelining:
            return False
        try:
            _value, origin = self._connection.get_option_and_origin(PIPELINING, hostvars=variables)
        except KeyError:  # a connection that has no such choice
            return False
        if origin != "default":
            return False
        self._connection.set_option(PIPELINING, True)
        return True
