# SPDX-License-Identifier: GPL-3.0-or-later
"""What only an action plugin asks of a node: packed into one option on the controller, unpacked by the module on the node."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import basic

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.plugin_utils import step_action
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction


class Step(step_action.StepAction):
    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError  # these tests ask _execute_module, and never for an answer


class FillingStep(Step):
    fills = True


GIVEN = {"mode": "key", "private_key": "k", "user": "mpi", "nodes": ["n1"]}


@pytest.mark.parametrize(("kind", "sent"), [
    (Step, GIVEN), (FillingStep, {"mode": "key", "private_key": "k", "filled": {"user": "mpi", "nodes": ["n1"]}})])
def test_a_filling_action_sends_one_option(monkeypatch: pytest.MonkeyPatch, kind: type[Step], sent: dict[str, Any]) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(NodeAction, "_execute_module", lambda _self, **named: seen.append(named["module_args"]) or {})
    task = object.__new__(kind)
    task._task = SimpleNamespace(action="railwright.rdma.rdma_ssh_mesh")
    task._execute_module(module_name="railwright.rdma.rdma_ssh_mesh", module_args=GIVEN, task_vars={})
    assert seen == [sent]


@pytest.mark.parametrize(("filled", "found"), [
    ({"user": "mpi", "nodes": ["n1"]}, {"mode": "key", "user": "mpi", "nodes": ["n1"], "peers": []}),
    (None, {"mode": "key", "user": None, "peers": []})])
def test_a_module_unpacks_it_over_its_defaults(monkeypatch: pytest.MonkeyPatch, filled: Any, found: dict[str, Any]) -> None:
    given = {"ANSIBLE_MODULE_ARGS": {"mode": "key", "filled": filled}}
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(given).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    module = NodeModule(argument_spec={"mode": {"type": "str"}}, filled={"user": None, "peers": []})
    assert module.params == found
