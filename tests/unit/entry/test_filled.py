# SPDX-License-Identifier: GPL-3.0-or-later
"""What only an action plugin asks of a node: packed into one option on the controller, unpacked by the module on the node."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import basic

from ansible_collections.railwright.rdma.plugins.module_utils.entry import node_module
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction
from module_double import Module

GIVEN = {"mode": "key", "private_key": "k", "schedule": {}, "user": "mpi", "nodes": ["n1"]}


def test_what_the_task_did_not_say_is_sent_as_one_option() -> None:
    action = object.__new__(NodeAction)
    action._task = SimpleNamespace(args={"schedule": {}})
    sent = {"mode": "key", "private_key": "k", "schedule": {}, "filled": {"user": "mpi", "nodes": ["n1"]}}
    assert action.packed("railwright.rdma.rdma_ssh_mesh", GIVEN) == sent
    assert action.packed("ansible.builtin.copy", GIVEN) == GIVEN


@pytest.mark.parametrize("filled", [{"user": "mpi", "nodes": ["n1"]}, None])
def test_a_module_unpacks_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], filled: Any) -> None:
    given = {"ANSIBLE_MODULE_ARGS": {"mode": "key", "filled": filled, "_ansible_module_name": "railwright.rdma.rdma_x"}}
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(given).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    with pytest.raises(SystemExit):
        node_module.serve({"mode": {"type": "str"}}, lambda _host, params, _dry: {"params": params})
    answer = json.loads(capsys.readouterr().out)
    assert answer.get("params") == (filled and {"mode": "key", **filled})
    assert filled or answer["msg"] == "railwright.rdma.rdma_x: its action plugin did not run; call it by its full name from a playbook"


@pytest.mark.parametrize(("error", "said"), [
    (RailwrightError("no"), {"msg": "role: no"}), (ApplyError("no", True), {"msg": "role: no", "rolled_back": True}),
    (PermissionError(13, "Permission denied", "/opt"), {"msg": "role: /opt: Permission denied"})])
def test_an_error_is_one_line(error: Exception, said: dict[str, Any]) -> None:
    def body(*_arguments: Any) -> dict[str, Any]:
        raise error

    assert Module().call(body, role="role") == {"failed": True, **said}
