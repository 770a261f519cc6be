# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_containers: the Spec, then the module; and where the inventory has the job's first node."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from ansible.errors import AnsibleError

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import NAMES, derive
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

OPTIONS = {
    "image": {"type": "str"},
    "job": {"type": "list", "elements": "str", "default": []},
}
MODULE = "railwright.rdma.rdma_containers"


class ActionModule(StepAction):
    """One connection: everything is read in the one module."""

    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        spec = host_spec(self._templar, variables)
        arguments = {"image": options["image"] or spec["containers_image"], "spec": spec.as_dict()}
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables))
        if isinstance(result.get("container"), dict) and options["job"]:
            result["container"]["first_addresses"] = addresses_of(variables, options["job"][0])
        return result


def addresses_of(variables: dict[str, Any], first: str) -> list[str]:
    """Of the node with rank 0, as the inventory says them: that node need not be one that is looked at."""
    found = variables["hostvars"][first]
    values: dict[str, Any] = {}
    for name in NAMES:
        with contextlib.suppress(AnsibleError):
            values[name] = json.loads(json.dumps(found[name], default=str)) if name in found else None
    return [network.partition("/")[0] for network in derive({first: values})["peers"]]
