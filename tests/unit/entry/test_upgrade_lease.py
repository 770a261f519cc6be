# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of a node, with the real file operations in a directory: one run has it, another one is refused in one line."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import upgrade
from ansible_collections.railwright.rdma.plugins.module_utils.entry.upgrade import PATH, Lease, give_back, read, take
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.package_locks import Holder
from module_double import Module

OURS = Lease("20261121T180000Z-upgrade", "head1", "alice", "2026-11-21T18:00:00Z")
OTHER = Lease("20261121T170000Z-upgrade", "head2", "bob", "2026-11-21T17:00:00Z")


class Node(Host):
    """This machine, with /var and /run in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "run").mkdir()

    def path(self, path: str) -> str:
        return str(self.root) + path if path.startswith(("/var/", "/run/")) else path

    @property
    def file(self) -> Path:
        return self.root / PATH.lstrip("/")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_free_node_is_taken_and_given_back(node: Node) -> None:
    assert take(node, OURS).changed
    assert json.loads(node.file.read_text()) == OURS._asdict()
    assert give_back(node, OURS.run, OURS.controller) == (True, None)
    assert not node.file.exists()
    assert list(node.file.parent.iterdir()) == [], "nothing of the making stays"


def test_the_same_run_takes_it_again_and_since_stays(node: Node) -> None:
    take(node, OURS)
    again = take(node, OURS._replace(since="2026-11-22T00:00:00Z", user="carol"))
    assert (again.changed, again.lease) == (False, OURS)


def test_once_the_change_has_begun_the_lease_says_so_to_its_end(node: Node) -> None:
    take(node, OURS)
    assert take(node, OURS._replace(step="change")).changed
    later = take(node, OURS)
    assert (later.changed, later.lease) == (False, OURS._replace(step="change"))
    assert not take(node, OURS._replace(step="change")).changed
    assert take(node, OURS._replace(step="change"), dry=True).lease.step == "change"


def test_another_run_is_refused_in_one_line_that_says_who_and_what_to_do(node: Node) -> None:
    take(node, OTHER)
    with pytest.raises(RailwrightError) as refused:
        take(node, OURS)
    said = str(refused.value)
    assert "run 20261121T170000Z-upgrade of bob on head2 since 2026-11-21T17:00:00Z" in said
    assert "--resume" in said
    assert "--take-over" in said
    assert "\n" not in said
    assert read(node) == OTHER


def test_two_controllers_of_one_second_do_not_share_a_lease(node: Node) -> None:
    """Runs are named by the second they begin in; the controller belongs to the name."""
    take(node, OURS)
    with pytest.raises(RailwrightError):
        take(node, OURS._replace(controller="head2"))


def test_taken_over_it_is_the_others_no_more(node: Node) -> None:
    take(node, OTHER)
    taken = take(node, OURS, force=True)
    assert (taken.changed, taken.before) == (True, OTHER)
    with pytest.raises(RailwrightError):
        take(node, OTHER)
    assert give_back(node, OTHER.run, OTHER.controller) == (False, OURS), "who lost it does not remove it"
    assert read(node) == OURS


@pytest.mark.parametrize("dry", [False, True])
def test_what_the_other_one_changed_is_still_to_be_proved(node: Node, dry: bool) -> None:
    take(node, OTHER._replace(step="change"))
    assert take(node, OURS, force=True, dry=dry).lease == OURS._replace(step="change")
    assert read(node) == (OTHER if dry else OURS)._replace(step="change")


def test_of_many_at_once_exactly_one_gets_it(node: Node) -> None:
    begin = threading.Barrier(8)
    got: list[str] = []

    def ask(name: str) -> None:
        begin.wait()
        try:
            take(node, OURS._replace(run=name))
        except RailwrightError:
            return
        got.append(name)

    threads = [threading.Thread(target=ask, args=(f"run{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(node)
    assert found is not None
    assert got == [found.run]


class Overtaken(Node):
    """Once it has read the lease, another controller asks for it, from beginning to end, before this one goes on."""

    between = ""  # what the other one was told
    asked = False

    def read(self, path: str, limit: int = 4096) -> str | None:
        text = super().read(path, limit)
        if path == PATH and not self.asked:
            self.asked = True
            other = Node.__new__(Node)
            other.root = self.root
            try:
                self.between = take(other, OTHER, force=True).lease.run
            except RailwrightError as refused:
                self.between = str(refused)
        return text


@pytest.fixture
def overtaken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overtaken:
    monkeypatch.setattr(upgrade, "ALONE_S", 0.0)  # who is kept away in this test cannot be waited for
    return Overtaken(tmp_path)


@pytest.mark.parametrize("text", ["no lease", json.dumps(OURS._replace(run="dead")._asdict())])
def test_of_two_that_take_it_over_in_one_moment_one_gets_it(overtaken: Overtaken, text: str) -> None:
    overtaken.file.parent.mkdir(parents=True)
    overtaken.file.write_text(text)
    with pytest.raises(RailwrightError, match="upgraded by run 20261121T170000Z-upgrade of bob on head2"):
        take(overtaken, OURS, force=True)
    assert (overtaken.between, read(overtaken)) == (OTHER.run, OTHER)


def test_a_release_does_not_remove_a_lease_that_another_took_over(overtaken: Overtaken) -> None:
    overtaken.file.parent.mkdir(parents=True)
    overtaken.file.write_text(json.dumps(OURS._asdict()))
    assert give_back(overtaken, OURS.run, OURS.controller) == (True, None)
    assert "try again" in overtaken.between, "who was told that it is theirs has it"
    assert read(overtaken) is None


@pytest.mark.parametrize("step", ["preflight", "change"])
def test_who_goes_on_does_not_write_over_what_another_took_over_meanwhile(overtaken: Overtaken, step: str) -> None:
    overtaken.file.parent.mkdir(parents=True)
    overtaken.file.write_text(json.dumps(OURS._asdict()))
    with pytest.raises(RailwrightError, match="of bob on head2"):
        take(overtaken, OURS._replace(step=step))
    assert read(overtaken) == OTHER


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": 1}', '{"run": "x"}'])
def test_a_file_that_is_no_lease_refuses_and_may_be_taken_over(node: Node, text: str) -> None:
    node.file.parent.mkdir(parents=True)
    node.file.write_text(text)
    with pytest.raises(RailwrightError, match="is no lease"):
        take(node, OURS)
    assert take(node, OURS, force=True).before is None
    assert read(node) == OURS


def test_what_stands_in_the_file_is_shown_as_printable_text(node: Node) -> None:
    node.file.parent.mkdir(parents=True)
    node.file.write_text(json.dumps({**OTHER._asdict(), "user": "x\n\x1b[31m" + "y" * 500}))
    with pytest.raises(RailwrightError) as refused:
        take(node, OURS)
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("run", ["", "../x", "a b", "x" * 101, "-x"])
def test_names_of_runs(node: Node, run: str) -> None:
    with pytest.raises(RailwrightError, match="letters, digits"):
        take(node, OURS._replace(run=run))


def test_a_dry_run_changes_nothing_and_says_what_would_be(node: Node) -> None:
    assert take(node, OURS, dry=True).lease == OURS
    assert not node.file.exists()
    take(node, OTHER)
    with pytest.raises(RailwrightError):
        take(node, OURS, dry=True)
    assert take(node, OURS, force=True, dry=True).before == OTHER
    assert give_back(node, OTHER.run, OTHER.controller, dry=True)[0]
    assert read(node) == OTHER


def call(node: Node, monkeypatch: pytest.MonkeyPatch, mode: str, *, check: bool = False, **more: Any) -> dict[str, Any]:
    params = {"mode": mode, "run": OURS.run, "controller": OURS.controller, "user": OURS.user, "now": 1_795_284_000.0, "take_over": False}
    return Module({**params, "step": "preflight", **more}, check_mode=check).call(upgrade.answer, node)


@pytest.fixture(autouse=True)
def no_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "lock_holder", lambda _host, _manager: None)


def test_the_module_takes_and_gives_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = call(node, monkeypatch, "lease")
    assert (taken["changed"], taken["busy"], taken["lease"]["since"]) == (True, None, "2026-11-21T18:00:00Z")
    assert not call(node, monkeypatch, "lease")["changed"]
    assert call(node, monkeypatch, "release") == {"changed": True, "lease": None}
    assert call(node, monkeypatch, "release") == {"changed": False, "lease": None}


def test_the_module_in_check_mode(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not call(node, monkeypatch, "lease", check=True)["changed"]
    assert not node.file.exists()


def test_an_apply_that_a_killed_controller_left_behind_is_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    held = node.lock(upgrade.LOCK)
    assert held is not None
    found = call(node, monkeypatch, "lease")
    assert "another apply is at work" in found["busy"]
    assert found["msg"] == found["busy"], "what is said when the waiting ends without success"
    node.unlock(held)
    assert call(node, monkeypatch, "lease")["busy"] is None


def test_so_is_a_package_manager(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    holders = {"dnf": Holder("/var/lib/rpm/.rpm.lock", 4711, "dnf upgrade")}
    monkeypatch.setattr(upgrade, "lock_holder", lambda _host, manager: holders.get(manager))
    assert call(node, monkeypatch, "lease")["busy"] == "/var/lib/rpm/.rpm.lock is held by process 4711 (dnf upgrade)"
