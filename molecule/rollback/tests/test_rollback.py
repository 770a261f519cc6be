# SPDX-License-Identifier: GPL-3.0-or-later
"""Two inventories, one after the other, and back: what is installed, all of /etc, and what the kernel has, as after the first of them.

One story for all tests. In between somebody edits a file, a rollback is killed half-way, and one is undone itself.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from harness import Container
from playbook import BIN, ROOT, RUN_SECONDS, SETTINGS
from story import MIRROR, State, Story, observe
from verbs import Verb, verb

NODES = ("debian12", "says-rocky9")
SYSCTL = "/proc/sys/net/core/somaxconn"
LIMITS = "/etc/security/limits.d/90-railwright.conf"
FIRST = {"rdma_stack_version": "3.2.2", "rdma_mtu": 4200, "host_tuning_nofile": 524288}
SECOND = {"rdma_stack_version": "3.2.3", "rdma_mtu": 9000, "host_tuning_nofile": 1048576,
          "host_tuning_sysctls": {"net.core.somaxconn": "8192"}}
# Files that the tools of the system keep for themselves, and that no rollback of packages brings back byte for byte.
OWN = ("/etc/ld.so.cache", "/etc/mtab", "/etc/machine-id", "/etc/resolv.conf", "/etc/apt/trusted.gpg~")
ENVIRONMENT = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=SETTINGS["ANSIBLE_COLLECTIONS_PATH"])
UNITS = ("railwright-watchdog.timer", "railwright-watchdog.service")
# On the node, as nobody from outside is quick enough: whoever holds the lock dies when the journal of a new restore point has some effects.
KILLER = """
import json, os, signal, sys, time
root, known, seconds = "/var/lib/railwright/restore", set(sys.argv[2:]), float(sys.argv[1])

def effects(name):
    try:
        with open("%s/%s/journal.json" % (root, name)) as stream:
            return len(json.load(stream)["entries"])
    except (OSError, ValueError):  # not there yet
        return 0

deadline = time.monotonic() + seconds
while time.monotonic() < deadline:
    found = [name for name in os.listdir(root) if name not in known and effects(name) >= 2]
    if found:
        inode = os.stat("/run/railwright.lock").st_ino
        for line in open("/proc/locks"):
            words = line.split()
            if words[1] == "FLOCK" and words[5].endswith(":%d" % inode):
                os.kill(int(words[4]), signal.SIGKILL)
                print(found[0], words[4])
        break
    time.sleep(0.001)
"""


class Seen(NamedTuple):
    """A node at one moment."""

    packages: dict[str, str]
    files: dict[str, str]
    kernel: tuple[str, int]


def seen(container: Container) -> Seen:
    state: State = observe(container)
    files = {path: digest for path, digest in state.files.items() if path.startswith("/etc/") and path not in OWN}
    (link,) = container.json("ip", "-j", "link", "show", "dev", "eth1")
    return Seen(state.installed, files, (container.out("cat", SYSCTL).strip(), link["mtu"]))


class Tale:
    """The scenario's nodes and inventory, and every verb's answer by the name of its chapter."""

    def __init__(self, scenario: str) -> None:
        self.story = Story(scenario, {"rdma_stack": "doca", "rdma_artifact_mirror": f"file://{MIRROR}", "rdma_accept_eol": True,
                                      "rdma_confirm_timeout_s": 300,  # a busy machine is no reason to take anything back
                                      "rdma_consent": ["link", "restart", "reload", "downgrade", "repair"]})
        self.story.common["rdma_stack_repository_fingerprint"] = self.story.fingerprint()
        self.inventory = Cluster(scenario).inventory
        self.said: dict[str, Verb] = {}
        self.states: dict[str, dict[str, Seen]] = {}
        self.pids: list[str] = []  # of the module that was killed
        self.dead = ""  # its run
        self.played = 0, ""  # ansible-playbook's exit code and words

    def container(self, node: str) -> Container:
        return self.story.cluster.container(node)

    def say(self, values: dict[str, Any], hosts: dict[str, dict[str, Any]] | None = None) -> None:
        self.story.say(values, hosts)
        self.story.fill_mirror()

    def do(self, chapter: str, name: str, *more: str) -> Verb:
        self.said[chapter] = verb(self.inventory, name, *more)
        self.states[chapter] = {node: seen(self.container(node)) for node in NODES}
        return self.said[chapter]

    def run_of(self, chapter: str) -> str:
        """The run's name, by the restore point that it named."""
        points = {node["restore_point"] for node in self.said[chapter].document["nodes"].values()} - {""}
        (run,) = {point.split("/")[-2].partition(".")[0] for point in points}
        return str(run)

    def reverted(self) -> None:
        """Networking was part of it, and nobody confirms for a dead module: the node reverts it before anything else may happen."""
        deadline = time.monotonic() + RUN_SECONDS
        while "active" in self.container(NODES[0]).run("systemctl", "is-active", *UNITS, check=False).stdout.split():
            assert time.monotonic() < deadline, "the node has not reverted it"
            time.sleep(1)

    def killed(self, run: str) -> list[str]:
        """A rollback whose module is killed on one node when it has begun to undo."""
        argv = (str(BIN / "railwright"), "rollback", "-i", str(self.inventory), "--to", run, "--no-validate", "--force", LIMITS, "--yes")
        before = self.container(NODES[0]).out("ls", "/var/lib/railwright/restore").split()
        process = subprocess.Popen(argv, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            seconds = RUN_SECONDS / 2
            killer = self.container(NODES[0]).run("python3", "-", str(seconds), *before, stdin=KILLER, timeout=RUN_SECONDS)
            self.dead, *pids = killer.stdout.split() or [""]
            return pids
        finally:
            process.wait(timeout=RUN_SECONDS)


@pytest.fixture(scope="session")
def tale(scenario: str) -> Tale:
    tale = Tale(scenario)
    tale.say(FIRST)
    tale.do("first", "apply")
    tale.do("first judged", "validate")
    tale.say(SECOND)
    tale.do("second", "apply")
    assert [tale.said[chapter].code for chapter in ("first", "second")] == [0, 0], tale.said  # no story without it
    run = tale.run_of("second")
    tale.do("list", "rollback", "--list")
    tale.do("unknown", "rollback", "--to", "20200101T000000Z-apply")
    tale.do("dry", "rollback", "--to", run, "--dry-run")
    tale.do("without consent", "rollback", "--to", run, "--no-validate", "--consent", "link")
    for node in NODES:
        tale.container(node).run("sh", "-c", f"echo '# by the operator' >> {LIMITS}")
    tale.do("edited", "rollback", "--to", run, "--no-validate")
    tale.say(SECOND, {NODES[0]: {"rdma_confirm_timeout_s": 30}})  # nobody confirms for the dead: no need to wait long for that
    tale.pids = tale.killed(run)
    tale.reverted()
    tale.do("after the kill", "plan")
    tale.say(FIRST)  # first of all, as its nodes are judged by the inventory when they are back
    tale.do("back", "rollback", "--to", run, "--force", LIMITS)
    tale.do("back again", "rollback", "--to", run, "--no-validate")
    tale.do("plan of the first", "plan")
    tale.do("undone", "rollback", "--to", tale.dead, "--no-validate")
    playbook = (str(BIN / "ansible-playbook"), "-i", str(tale.inventory), "railwright.rdma.rollback", "-e", f"rdma_rollback_to={run}",
                "-e", '{"rdma_rollback_force": ["' + LIMITS + '"]}')
    done = subprocess.run(playbook, cwd=ROOT, env={**ENVIRONMENT, **SETTINGS}, capture_output=True, text=True, check=False,
                          timeout=RUN_SECONDS)
    tale.played = done.returncode, (done.stdout + done.stderr)[-3000:]
    tale.states["played"] = {node: seen(tale.container(node)) for node in NODES}
    return tale


def same(one: Seen, other: Seen) -> dict[str, Any]:
    """What differs, by part; empty where nothing does."""
    pick: dict[str, Callable[[Seen], dict[str, Any]]] = {"packages": lambda item: item.packages, "files": lambda item: item.files}
    found: dict[str, Any] = {}
    for part, of in pick.items():
        left, right = of(one), of(other)
        rows = {name: (left.get(name), right.get(name)) for name in {*left, *right} if left.get(name) != right.get(name)}
        found |= {part: rows} if rows else {}
    return found | ({"kernel": (one.kernel, other.kernel)} if one.kernel != other.kernel else {})


@pytest.mark.parametrize("node", NODES)
def test_the_second_apply_changed_packages_files_and_values(tale: Tale, node: str) -> None:
    assert set(same(tale.states["first"][node], tale.states["second"][node])) == {"packages", "files", "kernel"}


@pytest.mark.parametrize("node", NODES)
def test_the_list_names_the_runs_with_what_they_hold(tale: Tale, node: str) -> None:
    rows = tale.said["list"].document["nodes"][node]["restore_points"]
    assert [row["run"] for row in rows] == [tale.run_of("second"), tale.run_of("first")]
    assert all(row["files"] and row["packages"] and not row["packages_assumed"] for row in rows)


def test_an_unknown_run_is_an_error_of_input(tale: Tale) -> None:
    assert tale.said["unknown"].code == 64
    assert tale.run_of("second") in tale.said["unknown"].said


@pytest.mark.parametrize("chapter", ["unknown", "dry", "without consent"])
@pytest.mark.parametrize("node", NODES)
def test_what_only_looks_and_what_is_refused_changes_nothing(tale: Tale, node: str, chapter: str) -> None:
    assert same(tale.states["second"][node], tale.states[chapter][node]) == {}


@pytest.mark.parametrize("node", NODES)
def test_the_dry_run_names_packages_files_and_values(tale: Tale, node: str) -> None:
    assert tale.said["dry"].code == 0
    changes = tale.said["dry"].document["nodes"][node]["changes"]
    assert {"MTU of rail0 (eth1)", "sysctl net.core.somaxconn"} <= {change["what"] for change in changes}
    assert [change["what"] for change in changes if change["what"].startswith("package doca-ofed")] != []
    assert {"downgrade", "link"} <= {change["disruption"] for change in changes}
    assert not any(change["applied"] for change in changes)


def test_without_consent_to_downgrade_it_is_refused(tale: Tale) -> None:
    assert tale.said["without consent"].code == 1
    assert "downgrade" in str(tale.said["without consent"].document)


@pytest.mark.parametrize("node", NODES)
def test_a_file_that_somebody_edited_is_refused_by_name(tale: Tale, node: str) -> None:
    assert tale.said["edited"].code == 1
    problems = tale.said["edited"].document["nodes"][node]["problems"]
    assert [problem["subject"] for problem in problems] == [LIMITS]
    differs = same(tale.states["second"][node], tale.states["edited"][node])
    assert set(differs.get("files", {})) == {LIMITS}, "only the operator's own edit"
    assert set(differs) == {"files"}


def test_a_rollback_was_killed_half_way(tale: Tale) -> None:
    assert tale.pids, "the module ended before it could be killed"


@pytest.mark.parametrize("node", NODES)
def test_everything_is_as_after_the_first_apply(tale: Tale, node: str) -> None:
    assert tale.said["back"].document is not None, tale.said["back"].said
    assert tale.said["back"].document["nodes"][node]["status"] == "ok", tale.said["back"].document["nodes"][node]
    assert same(tale.states["first"][node], tale.states["back"][node]) == {}


def test_validate_says_the_same_as_before(tale: Tale) -> None:
    """The rollback ran it. What a container cannot have, an RDMA device, is the only thing that it misses, both times."""
    def judged(chapter: str) -> list[tuple[str, ...]]:
        rows = tale.said[chapter].document["verdicts"]
        return sorted(tuple(str(row[part]) for part in ("node", "check", "subject", "status")) for row in rows)

    assert tale.said["back"].code == tale.said["first judged"].code
    assert judged("back") == judged("first judged")
    wrong = {(node, check) for node, check, _subject, status in judged("back") if status == "fail"}
    assert wrong == {(node, "rail.device") for node in NODES}
    assert len(judged("back")) > len(wrong)


def test_the_plan_of_the_first_inventory_is_empty(tale: Tale) -> None:
    assert tale.said["plan of the first"].code == 0
    assert tale.said["plan of the first"].changes() == {node: [] for node in NODES}


@pytest.mark.parametrize("node", NODES)
def test_a_second_rollback_has_nothing_to_do(tale: Tale, node: str) -> None:
    assert tale.said["back again"].code == 0
    assert tale.said["back again"].changes() == {name: [] for name in NODES}
    assert same(tale.states["first"][node], tale.states["back again"][node]) == {}


@pytest.mark.parametrize("node", NODES)
def test_a_rollback_is_undone_by_another(tale: Tale, node: str) -> None:
    """From before the one that was killed on one node, and went through on the other; the operator's edit comes back as well."""
    assert tale.said["undone"].code == 0, tale.said["undone"]
    assert same(tale.states["edited"][node], tale.states["undone"][node]) == {}


@pytest.mark.parametrize("node", NODES)
def test_plain_ansible_playbook_does_the_same(tale: Tale, node: str) -> None:
    assert tale.played[0] == 0, tale.played[1]
    assert same(tale.states["first"][node], tale.states["played"][node]) == {}
