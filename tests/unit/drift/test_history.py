# SPDX-License-Identifier: GPL-3.0-or-later
"""When a difference was first seen here, over runs, nodes that are away, and a damaged file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railwright.cli.drift import keep_history
from railwright.drift import history_path, read_history, remember, write_history
from railwright.events import HostOutcome


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_the_first_time_stays_and_what_is_gone_is_forgotten() -> None:
    seen = remember({}, {"n1": ["a", "b"]}, "t1")
    seen = remember(seen, {"n1": ["b", "c"]}, "t2")
    assert seen == {"n1": {"b": "t1", "c": "t2"}}
    assert remember(seen, {"n1": []}, "t3") == {"n1": {}}


def test_what_comes_back_is_new_again() -> None:
    seen = remember(remember({}, {"n1": ["a"]}, "t1"), {"n1": []}, "t2")
    assert remember(seen, {"n1": ["a"]}, "t3") == {"n1": {"a": "t3"}}


def test_a_node_that_did_not_answer_keeps_what_is_known() -> None:
    assert remember({"n1": {"a": "t1"}}, {"n2": ["a"]}, "t2") == {"n1": {"a": "t1"}, "n2": {"a": "t2"}}


def test_it_is_kept_for_one_inventory_and_one_user(tmp_path: Path) -> None:
    write_history(tmp_path / "a", {"n1": {"a": "t1"}})
    assert read_history(tmp_path / "a") == {"n1": {"a": "t1"}}
    assert read_history(tmp_path / "b") == {}
    assert history_path(tmp_path / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2, "nodes": {"n1": {"a": "t"}}}', '{"schema": 1, "nodes": []}'])
def test_a_damaged_file_is_no_memory_and_no_error(tmp_path: Path, text: str) -> None:
    path = history_path(tmp_path / "a")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read_history(tmp_path / "a") == {}


def test_a_login_shell_that_gave_no_answer_keeps_what_is_known(tmp_path: Path) -> None:
    keys = ["effective: NCCL_IB_TC for login shells", "effective: NCCL_IB_TC for systemd services"]
    write_history(tmp_path, {"n1": dict.fromkeys(keys, "t1")})
    session: Any = SimpleNamespace(inventory=tmp_path, started=datetime(2026, 1, 1, tzinfo=UTC))
    for unasked, left in (["login shells"], keys[:1]), ([], []):
        outcome: Any = SimpleNamespace(hosts={"n1": HostOutcome("n1", drift={"findings": [], "unasked": unasked})})
        assert keep_history(session, outcome) == read_history(tmp_path) == {"n1": dict.fromkeys(left, "t1")}
