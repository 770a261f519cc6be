# SPDX-License-Identifier: GPL-3.0-or-later
"""An inspection costs one round trip, with ansible-core's own ssh plugin, whose settings decide; the module's run is replaced."""

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import connection_loader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction

pytestmark = pytest.mark.core
FACTS = "railwright.rdma.rdma_facts"
FAILURE = {"failed": True, "msg": "MODULE FAILURE: see stdout/stderr", "module_stdout": ""}
NEEDS_TTY = {**FAILURE, "module_stderr": "sudo: sorry, you must have a tty to run sudo\n"}
TRACEBACK = 'Traceback:\n  File "<stdin>", line 1\nFileNotFoundError: [Errno 2] No usable temporary directory found in [\'/tmp\']\n'
FULL = "mkdir: cannot create directory '/root/.ansible': No space left on device\n"


class Asking:
    """An action; every run of a module is kept with whether it would be pipelined, by ansible-core's own judgement."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], *answers: dict[str, Any], connection: Any = None
    ) -> None:
        task = SimpleNamespace(args={}, async_val=0, check_mode=False, diff=False, action=FACTS, environment=None)
        loader, self.variables = DataLoader(), variables
        context, templar = SimpleNamespace(pipelining=False), Templar(loader, variables)
        self.action = type("Action", (NodeAction,), {})(task, connection or ssh(variables), context, loader, templar, None)
        self.answers, self.pipelined = list(answers) or [{"changed": False}], list[bool]()
        monkeypatch.setattr(ActionBase, "_execute_module", self._run)

    def _run(self, **_given: Any) -> dict[str, Any]:
        self.pipelined.append(self.action._is_pipelining_enabled("new"))
        return dict(self.answers.pop(0))

    def ask(self, name: str = FACTS, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.action._execute_module(module_name=name, module_args=arguments, task_vars=self.variables)
        return found


def ssh(variables: dict[str, Any]) -> Any:
    """As the task executor makes one: options out of the variables, the environment and ansible.cfg."""
    connection = connection_loader.get("ssh", PlayContext(), "/dev/null")
    connection.set_options(var_options=variables)
    return connection


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSIBLE_PIPELINING", "ANSIBLE_SSH_PIPELINING"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("name", "mode"), [
    (FACTS, None), ("railwright.rdma.rdma_check", "drift"), ("railwright.rdma.rdma_state", "apply"), ("ansible.builtin.apt", None)])
@pytest.mark.parametrize("seconds", [0, 60])
def test_one_round_trip_where_the_operator_says_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, mode: str | None, seconds: int
) -> None:
    task = Asking(monkeypatch, {})
    task.action._task.async_val = seconds
    task.ask(name, **({"mode": mode} if mode else {}))
    assert task.pipelined == [not seconds], "a job in the background is a file"
    assert not task.action._is_pipelining_enabled("new"), "for this one module"


@pytest.mark.parametrize("name", ["ansible_pipelining", "ansible_ssh_pipelining"])
@pytest.mark.parametrize("wish", [False, True])
def test_the_inventory_is_obeyed(monkeypatch: pytest.MonkeyPatch, name: str, *, wish: bool) -> None:
    task = Asking(monkeypatch, {name: wish})
    task.ask()
    assert task.pipelined == [wish]


def test_the_environment_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_PIPELINING", "false")
    task = Asking(monkeypatch, {})
    task.ask()
    assert task.pipelined == [False]


@pytest.mark.parametrize(("answer", "variables", "pipelined"), [
    (NEEDS_TTY, {}, [True, False]), ({"failed": True, "msg": "no"}, {}, [True]), (NEEDS_TTY, {"ansible_pipelining": True}, [True])])
def test_only_a_sudo_that_wants_a_terminal_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], variables: dict[str, Any], pipelined: list[bool]
) -> None:
    task = Asking(monkeypatch, variables, answer, {"changed": False})
    task.ask()
    assert task.pipelined == pipelined


def test_a_connection_without_the_choice_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        has_pipelining, always_pipeline_modules, become = True, False, None
        _shell = SimpleNamespace(tmpdir="/none")

        def get_option_and_origin(self, option: str, hostvars: Any = None) -> Any:
            raise KeyError(option)

        def is_pipelining_enabled(self, wrap_async: bool = False) -> bool:
            return False

    task = Asking(monkeypatch, {}, connection=Bare())
    task.ask()
    assert task.pipelined == [False]


@pytest.mark.parametrize(("disk", "text"), [
    ("place /tmp\nsize /tmp 4096 256 0 0 0 0\nmount 1 0 0:1 / /tmp rw - tmpfs tmpfs rw\n", "/tmp is full (0 of 1 MiB free)"),
    ("", "the node's disk is full or read-only: FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']")])
def test_a_module_that_finds_no_room_is_a_disk_that_takes_nothing(monkeypatch: pytest.MonkeyPatch, disk: str, text: str) -> None:
    """In the words of our modules, which are the same by every way."""
    asking = Asking(monkeypatch, {}, {**FAILURE, "module_stderr": TRACEBACK})
    monkeypatch.setattr(ActionBase, "_low_level_execute_command", lambda *_given, **_named: {"rc": 0, "stdout": disk, "stderr": ""})
    with pytest.raises(AnsibleActionFail) as failed:
        asking.ask()
    assert str(failed.value) == text


@pytest.mark.parametrize(("said", "failed"), [
    ("Failed command was: mkdir, exited with result 1", True), ("mkdir: x: No space left on device", True),
    ("Failed command was: mkdir, exited with result 255", False), ("Data could not be sent to remote host", False)])
def test_nor_is_one_whose_directory_an_action_of_ansible_s_cannot_make(monkeypatch: pytest.MonkeyPatch, said: str, *, failed: bool) -> None:
    asking = Asking(monkeypatch, {})

    class Builtin:
        def run(self, task_vars: Any) -> None:
            raise AnsibleConnectionFailure(said)

    asking.action._shared_loader_obj = SimpleNamespace(action_loader=SimpleNamespace(get=lambda *_given, **_named: Builtin()))
    asking.action._task.copy = lambda: asking.action._task
    monkeypatch.setattr(ActionBase, "_low_level_execute_command", lambda *_given, **_named: {"rc": 0, "stdout": "", "stderr": ""})
    with pytest.raises(AnsibleActionFail if failed else AnsibleConnectionFailure):
        asking.action._builtin("ansible.builtin.copy", {}, {}, 60)


@pytest.mark.parametrize(("rc", "said", "text"), [
    (1, FULL, "the node's disk is full or read-only: mkdir: cannot create directory '/root/.ansible': No space left on device"),
    (1, "mkdir: " + "x" * 999, "Ansible cannot make its temporary directory on the node: mkdir: " + "x" * 293 + "…"),
    (255, "ssh: Connection closed", None), (5, "", None)])
def test_a_directory_that_cannot_be_made_is_no_unreachable_node(
    monkeypatch: pytest.MonkeyPatch, rc: int, said: str, text: str | None
) -> None:
    task = Asking(monkeypatch, {"ansible_remote_tmp": "/var/tmp"})
    monkeypatch.setattr(ActionBase, "_low_level_execute_command", lambda *_given, **_named: {"rc": rc, "stdout": "", "stderr": said})
    monkeypatch.setattr(ActionBase, "_remote_expand_user", lambda _self, path, **_named: path)
    with pytest.raises(AnsibleActionFail if text else AnsibleConnectionFailure) as failed:
        task.action._make_tmp_path()
    assert text is None or str(failed.value) == text
