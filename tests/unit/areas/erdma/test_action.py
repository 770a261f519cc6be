# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_erdma as ansible-core calls it, and the module's steps on a simulated node; check mode changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action.rdma_erdma import MODULE, ActionModule
from ansible_collections.railwright.rdma.plugins.modules import rdma_erdma

pytestmark = pytest.mark.core
SITE = {"inventory_hostname": "node1", "fabric": "erdma", "mtu": 8500, "erdma_mode": "compat"}


def act(patch: pytest.MonkeyPatch, **arguments: Any) -> list[dict[str, Any]]:
    """What the module was called with."""
    calls: list[dict[str, Any]] = []

    def module(_self: Any, **call: Any) -> dict[str, Any]:
        calls.append(call)
        return {"changed": True}

    patch.setattr(ActionModule, "_execute_module", module)
    task = SimpleNamespace(args=arguments, async_val=0, check_mode=False, diff=False, action=MODULE, environment=None)
    loader = DataLoader()
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
    action = ActionModule(task, connection, SimpleNamespace(), loader, Templar(loader, SITE), None)
    action._load_name = MODULE  # ansible-core 2.16 names it in its errors; the plugin loader sets it
    assert action.run(task_vars=SITE)["changed"] is True
    return calls


def test_the_module_gets_the_step_and_the_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = act(monkeypatch, mode="unpack")
    assert (call["module_name"], set(call["module_args"]), call["module_args"]["mode"]) == (MODULE, {"mode", "spec"}, "unpack")
    assert call["module_args"]["spec"]["erdma_mode"] == "compat"


@pytest.mark.parametrize("arguments", [{}, {"mode": "install"}, {"mode": "look", "url": "https://example.com"}])
def test_a_step_that_is_none_reaches_no_node(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, str]) -> None:
    with pytest.raises(AnsibleActionFail):
        act(monkeypatch, **arguments)


def test_a_look_names_the_archive_and_check_mode_unpacks_nothing(planner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.drop("usr/src/erdma-0.2.37/CMakeLists.txt")
    params = {"spec": plans.spec.as_dict()}
    found = rdma_erdma.step(plans.node, {**params, "mode": "look"}, False)
    assert (found["changed"], found["source"]["missing"], found["source"]["directory"]) == (False, True, "/usr/src/erdma-0.2.37")
    assert found["source"]["sha256"] == plans.seen[0].source.sha256
    steps: list[str] = []
    for name in rdma_erdma.STEPS:
        monkeypatch.setitem(rdma_erdma.STEPS, name, lambda _host, _source, name=name: steps.append(name))
    assert rdma_erdma.step(plans.node, {**params, "mode": "unpack"}, True) == {"changed": True}
    assert steps == []
    assert rdma_erdma.step(plans.node, {**params, "mode": "unpack"}, False) == {"changed": True}
    assert rdma_erdma.step(plans.node, {**params, "mode": "clean"}, False) == {"changed": False}
    assert steps == ["unpack", "clean"]


def test_where_no_source_is_wanted_no_step_is_made(planner: Callable[..., Any]) -> None:
    plans = planner(erdma_driver="leave")
    for mode in ("look", "unpack", "clean"):
        result = rdma_erdma.step(plans.node, {"spec": plans.spec.as_dict(), "mode": mode}, False)
        assert result == ({"source": None, "changed": False} if mode == "look" else {"changed": False})
