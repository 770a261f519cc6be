# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction: real files under a temporary root, real commands, real failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, journal
from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import repeats_later
from ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction import roll_back
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.units import RELOAD, systemctl
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Op, remove_file, run, set_value, write_file
from rooted import RootedHost, change


def carry_out(host: Host, *changes: Change, run_id: str = "r1") -> journal.Journal:
    log = journal.Journal(host, run_id)
    apply.carry_out(host, changes, log)
    return log


@pytest.fixture
def host(tmp_path: Path) -> RootedHost:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/kept").write_text("kept before\n")
    (tmp_path / "etc/kept").chmod(0o640)
    (tmp_path / "etc/gone").write_text("was here\n")
    (tmp_path / "etc/value").write_text("1\n")
    return RootedHost(tmp_path)


def snapshot(root: Path) -> dict[str, tuple[str, int]]:
    return {str(p.relative_to(root)): (p.read_text(), p.stat().st_mode & 0o777) for p in sorted((root / "etc").rglob("*")) if p.is_file()}


ALL_KINDS = (
    write_file("/etc/new/dir/file", "new\n", 0o600),
    write_file("/etc/kept", "changed\n", 0o644),
    remove_file("/etc/gone"),
    set_value("/etc/value", "2"),
)


def test_effects_happen_in_order_and_are_journalled(host: RootedHost, tmp_path: Path) -> None:
    log = carry_out(host, change(*ALL_KINDS))
    assert (tmp_path / "etc/new/dir/file").read_text() == "new\n"
    assert (tmp_path / "etc/new/dir/file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "etc/kept").read_text() == "changed\n"
    assert not (tmp_path / "etc/gone").exists()
    document = json.loads((tmp_path / log.path.lstrip("/")).read_text())
    assert [entry["content"] for entry in document["entries"]] == [None, "kept before\n", "was here\n", "1"]
    assert (tmp_path / log.path.lstrip("/")).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("failing", [run(("false",)), run(("/no/such/command",)), set_value("/etc/absent/value", "1")])
def test_a_failure_takes_everything_back(host: RootedHost, tmp_path: Path, failing: Op) -> None:
    before = snapshot(tmp_path)
    with pytest.raises(ApplyError) as caught:
        carry_out(host, change(*ALL_KINDS), change(failing, what="the one that fails"))
    assert caught.value.rolled_back
    assert "the one that fails" in str(caught.value)
    assert snapshot(tmp_path) == before


def test_undo_commands_run_in_reverse_and_refreshes_after_them(host: RootedHost, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    def step(word: str) -> tuple[str, ...]:
        return ("sh", "-c", f"echo {word} >> {trace}")

    ops = (run(step("one"), (step("undo-one"),)), run(step("refresh")), run(step("two"), (step("undo-two"),)), run(("false",)))
    with pytest.raises(ApplyError):
        carry_out(host, change(*ops))
    assert trace.read_text().split() == ["one", "refresh", "two", "undo-two", "undo-one", "refresh"]


@pytest.mark.parametrize(("steps", "expected"), [
    (["reload", "file", "reload", "reload"], "reload"),
    (["file", "reload", "file", "file", "reload", "start"], "reload start"),
    (["reload", "start", "reload"], "reload start reload"),
    (["reload", "value", "reload"], "reload reload"),
    (["reload", "other", "reload"], "reload other reload"),
    (["start", "start"], "start start"),
])
def test_of_refreshes_with_only_files_between_them_the_last_one_is_run(
    host: RootedHost, tmp_path: Path, steps: list[str], expected: str
) -> None:
    """PID 1 is not executed anew for each of three limits. A command, or a kernel's value, may need the refresh before it."""
    trace = tmp_path / "trace"

    def echo(word: str) -> tuple[str, ...]:
        return ("sh", "-c", f"echo {word} >> {trace}")

    kinds = {
        "file": write_file("/etc/kept", "changed\n"), "value": set_value("/etc/value", "2"), "reload": run(echo("reload")),
        "other": run(echo("other")), "start": run(echo("start"), (("true",),)),
    }  # fmt: skip
    log = carry_out(host, *(change(kinds[step], what=f"{number}: {step}") for number, step in enumerate(steps)))
    assert trace.read_text().split() == expected.split()
    assert [entry["done"] for entry in log.entries] == [True] * len(steps), "a rollback repeats it for every change that wanted it"


@pytest.mark.parametrize(("later", "expected"), [
    ((write_file("/etc/u", "x"), systemctl("enable", "a.service")), True),
    ((systemctl("start", "a.service"), systemctl("enable", "a.service")), False),
    ((), False),
])
def test_enabling_a_unit_reloads_by_itself(later: tuple[Op, ...], *, expected: bool) -> None:
    assert repeats_later(RELOAD, later) is expected
    assert repeats_later(run(("networkctl", "reload")), later) is False


def test_a_rollback_that_fails_says_so_and_keeps_the_restore_point(host: RootedHost, tmp_path: Path) -> None:
    with pytest.raises(ApplyError) as caught:
        carry_out(host, change(run(("true",), (("false",),)), what="cannot be undone"), change(run(("false",))))
    assert not caught.value.rolled_back
    assert "ROLLBACK INCOMPLETE" in str(caught.value)
    assert "cannot be undone" in str(caught.value)
    assert json.loads((tmp_path / "var/lib/railwright/restore/r1/journal.json").read_text())["state"] == "rollback incomplete"


BROKEN_ENTRIES: dict[str, dict[str, object]] = {
    "a command without an undo that works": {"kind": "run", "change": "broken", "argv": ["true"], "undo": [["false"]], "done": True},
    "a path below a file": {"kind": "value", "change": "broken", "path": "/etc/kept/x", "content": "1", "done": True},
    "no path": {"kind": "write", "change": "broken", "done": True}, "no kind": {"change": "broken", "done": True},
    "numbers for texts": {"kind": "write", "change": "broken", "path": 7, "content": 5, "directories": 3, "done": True},
    "a size of no number": {"kind": "run", "change": "broken", "argv": ["true"], "undo": [["true"]], "seconds": "long", "done": True},
}


@pytest.mark.parametrize("entry", BROKEN_ENTRIES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_roll_back_goes_on_after_an_entry_that_cannot_be_undone(host: RootedHost, tmp_path: Path, entry: str, place: int) -> None:
    """Wherever it stands among the others: it is named, and all others are undone."""
    before = snapshot(tmp_path)
    log = carry_out(host, change(write_file("/etc/kept", "changed\n", 0o644)), change(remove_file("/etc/gone"), what="second"))
    entries = json.loads((tmp_path / log.path.lstrip("/")).read_text())["entries"]
    entries.insert(place, BROKEN_ENTRIES[entry])
    troubles = roll_back(host, entries)
    assert snapshot(tmp_path) == before
    assert len(troubles) == 1 and troubles[0].startswith("broken: "), troubles


def test_the_journal_is_on_disk_before_the_effect(host: RootedHost, tmp_path: Path) -> None:
    seen: list[int] = []

    class Watching(RootedHost):
        def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> object:
            seen.append(len(json.loads((tmp_path / "var/lib/railwright/restore/r1/journal.json").read_text())["entries"]))
            return super().run(argv, timeout, stdin)

    carry_out(Watching(tmp_path), change(run(("true",)), run(("true", "again"))))
    assert seen == [1, 2]


def test_old_restore_points_are_pruned_and_the_newest_stay(host: RootedHost, tmp_path: Path) -> None:
    for number in range(journal.KEEP + 3):
        journal.Journal(host, f"20260101T0000{number:02d}Z").close("applied")
    journal.prune(host)
    left = sorted(p.name for p in (tmp_path / "var/lib/railwright/restore").iterdir())
    assert len(left) == journal.KEEP
    assert left[-1] == f"20260101T0000{journal.KEEP + 2:02d}Z"


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".hidden", "a b", "$(x)"])
def test_a_run_id_cannot_leave_its_directory(host: RootedHost, run_id: str) -> None:
    with pytest.raises(RailwrightError):
        journal.Journal(host, run_id)


def test_writing_keeps_the_operators_symbolic_link(host: RootedHost, tmp_path: Path) -> None:
    (tmp_path / "etc/real").write_text("a\n")
    (tmp_path / "etc/link").symlink_to("real")
    host.write("/etc/link", "b\n")
    assert (tmp_path / "etc/link").is_symlink()
    assert (tmp_path / "etc/real").read_text() == "b\n"


def test_only_one_holds_the_lock(host: RootedHost, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    first = host.lock("/run/railwright.lock")
    assert first is not None
    assert host.lock("/run/railwright.lock") is None
    host.unlock(first)
    again = host.lock("/run/railwright.lock")
    assert again is not None
    host.unlock(again)


def test_a_command_that_hangs_is_ended(host: RootedHost) -> None:
    result = host.run(("sleep", "30"), timeout=0.2)
    assert result.rc == 124
    assert "no answer" in result.err


def test_the_undo_of_the_command_that_failed_is_tried_and_may_fail(host: RootedHost, tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    with pytest.raises(ApplyError) as caught:
        carry_out(host, change(run(("false",), (("sh", "-c", f"touch {tried}; false"),))))
    assert tried.exists()
    assert caught.value.rolled_back


RECORDED_IN_USE = "modprobe: FATAL: Module ib_uverbs is in use."  # kmod 30
RECORDED_FAULT = "modprobe: FATAL: Module ib_uverbs not found in directory /lib/modules/6.1.0-40-amd64"


class Unloading(RootedHost):
    """A node whose `modprobe -r` answers as recorded."""

    answer = ""

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        if list(argv[:2]) == ["modprobe", "-r"]:
            return Result(1, "", self.answer)
        return super().run(argv, timeout, stdin)


@pytest.mark.parametrize(("answer", "whole"), [(RECORDED_IN_USE, True), (RECORDED_FAULT, False)])
def test_undo_leaves_a_module_that_others_use_loaded(tmp_path: Path, answer: str, whole: bool) -> None:
    host = Unloading(tmp_path)
    host.answer = answer
    with pytest.raises(ApplyError) as caught:
        carry_out(host, change(run(("true",), (("modprobe", "-r", "ib_uverbs"),)), what="module ib_uverbs loaded"), change(run(("false",))))
    assert caught.value.rolled_back is whole


def test_two_applies_of_one_run_keep_two_restore_points(host: RootedHost, tmp_path: Path) -> None:
    carry_out(host, change(write_file("/etc/a", "a\n")))
    carry_out(host, change(write_file("/etc/b", "b\n")))
    assert sorted(p.name for p in (tmp_path / "var/lib/railwright/restore").iterdir()) == ["r1", "r1.2"]
