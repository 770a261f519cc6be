# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of rdma_upgrade: what it tells the module, and what became of a node after a reboot that failed.

The connection is the test's: it answers, or it is cut.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_upgrade
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import judged_together

TIMED_OUT = {"failed": True, "msg": "Timed out waiting for last boot time check (timeout=30)"}


class Step(rdma_upgrade.ActionModule):
    """One task on node n1."""

    def __init__(self, *, away: bool = False, transport: str = "ssh", **args: Any) -> None:
        name = "railwright.rdma.rdma_upgrade"
        task = SimpleNamespace(args=args, async_val=0, check_mode=False, diff=False, action=name, environment=None)
        self.calls: list[dict[str, Any]] = []
        self.resets = 0
        self.away = away
        self.cleaned = False
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), transport=transport, reset=self._reset)
        loader = DataLoader()
        super().__init__(task, connection, SimpleNamespace(), loader, Templar(loader, {}), None)

    def _reset(self) -> None:
        self.resets += 1

    def _low_level_execute_command(self, cmd: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        if self.away:
            raise AnsibleConnectionFailure("Failed to connect to the host via ssh:\n No route to host")
        return {"rc": 0, "stdout": "", "stderr": ""}

    def _execute_module(self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, **options: Any) -> dict[str, Any]:
        self.calls.append(dict(module_args))
        return {"changed": True}

    def _remove_tmp_path(self, tmp_path: Any, force: bool = False) -> None:
        self.cleaned = True

    def result(self) -> dict[str, Any]:
        return self.run(task_vars={"inventory_hostname": "n1"})


def test_the_module_is_told_who_and_when() -> None:
    step = Step(mode="lease", run="RUN", take_over=True)
    assert step.result()["changed"]
    (call,) = step.calls
    assert (call["mode"], call["run"], call["take_over"]) == ("lease", "RUN", True)
    assert call["controller"]
    assert call["user"]
    assert call["now"] > 1_700_000_000


@pytest.mark.parametrize("mode", ["lease", "release", "report"])
def test_without_a_run_nothing_is_asked(mode: str) -> None:
    step = Step(mode=mode)
    with pytest.raises(AnsibleActionFail, match="needs run"):
        step.result()
    assert step.calls == []


def test_a_report_contacts_nobody_and_needs_a_plan() -> None:
    step = Step(mode="report", run="RUN", plan={"plan": [{"key": "a: b", "disruption": "none"}]})
    assert step.result()["upgrade"]["plan"] == ["a: b"]
    assert (step.calls, step.resets) == ([], 0)
    with pytest.raises(AnsibleActionFail, match="no plan"):
        Step(mode="report", run="RUN", plan={"skipped": True}).result()


def test_a_node_that_did_not_return_is_unreachable_and_named_with_the_time() -> None:
    step = Step(away=True, mode="after_reboot", error=TIMED_OUT, waited_s=30)
    with pytest.raises(AnsibleConnectionFailure) as lost:
        step.result()
    said = ("n1 did not come back from its reboot within 30 s (rdma_reboot_timeout_s): "
            "Failed to connect to the host via ssh: No route to host")
    assert str(lost.value) == said
    assert step.resets == 1, "a connection that is still open proves nothing"
    step.cleanup()
    assert not step.cleaned, "to clean up on a node that is away would hide why"


def test_a_node_that_answers_has_failed_with_the_words_of_its_task() -> None:
    found = Step(mode="after_reboot", error=TIMED_OUT, waited_s=30).result()
    assert (found["failed"], found["msg"]) == (True, TIMED_OUT["msg"])
    assert Step(mode="after_reboot", transport="local", error={}).result()["msg"] == "the task gave no reason"


def test_a_node_that_was_only_away_for_a_moment_is_asked_for_its_boot_next() -> None:
    assert not Step(mode="after_reboot", error={"unreachable": True, "msg": "No route to host"}).result().get("failed")


def test_a_batch_is_judged_by_itself() -> None:
    """In a play with serial the other batches are hosts of the play, and nobody has inspected them yet."""
    play = {"ansible_play_hosts_all": ["n1", "n2", "n3", "n4"], "ansible_play_hosts": ["n1", "n3", "n4"]}
    assert judged_together(play) == (["n1", "n2", "n3", "n4"], ["n1", "n3", "n4"])
    assert judged_together({**play, "__upgrade_together": ["n1", "n2"]}) == (["n1", "n2"], ["n1"])
