# SPDX-License-Identifier: GPL-3.0-or-later
"""state.json: what is written comes back, and what cannot be read says what to do."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from railwright.lab import LabError, current, down, status
from railwright.lab.state import Hardware, LabPaths, LabState, cache_root, default_state_dir, load_state, locked, save_state, write_atomic

from .conftest import make_state


def test_round_trip(tmp_path: Path) -> None:
    state = make_state(tmp_path, nodes=3, rails=2)
    save_state(state)
    assert load_state(state.paths) == state
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"], "nothing is left beside it"


def test_hardware_and_boot_come_back(state: LabState) -> None:
    special = replace(state, offset=2**20, hardware=Hardware(pcie=True, bare_metal=True))
    save_state(special)
    assert load_state(special.paths) == special


def test_a_lab_from_before_there_were_recipes(state: LabState) -> None:
    """Its state says nothing of hardware: it is the ordinary one, and its nodes keep running through an upgrade of railwright."""
    save_state(state)
    body = json.loads(state.paths.state_file.read_text())
    del body["hardware"], body["offset"]
    state.paths.state_file.write_text(json.dumps(body))
    assert load_state(state.paths) == state


def test_no_lab(tmp_path: Path) -> None:
    assert load_state(LabPaths(tmp_path)) is None
    assert status(tmp_path) == []
    with pytest.raises(LabError, match="lab up"):
        current(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 99}', '{"version": 1}', '{"version": 1, "nodes": [{}]}', '{"version": 1, "nodes": [], "hardware": []}'],
)
def test_damage_names_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(LabError, match="down --destroy"):
        load_state(LabPaths(tmp_path))
    down(destroy=True, state_dir=tmp_path)
    assert not (tmp_path / "state.json").exists()


def test_the_directory_can_be_moved(state: LabState, tmp_path: Path) -> None:
    save_state(state)
    assert "root" not in json.loads(state.paths.state_file.read_text())
    state.root.rename(tmp_path / "elsewhere")
    moved = load_state(LabPaths(tmp_path / "elsewhere"))
    assert moved is not None
    assert moved.root == tmp_path / "elsewhere"


def test_destroy_removes_only_what_the_lab_made(state: LabState) -> None:
    save_state(state)
    mine = state.root / "thesis.tex"
    mine.write_text("not yours")
    for directory in ("nodes/node1", "ssh", "inventory/group_vars", "sock"):
        (state.root / directory).mkdir(parents=True)
    down(destroy=True, state_dir=state.root)
    assert list(state.root.iterdir()) == [mine]
    down(destroy=True, state_dir=state.root)


def test_down_without_a_lab_leaves_no_trace(tmp_path: Path) -> None:
    down(state_dir=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_second_caller_is_told(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), pytest.raises(LabError, match="another railwright"), locked(tmp_path / "lock"):
        pass
    with locked(tmp_path / "lock"):
        pass


def test_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == Path("/c/railwright/lab")
    assert default_state_dir() == tmp_path / ".local/state/railwright/lab"


def test_written_modes(tmp_path: Path) -> None:
    write_atomic(tmp_path / "key", "x", 0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_unknown_node_names_the_known_ones(state: LabState) -> None:
    with pytest.raises(LabError, match="node1, node2"):
        state.node("node9")
