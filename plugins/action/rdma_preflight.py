# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the preflight: one shell round trip, judged here, with no need for Python on the node."""

import re
import time
from typing import Any

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import Told, explicit_interpreter, judged_probe, probe_command

PATH = re.compile(r"(/[\w.+-]+)+")


class ActionModule(NodeAction):
    """Fails the host with everything that is wrong with it; a missing Python is no failure but a fact."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        variables = task_vars or {}
        spec = host_spec(self._templar, variables)  # a wrong inventory fails here, before the node is contacted
        explicit = explicit_interpreter(self._templar.template(variables.get("ansible_python_interpreter")))
        self._limit(wire.BEGIN_S)
        sent = time.time()
        answer = self._low_level_execute_command(probe_command(explicit))
        received = time.time()
        node = str(variables.get("inventory_hostname", ""))
        result.update(judged_probe(spec, node, Told(answer["stdout"], answer["rc"], answer["stderr"], sent, received), explicit))
        found = result.get("interpreter")
        if found and not explicit and PATH.fullmatch(found):  # Ansible's own fact: its modules look for no interpreter then
            result["ansible_facts"] = {"discovered_interpreter_python": found}
        return result
