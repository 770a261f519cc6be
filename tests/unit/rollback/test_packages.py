# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a rollback: the records around a step, what is a run's own, and the proof of the way back with the real apt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import journal
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import packages
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import plan as restore_plan
from ansible_collections.railwright.rdma.plugins.module_utils.rollback.packages import Names, Row, names_for
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform, write_file
from apt_world import MISSING, AptNode, Signer, build, sign
from rooted import RootedHost

PLATFORM = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
IDENTITY = Identity("node1", PLATFORM, "6.1.0-26-amd64", "x86_64", "3.11.2", None, (), (), ())
STANZA = "Package: %s\nStatus: %s\nArchitecture: %s\nVersion: %s\nDescription: x\n line\n\n"
AFTER = (("tool", "2.0", "Depends: lib (= 2.0), extra\n"), ("lib", "2.0", "Conflicts: gone\n"), ("extra", "1.0", ""))
PINS = "/var/lib/pins"
STATUS, MARKS = "var/lib/dpkg/status", "var/lib/apt/extended_states"


def dpkg(root: Path, *rows: tuple[str, str], also: str = "") -> None:
    (root / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    every = (("dpkg", "1.21"), *rows)
    (root / STATUS).write_text("".join(STANZA % (name, "install ok installed", "amd64", version) for name, version in every) + also)


def step(root: Path, run: str, *rows: tuple[str, str], after: bool = True, plan: dict[str, list[str]] | None = None) -> str:
    """A package step between its two records; without ``after`` the controller died in it."""
    host = RootedHost(root)
    name = str(packages.record_before(host, "apt", run, plan or {})["run"])
    dpkg(root, *rows)
    if after:
        packages.record_after(host, next(point for point in journal.points(host) if point.name == name))
    return name


def rows_of(root: Path, to: str, force: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    rollback = restore_plan.plan_rollback(RootedHost(root), IDENTITY, to, force)
    return {row.name: (row.now, row.wanted) for row in rollback.rows}


def problems(root: Path, to: str, force: Sequence[str] = ()) -> list[str]:
    return [f"{item.subject} {item.message}" for item in restore_plan.plan_rollback(RootedHost(root), IDENTITY, to, force).problems]


def test_what_dpkg_has_by_its_own_files(tmp_path: Path) -> None:
    more = STANZA % ("held", "hold ok installed", "amd64", "1") + STANZA % ("rest", "deinstall ok config-files", "amd64", "2")
    dpkg(tmp_path, ("plain", "1:1.0-1"), also=more + STANZA % ("foreign", "install ok installed", "i386", "3")
         + STANZA % ("half", "install ok half-configured", "amd64", "4") + STANZA % ("gone", "purge ok not-installed", "amd64", "5"))
    (tmp_path / "var/lib/apt").mkdir()
    (tmp_path / MARKS).write_text("\n".join(f"Package: {name}\nArchitecture: amd64\nAuto-Installed: 1\n" for name in ("plain", "rest")))
    assert packages.observe_packages(RootedHost(tmp_path), "apt") == {
        "versions": {"dpkg": "1.21", "plain": "1:1.0-1", "held": "1", "foreign:i386": "3", "half": "4"},
        "automatic": ["plain"], "held": ["held"], "residual": ["rest"],
    }  # fmt: skip


def test_what_rpm_has_written_from_its_documented_format(tmp_path: Path) -> None:
    out = "kernel-core.x86_64 5.14.0-2.el9\nkernel-core.x86_64 5.14.0-1.el9\nbind.x86_64 32:9.16-1.el9\ngpg-pubkey.(none) 8483c6-5ccc5b\n"

    class Node(RootedHost):
        def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
            assert argv[:2] == ("rpm", "-qa")
            return Result(0, out, "")

    assert packages.observe_packages(Node(tmp_path), "dnf")["versions"] == {
        "kernel-core.x86_64": "5.14.0-1.el9 5.14.0-2.el9", "bind.x86_64": "32:9.16-1.el9"}


def test_only_the_packages_of_the_run_come_back(tmp_path: Path) -> None:
    dpkg(tmp_path, ("perftest", "1.0"), ("old", "1"), ("other", "1"))
    step(tmp_path, "b", ("perftest", "2.0"), ("new", "1"), ("other", "1"), plan={"perftest": ["packages", "reload"]})
    dpkg(tmp_path, ("perftest", "2.0"), ("new", "1"), ("other", "9"))  # somebody upgrades what is not the run's
    rollback = restore_plan.plan_rollback(RootedHost(tmp_path), IDENTITY, "b")
    assert rollback.problems == ()
    assert {row.name: (row.now, row.wanted) for row in rollback.rows} == {"perftest": ("2.0", "1.0"), "new": ("1", ""), "old": ("", "1")}
    assert {change.what: change.disruption for change in rollback.changes} == {
        "package perftest": "reload", "package new": "none", "package old": "none"}, "the class of the plan weighs more than downgrade"


def test_going_back_is_a_downgrade_and_going_forward_is_none(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1.0"), ("b", "2.0"))
    step(tmp_path, "b", ("a", "2.0"), ("b", "1.0"))
    rollback = restore_plan.plan_rollback(RootedHost(tmp_path), IDENTITY, "b")
    assert {change.what: change.disruption for change in rollback.changes} == {"package a": "downgrade", "package b": "none"}


def test_the_oldest_run_has_the_packages_before_and_the_newest_those_after(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"))
    step(tmp_path, "b", ("a", "2"))
    step(tmp_path, "c", ("a", "3"))
    assert rows_of(tmp_path, "b") == {"a": ("3", "1")}
    assert rows_of(tmp_path, "c") == {"a": ("3", "2")}
    assert problems(tmp_path, "b") == []


def test_a_package_that_somebody_else_changed_is_refused_by_name(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"))
    step(tmp_path, "b", ("a", "2"))
    dpkg(tmp_path, ("a", "3"))
    (text,) = problems(tmp_path, "b")
    assert "package a was changed by somebody else than run b: it is 3, that run left 2, and it would become 1" in text
    assert problems(tmp_path, "b", ["a"]) == []
    assert rows_of(tmp_path, "b", ["a"]) == {"a": ("3", "1")}
    dpkg(tmp_path, ("a", "1"))
    assert rows_of(tmp_path, "b") == {}, "somebody has restored it already"


def test_a_held_package_is_refused_with_the_command_that_lets_it_go(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"))
    step(tmp_path, "b", ("a", "2"))
    dpkg(tmp_path, also=STANZA % ("a", "hold ok installed", "amd64", "2"))
    assert "apt-mark unhold a" in problems(tmp_path, "b")[0]


def test_a_step_that_did_not_live_to_its_end_is_assumed_and_said(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"), ("c", "1"))
    step(tmp_path, "b", ("a", "2"), ("c", "1"), after=False)
    rollback = restore_plan.plan_rollback(RootedHost(tmp_path), IDENTITY, "b")
    assert [row.name for row in rollback.rows] == ["a"]
    assert "run b has not written down how it left the packages" in rollback.notes[0]
    step(tmp_path, "later", ("a", "2"), ("c", "2"))
    assert rows_of(tmp_path, "b") == {"a": ("2", "1"), "c": ("2", "1")}
    assert rows_of(tmp_path, "later") == {"c": ("2", "1")}, "what the next record found is what that one left"


def test_a_step_that_changed_nothing_leaves_no_record(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"))
    step(tmp_path, "b", ("a", "1"))
    assert journal.points(RootedHost(tmp_path)) == []


def test_packages_of_the_running_kernel_stay(tmp_path: Path) -> None:
    dpkg(tmp_path)
    step(tmp_path, "b", ("linux-image-6.1.0-26-amd64", "1"), ("linux-image-6.1.0-30-amd64", "1"))
    rollback = restore_plan.plan_rollback(RootedHost(tmp_path), IDENTITY, "b")
    assert [row.name for row in rollback.rows] == ["linux-image-6.1.0-30-amd64"]
    assert "linux-image-6.1.0-26-amd64 stays" in rollback.notes[0]


EL = Platform("rhel", "9.5", "", (), "Rocky Linux 9.5", "redhat", "dnf")
OLD, RUNS, NEW = "5.14.0-427.el9", "5.14.0-503.el9", "5.14.0-570.el9"


class RpmNode(RootedHost):
    """``rpm -qa`` in its documented form."""

    installed: tuple[tuple[str, str], ...] = ()

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        return Result(0, "".join(f"{name} {version}\n" for name, version in (("bash.x86_64", "5.1-9.el9"), *self.installed)), "")


@pytest.mark.parametrize(
    ("before", "after", "kernel", "kept", "names"),
    [
        ((OLD,), (OLD, RUNS), RUNS, True, ((), ())),
        ((OLD,), (OLD, RUNS, NEW), RUNS, True, ((), (NEW,))),
        ((), (RUNS,), RUNS + ".x86_64+debug", True, ((), ())),
        ((OLD, RUNS), (RUNS, NEW), RUNS, False, ((OLD,), (NEW,))),
        ((OLD, RUNS), (RUNS, NEW), NEW, True, ((OLD,), ())),
        ((OLD,), (OLD, NEW), OLD, False, ((), (NEW,))),
    ],
)  # fmt: skip
def test_of_the_kernels_of_rpm_the_one_that_runs_stays(
    tmp_path: Path, before: Sequence[str], after: Sequence[str], kernel: str, kept: bool, names: tuple[Sequence[str], Sequence[str]],
) -> None:
    kernel += "" if ".x86_64" in kernel else ".x86_64"
    host = RpmNode(tmp_path)
    host.installed = (*(("kernel-core.x86_64", version) for version in before), ("perf.x86_64", OLD))
    packages.record_before(host, "dnf", "b", {})
    host.installed = (*(("kernel-core.x86_64", version) for version in after), ("perf.x86_64", RUNS))
    packages.record_after(host, journal.points(host)[0])
    rollback = restore_plan.plan_rollback(host, IDENTITY._replace(platform=EL, kernel=kernel), "b")
    version = kernel.partition(".x86_64")[0]
    assert rollback.notes == ((f"package kernel-core.x86_64 {version} stays: the kernel {kernel} that runs is its own",) if kept else ())
    assert rollback.problems == ()
    found = names_for(rollback.rows, "dnf")
    words = tuple(tuple(f"kernel-core-{version}.x86_64" for version in part) for part in names)
    assert (found.install, found.remove) == ((*words[0], f"perf-{OLD}.x86_64"), words[1]), "of perf one version replaces the other"


def test_what_a_killed_package_manager_left_is_finished_first_with_consent(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"))
    step(tmp_path, "b", ("a", "2"), after=False)
    dpkg(tmp_path, also=STANZA % ("a", "install ok half-configured", "amd64", "2"))
    changes = restore_plan.plan_rollback(RootedHost(tmp_path), IDENTITY, "b").changes
    assert [(change.what, change.disruption) for change in changes] == [("interrupted dpkg", "repair"), ("package a", "downgrade")]


def test_packages_can_be_left_alone(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"))
    step(tmp_path, "b", ("a", "2"))
    assert rows_of(tmp_path, "b", ["packages"]) == {}


def test_a_record_that_somebody_wrote_into_is_no_command_line(tmp_path: Path) -> None:
    dpkg(tmp_path, ("a", "1"), ("-o=Dir::Etc=/tmp", "1"))
    step(tmp_path, "b", ("a", "2"))
    with pytest.raises(RailwrightError, match="no name or version"):
        rows_of(tmp_path, "b")


def row(name: str, wanted: str, now: str) -> Row:
    return Row(name, wanted, now, now, "packages", "none", "b", False)


def test_words_of_both_package_managers() -> None:
    rows = [row("a.x86_64", "1-1", "2-1"), row("new.noarch", "", "1-1"), row("kernel-core.x86_64", "5-1", "5-1 5-2")]
    rows += [row("old.noarch", "3-1", ""), row("kernel-modules.x86_64", "1-1 2-1 3-1", "2-1 3-1 4-1")]
    assert names_for(rows, "dnf") == Names(
        ("a-1-1.x86_64", "old-3-1.noarch", "kernel-modules-1-1.x86_64"),
        ("new-1-1.noarch", "kernel-core-5-2.x86_64", "kernel-modules-4-1.x86_64"),
        {"a": "1-1", "new": None, "kernel-core": None, "old": "3-1", "kernel-modules": "1-1"})  # fmt: skip
    assert names_for([row("a", "1", "2"), row("new", "", "1")], "apt") == Names(("a=1",), ("new",), {"a": "1", "new": None})


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("word", ["install ok unpacked", "install reinstreq half-installed"])
def test_what_dpkg_cannot_finish_the_transaction_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged: bool, word: str
) -> None:
    """A package waits for a version that was never unpacked, or is torn. But apt takes no order while dpkg's journal is there."""
    dpkg(tmp_path, also=STANZA % ("a", word, "amd64", "2"))
    entry = tmp_path / "var/lib/dpkg/updates/0007"
    entry.parent.mkdir()
    entry.write_text("")
    host, asked, pinned = RootedHost(tmp_path), [], []

    def run(argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        asked.append(list(argv))
        if argv[0] == "dpkg":
            if merged:
                entry.unlink()
            return Result(1, "", "dpkg: dependency problems prevent configuration of a\n")
        if "-s" in argv:
            pinned.append((tmp_path / PINS[1:]).read_text())
        return Result(0, "Inst a [2] (1 Old:stable [amd64])\n" if "-s" in argv else "", "")

    monkeypatch.setattr(host, "run", run)
    names = Names(("a=1",), (), {"a": "1"})
    if not merged:
        with pytest.raises(RailwrightError, match="dependency problems"):
            packages.change_apt(host, names, 1.0, PINS)
        return
    packages.change_apt(host, names, 1.0, PINS)
    assert asked[0][0] == "dpkg"
    assert asked[-1][-1] == "a=1"
    assert "install" in asked[-1]
    assert "Dir::Etc::Preferences=" + PINS in asked[-1], "for apt the newer one in pieces would be the candidate, and is nowhere to be had"
    assert pinned == ["Package: a\nPin: version 1\nPin-Priority: 1001\n\n"]
    assert not (tmp_path / PINS[1:]).exists()


def test_what_dpkgs_journal_held_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status file says that a is torn at 2; with the journal merged it is at 1."""
    dpkg(tmp_path, also=STANZA % ("a", "install reinstreq half-installed", "amd64", "2"))
    host, asked = RootedHost(tmp_path), []

    def run(argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        asked.append(list(argv))
        if argv[0] == "dpkg":
            dpkg(tmp_path, also=STANZA % ("a", "install ok installed", "amd64", "1"))
        return Result(0, "Inst b [2] (1 Old:stable [amd64])\nRemv new [1]\n" if "-s" in argv else "", "")

    monkeypatch.setattr(host, "run", run)
    names = Names(("a=1", "b=1"), ("gone",), {"a": "1", "b": "1", "gone": None})
    with pytest.raises(RailwrightError, match=r"new \(removed\) would have to change too"):
        packages.change_apt(host, names, 1.0, PINS)
    assert asked[-1][-1] == "b=1", "neither a, nor gone, which is"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("repositories")
    signer = Signer(tmp_path_factory.mktemp("keys") / "gnupg")
    build(place / "old", [("tool", "1.0", "Depends: lib (= 1.0)\n"), ("lib", "1.0", ""), ("gone", "1.0", "")], "old")
    build(place / "new", AFTER, "new")
    for name in ("old", "new"):
        sign(place / name, signer)
    (place / "key.gpg").write_bytes(signer.key("right"))
    yield place
    signer.stop()


WAY_BACK = Names(("tool=1.0", "lib=1.0", "gone=1.0"), ("extra",), {"tool": "1.0", "lib": "1.0", "gone": "1.0", "extra": None})


def definition(repository: Path, name: str) -> str:
    return f"Types: deb\nURIs: file://{repository}/{name}\nSuites: ./\nSigned-By: {repository}/key.gpg\n"


@pytest.mark.skipif(bool(MISSING), reason=f"needed and not on this machine: {', '.join(MISSING)}")
class TestProof:
    def node(self, root: Path, repository: Path, name: str) -> AptNode:
        node = AptNode(root)
        node.installed(*AFTER)
        (root / "etc/apt/sources.list.d/railwright-x.sources").write_text(definition(repository, name))
        return node

    def files(self, node: AptNode, content: str) -> list[restore_plan.Change]:
        log = journal.Journal(node, "b")
        log.record("repositories: x", write_file("/etc/apt/sources.list.d/railwright-x.sources", "by b\n"))
        log.entries[0]["content"] = content
        log.close(journal.APPLIED)
        return restore_plan.repository_changes(journal.points(node))

    def test_the_way_back_is_proved_with_the_sources_that_come_back(self, tmp_path: Path, repository: Path) -> None:
        node = self.node(tmp_path / "node", repository, "new")
        files = self.files(node, definition(repository, "old"))
        before = node.tree()
        packages.dry_run_rollback(node, IDENTITY, WAY_BACK, files, 1.0)
        assert node.tree() == before, "a proof changes nothing"

    def test_a_version_that_no_repository_has_any_more(self, tmp_path: Path, repository: Path) -> None:
        node = self.node(tmp_path / "node", repository, "new")
        with pytest.raises(RailwrightError, match=r"'1\.0' for '(tool|lib)' was not found|gone"):
            packages.dry_run_rollback(node, IDENTITY, WAY_BACK, [], 1.0)

    def test_what_would_change_besides_is_a_refusal(self, tmp_path: Path, repository: Path) -> None:
        node = self.node(tmp_path / "node", repository, "old")
        node.installed(*AFTER, ("site", "1", "Depends: tool (>= 2.0)\n"))
        with pytest.raises(RailwrightError, match=r"site \(removed\) would have to change too"):
            packages.dry_run_rollback(node, IDENTITY, WAY_BACK, [], 1.0)
