# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_packages: the Spec, the plan's package steps, and the words of the task that failed."""

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PACKAGES
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction

LAST = 4000  # characters: dpkg goes on with the other packages after an error


class ActionModule(StepAction):
    """Passes on only what the module needs: a plan may be large."""

    argument_spec = PACKAGES

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        packages = (options["plan"] or {}).get("packages")
        if not packages:
            raise AnsibleActionFail("rdma_packages got no plan: register the result of railwright.rdma.rdma_state and pass it")
        arguments = {
            "mode": options["mode"], "packages": packages, "failure": package_failure_text(options["error"] or {}),
            "after_file": options["after_file"],
            "download": options["download"], "spec": host_spec(self._templar, variables).as_dict(),
        }
        result.update(self._execute_module(module_name="railwright.rdma.rdma_packages", module_args=arguments, task_vars=variables))
        return result


def package_failure_text(error: dict[str, Any]) -> str:
    """What a failed task says: its message (of a loop: of each item), dnf's list of failures, and the end of what it printed. apt gives
    dpkg a terminal, so that dpkg's errors are in stdout."""
    items = [item for item in error.get("results") or [] if isinstance(item, dict) and item.get("failed")]
    failures = error.get("failures") or []
    said = [str(error.get("msg", "")), *(str(item) for item in failures), *(package_failure_text(item) for item in items)]
    for stream in ("stderr", "module_stderr", "stdout"):
        text = str(error.get(stream) or "").strip()
        if text and text not in " ".join(said):
            said.append(text[-LAST:])
    return "\n".join(part for part in said if part)
