# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_ai_environment: the Spec, and the operator's lock, wheels and installer, read and refused here first."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.ai_environment_files import EXPLICIT, INSTALLER, WHEELS, bill_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import shortened
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import refusal
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

MODULE = "railwright.rdma.rdma_ai_environment"
COPY = "ansible.builtin.copy"


class ActionModule(StepAction):
    """For role ai_environment."""

    argument_spec: ClassVar[dict[str, Any]] = {
        "mode": {"type": "str", "choices": ["look", "prepare", "bring", "verify", "build", "settle", "link", "clean"], "required": True},
    }

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        spec = host_spec(self._templar, variables)
        try:
            bill = bill_of(spec)
        except RailwrightError as error:  # no exception: ansible-core would add its cause, which is the same line again
            return result | {"failed": True, "changed": False, "msg": f"ai_environment: {error}; no node was changed"}
        if options["mode"] == "bring":
            return result | self._bring(spec, bill, variables)
        arguments = {"mode": options["mode"], "spec": spec.as_dict(), "bill": bill}
        if options["mode"] == "build" and not self._task.check_mode:
            return result | self.run_in_background(MODULE, arguments, variables)
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables))
        return result

    def _bring(self, spec: Spec, bill: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """What the node asks for, of what is on the bill: the files are the controller's, whatever names a node sends."""
        arguments = {"mode": "look", "spec": spec.as_dict(), "bill": bill}
        found = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        wanted = found.get("environment")
        if found.get("failed") or wanted is None:
            return found
        strange = [name for name in wanted["wheels"] if name not in bill["wheels"]]
        if strange:
            return refusal(MODULE, f"environment.wheels has {shortened(ascii(strange[0]))}; allowed: wheels of {spec[WHEELS]}")
        pairs = [(f"{spec[WHEELS]}/{name}", f"wheels/{name}") for name in wanted["wheels"]]
        if spec["ai_environment_kind"] == "conda":
            pairs += [(spec[INSTALLER], "installer.sh"), (spec[EXPLICIT], "explicit.txt")]
        for source, name in pairs:
            copied = self.run_builtin(COPY, {"src": source, "dest": f"{wanted['files']}/{name}", "mode": "0600"}, variables)
            if copied.get("failed"):
                return copied
        return {"changed": bool(pairs)}
