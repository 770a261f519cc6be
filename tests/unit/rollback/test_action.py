# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_rollback: which module is asked in which mode, with what, and that a rollback of networking is confirmed.

The connection and the node's answers are the test's; what a node answers has the forms of ``rollback_module`` and ``confirm.outcome``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_rollback
from ansible_collections.railwright.rdma.plugins.plugin_utils import confirmation

SITE: dict[str, Any] = {"inventory_hostname": "n1", "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_confirm_timeout_s": 20}
CONFIRM = {"state": "applied", "run": "r2", "changes": [], "troubles": [], "restore_point": "/var/lib/railwright/restore/r2/journal.json"}
WAITS = {"changed": True, "plan": [], "confirm": {"unit": "railwright-watchdog.timer", "seconds": 20, "run": "r2"}}


class Task(rdma_rollback.ActionModule):
    def __init__(self, answers: dict[str, dict[str, Any]], *, check: bool = False, **arguments: Any) -> None:
        task = SimpleNamespace(args=arguments, async_val=0, check_mode=check, diff=False, action="railwright.rdma.rdma_rollback",
                               environment=None)  # fmt: skip
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), transport="ssh", reset=lambda: None)
        loader = DataLoader()
        super().__init__(task, connection, SimpleNamespace(), loader, Templar(loader, SITE), None)
        self.answers = answers
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.clock = confirmation.Clock(lambda: 0.0, lambda _seconds: None)

    def _low_level_execute_command(self, cmd: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        return {"rc": 0, "stdout": "", "stderr": ""}

    def _remove_tmp_path(self, tmp_path: Any, force: bool = False) -> None:
        pass

    def _execute_module(self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, **options: Any) -> dict[str, Any]:
        self.calls.append((str(module_name).rpartition(".")[2], dict(module_args)))
        return dict(self.answers.get(module_args["mode"], {}))

    def result(self) -> dict[str, Any]:
        return self.run(task_vars=dict(SITE))


def test_an_apply_is_guarded_and_its_networking_confirmed() -> None:
    task = Task({"apply": WAITS, "confirm": {"confirm": CONFIRM}}, mode="apply", to="r1", expected=[])
    result = task.result()
    assert result["confirm"]["state"] == "applied"
    assert [(name, arguments["mode"]) for name, arguments in task.calls] == [("rdma_rollback", "apply"), ("rdma_state", "confirm")]
    first, second = (arguments for _name, arguments in task.calls)
    assert first["confirm_seconds"] == 20
    assert first["confirm_token"] == second["confirm_token"] != ""
    assert first["spec"]["mtu"] == 9000


def test_a_plan_and_check_mode_arm_nothing() -> None:
    for task in (Task({}, mode="plan", to="r1"), Task({}, mode="apply", to="r1", check=True)):
        task.result()
        [(name, arguments)] = task.calls
        assert name == "rdma_rollback"
        assert "confirm_token" not in arguments


def test_without_a_run_nothing_is_asked() -> None:
    task = Task({}, mode="plan")
    with pytest.raises(AnsibleActionFail, match="to: missing"):
        task.result()
    assert task.calls == []


def test_a_record_gets_area_and_class_of_the_packages_alone() -> None:
    changes = [{"subject": {"kind": "package", "name": "perftest"}, "area": "packages", "disruption": "reload"},
               {"subject": {"kind": "interface", "name": "eth1"}, "area": "network", "disruption": "link"}]  # fmt: skip
    task = Task({}, mode="packages_before", plan={"plan": changes, "facts": {"large": 1}}, run_id="r1")
    task.result()
    ((name, given),) = task.calls
    assert (name, given["mode"], given["run_id"]) == ("rdma_rollback", "packages_before", "r1")
    assert given["rows"] == {"perftest": ["packages", "reload"]}
    assert "plan" not in given


def test_a_look_needs_no_inventory() -> None:
    task = Task({"inspect": {"restore_points": []}}, mode="inspect")
    assert task.run(task_vars={}) == {"restore_points": []}
