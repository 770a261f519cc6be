# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollback on real files: applies one after the other, then back; what others changed, what was cut off, and undone rollbacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, journal
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import apply as restore_apply
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import plan
from ansible_collections.railwright.rdma.plugins.module_utils.rollback.plan import Rollback, plan_rollback
from ansible_collections.railwright.rdma.plugins.module_utils.types import (
    Change,
    Identity,
    Op,
    Platform,
    remove_file,
    run,
    set_value,
    write_file,
)
from file_marks import NEEDS_ROOT, marked
from rooted import RootedHost

PLATFORM = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
IDENTITY = Identity("node1", PLATFORM, "6.1.0-26-amd64", "x86_64", "3.11.2", None, (), (), ())
BOOT = "proc/sys/kernel/random/boot_id"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for place in ("etc", "run", "proc/sys/kernel/random"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / BOOT).write_text("boot-1\n")
    (tmp_path / "etc/value").write_text("1\n")
    (tmp_path / "etc/kept").write_text("original\n")
    (tmp_path / "etc/kept").chmod(0o640)
    return tmp_path


def tree(root: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in (root / "etc").rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): (path.read_text(), path.stat().st_mode & 0o777) for path in files}


def change(*ops: Op, what: str = "something", area: str = "limits", disruption: str = "none") -> Change:
    return Change(area, what, "old", "new", disruption, "why", "source", ops)


def done(root: Path, run_id: str, *changes: Change, state: str = journal.APPLIED, reboots: Sequence[str] = ()) -> None:
    log = journal.Journal(RootedHost(root), run_id)
    apply.carry_out(RootedHost(root), changes, log)
    log.reboots = reboots
    log.close(state)


def first(root: Path) -> None:
    done(root, "a", change(write_file("/etc/kept", "by a\n"), write_file("/etc/new/file", "by a\n"), set_value("/etc/value", "2")))


def second(root: Path) -> None:
    done(root, "b", change(write_file("/etc/kept", "by b\n", 0o600), remove_file("/etc/new/file"), set_value("/etc/value", "3")))


def planned(root: Path, to: str, force: Sequence[str] = ()) -> Rollback:
    return plan_rollback(RootedHost(root), IDENTITY, to, force)


def back(root: Path, to: str, run_id: str = "r", force: Sequence[str] = ()) -> restore_apply.Done:
    rollback = planned(root, to, force)
    assert plan.refused(rollback, None) is None
    return restore_apply.carry_out(RootedHost(root), rollback, run_id, "apt", 1.0, None, force)


def document(root: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((root / f"var/lib/railwright/restore/{name}/journal.json").read_text()))


def test_back_before_the_last_run_and_before_the_first(root: Path) -> None:
    before = tree(root)
    first(root)
    between = tree(root)
    second(root)
    assert tree(root) not in (before, between)
    back(root, "b")
    assert tree(root) == between
    assert document(root, "r")["undid"] == ["b"]
    back(root, "a", "r2")
    assert tree(root) == before
    assert not (root / "etc/new").exists(), "directories that the run made go as well"


@NEEDS_ROOT
def test_a_file_that_cannot_be_put_back_is_said_before(root: Path) -> None:
    """One that is as it was is no obstacle."""
    done(root, "a", change(write_file("/etc/kept", "by a\n")), change(write_file("/etc/kept", "original\n", 0o640)))
    done(root, "b", change(write_file("/etc/made", "by b\n")))
    with marked(root / "etc/kept"), marked(root / "etc/made"):
        assert [(item.subject, item.message.partition(";")[0]) for item in planned(root, "a").problems] == [
            ("/etc/made", f"{root}/etc/made is immutable")]
    assert planned(root, "a").problems == ()


def test_another_mode_alone_is_a_change_too(root: Path) -> None:
    done(root, "a", change(write_file("/etc/kept", "original\n", 0o644)))
    (found,) = planned(root, "a").changes
    assert ("mode 0644" in str(found.before), "mode 0640" in str(found.after)) == (True, True)
    for to, name, mode in (("a", "r", 0o640), ("r", "again", 0o644)):
        assert planned(root, to).changes
        back(root, to, name)
        assert (root / "etc/kept").stat().st_mode & 0o777 == mode
    assert planned(root, "a").changes, "and the undone rollback leaves it there to be made again"
    back(root, "a", "last")
    assert planned(root, "a").changes == ()


def test_everything_at_once_gives_the_same(root: Path) -> None:
    before = tree(root)
    first(root)
    second(root)
    assert [point.name for point in planned(root, "a").undone] == ["b", "a"]
    back(root, "a")
    assert tree(root) == before


def test_all_parts_of_a_run_belong_to_it(root: Path) -> None:
    for word in ("one", "two", "three"):
        done(root, "a", change(write_file("/etc/kept", word + "\n")))
    assert [point.name for point in planned(root, "a").undone] == ["a.3", "a.2", "a"]
    assert [point.name for point in planned(root, "a.2").undone] == ["a.3", "a.2"]
    back(root, "a")
    assert (root / "etc/kept").read_text() == "original\n"


def test_a_rollback_can_be_undone_and_then_made_again(root: Path) -> None:
    first(root)
    second(root)
    after_b = tree(root)
    back(root, "b")
    back(root, "r", "undo")
    assert tree(root) == after_b
    assert [point.name for point in planned(root, "b").undone] == ["b"], "r and what undid it come to nothing"
    back(root, "b", "again")
    assert (root / "etc/kept").read_text() == "by a\n"


def test_a_second_rollback_to_the_same_run_has_nothing_to_do(root: Path) -> None:
    second(root)
    back(root, "b")
    rollback = planned(root, "b")
    assert (rollback.known, rollback.undone, rollback.changes) == (True, (), ())


def test_beyond_an_older_rollback_its_run_is_passed_over(root: Path) -> None:
    trace = root / "trace"
    first(root)
    done(root, "b", change(run(("true",), (("sh", "-c", f"echo undone >> {trace}"),))))
    back(root, "b")
    done(root, "c", change(write_file("/etc/kept", "by c\n")))
    assert [point.name for point in planned(root, "a").undone] == ["c", "a"]
    back(root, "a", "r2")
    assert trace.read_text().split() == ["undone"], "once, and not a second time"
    assert (root / "etc/kept").read_text() == "original\n"


def test_what_somebody_else_changed_is_refused_by_name(root: Path) -> None:
    first(root)
    second(root)
    (root / "etc/kept").write_text("by the operator\n")
    (root / "etc/value").write_text("7\n")
    before = tree(root)
    rollback = planned(root, "b")
    assert sorted(problem.subject for problem in rollback.problems) == ["/etc/kept", "/etc/value"]
    why = plan.refused(rollback, None) or ""
    assert "--force /etc/kept" in why
    assert "by the operator" not in why, "contents may be secrets"
    assert tree(root) == before
    back(root, "b", force=["/etc/kept", "/etc/value"])
    assert (root / "etc/kept").read_text() == "by a\n"


def test_a_file_that_is_there_again_though_the_run_removed_it(root: Path) -> None:
    first(root)
    second(root)
    (root / "etc/new").mkdir(exist_ok=True)
    (root / "etc/new/file").write_text("somebody else's\n")
    assert [problem.subject for problem in planned(root, "b").problems] == ["/etc/new/file"]


def test_what_somebody_else_has_restored_already_is_no_conflict(root: Path) -> None:
    first(root)
    (root / "etc/kept").write_text("original\n")
    assert planned(root, "a").problems == ()


def test_an_apply_that_died_half_way_can_be_undone(root: Path) -> None:
    """The last effect may have happened or not: both are its own."""
    host = RootedHost(root)
    for there in (True, False):
        log = journal.Journal(host, f"dead-{there}")
        log.record("limits: x", write_file("/etc/kept", "half\n"))
        if there:
            host.write("/etc/kept", "half\n")
        rollback = planned(root, f"dead-{there}")
        assert rollback.problems == ()
        back(root, f"dead-{there}", f"r-{there}")
        assert (root / "etc/kept").read_text() == "original\n"


def test_a_rollback_that_was_killed_is_finished_by_the_next(root: Path) -> None:
    first(root)
    done(root, "b", change(write_file("/etc/kept", "by b\n"), write_file("/etc/other", "by b\n"), write_file("/etc/third", "by b\n")))

    class Killed(Exception):
        pass

    class Mortal(RootedHost):
        writes = 0

        def restore(self, path: str, kept: Any) -> None:
            self.writes += 1
            if self.writes == 2:
                raise Killed
            super().restore(path, kept)

    rollback = planned(root, "b")
    log = journal.Journal(RootedHost(root), "r")
    log.undid = ["b"]
    with pytest.raises(Killed):  # as SIGKILL does: nothing is taken forward again
        restore_apply.undo_points(Mortal(root), rollback.undone, log, ())
    assert not (root / "etc/third").exists()
    assert (root / "etc/other").exists()
    again = planned(root, "b")
    assert [point.name for point in again.undone] == ["r", "b"]
    assert again.problems == ()
    back(root, "b", "r2")
    assert (root / "etc/kept").read_text() == "by a\n"
    assert not (root / "etc/other").exists()
    assert not (root / "etc/third").exists()


def test_what_fails_is_taken_forward_again(root: Path) -> None:
    done(root, "a", change(run(("true",), (("false",),)), what="cannot be undone"), change(write_file("/etc/kept", "by a\n"), what="file"))
    before = tree(root)
    with pytest.raises(ApplyError) as caught:
        back(root, "a")
    assert "cannot be undone" in str(caught.value)
    assert caught.value.rolled_back
    assert tree(root) == before
    assert document(root, "r")["state"] == "rolled back"
    found = back(root, "a", "r2", force=["limits: cannot be undone"])
    assert "not undone: limits: cannot be undone" in found.notes[0]
    assert (root / "etc/kept").read_text() == "original\n"


def test_commands_are_undone_backwards_and_refreshes_come_last(root: Path) -> None:
    trace = root / "trace"

    def step(word: str) -> tuple[str, ...]:
        return ("sh", "-c", f"echo {word} >> {trace}")

    one, two = run(step("one"), (step("undo-one"), step("undo-one-more"))), run(step("two"), (step("undo-two"),))
    done(root, "a", change(one, run(step("refresh")), two))
    trace.write_text("")
    back(root, "a")
    assert trace.read_text().split() == ["undo-two", "undo-one", "undo-one-more", "refresh"]
    trace.write_text("")
    back(root, "r", "r2")
    assert trace.read_text().split() == ["one", "two", "refresh"]


def test_classes_come_from_the_journal_and_the_heaviest_counts(root: Path) -> None:
    done(root, "a", change(write_file("/etc/kept", "x\n"), what="MTU", area="network", disruption="link"))
    done(root, "b", change(write_file("/etc/kept", "y\n"), what="MTU", area="network", disruption="management"))
    assert [(item.key, item.disruption, item.external) for item in planned(root, "a").changes] == [("network: MTU", "management", False)]


def test_a_value_whose_name_is_a_secrets_is_hidden(root: Path) -> None:
    (root / "etc/tcp_fastopen_key").write_text("old-one\n")
    done(root, "a", change(set_value("/etc/tcp_fastopen_key", "new-one")), change(write_file("/etc/kept", "by a\n"), what="file"))
    files, value = planned(root, "a").changes
    assert (value.before, value.after) == (HIDDEN, HIDDEN)
    assert (files.subject, files.before != HIDDEN) == (("file", "/etc/kept"), True)


def test_a_reboot_only_where_one_has_made_it_effective(root: Path) -> None:
    key = "pci_tuning: kernel arguments"
    done(root, "a", change(write_file("/etc/kept", "x\n")), reboots=(key,))
    assert planned(root, "a").reboots == ()
    (root / BOOT).write_text("boot-2\n")
    rollback = planned(root, "a")
    assert rollback.reboots == (key,)
    assert [(item.key, item.needs_reboot) for item in rollback.changes][-1] == (key, True)


def test_an_unknown_run_changes_nothing(root: Path) -> None:
    first(root)
    rollback = planned(root, "20260101T000000Z-apply")
    assert (rollback.known, rollback.changes) == (False, ())


def test_what_waits_for_its_confirmation_is_not_touched(root: Path) -> None:
    first(root)
    done(root, "b", change(write_file("/etc/kept", "by b\n")), state=journal.UNCONFIRMED)
    assert "waits for its confirmation" in (plan.refused(planned(root, "a"), None) or "")


def test_a_plan_that_has_grown_is_refused(root: Path) -> None:
    first(root)
    assert "plan diverged" in (plan.refused(planned(root, "a"), []) or "")


def test_a_gap_between_restore_points_is_refused(root: Path) -> None:
    for name in ("a", "b", "c"):
        done(root, name, change(write_file("/etc/kept", name + "\n")))
    path = root / "var/lib/railwright/restore/b"
    (path / "journal.json").unlink()
    path.rmdir()
    with pytest.raises(RailwrightError, match="between run a and now"):
        planned(root, "a")
    assert planned(root, "c").known


def test_the_list_counts_and_says_what_was_undone(root: Path) -> None:
    first(root)
    second(root)
    back(root, "b")
    rows = plan.runs(journal.points(RootedHost(root)), {})
    assert [(row["run"], row["state"], row["files"], row["values"]) for row in rows] == [
        ("r", "applied", 2, 1), ("b", "undone", 2, 1), ("a", "applied", 2, 1)]


def test_a_link_and_a_binary_file_come_back_as_they_were(root: Path) -> None:
    (root / "etc/real").write_bytes(b"\xff\x00binary")
    (root / "etc/link").symlink_to("real")
    done(root, "a", change(write_file("/etc/link", "text\n")))
    assert (root / "etc/real").read_text() == "text\n"
    back(root, "a")
    assert (root / "etc/link").is_symlink()
    assert (root / "etc/real").read_bytes() == b"\xff\x00binary"
