# SPDX-License-Identifier: GPL-3.0-or-later
"""What every action plugin of ours begins with: between a node's answer and the play stands the gate.

Before anything is sent, no fact of a node may bear the name of a key of ours. What is sent is logged nowhere on the node: it carries
values of the inventory. What comes back is bounded in time and size (answers/wire.py), then in form (answers/gate.py).
"""

import re
import time
from abc import abstractmethod
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from .answers import wire
from .answers.gate import NAMESPACE, passed
from .diffs import clean_diff
from .inventory_facts import without_facts

Result = dict[str, Any]

JOB = re.compile(r"j[0-9]{1,12}\.[0-9]{1,10}")  # Ansible's name of a job
POLL_S = 5.0
OWN = ("mode", "product", "benchmark", "private_key")  # options all the same: the gate's, and the one that AnsibleModule hides
LOCAL = ("local", "ansible.builtin.local")
QUIET = {"ansible_no_target_syslog": True}
# Modes that only inspect, and modules without modes; the others may download, build or measure for hours.
INSPECTING = (
    None, "inspect", "ping", "plan", "explain", "source", "container", "observe", "read", "state", "confirm", "outcome", "lease",
    "release", "poll", "failed", "login", "verdicts", "drift",
)  # fmt: skip


class NodeAction(ActionBase):
    """Base of all."""

    TRANSFERS_FILES = False
    _away = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> Result:
        refused = without_facts(task_vars or {})
        if refused is not None:
            raise AnsibleActionFail(refused)
        self._limit(wire.INSPECT_S)
        result: Result = super().run(tmp, task_vars)
        return result

    def _execute_module(
        self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, *, seconds: float | None = None, **more: Any
    ) -> Result:
        """Ansible's own, with the answer through the gate. ``seconds``: how long it may take; None: by the module's mode."""
        name, arguments = str(module_name or self._task.action), dict(module_args or {})
        self._limit(seconds or (wire.INSPECT_S if step_of(arguments) in INSPECTING else wire.CHANGE_S))
        try:
            answer = super()._execute_module(
                module_name=name, module_args=self.packed(name, arguments), task_vars={**(task_vars or {}), **QUIET}, **more)
        except wire.Exceeded as error:
            raise AnsibleActionFail(str(error)) from None  # said once
        return self._passed(name, form_name(arguments), answer)

    def packed(self, name: str, arguments: Result) -> Result:
        """Of a module of ours, what the task did not say itself is one option: entry/response.py unpacks it."""
        if not name.startswith(NAMESPACE):
            return arguments
        own = {key: value for key, value in arguments.items() if key in OWN or key in self._task.args}
        return {**own, "filled": {key: value for key, value in arguments.items() if key not in own}}

    def _low_level_execute_command(self, *arguments: Any, **named: Any) -> Result:
        try:
            answer: Result = super()._low_level_execute_command(*arguments, **named)
        except wire.Exceeded as error:
            raise AnsibleActionFail(str(error)) from None
        return answer

    def cleanup(self, *force: Any, **named: Any) -> None:
        """To clean up on a node that is away would fail as well, and that failure would hide ours."""
        if not self._away:
            super().cleanup(*force, **named)

    @property
    def _local(self) -> bool:
        return str(self._connection.transport) in LOCAL

    def _limit(self, seconds: float) -> None:
        wire.limited(self._connection, seconds)

    def _passed(self, name: str, mode: str | None, answer: Result) -> Result:
        if self._discovered_interpreter_key and set(answer.get("ansible_facts") or {}) == {self._discovered_interpreter_key}:
            answer = {key: value for key, value in answer.items() if key != "ansible_facts"}  # Ansible's, not the node's
        warnings = answer.get("warnings")
        if isinstance(warnings, list):
            answer = {**answer, "warnings": [text_of(item) for item in warnings]}
        found = passed(name, mode, answer, may_skip=bool(self._task.check_mode))
        if "diff" in found:
            found["diff"] = clean_diff(found["diff"])
        if self._discovered_interpreter_key:  # else Ansible would look for it in every task again
            own = {self._discovered_interpreter_key: str(self._discovered_interpreter)}
            found["ansible_facts"] = {**found.get("ansible_facts", {}), **own}
        return found

    def run_builtin(self, name: str, arguments: dict[str, Any], variables: dict[str, Any], *, seconds: float = wire.CHANGE_S) -> Result:
        """One of Ansible's own modules or actions on the node; of its result what answers/gate.py names."""
        if not self._shared_loader_obj.action_loader.has_plugin(name):
            return self._execute_module(module_name=name, module_args=arguments, task_vars=variables, seconds=seconds)
        return self._passed(name, None, self._builtin(name, arguments, variables, seconds))

    def _builtin(self, name: str, arguments: dict[str, Any], variables: dict[str, Any], seconds: float) -> Result:
        """What an action of Ansible's own answers, as it is."""
        self._limit(seconds)
        task = self._task.copy()
        task.args, task.action = arguments, name
        action = self._shared_loader_obj.action_loader.get(
            name, task=task, connection=self._connection, play_context=self._play_context, loader=self._loader, templar=self._templar,
            shared_loader_obj=self._shared_loader_obj)
        try:
            answer: Result = action.run(task_vars={**variables, **QUIET})
        except wire.Exceeded as error:
            raise AnsibleActionFail(str(error)) from None
        return answer

    def run_in_background(self, name: str, arguments: dict[str, Any], variables: dict[str, Any], *, seconds: int = 14400) -> Result:
        """A module of ours that takes long: it is asked after, so that no silent connection is dropped meanwhile."""
        task = self._task
        self._task: Any = task.copy()
        self._task.async_val = seconds
        try:
            started = super()._execute_module(
                module_name=name, module_args=self.packed(name, arguments), task_vars={**variables, **QUIET}, wrap_async=True)
        finally:
            self._task = task
        job = started.get("ansible_job_id")
        if not isinstance(job, str) or not JOB.fullmatch(job):
            return self._passed(name, form_name(arguments), {**started, "failed": True})
        end = time.monotonic() + wire.within(seconds)
        while time.monotonic() < end:
            answer = self._builtin("ansible.builtin.async_status", {"jid": job}, variables, wire.INSPECT_S)
            if answer.get("finished") or answer.get("failed"):
                self._builtin("ansible.builtin.async_status", {"jid": job, "mode": "cleanup"}, variables, wire.INSPECT_S)
                return self._passed(name, form_name(arguments), answer)
            time.sleep(POLL_S)
        return {"failed": True, "changed": False, "msg": f"{name} did not end within {seconds} s"}


class StepAction(NodeAction):
    """A plugin with options: they are checked before anything else happens, then it says in ``answer`` what it does."""

    argument_spec: ClassVar[dict[str, Any]]

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(argument_spec=self.argument_spec)
        return self.answer(result, task_vars or {}, options)

    @abstractmethod
    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """``result``, as Ansible began it, with what came of the step."""


def step_of(arguments: dict[str, Any]) -> str | None:
    """What a module is to do: its mode, or a step of rdma_prefix behind that."""
    found = arguments.get("step" if "product" in arguments else "mode")
    return None if found is None else str(found)


def form_name(arguments: dict[str, Any]) -> str | None:
    """Which of its module's forms an answer must have (answers/forms.py)."""
    kind = arguments.get("product") or arguments.get("benchmark")
    return f"{kind}.{step_of(arguments)}" if kind else step_of(arguments)


def text_of(warning: Any) -> str:
    """ansible-core 2.19 wraps a module's warnings."""
    return str(getattr(getattr(warning, "event", None), "msg", warning))
