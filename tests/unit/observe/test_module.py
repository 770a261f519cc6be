# SPDX-License-Identifier: GPL-3.0-or-later
"""The rdma_facts module: one object, changing nothing, also in check mode."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.lib.module_double import Module

from ansible_collections.railwright.rdma.plugins.module_utils.entry import facts as facts_module
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from node_trees import FACTS


@pytest.mark.core
def test_facts_come_back_under_their_name(nodes: Path) -> None:
    result = Module().call(facts_module.answer, TreeHost(str(nodes / "rxe")))
    assert result["changed"] is False
    assert set(result) == {"changed", "rdma"}, "what becomes a host fact is the action plugin's to say"
    assert json.loads(json.dumps(result["rdma"])) == json.loads((FACTS / "rxe.json").read_text())


@pytest.mark.core
def test_the_controllers_address_reaches_the_identity(nodes: Path, tmp_path: Path) -> None:
    tree = tmp_path / "rxe"
    shutil.copytree(nodes / "rxe", tree, symlinks=True)
    (tree / "proc/self").mkdir()
    (tree / "proc/self/environ").write_text("HOME=/root\0SSH_CONNECTION=10.10.0.1 40000 10.10.0.11 22\0")
    netdevs = Module().call(facts_module.answer, TreeHost(str(tree)))["rdma"]["netdevs"]
    assert [netdev["name"] for netdev in netdevs if netdev["management"]] == ["eth0", "eth1"]


@pytest.mark.core
def test_errors_of_the_core_fail_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> None:
        raise RailwrightError("nothing to read")

    monkeypatch.setattr(facts_module, "observe_identity", broken)
    assert Module().call(facts_module.answer) == {"failed": True, "msg": "nothing to read"}


def test_the_reference_names_every_key(nodes: Path) -> None:
    text = (nodes.parents[2] / "docs/reference/facts.md").read_text()
    facts = json.loads((FACTS / "ib8.json").read_text())
    port = facts["hcas"][0]["ports"][0]
    for section in (
        facts,
        facts["hcas"][0],
        port,
        port["gids"][0],
        facts["netdevs"][0],
        facts["gpudirect"],
        facts["limits"],
        facts["nccl"],
    ):
        for key in section:
            assert f"`{key}`" in text or f"{key}, " in text or f"{key}}}" in text or f"{{{key}" in text, key
