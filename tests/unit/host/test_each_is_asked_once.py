# SPDX-License-Identifier: GPL-3.0-or-later
"""What one inspection asks of every kind of node: each command, file, directory and link once."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import state
from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node, observe_drift
from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import inspect_container_access
from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from counted_host import CountedHost
from module_double import Module
from node_trees import NODES
from profile_trees import spec_of

KINDS_OF_NODES = sorted(path.name for path in NODES.iterdir())


@pytest.mark.parametrize("name", KINDS_OF_NODES)
def test_a_drift_inspection_asks_once(name: str) -> None:
    host = CountedHost(str(NODES / name))
    assert observe_drift(host, "node1", spec_of(name))["judged"]
    assert host.twice() == []
    assert host.total("command") > 5
    assert host.total("file") > 50


@pytest.mark.parametrize("name", KINDS_OF_NODES)
def test_a_plan_asks_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = CountedHost(str(NODES / name))
    params: dict[str, Any] = {"mode": "plan", "spec": spec_of(name).as_dict(), "areas": None, "now": None, "only": None,
                              "consented_only": False}
    assert Module(params).call(state.answer, host)["plan"] is not None
    assert host.twice() == []


@pytest.mark.parametrize("name", ["doca8", "erdma2", "ib8"])
def test_a_check_asks_once(name: str) -> None:
    host = CountedHost(str(NODES / name))
    assert check_node(host, "node1", spec_of(name))["verdicts"]
    assert host.twice() == []


def test_what_containers_get_is_asked_once() -> None:
    host = CountedHost(str(NODES / "doca8"))
    assert inspect_container_access(host, spec_of("doca8"))["hcas"]
    assert host.twice() == []


def test_the_choice_of_the_gpudirect_path_asks_once() -> None:
    host = CountedHost(str(NODES / "doca8"))
    assert explain(host, None)["gpus"] == 8
    assert host.twice() == []


def test_a_plain_host_is_asked_again() -> None:
    """The count would see it."""
    host = CountedHost(str(NODES / "doca8"))
    observe_facts(host)
    assert host.twice()
