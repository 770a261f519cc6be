# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of rdma_rollback in each of its modes, on real files; only who the node is, and where its files lie, is the test's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, journal
from ansible_collections.railwright.rdma.plugins.module_utils.entry import response, rollback
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity, Platform, write_file
from module_double import Module
from rooted import RootedHost

PLATFORM = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
IDENTITY = Identity("node1", PLATFORM, "6.1.0-26-amd64", "x86_64", "3.11.2", None, (), (), ())
DPKG = "Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\n\n"
SPEC = {"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "consent": ["link"], "expect": {}, "rails": [], "rdma_stack_lock_wait_s": 1}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place in ("etc", "run", "var/lib/dpkg"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "etc/kept").write_text("original\n")
    (tmp_path / "var/lib/dpkg/status").write_text(DPKG % ("dpkg", "1") + DPKG % ("a", "1"))
    monkeypatch.setattr(response, "Host", lambda: RootedHost(tmp_path))
    monkeypatch.setattr(rollback, "observe_identity", lambda *_arguments: IDENTITY)
    return tmp_path


def ask(mode: str, *, check: bool = False, **more: Any) -> dict[str, Any]:
    params = {"mode": mode, "to": "r1", "force": [], "expected": None, "run_id": "r2", "record": None, "rows": {}, "confirm_seconds": 0,
              "confirm_token": None, "spec": SPEC}  # fmt: skip
    return Module({**params, **more}, check_mode=check).call(rollback.answer)


def changed(root: Path, disruption: str = "link") -> None:
    log = journal.Journal(RootedHost(root), "r1")
    row = Change("limits", "file /etc/kept", "old", "new", disruption, "", "", (write_file("/etc/kept", "by r1\n"),))
    apply.carry_out(RootedHost(root), [row], log)
    log.close(journal.APPLIED)


def text(root: Path) -> str:
    return (root / "etc/kept").read_text()


def test_plan_prove_and_check_mode_leave_the_node_as_it_is(root: Path) -> None:
    changed(root)
    for answer in (ask("plan"), ask("prove"), ask("apply", check=True)):
        assert [change["key"] for change in answer["plan"]] == ["limits: file /etc/kept"]
        assert (answer["known"], answer["undone"], answer["restore_points"]) == (True, ["r1"], [])
    assert text(root) == "by r1\n"
    assert ask("apply", check=True)["changed"] is True


def test_apply_restores_and_names_its_restore_point(root: Path) -> None:
    changed(root)
    answer = ask("apply", expected=["limits: file /etc/kept"])
    assert answer["changed"] is True
    assert answer["restore_point"] == "/var/lib/railwright/restore/r2/journal.json"
    assert "confirm" not in answer
    assert text(root) == "original\n"
    again = ask("apply")
    assert (again["changed"], again["plan"], "restore_point" in again) == (False, [], False)


def test_what_is_refused_changes_nothing(root: Path) -> None:
    changed(root)
    answer = ask("apply", expected=[])
    assert answer["failed"]
    assert "plan diverged" in answer["msg"]
    assert text(root) == "by r1\n"


def test_a_class_without_consent_is_refused_on_the_node_too(root: Path) -> None:
    changed(root, "reload")
    answer = ask("apply")
    assert answer["failed"]
    assert "refused without consent: limits: file /etc/kept (reload)" in answer["msg"]
    assert text(root) == "by r1\n"


def test_an_unknown_run_comes_with_those_that_there_are(root: Path) -> None:
    changed(root)
    answer = ask("apply", to="r9")
    assert (answer["known"], answer["plan"], answer["restore_points"]) == (False, [], [{"run": "r1"}])


def test_packages_before_and_after(root: Path) -> None:
    name = ask("packages_before", rows={"a": ["packages", "reload"]})["record"]
    assert name == "r2"
    (root / "var/lib/dpkg/status").write_text(DPKG % ("dpkg", "1") + DPKG % ("a", "2"))
    assert ask("packages_after", record=name)["packages_changed"] == ["a"]
    (row,) = ask("inspect")["restore_points"]
    assert (row["run"], row["state"], row["packages"], row["packages_assumed"]) == ("r2", "packages only", 1, False)
    (change,) = ask("plan", to="r2")["plan"]
    assert (change["key"], change["before"], change["after"], change["disruption"]) == ("packages: package a", "2", "1", "reload")


def test_check_mode_and_other_package_managers_keep_no_record(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask("packages_before", check=True)["record"] == ""
    other = IDENTITY._replace(platform=PLATFORM._replace(package_manager="zypper"))
    monkeypatch.setattr(rollback, "observe_identity", lambda *_arguments: other)
    assert ask("packages_before")["record"] == ""
    assert ask("packages_after", record="")["packages_changed"] == []
    assert not (root / "var/lib/railwright").exists()


def test_a_record_that_is_not_there_is_an_error(root: Path) -> None:
    assert "has no record of packages" in ask("packages_after", record="gone")["msg"]


def test_while_an_apply_is_at_work_nothing_is_rolled_back(root: Path) -> None:
    changed(root)
    host = RootedHost(root)
    lock = host.lock(journal.LOCK)
    assert lock is not None
    answer = ask("apply")
    host.unlock(lock)
    assert "another apply is running on this node" in answer["msg"]
    assert text(root) == "by r1\n"
