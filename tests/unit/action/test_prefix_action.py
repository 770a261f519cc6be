# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_prefix as ansible-core calls it; only the answers of the node, and what Ansible's own modules do there, are doubles."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action.rdma_prefix import MODULE, ActionModule

pytestmark = pytest.mark.core
SITE = {"inventory_hostname": "node1", "rdma_fabric": "roce", "rdma_mtu": 9000}
RELEASE = {"missing": True, "needed": True, "artifact": "thing", "sha256": "0" * 64, "url": "https://example.com/thing",
           "file": "/var/cache/railwright/thing/thing.tgz"}
DONE = {"changed": True, "release": {**RELEASE, "missing": False, "needed": False}, "plan": [], "notes": ["made"]}
CHANGE = {"key": "k"}


class Kind(NamedTuple):
    """One product that comes as an archive: what the inventory says, its key of the operator's archive, what a failure begins with."""

    product: str
    wishes: dict[str, Any]
    key: str
    role: str


ARCHIVES = [Kind("hpcx", {"mpi_install": "hpcx"}, "mpi_archive", "mpi"),
            Kind("nccl", {"nccl_install": "source"}, "nccl_archive", "nccl")]
KINDS = [*ARCHIVES, Kind("erdma_driver", {"rdma_fabric": "erdma", "rdma_mtu": 8500, "erdma_mode": "compat"}, "", "erdma")]
for_each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.product)


class Play:
    """One task of a node. ``answers``: by step; ``done``: every step and module of Ansible's in order."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: Kind, *, check: bool = False, **values: Any) -> None:
        self.kind, self.check, self.variables = kind, check, {**SITE, **kind.wishes, **values}
        self.answers: dict[str, dict[str, Any]] = {
            "inspect": {"changed": False, "release": dict(RELEASE), "plan": [CHANGE], "notes": ["seen"]}, "install": DONE}
        self.calls: list[dict[str, Any]] = []
        self.done: list[str] = []
        patch.setattr(ActionModule, "_execute_module", self.module)
        patch.setattr(ActionModule, "run_in_background", lambda _self, name, arguments, variables: self.module(
            module_name=name, module_args=arguments, task_vars=variables, background=" in the background"))
        patch.setattr(ActionModule, "run_builtin", self.builtin)

    def module(self, *, background: str = "", **call: Any) -> dict[str, Any]:
        self.calls.append(call)
        step = call["module_args"]["step"]
        self.done.append(step + background)
        return self.answers.get(step, {"changed": True})

    def builtin(self, name: str, arguments: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
        self.done.append(name)
        return self.answers.get(name, {"changed": True, **arguments})

    def run(self, **arguments: Any) -> dict[str, Any]:
        task = SimpleNamespace(args=arguments, async_val=0, check_mode=self.check, diff=False, action=MODULE, environment=None)
        loader = DataLoader()
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
        action = ActionModule(task, connection, SimpleNamespace(), loader, Templar(loader, self.variables), None)
        action._load_name = MODULE  # ansible-core 2.16 names it in its errors; the plugin loader sets it
        return action.run(task_vars=self.variables)

    def apply(self) -> dict[str, Any]:
        return self.run(product=self.kind.product, mode="apply")


@for_each
def test_the_module_gets_product_step_and_wishes(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind)
    result = play.run(product=kind.product, mode="inspect")
    assert (result["changed"], result["product"], result["plan"]) == (False, kind.product, [CHANGE])
    (call,) = play.calls
    assert (call["module_name"], call["task_vars"]) == (MODULE, play.variables)
    given = call["module_args"]
    assert (given["product"], given["mode"], given["step"]) == (kind.product, "inspect", "inspect")
    wishes = {name.removeprefix("rdma_"): value for name, value in kind.wishes.items()}
    assert {name: given["spec"][name] for name in wishes} == wishes


@for_each
def test_a_mode_that_is_none_reaches_no_node(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind)
    product = {"product": kind.product}
    for arguments in ({}, product, {**product, "mode": "install"}, {**product, "mode": "build"}, {"product": "nccl_tests", "mode": "apply"},
                      {**product, "mode": "apply", "step": "clean"}, {**product, "mode": "apply", "arguments": {}}):
        with pytest.raises(AnsibleActionFail):
            play.run(**arguments)
    assert play.calls == []


@for_each
def test_what_is_missing_is_brought_and_installed(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind)
    result = play.apply()
    assert play.done == ["inspect", "prepare", "ansible.builtin.get_url", "install in the background"]
    assert (result["changed"], result["release"], result["plan"]) == (True, DONE["release"], [CHANGE])
    assert result["notes"] == ["seen", "made"]


@for_each
def test_check_mode_only_says_that_it_would(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind, check=True)
    assert play.apply()["changed"] is True
    play.answers["inspect"]["release"].update(missing=False, needed=False)
    assert play.apply()["changed"] is False
    assert play.run(product=kind.product, mode="inspect")["changed"] is False
    assert set(play.done) == {"inspect"}


@for_each
def test_what_lies_there_is_only_linked_or_left(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind)
    play.answers["inspect"]["release"]["missing"] = False
    assert play.apply()["changed"] is True
    assert play.done == ["inspect", "install"]
    play.answers["inspect"]["release"]["needed"] = False
    assert play.apply()["changed"] is False
    play.answers["inspect"]["release"] = None
    assert play.apply()["changed"] is False
    assert play.done == ["inspect", "install", "inspect", "inspect"]


@for_each
@pytest.mark.parametrize("step", ["prepare", "ansible.builtin.get_url"])
def test_a_file_that_does_not_come_is_cleaned_up_after(monkeypatch: pytest.MonkeyPatch, kind: Kind, step: str) -> None:
    play = Play(monkeypatch, kind)
    play.answers[step] = {"failed": True, "msg": "The checksum did not match"}
    result = play.apply()
    assert (result["failed"], result["changed"], result["plan"]) == (True, False, [CHANGE])
    said = "The checksum did not match" if step == "prepare" else f"{kind.role}: cannot bring {RELEASE['file']}: The checksum did not match"
    assert result["msg"] == said
    assert play.done[-2:] == [step, "clean"]


@for_each
def test_a_failed_step_fails_the_task_with_its_message(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    play = Play(monkeypatch, kind)
    play.answers["install"] = {"failed": True, "msg": "thing: holds something else"}
    result = play.apply()
    assert (result["failed"], result["msg"], result["plan"]) == (True, "thing: holds something else", [CHANGE])
    play.answers["inspect"] = {"failed": True, "msg": "thing: cannot be had"}
    assert play.apply()["msg"] == "thing: cannot be had"
    assert play.done[-1] == "inspect"


@pytest.mark.parametrize("mode", ["inspect", "apply"])
@pytest.mark.parametrize("kind", ARCHIVES, ids=lambda kind: kind.product)
def test_an_archive_that_is_not_the_pinned_one_stays_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: Kind, mode: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "archive.tar.gz"
    file.write_bytes(b"something")
    play = Play(monkeypatch, kind, **{kind.key: str(file)})
    found = hashlib.sha256(b"something").hexdigest()
    result = play.run(product=kind.product, mode=mode)
    assert (result["failed"], result["changed"], play.done) == (True, False, ["inspect"])
    said = f"{kind.role}: {kind.key} {file} has the sha256 {found} and not {'0' * 64}"
    assert result["msg"] == f"{said}, which is pinned for thing; no node was changed"
    play.answers["inspect"]["release"]["missing"] = False
    assert not play.run(product=kind.product, mode=mode).get("failed"), "what lies there already travels to no node"
    play.answers["inspect"]["release"].update(missing=True, sha256=found)
    assert not play.run(product=kind.product, mode=mode).get("failed")
    assert mode == "inspect" or "ansible.builtin.copy" in play.done
