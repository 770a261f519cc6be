# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is off is unreachable, not failed and not drifted; the other one's results are complete."""

from __future__ import annotations

from typing import Any

import pytest

from railwright import lab
from railwright.lab import machine

BOUND = 600  # seconds, under emulation by a busy host; far above one connection timeout, far below a hang


@pytest.fixture
def node2_is_off() -> Any:
    state = lab.current()
    node = state.node("node2")
    machine.ask_power_off(state, node)
    machine.stop(state, node)
    yield
    lab.up(len(state.nodes), rails=len(node.rails))  # starts what is off


@pytest.mark.usefixtures("node2_is_off")
def test_one_node_off(railwright: Any) -> None:
    run = railwright("validate")
    assert run.code == 3
    assert run.seconds < BOUND
    assert run.document["nodes"]["node2"]["status"] == "unreachable"
    assert run.document["nodes"]["node1"]["status"] == "ok"
    passed = {verdict["check"] for verdict in run.document["verdicts"] if verdict["node"] == "node1" and verdict["status"] == "pass"}
    assert {"port.state", "rail.mtu", "rail.gid"} <= passed, passed
    assert not [verdict for verdict in run.document["verdicts"] if verdict["node"] == "node2" and verdict["status"] == "fail"]
