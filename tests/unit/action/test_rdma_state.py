# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of a guarded change: what it asks of the node, how often, for how long, and what it makes of the answers.

The connection and the clock are the test's; what a node answers is taken from ``confirm.outcome``'s own forms.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_state
from ansible_collections.railwright.rdma.plugins.plugin_utils import confirmation

SITE: dict[str, Any] = {"inventory_hostname": "n1", "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_confirm_timeout_s": 20}
KEY = "network: address of rail0 (eth1)"
CHANGE = {"key": KEY, "before": "192.0.2.1/24", "after": "198.18.0.1/24", "disruption": "link"}
WAITS = {"changed": True, "plan": [CHANGE], "confirm": {"unit": "railwright-watchdog.timer", "seconds": 20, "run": "r1"}}
CUT = AnsibleConnectionFailure("Failed to connect to the host via ssh:\n connection timed out")


def said(state: str, **more: Any) -> dict[str, Any]:
    path = "/var/lib/railwright/restore/r1/journal.json"
    return {"confirm": {"state": state, "run": "r1", "changes": [KEY], "troubles": [], "restore_point": path, **more}}


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


Reply = dict[str, Any] | Exception


class Apply(rdma_state.ActionModule):
    """One task; ``node`` answers a call by (mode, seconds since the beginning). Every call and every reset is kept."""

    def __init__(self, node: Callable[[str, float], Reply], *, transport: str = "ssh", check: bool = False, mode: str = "apply") -> None:
        name = "railwright.rdma.rdma_state"
        task = SimpleNamespace(args={"mode": mode}, async_val=0, check_mode=check, diff=False, action=name, environment=None)
        self.calls: list[dict[str, Any]] = []
        self.resets = 0
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), transport=transport, reset=self._reset)
        loader = DataLoader()
        super().__init__(task, connection, SimpleNamespace(), loader, Templar(loader, SITE), None)
        self.node = node
        self.time = Time()
        self.clock = confirmation.Clock(lambda: self.time.now, self.time.sleep)
        self.removed = 0

    def _reset(self) -> None:
        self.resets += 1

    def _low_level_execute_command(self, cmd: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        reply = self.node(cmd, self.time.now)
        if isinstance(reply, Exception):
            raise reply
        return {"rc": 0, "stdout": "", "stderr": ""}

    def _remove_tmp_path(self, tmp_path: Any, force: bool = False) -> None:
        self.removed += 1

    def _execute_module(self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, **options: Any) -> dict[str, Any]:
        self.calls.append(dict(module_args))
        self.time.now += 0.1
        reply = self.node(module_args["mode"], self.time.now)
        if isinstance(reply, Exception):
            raise reply
        return dict(reply)

    @property
    def modes(self) -> list[str]:
        return [call["mode"] for call in self.calls]

    def result(self) -> dict[str, Any]:
        return self.run(task_vars=dict(SITE))


def replies(**by_mode: Reply) -> Callable[[str, float], Reply]:
    return lambda mode, _now: by_mode.get(mode, {})


def test_what_waits_is_confirmed_over_a_fresh_connection() -> None:
    task = Apply(replies(apply=WAITS, confirm=said("applied")))
    result = task.result()
    assert (result.get("failed"), result["changed"], result["confirm"]["state"]) == (None, True, "applied")
    assert (task.modes, task.resets) == (["apply", "confirm"], 1)
    assert task.calls[0]["confirm_seconds"] == 20
    assert task.calls[1]["confirm_token"] == task.calls[0]["confirm_token"] != ""


def test_every_apply_has_a_token_of_its_own() -> None:
    tokens = {Apply(replies(apply={"changed": False})) for _number in range(2)}
    assert len({task.result() and task.calls[0]["confirm_token"] for task in tokens}) == 2


def test_what_waits_for_nothing_is_not_confirmed() -> None:
    task = Apply(replies(apply={"changed": True, "plan": []}))
    assert task.result()["changed"] is True
    assert (task.modes, task.resets) == (["apply"], 0)


def test_a_local_connection_is_never_cut() -> None:
    task = Apply(replies(apply=WAITS, confirm=said("applied")), transport="local")
    assert task.result()["confirm"]["state"] == "applied"
    assert (task.modes, task.resets) == (["apply", "confirm"], 0)


@pytest.mark.parametrize(("mode", "check"), [("plan", False), ("apply", True)])
def test_a_question_arms_nothing(mode: str, *, check: bool) -> None:
    task = Apply(lambda _mode, _now: {"changed": False}, mode=mode, check=check)
    task.result()
    assert [call for call in task.calls if "confirm_token" in call or "confirm_seconds" in call] == []


def test_the_node_reverted_it_and_one_line_says_so() -> None:
    """Away from the end of the effects until its timer has put the address back."""
    task = Apply(lambda mode, now: WAITS if mode == "apply" else CUT if mode == "confirm" and now < 23 else said("reverted"))
    result = task.result()
    assert (result["failed"], result["changed"], result["reverted"]) == (True, False, [KEY])
    assert result.get("unreachable") is None
    assert (
        "not confirmed over a fresh connection within 20 s (Failed to connect to the host via ssh: connection timed out)" in (result["msg"])
    )
    assert f"the node rolled itself back and is as it was before run r1. Reverted: {KEY}" in result["msg"]
    assert "\n" not in result["msg"]
    assert task.resets == len(task.modes) - 1 > 3, "a fresh connection for every try"
    assert task.removed == task.resets, "a temporary directory of the connection before is not used again"


def test_a_roll_back_that_left_something_says_what() -> None:
    task = Apply(replies(apply=WAITS, confirm=said("rollback incomplete", troubles=["network: MTU: exit 2"])))
    result = task.result()
    assert result["failed"]
    assert result["reverted"] == []
    assert "only in part: network: MTU: exit 2. Restore point: /var/lib/railwright/restore/r1/journal.json" in result["msg"]


def test_a_node_that_never_comes_back_is_unreachable_with_a_line() -> None:
    task = Apply(lambda mode, _now: WAITS if mode == "apply" else CUT if mode == "confirm" else {})
    with pytest.raises(AnsibleConnectionFailure, match=r"own timer reverts run r1 20 s after the change") as caught:
        task.result()
    assert "\n" not in str(caught.value)
    assert 20 + confirmation.RETURN_SECONDS < task.time.now < 20 + confirmation.RETURN_SECONDS + 30, "bounded"
    cleaned = task.removed
    task.cleanup()
    assert task.removed == cleaned, "the failure to clean up there would hide the line"


def test_a_node_that_was_away_before_is_just_unreachable() -> None:
    task = Apply(lambda _mode, _now: CUT)
    with pytest.raises(AnsibleConnectionFailure, match="Failed to connect"):
        task.result()
    assert (task.modes, task.time.now) == ([], 0.0)


def test_a_connection_that_dies_during_the_apply_is_not_made_good() -> None:
    """Nobody has seen the result, so nothing is confirmed: the node goes on, waits, and reverts it."""

    def node(mode: str, now: float) -> Reply:
        assert mode != "confirm"
        if mode == "apply":
            return CUT
        return {} if mode == "true" else CUT if now < 5 else said("applying" if now < 10 else "unconfirmed" if now < 30 else "reverted")

    result = Apply(node).result()
    assert (result["failed"], result["reverted"]) == (True, [KEY])
    assert result["msg"].startswith("the connection was lost while the change was made (")


def test_a_lost_apply_that_never_began_differs_from_one_that_is_starting() -> None:
    task = Apply(lambda mode, _now: CUT if mode == "apply" else {} if mode == "true" else said("none", changes=[], run=""))
    assert "nothing had been changed yet" in task.result()["msg"]
    assert task.time.now >= confirmation.STARTING_SECONDS


def test_a_lost_apply_of_other_changes_has_ended_all_the_same() -> None:
    result = Apply(lambda mode, _now: CUT if mode == "apply" else {} if mode == "true" else said("applied")).result()
    assert result["failed"]
    assert "went on with run r1" in result["msg"]


def test_an_apply_that_failed_on_the_node_needs_no_confirmation() -> None:
    task = Apply(replies(apply={"failed": True, "msg": "no", "rolled_back": True}))
    assert task.result()["msg"] == "no"
    assert task.modes == ["apply"]


def test_trouble_of_a_node_that_is_just_coming_up_is_waited_out() -> None:
    answers: list[Reply] = [AnsibleError("failed to transfer file"), {"failed": True, "msg": "MODULE FAILURE"}, said("applied")]
    task = Apply(lambda mode, _now: answers.pop(0) if mode == "confirm" else WAITS)
    assert task.result()["confirm"]["state"] == "applied"
