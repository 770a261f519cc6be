# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine whose kernel measured its clock wrong is booted again before anything is built on it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from railwright.lab import core, machine, reach
from railwright.lab.image import Image
from railwright.lab.state import LabState, Node
from railwright.lab.tools import LabError


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """By node: how many seconds its clock is ahead after each boot. Nothing is started."""
    ahead: dict[str, list[int]] = {}
    monkeypatch.setattr(reach, "run_on_node", lambda _state, node, _command: f"{time.time() + ahead[node.name][0]:.0f}\n")
    monkeypatch.setattr(reach, "wait", lambda _state, _nodes, _progress: None)
    monkeypatch.setattr(machine, "ask_power_off", lambda _state, _node: None)
    monkeypatch.setattr(machine, "stop", lambda _state, _node: None)

    def start(_state: LabState, node: Node, _image: Image) -> None:
        ahead[node.name].pop(0)

    monkeypatch.setattr(machine, "start", start)
    return ahead


def test_only_the_one_that_runs_wrong_boots_again(state: LabState, image: Image, boots: dict[str, list[int]]) -> None:
    boots.update(node1=[1946, -40, 0], node2=[0])
    said: list[str] = []
    core._right_clocks(state, image, list(state.nodes), said.append)
    assert said == ["booting node1 again: the clock there runs at a wrong speed"] * 2
    assert boots == {"node1": [0], "node2": [0]}


def test_one_that_stays_wrong_is_an_error(state: LabState, image: Image, boots: dict[str, list[int]]) -> None:
    boots.update(node1=[0], node2=[60] * 4)
    with pytest.raises(LabError, match="clock of node2 ran at a wrong speed three times"):
        core._right_clocks(state, image, list(state.nodes), lambda _line: None)


def test_what_is_no_time_is_said(state: LabState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reach, "run_on_node", lambda _state, _node, _command: "soon")
    with pytest.raises(LabError, match="node1 tells the time as 'soon'"):
        reach.clock_is_wrong(state, state.nodes[0])
