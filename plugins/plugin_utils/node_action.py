# SPDX-License-Identifier: GPL-3.0-or-later
"""What every action plugin of ours begins with: between a node's answer and the play stands the gate.

Before anything is sent, no fact of a node may bear the name of a key of ours. What is sent is logged nowhere on the node: it carries
values of the inventory. What comes back is bounded in time and size (answers/wire.py), then in form (answers/gate.py).

A module is one round trip: it goes to Python's input over the connection (Ansible's pipelining) instead of making a directory, copying a
file, running and removing it, which is an ssh client each. It then has no terminal either: a connection that breaks sends no hangup into
the middle of a change. Where the operator has said anything about pipelining, that holds.
"""

import re
import time
from abc import abstractmethod
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import sealed, unsealed

from .answers import wire
from .answers.form import shortened
from .answers.gate import NAMESPACE, passed, unanswered
from .host_spec import host_spec
from .inventory_facts import raw_variables, without_facts
from .node_disk import COMMAND as DISK_COMMAND
from .node_disk import LIMIT as DISK_LIMIT
from .node_disk import told_fault
from .summaries import clean_diff

Result = dict[str, Any]

JOB = re.compile(r"j[0-9]{1,12}\.[0-9]{1,10}")  # Ansible's name of a job
POLL_S = 5.0
OWN = ("mode", "product", "benchmark", "private_key")  # options all the same: the gate's, and the one that AnsibleModule hides
LOCAL = ("local", "ansible.builtin.local")
PIPELINING = "pipelining"
# sudo's words where its policy has requiretty, which pipelining cannot serve: nothing has run then.
NO_TTY = "you must have a tty to run sudo"
# What mkdir, cp and Python say where Ansible's files find no room, and how much of it is shown.
NO_ROOM = re.compile("No space left on device|Read-only file system|Disk quota exceeded|No usable temporary directory")
SAID = 300
ENDED = re.compile(r"exited with result ([0-9]{1,3})")  # Ansible's words where it could not make its directory
NOT_RUN = (0, 5, 255)  # 5: of sshpass; 255: of ssh
# Parts of a result with which later tasks work: Ansible shows them with -v, and an item of a loop always.
WORKED_WITH = ("packages", "source", "release")
QUIET = {"ansible_no_target_syslog": True}
# Modes that only inspect, and modules without modes; the others may download, build or measure for hours.
INSPECTING = (
    None, "inspect", "ping", "plan", "explain", "source", "container", "observe", "read", "state", "confirm", "outcome", "lease",
    "release", "poll", "failed", "login", "verdicts", "drift", "facts", "job", "ranks", "cabling",
)  # fmt: skip


class NodeAction(ActionBase):
    """Base of all."""

    TRANSFERS_FILES = False
    _away = False
    _said: Result  # what the last command answered

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
        one_trip = not self._task.async_val and self._one_trip(task_vars)
        answer = self._answer(name, arguments, task_vars, more)
        if one_trip:
            self._connection.set_option(PIPELINING, False)
            if answer.get("failed") and NO_TTY in output_of(answer):
                answer = self._answer(name, arguments, task_vars, more)
        if answer.get("failed") and NO_ROOM.search(output_of(answer)):
            raise self._no_room(output_of(answer))
        return self._passed(name, form_name(arguments), answer)

    def _answer(self, name: str, arguments: Result, variables: Any, more: Result) -> Result:
        try:
            found: Result = super()._execute_module(
                module_name=name, module_args=self.packed(name, arguments), task_vars={**(variables or {}), **QUIET}, **more)
        except wire.Exceeded as error:
            raise AnsibleActionFail(str(error)) from None  # said once
        return found

    def _one_trip(self, variables: Any) -> bool:
        """Whether pipelining is on because of us. The connection is this task's own: nobody else sees it."""
        if not self._connection.has_pipelining:
            return False
        ask = self._connection.get_option_and_origin
        try:
            origin = ask(PIPELINING, hostvars=variables)[1]
            if origin != "default" and "hostvars" in variables:  # ansible-core 2.16 itself puts it into every task's variables
                said = {**self._task.play.get_vars(), **raw_variables(variables), **self._task.get_vars()}
                origin = ask(PIPELINING, hostvars=said)[1]
        except KeyError:  # a connection that has no such choice
            return False
        if origin != "default":
            return False
        self._connection.set_option(PIPELINING, True)
        return True

    def _make_tmp_path(self, *arguments: Any, **named: Any) -> str:
        """Ansible calls a node unreachable where it cannot make its directory; one that says why has been reached."""
        self._said = {"rc": 0}
        try:
            return str(super()._make_tmp_path(*arguments, **named))
        except AnsibleConnectionFailure:
            if self._said["rc"] in NOT_RUN:
                raise
        raise self._no_room(f"{self._said['stderr']} {self._said['stdout']}")

    def _no_room(self, said: str) -> AnsibleActionFail:
        """Of a node that does not take Ansible's own files: what its shell tells of its disk, in the words of our modules."""
        fault = told_fault(str(self._low_level_execute_command(DISK_COMMAND).get("stdout", ""))[:DISK_LIMIT])
        if fault is not None:
            return AnsibleActionFail(fault)
        found = NO_ROOM.search(said)
        text = said[max(0, said.rfind("\n", 0, found.start())):] if found else said
        why = "the node's disk is full or read-only" if found else "Ansible cannot make its temporary directory on the node"
        return AnsibleActionFail(f"{why}: {shortened(' '.join(text.split()), SAID)}")

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
        self._said = answer
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
        if name.startswith(NAMESPACE) and answer.get("failed") and "module_stdout" in answer:  # Ansible found no answer in it
            found = unanswered(name, answer.get("rc"), answer["module_stdout"], answer.get("module_stderr") or "")
        else:
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
        except AnsibleConnectionFailure as error:  # as in _make_tmp_path, which is not this action's
            ended = ENDED.search(str(error))
            if NO_ROOM.search(str(error)) or (ended is not None and int(ended[1]) not in NOT_RUN):
                raise self._no_room(str(error)) from None
            raise
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
        if "(hidden " in str(options) or "url" in (options.get("args") or ()):
            host_spec(self._templar, task_vars or {})  # what is hidden of this host
            options = unsealed(options)
        answer = self.answer(result, task_vars or {}, options)
        return {name: sealed(value) if name in WORKED_WITH else value for name, value in answer.items()}

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


def output_of(answer: Result) -> str:
    """What came in place of a module's answer."""
    return f"{answer.get('module_stderr', '')} {answer.get('module_stdout', '')}"


def text_of(warning: Any) -> str:
    """ansible-core 2.19 wraps a module's warnings."""
    return str(getattr(getattr(warning, "event", None), "msg", warning))
