# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_guarded: one of Ansible's own modules, with its answer held to a form, and files of the controller by key."""

from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit, fitted
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import BROUGHT
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import BUILTIN
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction

COPY = "ansible.builtin.copy"
READING = ("src", "local_follow", "directory_mode")  # options of copy that name something on the controller


class ActionModule(StepAction):
    """A file of the controller travels only if a key of the inventory names it, whatever a template has become."""

    argument_spec: ClassVar[dict[str, Any]] = {
        "module": {"type": "str", "choices": sorted(BUILTIN), "required": True},
        "args": {"type": "dict", "default": {}},
        "src_key": {"type": "str", "choices": ["aiacc_archive"]},
    }

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        module, arguments = options["module"], dict(options["args"])
        if module == COPY:
            arguments.update(self._source(options["src_key"], arguments, variables))
        result.update(self.run_builtin(module, arguments, variables))
        return result

    def _source(self, key: str | None, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, str]:
        """Where copy reads on the controller; {} for a text."""
        named = [name for name in READING if name in arguments]
        if named:
            raise AnsibleActionFail(f"rdma_guarded: args.{named[0]}: not taken; allowed: src_key, the inventory's key of a file")
        if key is None:
            return {}
        try:
            fitted(BROUGHT, arguments.get("dest"))
        except Misfit as misfit:
            raise AnsibleActionFail(f"rdma_guarded: args.dest: {misfit}") from None
        source = host_spec(self._templar, variables)[key]
        if source is None:
            raise AnsibleActionFail(f"rdma_guarded: {key} is not set in the inventory, and nothing else names a file of the controller")
        return {"src": str(source)}
