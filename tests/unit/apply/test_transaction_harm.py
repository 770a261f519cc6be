# SPDX-License-Identifier: GPL-3.0-or-later
"""A transaction in a hostile place: full disks, unreadable files, links, crashes of our own, hang-ups, two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, journal, watchdog
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Op, remove_file, run, set_value, write_file
from file_marks import NEEDS_ROOT, marked
from rooted import RootedHost, change

FAIL = change(run(("false",)), what="the one that fails")
BINARY = b"\xff\xfe\x00 not text \x80\n"


@pytest.fixture
def host(tmp_path: Path) -> RootedHost:
    (tmp_path / "etc").mkdir()
    (tmp_path / "run").mkdir()
    return RootedHost(tmp_path)


def carry_out(host: RootedHost, *changes: Change) -> journal.Journal:
    log = journal.Journal(host, "r1")
    apply.carry_out(host, changes, log)
    return log


def spec() -> Spec:
    return Spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "consent": [], "expect": {}, "rails": []})


def plan_of(*ops: Op) -> Plan:
    nobody: Any = None
    return Plan(nobody, (change(*ops),), (), None)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "settle", lambda *_arguments: ((), ()))


@pytest.mark.parametrize("content", [BINARY, b"x" * (5 * 1024 * 1024), b""], ids=["not UTF-8", "5 MiB", "empty"])
@pytest.mark.parametrize("op", [write_file("/etc/file", "ours\n"), remove_file("/etc/file")], ids=["replaced", "removed"])
def test_any_content_comes_back_byte_for_byte(host: RootedHost, tmp_path: Path, content: bytes, op: Op) -> None:
    file = tmp_path / "etc/file"
    file.write_bytes(content)
    file.chmod(0o640)
    with pytest.raises(ApplyError) as caught:
        carry_out(host, change(op), FAIL)
    assert caught.value.rolled_back
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_comes_back_with_a_removed_file(host: RootedHost, tmp_path: Path) -> None:
    file = tmp_path / "etc/file"
    file.write_text("x\n")
    os.chown(file, 1234, 4321)
    with pytest.raises(ApplyError):
        carry_out(host, change(remove_file("/etc/file")), FAIL)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


@pytest.mark.parametrize("op", [write_file("/etc/file", "ours\n"), remove_file("/etc/file")], ids=["write", "remove"])
def test_what_cannot_be_kept_is_not_touched(host: RootedHost, tmp_path: Path, op: Op) -> None:
    """``read`` calls an unreadable file absent; an undo that believed it would delete the file."""
    os.mkfifo(tmp_path / "etc/file")
    with pytest.raises(ApplyError, match="not a regular file") as caught:
        carry_out(host, change(op))
    assert caught.value.rolled_back
    assert (tmp_path / "etc/file").is_fifo()


def test_an_unreadable_file_is_refused_and_stays(host: RootedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "etc/file"
    file.write_text("precious\n")
    real = os.open

    def denied(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path) == str(file):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(ApplyError, match="Permission denied"):
        carry_out(host, change(write_file("/etc/file", "ours\n")))
    monkeypatch.undo()
    assert file.read_text() == "precious\n"


def test_a_value_that_cannot_be_read_is_not_set(host: RootedHost, tmp_path: Path) -> None:
    (tmp_path / "etc/value").write_text("")
    with pytest.raises(ApplyError, match="could not be restored"):
        carry_out(host, change(set_value("/etc/value", "2")))
    assert (tmp_path / "etc/value").read_text() == ""


def test_a_link_that_led_nowhere_leads_nowhere_again(host: RootedHost, tmp_path: Path) -> None:
    (tmp_path / "etc/link").symlink_to("target")
    with pytest.raises(ApplyError):
        carry_out(host, change(write_file("/etc/link", "ours\n")), FAIL)
    assert (tmp_path / "etc/link").readlink() == Path("target")
    assert not (tmp_path / "etc/target").exists()


def test_a_removed_link_is_a_link_again(host: RootedHost, tmp_path: Path) -> None:
    (tmp_path / "etc/target").write_text("kept\n")
    (tmp_path / "etc/link").symlink_to("target")
    with pytest.raises(ApplyError):
        carry_out(host, change(remove_file("/etc/link")), FAIL)
    assert (tmp_path / "etc/link").readlink() == Path("target")
    assert (tmp_path / "etc/target").read_text() == "kept\n"


@NEEDS_ROOT
@pytest.mark.parametrize("op", [write_file("/etc/fixed", "ours\n"), remove_file("/etc/fixed")], ids=["write", "remove"])
def test_what_never_changed_needs_no_undoing(host: RootedHost, tmp_path: Path, op: Op) -> None:
    """An immutable file takes the undo no more than the effect; it is as it was."""
    for name in ("fixed", "other"):
        (tmp_path / "etc" / name).write_text("before\n")
    with (
        marked(tmp_path / "etc/fixed"),
        pytest.raises(ApplyError, match=r"Operation not permitted\. Everything was rolled back") as caught,
    ):
        carry_out(host, change(write_file("/etc/other", "ours\n")), change(op))
    assert caught.value.rolled_back
    assert [(tmp_path / "etc" / name).read_text() for name in ("fixed", "other")] == ["before\n"] * 2


@NEEDS_ROOT
def test_what_became_immutable_after_its_change_is_not_as_it_was(host: RootedHost, tmp_path: Path) -> None:
    file = tmp_path / "etc/file"
    file.write_text("before\n")
    with marked(file):  # until its end
        subprocess.run(("chattr", "-i", file), check=True)
        with pytest.raises(ApplyError, match=r"ROLLBACK INCOMPLETE: test: something: .*Operation not permitted") as caught:
            carry_out(host, change(write_file("/etc/file", "ours\n"), run(("chattr", "+i", str(file)))), FAIL)
    assert not caught.value.rolled_back


def test_a_value_that_the_kernel_refused_is_not_written_back(host: RootedHost, tmp_path: Path) -> None:
    class Refusing(RootedHost):
        def set_value(self, path: str, value: str) -> None:
            raise OSError(16, "Device or resource busy", path)

    (tmp_path / "etc/value").write_text("off [on]\n")
    with pytest.raises(ApplyError, match=r"busy\. Everything was rolled back"):
        carry_out(Refusing(tmp_path), change(set_value("/etc/value", "off", "on")))


def test_directories_that_were_made_go_again_and_others_stay(host: RootedHost, tmp_path: Path) -> None:
    (tmp_path / "etc/here").mkdir()
    with pytest.raises(ApplyError):
        carry_out(host, change(write_file("/etc/here/new/deep/file", "ours\n")), FAIL)
    assert (tmp_path / "etc/here").is_dir()
    assert not (tmp_path / "etc/here/new").exists()


def test_a_disk_that_fills_up_on_the_journal_takes_everything_back(host: RootedHost, tmp_path: Path) -> None:
    class Filling(RootedHost):
        def write(self, path: str, content: str, mode: int = 0o644) -> None:
            if path.endswith("journal.json") and (tmp_path / "etc/one").exists():
                raise OSError(28, "No space left on device", path)
            super().write(path, content, mode)

    with pytest.raises(ApplyError, match="No space left") as caught:
        carry_out(Filling(tmp_path), change(write_file("/etc/one", "1\n"), write_file("/etc/two", "2\n")))
    assert caught.value.rolled_back
    assert list((tmp_path / "etc").iterdir()) == []


ERRORS = (RailwrightError("dpkg is locked"), OSError(5, "Input/output error"), ZeroDivisionError("our own mistake"))


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_while_looking_again_takes_everything_back(
    host: RootedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_arguments: Any) -> Plan:
        raise error

    monkeypatch.setattr(apply, "make_plan", broken)
    with pytest.raises((ApplyError, ZeroDivisionError), match=r"dpkg is locked|Input/output|our own mistake"):
        apply.apply_plan(host, spec(), plan_of(write_file("/etc/file", "ours\n")), "r1")
    assert not (tmp_path / "etc/file").exists()
    assert json.loads((tmp_path / "var/lib/railwright/restore/r1/journal.json").read_text())["state"] == "rolled back"


@pytest.mark.usefixtures("settled")
def test_a_hang_up_in_the_middle_does_not_leave_half(host: RootedHost, tmp_path: Path) -> None:
    hang_up = ("sh", "-c", f"kill -HUP {os.getpid()}; kill -TERM {os.getpid()}")
    applied = apply.apply_plan(host, spec(), plan_of(run(hang_up), write_file("/etc/file", "ours\n")), "r1")
    assert (tmp_path / "etc/file").read_text() == "ours\n"
    assert json.loads((tmp_path / applied.restore_point.lstrip("/")).read_text())["state"] == "applied"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.usefixtures("settled")
def test_an_apply_that_died_is_named_and_its_restore_point_is_kept(host: RootedHost, tmp_path: Path) -> None:
    journal.Journal(host, "dead").record("test: something", run(("true",)))
    died = tmp_path / "var/lib/railwright/restore/dead/journal.json"
    os.utime(died, (1, 1))
    for number in range(journal.KEEP + 2):
        journal.Journal(host, f"zz{number:02d}").close("applied")
        os.utime(tmp_path / f"var/lib/railwright/restore/zz{number:02d}/journal.json", (1000 + number, 1000 + number))
    applied = apply.apply_plan(host, spec(), plan_of(write_file("/etc/file", "ours\n")), "aa-sorts-first")
    assert applied.interrupted == ("/var/lib/railwright/restore/dead/journal.json",)
    assert json.loads(died.read_text())["state"] == "interrupted"
    left = {entry.name for entry in (tmp_path / "var/lib/railwright/restore").iterdir()}
    assert {"dead", "aa-sorts-first", "zz21"} <= left, "the newest by time and those that are needed stay"
    assert not {"zz00", "zz01"} & left
    assert apply.apply_plan(host, spec(), plan_of(write_file("/etc/file", "2\n")), "next").interrupted == ()


def cut_off(host: RootedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A writer is killed before it renames: what it wrote lies beside the file. The one thing that no process can clean up itself."""
    (tmp_path / "etc/file").write_text("theirs\n")
    (tmp_path / "etc/.railwright-of-others").write_text("no leftover of mkstemp\n")
    journal.Journal(host, "dead").record("test: something", write_file("/etc/file", "ours\n"))
    with monkeypatch.context() as killed:
        killed.setattr(os, "rename", lambda *_paths: os._exit(9))
        child = os.fork()
        if not child:
            host.write("/etc/file", "ours\n")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (left,) = [entry for entry in (tmp_path / "etc").iterdir() if entry.name not in ("file", ".railwright-of-others")]
    return left


@pytest.mark.usefixtures("settled")
def test_what_a_killed_writer_left_goes_with_the_next_apply(host: RootedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = cut_off(host, tmp_path, monkeypatch)
    apply.apply_plan(host, spec(), plan_of(write_file("/etc/another", "1\n")), "next")
    assert not left.exists()
    assert (tmp_path / "etc/file").read_text() == "theirs\n"
    assert (tmp_path / "etc/.railwright-of-others").exists()


def test_what_a_killed_writer_left_goes_when_it_is_reverted(host: RootedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = cut_off(host, tmp_path, monkeypatch)
    assert watchdog.revert(host, "dead") == "run dead was reverted; the node is as it was before"
    assert not left.exists()
    assert (tmp_path / "etc/.railwright-of-others").exists()


def test_two_applies_exclude_each_other(host: RootedHost) -> None:
    with (
        apply.exclusive(host),
        pytest.raises(RailwrightError, match="another apply is running"),
        apply.exclusive(host),
    ):
        pass
    with apply.exclusive(host), apply.exclusive(host, wanted=False):
        pass


def test_a_lock_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(RailwrightError, match=r"/run/railwright.lock: No such file"), apply.exclusive(RootedHost(tmp_path)):
        pass


class SelinuxHost(RootedHost):
    """Records what would be run; ``restorecon`` is not on this machine."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ran: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Any:
        self.ran.append(tuple(argv))
        return None


def test_a_new_file_gets_the_label_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/selinux").mkdir(parents=True)
    (tmp_path / "sys/fs/selinux/enforce").write_text("1")
    (tmp_path / "usr/local").mkdir(parents=True)
    host = SelinuxHost(tmp_path)
    host.write("/usr/local/libexec/railwright/rxe-link", "#!/bin/sh\n")
    assert host.ran == [("restorecon", "-R", str(tmp_path / "usr/local/libexec"))], "the directories that were made too"
    host.ran.clear()
    host.write("/usr/local/libexec/railwright/rxe-link", "#!/bin/sh\n:\n")
    assert host.ran == [], "a file that was there keeps its label"


def test_without_selinux_nothing_is_run(tmp_path: Path) -> None:
    host = SelinuxHost(tmp_path)
    host.write("/etc/file", "x\n")
    assert host.ran == []
