# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that would talk in different modes are refused before anything changes, all of them, with one line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action.rdma_consent import ActionModule, plans_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.consent import mixed_modes

pytestmark = pytest.mark.core
MIXED = (
    "erdma: erdma_mode: nodes in different modes cannot talk RDMA to each other, and these would be: compat or ofed (RoCE-compatible) on "
    "gpu1, gpu2; default (iWARP-like) on cpu1. Nothing was changed on any of them; set one erdma_mode for all (compat and ofed are one on "
    "the wire), and erdma_driver: leave on none that runs in another"
)


def plan(letter: Any = None, **more: Any) -> dict[str, Any]:
    return {"plan": [], "problems": [], "erdma": {"mode": "compat", "letter": letter} if letter is not None else None, **more}


def variables(**plans: Any) -> dict[str, Any]:
    return {"inventory_hostname": next(iter(plans)), "ansible_play_hosts_all": list(plans),
            "hostvars": {name: {"rdma_plan": value} if value is not None else {} for name, value in plans.items()}}


def test_a_mix_names_both_camps_the_larger_first() -> None:
    assert mixed_modes(plans_of(variables(cpu1=plan("N"), gpu1=plan("Y"), gpu2=plan("Y")), "rdma_plan")) == MIXED


@pytest.mark.parametrize(
    "plans",
    [
        {"a": plan("Y"), "b": plan("Y")},
        {"a": plan("Y"), "b": plan()},  # not eRDMA, or nothing tells
        {"a": plan("Y"), "b": None},  # never planned
        {"a": plan("Y"), "b": plan("N", failed=True)},
        {"a": plan("Y"), "b": plan("N", unreachable=True)},
        {"a": plan("Y"), "b": {"plan": [], "erdma": "N"}},
        {"a": plan("Y"), "b": plan("{{ lookup('pipe', 'id') }}")},  # a node's words are no template and no mode
        {"a": plan("Y"), "b": plan(["N"])},
    ],
)
def test_what_is_no_mix(plans: dict[str, Any]) -> None:
    assert mixed_modes(plans_of(variables(**plans), "rdma_plan")) is None


def test_many_nodes_are_counted() -> None:
    plans = {f"n{number}": plan("Y" if number else "N") for number in range(9)}
    assert "on n1, n2, n3 and 5 more" in str(mixed_modes(plans_of(variables(**plans), "rdma_plan")))


def consent(task_vars: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """The action as ansible-core calls it."""
    task = SimpleNamespace(args=arguments, async_val=0, check_mode=False, diff=False, collections=[], environment=None)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), transport="local")
    loader = DataLoader()
    templar = Templar(loader=loader, variables=task_vars)
    return ActionModule(task, connection, SimpleNamespace(), loader, templar, None).run(task_vars=task_vars)


@pytest.mark.parametrize("consent_needed", [True, False])
def test_mixed_modes_fail_every_node_of_the_mix_also_in_plan(consent_needed: bool) -> None:
    for name in ("cpu1", "gpu1", "gpu2"):
        plans = {"cpu1": plan("N"), "gpu1": plan("Y"), "gpu2": plan("Y")}
        task_vars = {**variables(**plans), "inventory_hostname": name}
        result = consent(task_vars, plan=plans[name], registered="rdma_plan", consent_needed=consent_needed)
        assert (result.get("failed"), result["msg"]) == (True, MIXED)


def test_a_nodes_own_problems_stand_before_it() -> None:
    problem = {"area": "erdma", "subject": "module erdma", "message": "is in use"}
    plans = {"cpu1": plan("N", problems=[problem]), "gpu1": plan("Y"), "gpu2": plan("Y")}
    result = consent(variables(**plans), plan=plans["cpu1"], registered="rdma_plan")
    assert result["msg"] == f"erdma: module erdma: is in use; {MIXED}"


def test_without_the_name_of_the_plans_nothing_is_compared() -> None:
    plans = {"cpu1": plan("N"), "gpu1": plan("Y")}
    assert not consent(variables(**plans), plan=plans["cpu1"]).get("failed")
