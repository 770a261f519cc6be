# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of networking waits for its confirmation: what is armed, what is left, and what the node reverts alone.

Files and Python are real, under a directory of the test's; systemctl is written down, and the timer is the test itself,
which starts the copied program as the timer's service would.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, confirm, journal, watchdog
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import BY_NAME
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import CONFIRMED_AREAS, Change, Op, run, write_file
from rooted import RootedHost

ASKED = confirm.Switch(20, "token-1")
TIMER_FILE = "etc/systemd/system/railwright-watchdog.timer"


class Node(RootedHost):
    """A directory with the places that every node has; ``systemctl`` is written down, everything else is run."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for place in ("etc/systemd/system", "run", "var/lib"):
            (root / place).mkdir(parents=True, exist_ok=True)
        self.systemctl: list[tuple[str, ...]] = []
        self.active = True
        self.refuses = ""

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        if argv[0] != "systemctl":
            return super().run(argv, timeout, stdin)
        self.systemctl.append(tuple(argv[1:]))
        if argv[1] == "is-active":
            return Result(0, "active\n" if self.active else "inactive\n", "")
        return Result(1, "", "no") if self.refuses in argv else Result(0, "", "")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "settle", lambda *_arguments: ((), ()))


def plan_of(*ops: Op, area: str = "network") -> Plan:
    nobody: Any = None
    return Plan(nobody, (Change(area, "address of rail0 (eth1)", "old", "new", "none", "why", "source", ops),), (), None)


def applied(node: Node, *ops: Op, area: str = "network", asked: confirm.Switch | None = ASKED, run_id: str = "r1") -> apply.Applied:
    spec = Spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "consent": [], "expect": {}, "rails": []})
    with apply.exclusive(node):
        return apply.apply_plan(node, spec, plan_of(*ops, area=area), run_id, switch=asked)


def document(tmp_path: Path, run_id: str = "r1") -> dict[str, Any]:
    return dict(json.loads((tmp_path / f"var/lib/railwright/restore/{run_id}/journal.json").read_text()))


def left(tmp_path: Path) -> list[str]:
    """What of the switch lies on the node."""
    places = ("etc/systemd/system", "var/lib/railwright")
    return sorted(str(file.relative_to(tmp_path)) for place in places for file in (tmp_path / place).rglob("*")
                  if "watchdog" in file.name or "confirm" in file.parts[len(tmp_path.parts):])


FILE = write_file("/etc/file", "ours\n")


def test_an_applied_change_waits_and_is_kept_when_it_is_confirmed(node: Node, tmp_path: Path) -> None:
    done = applied(node, FILE)
    assert (done.unconfirmed, document(tmp_path)["state"]) == ("r1", "unconfirmed")
    assert "OnActiveSec=20\n" in (tmp_path / TIMER_FILE).read_text()
    assert (tmp_path / "var/lib/railwright/confirm").stat().st_mode & 0o777 == 0o700
    answer = confirm.confirm(node, "", "token-1")
    assert (answer["state"], answer["run"], answer["changes"]) == ("applied", "r1", ["network: address of rail0 (eth1)"])
    assert document(tmp_path)["state"] == "applied"
    assert left(tmp_path) == []
    assert (tmp_path / "etc/file").read_text() == "ours\n"
    assert watchdog.revert(node, "r1") == "run r1: nothing to revert", "a timer that was too late does no harm"
    assert (tmp_path / "etc/file").exists()


def test_the_watchdog_is_armed_before_the_first_effect_and_after_the_last(node: Node, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    applied(node, run(("cp", str(tmp_path / TIMER_FILE), str(seen)), (("true",),)))
    assert "OnActiveSec=20" in seen.read_text()
    assert node.systemctl == [
        ("--no-reload", "enable", watchdog.TIMER), ("daemon-reload",), ("restart", watchdog.TIMER),
        ("restart", watchdog.TIMER), ("stop", watchdog.SERVICE),
    ], "the old service ends last: killed in between, there is always somebody who reverts it"


@pytest.mark.parametrize(("area", "asked"), [("sysctl", ASKED), ("network", None), ("network", confirm.Switch(0, "token-1"))])
def test_other_changes_and_other_callers_wait_for_nobody(node: Node, tmp_path: Path, area: str, asked: confirm.Switch | None) -> None:
    done = applied(node, FILE, area=area, asked=asked)
    assert (done.unconfirmed, document(tmp_path)["state"], node.systemctl, left(tmp_path)) == ("", "applied", [], [])


def test_a_change_that_fails_leaves_nothing_armed(node: Node, tmp_path: Path) -> None:
    with pytest.raises(ApplyError):
        applied(node, FILE, run(("false",)))
    assert (document(tmp_path)["state"], left(tmp_path)) == ("rolled back", [])
    assert ("stop", watchdog.TIMER) in node.systemctl


@pytest.mark.parametrize("verb", ["enable", "restart"])
def test_what_cannot_be_armed_is_not_begun(node: Node, tmp_path: Path, verb: str) -> None:
    node.refuses = verb
    with pytest.raises(RailwrightError, match="cannot be armed, nothing was changed"):
        applied(node, FILE)
    assert not (tmp_path / "etc/file").exists()
    assert left(tmp_path) == []


def program(node: Node, tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """What the service runs, as a program of its own with no way to this repository, and with the test's directory for /."""
    code = tmp_path / "var/lib/railwright/confirm/code"
    start = (code / "__main__.py").read_text()
    rooted = (f"from railwright_node.host import host\nhost.Host.path = lambda self, path: {node.root!r} + path\n"
              "host.Host.run = lambda self, argv, timeout=30.0, stdin=None: host.Result(0, '', '')\n")
    (code / "__main__.py").write_text(rooted + start)
    return subprocess.run((sys.executable, "-I", "-B", *flags, str(code), "r1"), capture_output=True, text=True, check=False, cwd="/",
                          env={}, timeout=60)


def test_the_copy_on_the_node_takes_the_change_back_alone(node: Node, tmp_path: Path) -> None:
    (tmp_path / "etc/file").write_bytes(b"\xffbefore\n")
    applied(node, FILE, write_file("/etc/new/file", "x\n"))
    done = program(node, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "run r1 was reverted; the node is as it was before\n")
    assert (tmp_path / "etc/file").read_bytes() == b"\xffbefore\n"
    assert not (tmp_path / "etc/new").exists()
    assert (document(tmp_path)["state"], left(tmp_path)) == ("reverted", [])
    assert confirm.confirm(node, "", "token-1")["state"] == "reverted", "too late is too late"
    (note,) = confirm.notes(node)
    assert "reverted the last apply (run r1)" in note
    assert "network: address of rail0 (eth1)" in note


def test_an_apply_that_was_killed_is_reverted_too(node: Node, tmp_path: Path) -> None:
    """kill -9 half-way: the lock goes with the process, the journal says applying, the timer stays."""
    log = journal.Journal(node, "r1", "token-1")
    confirm.arm(node, log, ASKED)
    apply.carry_out(node, plan_of(FILE).changes, log)
    assert program(node, tmp_path).returncode == 0
    assert not (tmp_path / "etc/file").exists()
    assert document(tmp_path)["state"] == "reverted"


def test_what_cannot_be_undone_is_named(node: Node, tmp_path: Path) -> None:
    applied(node, run(("true",), (("false",),)))
    assert "in part: network: address of rail0 (eth1): false: exit 1" in watchdog.revert(node, "r1")
    answer = confirm.outcome(node, "", "token-1")
    assert (answer["state"], len(answer["troubles"])) == ("rollback incomplete", 1)


def test_an_unexpected_error_in_one_undo_does_not_keep_others_from_theirs(node: Node, tmp_path: Path) -> None:
    (tmp_path / "etc/file").write_text("before\n")
    applied(node, FILE, write_file("/etc/other", "x\n"))
    path = tmp_path / "var/lib/railwright/restore/r1/journal.json"
    broken = document(tmp_path)
    del broken["entries"][1]["directories"]
    path.write_text(json.dumps(broken))
    assert "reverted in part: network: address of rail0 (eth1): KeyError('directories')" in program(node, tmp_path).stderr
    assert (tmp_path / "etc/file").read_text() == "before\n"
    assert (document(tmp_path)["state"], left(tmp_path)) == ("rollback incomplete", [])


def test_the_program_that_dies_is_started_again_and_finds_its_work(node: Node, tmp_path: Path) -> None:
    """systemd starts a service with Restart=on-failure again whatever ended it; all that it needs must still be there."""
    applied(node, FILE)
    service = (tmp_path / "etc/systemd/system/railwright-watchdog.service").read_text()
    assert "\nRestart=on-failure\nRestartSec=60\n" in service
    path = tmp_path / "var/lib/railwright/restore/r1/journal.json"
    whole, before = path.read_text(), left(tmp_path)
    path.write_text('{"state": "unconfirmed"}')
    assert program(node, tmp_path).returncode != 0
    assert left(tmp_path) == before
    path.write_text(whole)
    assert program(node, tmp_path).returncode == 0
    assert (document(tmp_path)["state"], left(tmp_path)) == ("reverted", [])


def test_an_apply_whose_own_undo_dies_stays_armed(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_arguments: object) -> list[str]:
        raise MemoryError

    monkeypatch.setattr("ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction.roll_back", dies)
    with pytest.raises(MemoryError):
        applied(node, FILE, run(("false",)))
    assert (document(tmp_path)["state"], ("stop", watchdog.TIMER) in node.systemctl) == ("applying", False)
    assert program(node, tmp_path).returncode == 0
    assert not (tmp_path / "etc/file").exists()
    assert (document(tmp_path)["state"], left(tmp_path)) == ("reverted", [])


def test_the_program_waits_for_an_apply_that_is_at_work(node: Node, tmp_path: Path) -> None:
    applied(node, FILE)
    with apply.exclusive(node):
        with pytest.raises(RailwrightError, match="another apply held"):
            watchdog.revert(node, "r1", 0.3)
        assert confirm.confirm(node, "", "token-1")["state"] == "unconfirmed"
        assert confirm.outcome(node, "", "another")["state"] == "applying", "who holds the lock may be the run that has written nothing yet"
    assert (tmp_path / "etc/file").exists()
    assert confirm.outcome(node, "", "another")["state"] == "none"


def test_nothing_is_put_on_top_of_what_waits(node: Node, tmp_path: Path) -> None:
    applied(node, FILE)
    with pytest.raises(RailwrightError, match=r"run r1 is not confirmed.*within 20 s"):
        applied(node, write_file("/etc/file", "second\n"), area="sysctl", asked=None, run_id="r2")
    assert (tmp_path / "etc/file").read_text() == "ours\n"
    node.active = False  # somebody stopped the timer
    done = applied(node, write_file("/etc/file", "second\n"), area="sysctl", asked=None, run_id="r2")
    assert done.interrupted == ("/var/lib/railwright/restore/r1/journal.json",)
    assert (document(tmp_path)["state"], left(tmp_path)) == ("interrupted", [])


def test_a_restore_point_that_waits_is_not_pruned(node: Node, tmp_path: Path) -> None:
    applied(node, FILE)
    for number in range(journal.KEEP + 2):
        journal.Journal(node, f"zz{number:02d}").close("applied")
    journal.prune(node)
    assert document(tmp_path)["state"] == "unconfirmed"
    assert len(list((tmp_path / "var/lib/railwright/restore").iterdir())) == journal.KEEP + 1


def test_the_copy_is_had_from_an_archive_as_ansible_makes_it(tmp_path: Path) -> None:
    """AnsiballZ: the modules were imported out of a zip file, and no file of theirs exists."""
    source = Path(str(confirm.__file__)).parents[1]
    files = [part.replace(".", "/") for part in confirm.PARTS]
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for path in source.rglob("*.py"):
            out.write(path, Path("package") / path.relative_to(source))
    script = (f"import sys, json; sys.path.insert(0, {str(archive)!r}); from package.apply import confirm; "
              "print(json.dumps({key.partition('railwright_node/')[2]: text for key, text in confirm.code().items()}))")
    done = subprocess.run((sys.executable, "-I", "-B", "-c", script), capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    for part in files:
        assert found[f"{part}.py"] == (source / f"{part}.py").read_text()


@pytest.mark.parametrize(("path", "shown"), [("/usr/bin/python3", "/usr/bin/python3"), ("/opt/my %py/bin/p$", '"/opt/my %%py/bin/p$$"')])
def test_the_interpreter_is_written_as_systemd_reads_it(path: str, shown: str) -> None:
    text = watchdog.unit_texts("r1", 20, path)[f"{watchdog.UNITS}/{watchdog.SERVICE}"]
    assert f"ExecStart={shown} -I -B /var/lib/railwright/confirm/code r1\n" in text


def test_what_waits_for_a_confirmation_are_areas() -> None:
    assert set(CONFIRMED_AREAS) <= set(BY_NAME)
