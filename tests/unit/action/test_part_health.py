# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_measure's mode health as ansible-core calls it, and its body on a node: a double stands for the way between them."""

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action.rdma_measure import ActionModule
from ansible_collections.railwright.rdma.plugins.module_utils.entry.measure import answer
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import passed

pytestmark = pytest.mark.core
NAME = "railwright.rdma.rdma_measure"


def run(patch: pytest.MonkeyPatch, *, check: bool = False, **arguments: Any) -> tuple[list[str], dict[str, Any]]:
    """How the node was asked, and what came of it."""
    done: list[str] = []

    def asked(how: str, given: dict[str, Any]) -> dict[str, Any]:
        assert given == {"mode": "health", "diag": arguments.get("diag", False)}
        done.append(how)
        return {"changed": False, "health": {}}

    patch.setattr(ActionModule, "_execute_module", lambda _self, module_args, **_more: asked("at once", module_args))
    patch.setattr(ActionModule, "run_in_background", lambda _self, _name, given, _variables: asked("in the background", given))
    task = SimpleNamespace(args={"mode": "health", **arguments}, async_val=0, check_mode=check, diff=False, action=NAME, environment=None)
    loader, connection = DataLoader(), SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
    action = ActionModule(task, connection, SimpleNamespace(), loader, Templar(loader, {}), None)
    action._load_name = NAME
    return done, action.run(task_vars={"inventory_hostname": "n1"})


def test_a_diagnosis_is_asked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, diag=True)[0] == ["in the background"]
    done, result = run(monkeypatch)
    assert (done, "verdicts" in result) == (["at once"], False)


def test_check_mode_loads_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    done, result = run(monkeypatch, check=True, diag=True)
    assert (done, result["skipped"]) == ([], True)


@pytest.mark.parametrize("diag", [False, True])
def test_a_node_without_anything_answers_in_form(tmp_path: Any, *, diag: bool) -> None:
    found = answer(TreeHost(str(tmp_path)), {"mode": "health", "diag": diag}, False)
    assert passed(NAME, "health", {"changed": False, **found}) == {"changed": False, **found}
    assert found["health"] == {"gpus": None, "nics": [], "diag": {"why": "dcgmi is not installed", "results": []} if diag else None}
