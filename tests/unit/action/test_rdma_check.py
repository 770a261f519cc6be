# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_check's action plugin with ansible-core's own ssh connection plugin, whose settings it reads; the module's run is replaced."""

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_check

pytestmark = pytest.mark.core
SITE = {"inventory_hostname": "node1", "rdma_fabric": "roce", "rdma_mtu": 9000}
NEEDS_TTY = {"failed": True, "msg": "MODULE FAILURE: see stdout/stderr", "module_stderr": "sudo: sorry, you must have a tty to run sudo\n"}
CLEAN = {"changed": False, "findings": [], "unknown": []}


class Drift(rdma_check.ActionModule):
    """The action; every call of the module is kept with whether it would be pipelined, by ansible-core's own judgement."""

    def __init__(self, variables: dict[str, Any], *answers: dict[str, Any], connection: Any = None) -> None:
        name = "railwright.rdma.rdma_check"
        task = SimpleNamespace(args={"mode": "drift"}, async_val=0, check_mode=False, diff=False, action=name, environment=None)
        loader, self.variables = DataLoader(), {**SITE, **variables}
        super().__init__(task, connection or ssh(self.variables), SimpleNamespace(), loader, Templar(loader, self.variables), None)
        self.answers = list(answers) or [CLEAN]
        self.pipelined: list[bool] = []

    def _execute_module(self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, **options: Any) -> dict[str, Any]:
        assert module_name == "railwright.rdma.rdma_check"
        assert (module_args["node"], module_args["spec"]["fabric"]) == ("node1", "roce")
        self.pipelined.append(bool(self._is_pipelining_enabled("new")))
        return dict(self.answers.pop(0))

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.run(task_vars=self.variables)
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


def test_one_round_trip_where_the_operator_says_nothing() -> None:
    task = Drift({})
    assert task.result()["findings"] == []
    assert task.pipelined == [True]


@pytest.mark.parametrize("name", ["ansible_pipelining", "ansible_ssh_pipelining"])
@pytest.mark.parametrize("wish", [False, True])
def test_the_inventory_is_obeyed(name: str, wish: bool) -> None:
    task = Drift({name: wish})
    task.result()
    assert task.pipelined == [wish]


def test_the_environment_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_PIPELINING", "false")
    task = Drift({})
    task.result()
    assert task.pipelined == [False]


def test_a_sudo_that_wants_a_terminal_gets_one() -> None:
    task = Drift({}, NEEDS_TTY, CLEAN)
    result = task.result()
    assert not result.get("failed")
    assert task.pipelined == [True, False]


def test_another_failure_is_told_and_not_tried_again() -> None:
    task = Drift({}, {"failed": True, "msg": "no"})
    assert task.result()["msg"] == "no"
    assert task.pipelined == [True]


def test_the_operators_own_pipelining_is_not_switched_off() -> None:
    task = Drift({"ansible_pipelining": True}, NEEDS_TTY)
    assert task.result()["failed"]
    assert task.pipelined == [True]


def test_a_connection_without_the_choice_is_left_alone() -> None:
    class Bare:
        has_pipelining, always_pipeline_modules, become = True, False, None
        _shell = SimpleNamespace(tmpdir="/none")

        def __init__(self) -> None:
            self.asked: list[str] = []

        def get_option_and_origin(self, option: str, hostvars: Any = None) -> Any:
            self.asked.append(option)
            raise KeyError(option)

        def get_option(self, option: str) -> Any:
            raise KeyError(option)

        def set_option(self, option: str, value: Any) -> None:
            raise AssertionError(f"{option} was set")

        def is_pipelining_enabled(self, wrap_async: bool = False) -> bool:
            return False

    bare = Bare()
    task = Drift({}, connection=bare)
    task._play_context.pipelining = False
    assert task.result()["findings"] == []
    assert bare.asked == ["pipelining"]
