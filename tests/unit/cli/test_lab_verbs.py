# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab verbs over a lab that a test plays: what they print, what they pass on, how they fail."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railwright import lab
from railwright.cli import console
from railwright.cli.main import run
from railwright.lab import LabError, NodeStatus

STATE = SimpleNamespace(inventory=Path("/lab/inventory"), nodes=[SimpleNamespace(name="node1"), SimpleNamespace(name="node2")])


@pytest.fixture(autouse=True)
def fresh_consoles() -> Iterator[None]:
    """Consoles hold the streams of their first use; pytest gives every test its own."""
    console.out.cache_clear()
    console.err.cache_clear()
    yield
    console.out.cache_clear()
    console.err.cache_clear()


def raising(*_arguments: Any, **_options: Any) -> Any:
    raise LabError("qemu is missing; install with: apt-get install qemu-system-x86")


def test_up_says_what_to_type_next(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {}

    def up(*, nodes: int, fresh: bool, progress: Callable[[str], None]) -> Any:
        asked.update(nodes=nodes, fresh=fresh)
        progress("booting")
        return STATE

    monkeypatch.setattr(lab, "up", up)
    assert run(["lab", "up", "--nodes", "2", "--fresh"]) == 0
    out, err = capsys.readouterr()
    assert asked == {"nodes": 2, "fresh": True}
    assert "booting" in err
    assert "railwright plan -i /lab/inventory" in out
    assert run(["lab", "up", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"inventory": "/lab/inventory", "nodes": ["node1", "node2"]}


def test_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lab, "status", lambda: [NodeStatus("node1", running=True, pid=7, ssh_port=2222, ssh_answers=False)])
    monkeypatch.setattr(lab, "current", lambda: STATE)
    assert run(["lab", "status", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["inventory"] == "/lab/inventory"
    assert document["nodes"] == [{"name": "node1", "running": True, "pid": 7, "ssh_port": 2222, "ssh_answers": False}]
    assert run(["lab", "status"]) == 0
    assert ["node1", "yes", "no", "2222"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_status_without_a_lab_is_not_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lab, "status", list)
    assert run(["lab", "status"]) == 0
    assert "railwright lab up" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["up"], ["status"], ["ssh", "node1"], ["down"]], ids=lambda argv: argv[0])
def test_a_lab_error_is_1_and_one_line(argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("up", "status", "current", "ssh_argv", "down"):
        monkeypatch.setattr(lab, name, raising)
    assert run(["lab", *argv]) == 1
    assert capsys.readouterr().err == "railwright: error: qemu is missing; install with: apt-get install qemu-system-x86\n"


def test_ssh_becomes_ssh_and_an_unknown_node_is_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(lab, "current", lambda: STATE)
    monkeypatch.setattr(lab, "ssh_argv", lambda node, command: ["ssh", node, *(command or [])])
    monkeypatch.setattr("railwright.cli.lab.os.execvp", lambda _file, argv: became.append(argv))
    assert run(["lab", "ssh", "node2", "--", "rdma", "link", "-j"]) == 0
    assert run(["lab", "ssh", "node1"]) == 0
    assert became == [["ssh", "node2", "rdma", "link", "-j"], ["ssh", "node1"]]
    assert run(["lab", "ssh", "node9"]) == 64
    assert "nodes: node1, node2" in capsys.readouterr().err


def test_down_passes_destroy_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(lab, "down", lambda *, destroy, progress: seen.append(destroy))
    assert (run(["lab", "down"]), run(["lab", "down", "--destroy"])) == (0, 0)
    assert seen == [False, True]
