# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_state: build the Spec from the host's variables, run the module, confirm a change of networking.

A node reverts a change of its networking unless it is confirmed over a fresh connection; see docs/confirm.md.
"""

import base64
import time
import uuid
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.node_code import NAME, WHAT
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import STATE
from ansible_collections.railwright.rdma.plugins.plugin_utils import confirmation
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import addresses_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import packed_code
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import diffs, plan_summary

MODULE = "railwright.rdma.rdma_state"
KEY = f"{NAME}: {WHAT}"  # of the change that needs the code itself


class ActionModule(StepAction):
    """Adds what only the controller knows: the validated wishes, its clock, and that it can still reach the node."""

    argument_spec = STATE
    module = MODULE  # what makes the change: a rollback is guarded by the same code
    clock = confirmation.Clock()

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        mode = options["mode"]
        if mode in ("confirm", "outcome"):
            return result | self._execute_module(module_name=MODULE, module_args=options, task_vars=variables)
        spec = host_spec(self._templar, variables)
        arguments = {**options, "image": options["image"] or spec["containers_image"], "spec": spec.as_dict(), "now": time.time()}
        if mode == "apply" and not self._task.check_mode:
            if NAME in (options["areas"] or [NAME]) and KEY in (options["expected"] or [KEY]):
                arguments["spec"]["code_derived"] = {**spec["code_derived"], "code": base64.b64encode(packed_code()).decode("ascii")}
            result |= self._guarded(arguments, int(spec["confirm_timeout_s"]), variables)
        else:
            result |= self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        if isinstance(result.get("container"), dict) and options["job"]:
            result["container"]["first_addresses"] = addresses_of(variables, options["job"][0])
        self._show(result, str(variables["inventory_hostname"]))
        return result

    def _show(self, result: dict[str, Any], node: str) -> None:
        """A summary, and with --diff what it shows. Ansible shows a diff only of what changed: asked for one, a plan is one."""
        if "plan" not in result:
            return
        result["summary"] = plan_summary(node, result)
        if self._task.diff:
            result["diff"] = diffs((change["key"], change["before"], change["after"]) for change in result["plan"])
        if (self._task.diff or self._task.check_mode) and not result.get("failed"):
            result["changed"] = bool(result.get("changed") or result["plan"])

    def _guarded(self, arguments: dict[str, Any], seconds: int, variables: dict[str, Any]) -> dict[str, Any]:
        """The apply, and its confirmation where the node waits for one."""
        token = uuid.uuid4().hex
        arguments.update(confirm_seconds=seconds, confirm_token=token)
        if not self._local:
            self._low_level_execute_command("true")  # a node that is away now is unreachable, and nothing has been cut
        try:
            answer: dict[str, Any] = self._execute_module(module_name=self.module, module_args=arguments, task_vars=variables)
        except AnsibleConnectionFailure as error:
            return self._lost(str(error), token, seconds, variables)
        if answer.get("failed") or not answer.get("confirm"):
            return answer
        said = self._ask("confirm", str(answer["confirm"]["run"]), token, seconds, variables)
        answer.update(confirmation.verdict(said, seconds))
        return answer

    def _lost(self, reason: str, token: str, seconds: int, variables: dict[str, Any]) -> dict[str, Any]:
        """The apply goes on without us and is reverted then; its result is lost, so nothing is confirmed that nobody has seen."""
        said = self._ask("outcome", "", token, seconds, variables)
        return confirmation.verdict(said, seconds, lost=reason)

    def _ask(self, mode: str, run: str, token: str, seconds: int, variables: dict[str, Any]) -> confirmation.Answer:
        def question() -> dict[str, Any]:
            asked = {"mode": mode, "run_id": run, "confirm_token": token}
            try:
                self._fresh()
                answer: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=asked, task_vars=variables)
            except AnsibleError as error:
                raise confirmation.Unreachable(str(error)) from error
            if not isinstance(answer.get("confirm"), dict):  # cut off half-way, or a node that is just going down
                raise confirmation.Unreachable(str(answer.get("msg") or answer))
            return dict(answer["confirm"])

        try:
            return confirmation.ask(question, seconds, self.clock)
        except confirmation.Lost as lost:
            self._away = True
            raise AnsibleConnectionFailure(
                confirmation.gone(run or "of this apply", seconds, str(lost))
            ) from None  # said once, in one line

    def _fresh(self) -> None:
        """The next command makes a connection of its own: one that is still open proves nothing about the next one."""
        if not self._local:
            self._connection.reset()
            self._remove_tmp_path(None)  # of the connection before; after a reboot it may be gone
