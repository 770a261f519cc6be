# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_gdr: the Spec for explaining, and the pairs that rdma_check found for measuring."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.measure.gdr import CHECK, KEY
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import Where, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

OPTIONS = {
    "mode": {"type": "str", "default": "traffic", "choices": ["explain", "source", "traffic"]},
    "check": {"type": "str"},
}
SIZES = {
    "seconds": "validate_perftest_seconds",
    "iterations": "validate_perftest_iterations",
    "message_bytes": "validate_perftest_message_bytes",
    "queue_pairs": "validate_perftest_qps",
    "timeout": "validate_timeout_s",
}
MODULE = "railwright.rdma.rdma_gdr"


class ActionModule(StepAction):
    """A node without a GPU, or without a pair to measure, costs no connection."""

    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        node = str(variables["inventory_hostname"])
        spec = host_spec(self._templar, variables)
        if options["mode"] == "traffic":
            arguments = self._traffic(node, spec, result_of(variables, node, str(options["check"])), result)
        else:
            arguments = {"mode": options["mode"], "node": node, "spec": spec.as_dict()}
        if arguments is not None:
            result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables))
        return result

    def _traffic(self, node: str, spec: Spec, view: dict[str, Any] | None, result: dict[str, Any]) -> dict[str, Any] | None:
        """The module's arguments; None where nothing is measured, with the verdict that says why in ``result``."""
        found = (view or {}).get("gpudirect")
        if not isinstance(found, dict) or not {"gpus", "why_not", "path", "pairs"} <= set(found):
            raise AnsibleActionFail(f"check holds no result of railwright.rdma.rdma_check for {node}")
        result.update(changed=False, verdicts=[])
        if not found["gpus"] or self._task.check_mode:
            why = "nothing is measured in check mode" if found["gpus"] else "this node has no NVIDIA GPU"
            result.update(skipped=True, skip_reason=why)
            return None
        if found["why_not"] is not None:
            where = Where(node, None, None, "GPU memory")
            result["verdicts"] = as_dicts([verdict(CHECK, where, "skipped", None, None, f"not measured: {found['why_not']}")])
            return None
        return {
            "mode": "traffic",
            "node": node,
            "path": found["path"],
            "pairs": found["pairs"],
            "options": {name: spec[key] for name, key in SIZES.items()},
            "port": int(spec["validate_port"]),
            "minimum": spec[KEY],
        }
