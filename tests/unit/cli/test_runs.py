# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of runs: private, whole, found again."""

import json
import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from railwright.exitcodes import InputError
from railwright.runs import Run, load, new_id, runs_directory, save, stored, write_atomic


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def run(identity: str, **more: Any) -> Run:
    return Run(identity, "plan", "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0", **more)


def test_saved_and_loaded_is_the_same(state: Path) -> None:
    one = run("20260101T000000Z-plan", nodes={"n1": {"status": "ok"}}, exit_code=2)
    directory = save(one)
    assert directory == state / "railwright" / "runs" / one.id
    assert load() == one
    assert (directory.stat().st_mode & 0o777, (directory / "run.json").stat().st_mode & 0o777) == (0o700, 0o600)
    assert json.loads((directory / "run.json").read_text())["schema"] == 1


def test_the_newest_is_the_default_and_any_can_be_named() -> None:
    for identity in ("20260102T000000Z-plan", "20260103T000000Z-validate", "20260101T000000Z-apply"):
        save(run(identity))
    assert load().id == "20260103T000000Z-validate"
    assert load("20260101T000000Z-apply").id == "20260101T000000Z-apply"
    assert len(stored()) == 3


def test_two_runs_in_one_second_are_two_records() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    first = new_id("plan", moment)
    save(run(first))
    second = new_id("plan", moment)
    save(run(second))
    assert first == "20260101T000000Z-plan"
    assert stored() == [first, second]


@pytest.mark.parametrize("identity", ["../../etc", "20260101T000000Z-plan/../x", "nonsense"])
def test_an_id_is_not_a_path(identity: str) -> None:
    save(run("20260101T000000Z-plan"))
    with pytest.raises(InputError, match="no stored run"):
        load(identity)


def test_no_run_yet() -> None:
    with pytest.raises(InputError, match="no run is stored"):
        load()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}', '{"schema": 1, "surprise": 1}'])
def test_a_broken_record_is_an_input_error_that_names_the_file(text: str) -> None:
    directory = save(run("20260101T000000Z-plan"))
    (directory / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"run\.json"):
        load()


def test_a_failed_write_leaves_the_old_text_and_no_debris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_atomic(target, "old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("railwright.runs.os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_atomic(pipe, "text", 0o644)
    reader.join(10)
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_device_behind_a_link_is_written_into(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    mode = Path("/dev/null").stat().st_mode
    write_atomic(link, "text", 0o644)
    assert link.is_symlink()
    assert Path("/dev/null").stat().st_mode == mode
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_descriptor_of_this_process_is_written_into(tmp_path: Path) -> None:
    """As /dev/stdout is a link to one; the file that it had may be gone."""
    with (tmp_path / "file").open("w+") as stream:
        (tmp_path / "file").unlink()
        link = tmp_path / "link"
        link.symlink_to(f"/proc/self/fd/{stream.fileno()}")
        write_atomic(link, "text")
        assert stream.read() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_a_file_stays_and_the_file_is_replaced_whole(tmp_path: Path, there: bool) -> None:
    real, link = tmp_path / "data" / "real", tmp_path / "link"
    real.parent.mkdir()
    link.symlink_to("data/real")
    if there:
        real.write_text("old")
    held = real.open() if there else None
    write_atomic(link, "new", 0o640)
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "new", 0o640)
    assert [path.name for path in real.parent.iterdir()] == ["real"]
    if held is not None:
        with held:
            assert held.read() == "old", "a reader has the old text or the new one"


def test_a_directory_and_a_socket_are_no_place_to_write(tmp_path: Path) -> None:
    import socket

    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("directory", "socket"):
            with pytest.raises(OSError, match=r"Is a directory|No such device"):
                write_atomic(tmp_path / name, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "socket"]


def test_relative_state_home_is_ignored_as_the_specification_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert runs_directory() == tmp_path / ".local" / "state" / "railwright" / "runs"
