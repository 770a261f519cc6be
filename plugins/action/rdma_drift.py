# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_drift: see plugin_utils/judging_action.py. Beside the node's answer stands what people read of it."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.diffs import diffs
from ansible_collections.railwright.rdma.plugins.plugin_utils.judging_action import JudgingAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import drift_summary


class ActionModule(JudgingAction):
    """Runs the module with the host's validated wishes."""

    module = "railwright.rdma.rdma_drift"

    def held(self, spec: Spec, variables: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        if answer.get("failed"):
            return answer
        answer["summary"] = drift_summary(str(variables["inventory_hostname"]), answer)
        if self._task.diff:  # Ansible shows a diff only of what changed
            found = [item for item in answer["findings"] if (item["expected"], item["found"]) != (None, None)]
            answer.update(diff=diffs((item["key"], item["found"], item["expected"]) for item in found), changed=bool(found))
        return answer
