# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions that put a release below a prefix, as ansible-core calls them; only the module's answer is a double."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_hpcx, rdma_nccl_library
from ansible_collections.railwright.rdma.plugins.plugin_utils.prefix_action import PrefixAction

pytestmark = pytest.mark.core
SITE = {"inventory_hostname": "node1", "fabric": "roce", "mtu": 9000}
KINDS = [
    (rdma_hpcx.ActionModule, "railwright.rdma.rdma_hpcx", "hpcx", {"mpi_install": "hpcx"}, "mpi_archive", "mpi"),
    (rdma_nccl_library.ActionModule, "railwright.rdma.rdma_nccl_library", "library", {"nccl_install": "source"}, "nccl_archive", "nccl"),
]


Kind = tuple[type[PrefixAction], str, str, dict[str, Any], str, str]


class Play:
    """One task of a node; ``answer`` is what the module returns, ``calls`` what it was given."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: type[PrefixAction], **values: Any) -> None:
        self.kind, self.variables = kind, {**SITE, **values}
        self.answer: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []
        patch.setattr(kind, "_execute_module", self.module)

    def module(self, **call: Any) -> dict[str, Any]:
        self.calls.append(call)
        return self.answer

    def run(self, **arguments: Any) -> dict[str, Any]:
        task = SimpleNamespace(args=arguments, async_val=0, check_mode=False, diff=False, action=self.kind.module, environment=None)
        loader = DataLoader()
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
        action = self.kind(task, connection, SimpleNamespace(), loader, Templar(loader, self.variables), None)
        action._load_name = self.kind.module  # ansible-core 2.16 names it in its errors; the plugin loader sets it
        return action.run(task_vars=self.variables)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_the_module_gets_the_step_and_the_wishes(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    action, module, _returned, wishes, _key, _role = kind
    play = Play(monkeypatch, action, **wishes)
    play.answer = {"changed": True}
    result = play.run(mode="unpack")
    assert result["changed"] is True
    assert not result.get("failed")
    (call,) = play.calls
    assert (call["module_name"], call["task_vars"]) == (module, play.variables)
    assert set(call["module_args"]) == {"mode", "spec"}
    assert call["module_args"]["mode"] == "unpack"
    assert {name: call["module_args"]["spec"][name] for name in wishes} == wishes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_a_step_that_is_none_reaches_no_node(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind[0], **kind[3])
    for arguments in ({}, {"mode": "install"}, {"mode": "look", "spec": {}}):
        with pytest.raises(AnsibleActionFail):
            play.run(**arguments)
    assert play.calls == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_an_archive_that_is_not_the_pinned_one_fails_the_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: Kind) -> None:
    action, _module, returned, wishes, key, role = kind
    file = tmp_path / "archive.tar.gz"
    file.write_bytes(b"something")
    play = Play(monkeypatch, action, **wishes, **{key: str(file)})
    play.answer = {"changed": True, returned: {"missing": True, "artifact": "thing", "sha256": "0" * 64}}
    found = hashlib.sha256(b"something").hexdigest()
    result = play.run(mode="look")
    assert (result["failed"], result["changed"]) == (True, False)
    said = f"{role}: {key} {file} has the sha256 {found} and not {'0' * 64}"
    assert result["msg"] == f"{said}, which is pinned for thing; no node was changed"
    play.answer[returned]["sha256"] = found
    assert not play.run(mode="look").get("failed")
    play.answer = {"changed": True, returned: {"missing": False, "artifact": "thing", "sha256": "0" * 64}}
    assert not play.run(mode="look").get("failed"), "what lies there already travels to no node"
    play.answer = {"changed": False, returned: None}
    assert not play.run(mode="look").get("failed")
