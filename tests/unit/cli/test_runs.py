# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of runs: private, whole, found again."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from railwright.exitcodes import InputError
from railwright.runs import Run, load_run, new_id, runs_directory, save_run, stored


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def run(identity: str, **more: Any) -> Run:
    return Run(identity, "plan", "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0", **more)


def test_saved_and_loaded_is_the_same(state: Path) -> None:
    one = run("20260101T000000Z-plan", nodes={"n1": {"status": "ok"}}, exit_code=2)
    directory = save_run(one)
    assert directory == state / "railwright" / "runs" / one.id
    assert load_run() == one
    assert (directory.stat().st_mode & 0o777, (directory / "run.json").stat().st_mode & 0o777) == (0o700, 0o600)
    assert json.loads((directory / "run.json").read_text())["schema"] == 1


def test_the_newest_is_the_default_and_any_can_be_named() -> None:
    for identity in ("20260102T000000Z-plan", "20260103T000000Z-validate", "20260101T000000Z-apply"):
        save_run(run(identity))
    assert load_run().id == "20260103T000000Z-validate"
    assert load_run("20260101T000000Z-apply").id == "20260101T000000Z-apply"
    assert len(stored()) == 3


def test_two_runs_in_one_second_are_two_records() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    first = new_id("plan", moment)
    save_run(run(first))
    second = new_id("plan", moment)
    save_run(run(second))
    assert re.fullmatch(r"20260101T000000Z-plan-[0-9a-f]{8}", first)
    assert stored() == [first, second]


def test_two_controllers_of_one_second_give_their_runs_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each knows nothing of what the other one has stored; with one name, a node's lease would be that of both."""
    moment, names = datetime(2026, 1, 1, tzinfo=UTC), set()
    for controller in ("one", "other"):
        monkeypatch.setenv("XDG_STATE_HOME", f"/nowhere/{controller}")
        names.add(new_id("upgrade", moment))
    assert len(names) == 2


@pytest.mark.parametrize("identity", ["../../etc", "20260101T000000Z-plan/../x", "nonsense"])
def test_an_id_is_not_a_path(identity: str) -> None:
    save_run(run("20260101T000000Z-plan"))
    with pytest.raises(InputError, match="no stored run"):
        load_run(identity)


def test_no_run_yet() -> None:
    with pytest.raises(InputError, match="no run is stored"):
        load_run()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}', '{"schema": 1, "surprise": 1}'])
def test_a_broken_record_is_an_input_error_that_names_the_file(text: str) -> None:
    directory = save_run(run("20260101T000000Z-plan"))
    (directory / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"run\.json"):
        load_run()


def test_relative_state_home_is_ignored_as_the_specification_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert runs_directory() == tmp_path / ".local" / "state" / "railwright" / "runs"
