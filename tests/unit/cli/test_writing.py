# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the controller: whole or not at all, whatever other users have put in the same directory."""

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from railwright import journal, writing
from railwright.init import files, write_inventory
from railwright.lab import state
from railwright.upgrade.journal import locked
from railwright.writing import make_directories, write_atomic

STRANGER = 4711


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> int:
    """A user who is neither we nor root. Only root can give a file away; for everybody else it is we who are somebody else."""
    if os.geteuid() == 0:
        return STRANGER
    monkeypatch.setattr("railwright.writing.os.geteuid", lambda: STRANGER)
    return os.getuid()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what is synced, in order."""
    found: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr("railwright.writing.os.fsync", fsync)
    return found


def test_the_name_beside_a_target_cannot_be_known_before(tmp_path: Path) -> None:
    """Whoever may write to the directory put a link where the writer of old wrote first, and had any file of ours overwritten."""
    victim, target = tmp_path / "victim", tmp_path / "shared" / "report.json"
    victim.write_text("mine")
    target.parent.mkdir()
    (target.parent / f".report.json.{os.getpid()}").symlink_to(victim)
    write_atomic(target, "report")
    state.write_atomic(target, "lab")
    assert (victim.read_text(), target.read_text()) == ("mine", "lab")


@pytest.mark.parametrize("kind", ["link", "link to a link", "pipe"])
def test_what_another_user_put_there_is_not_followed(tmp_path: Path, stranger: int, kind: str) -> None:
    victim, target = tmp_path / "victim", tmp_path / "report.json"
    victim.write_text("mine")
    trap = tmp_path / "trap" if kind == "link to a link" else target
    reader = None
    if kind == "pipe":
        os.mkfifo(trap)
        reader = os.open(trap, os.O_RDONLY | os.O_NONBLOCK)
    else:
        trap.symlink_to(victim)
    if trap != target:
        target.symlink_to("trap")
        os.lchown(target, 0 if os.geteuid() == 0 else stranger, -1)
    os.lchown(trap, stranger, -1)
    with pytest.raises(PermissionError, match="of another user") as raised:
        write_atomic(target, "report")
    assert raised.value.filename == str(target if kind != "link to a link" or os.geteuid() else trap)
    assert victim.read_text() == "mine"
    if reader is not None:
        os.close(reader)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_atomic(tmp_path / "one", "text")


def test_a_file_and_its_name_are_on_the_disk(tmp_path: Path, synced: list[str]) -> None:
    write_atomic(tmp_path / "file", "text")
    assert len(synced) == 2
    assert synced[0].startswith(f"{tmp_path}/.railwright-")
    assert synced[1] == str(tmp_path)


def test_each_new_directory_is_on_the_disk_and_private(tmp_path: Path, synced: list[str]) -> None:
    make_directories(tmp_path / "a" / "b" / "c", 0o700)
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    assert (tmp_path / "a" / "b" / "c").stat().st_mode & 0o777 == 0o700
    make_directories(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


def test_a_directory_that_cannot_be_opened_or_synced_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def closed(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode)

    monkeypatch.setattr("railwright.writing.os.open", closed)
    writing.sync_directory(tmp_path)
    monkeypatch.setattr("railwright.writing.os.open", real)
    monkeypatch.setattr("railwright.writing.os.fsync", lambda _descriptor: (_ for _ in ()).throw(OSError(22, "Invalid argument")))
    writing.sync_directory(tmp_path)
    monkeypatch.setattr("railwright.writing.os.fsync", lambda _descriptor: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        writing.sync_directory(tmp_path)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_inventory_has_the_mode_that_its_operator_wants(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        written = write_inventory(tmp_path / "site", files("roce"))
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in written} == {mode}


FULL_DISK = """
import sys
from pathlib import Path
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from railwright.writing import write_atomic
path = sys.argv[1] + "/file"
for write in (lambda: write_atomic(Path(path), "x" * 200_000), lambda: Host().write(path, "x" * 200_000),
              lambda: Host().append(path, "x" * 200_000)):
    try:
        write()
    except OSError as error:
        print(f"{error.errno} {error.filename}: {error.strerror}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file system of its own")
def test_a_full_disk_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=64k tmpfs "$1" && "$2" -c "$3" "$1"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL_DISK],
                          capture_output=True, text=True, check=True, timeout=120)
    why = f"28 {tmp_path}/file: No space left on device; free space on its file system: df -h {tmp_path}"
    assert done.stdout.split("\n")[:2] == [why, why]
    assert done.stdout.split("\n")[2].startswith(f"28 {tmp_path}/file: ")


def test_a_failed_write_leaves_the_old_text_and_no_debris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_atomic(target, "old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("railwright.writing.os.fsync", no_space)
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
    reader.join(60)
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
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("directory", "socket"):
            with pytest.raises(OSError, match=r"Is a directory|No such device"):
                write_atomic(tmp_path / name, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "socket"]


@pytest.mark.parametrize("way", ["go on", "lock of an upgrade", "lock of a lab"])
def test_a_journal_and_a_lock_are_no_link(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, trap = tmp_path / "victim", tmp_path / "trap"
    victim.write_text("mine")
    trap.symlink_to(victim)
    monkeypatch.setattr("railwright.upgrade.journal.lock_path", lambda _inventory: trap)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    held = {"go on": lambda: journal.go_on(trap, 0), "lock of an upgrade": lambda: locked(tmp_path, "r1").__enter__(),
            "lock of a lab": lambda: state.locked(trap).__enter__()}[way]  # fmt: skip
    with pytest.raises(OSError, match="symbolic"):
        held()
    assert victim.read_text() == "mine"
