# SPDX-License-Identifier: GPL-3.0-or-later
"""Each cause alone refuses the node with one line and leaves it as it was; with none of them the same node is served.

says-rocky9 is a Debian that says it is Rocky Linux 9, with a real dnf and rpm. The kernel cases are files in a container.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import causes
from causes import Cause
from playbook import Host
from story import State, Story

APT, DNF = "bookworm", "says-rocky9"
BASE = "http://127.0.0.1:8080"
COMMON = {
    "rdma_stack": "doca", "rdma_stack_version": "3.2.2", "rdma_consent": ["restart", "reload"], "rdma_stack_lock_wait_s": 2,
    "rdma_stack_repository_url": f"{BASE}/doca-3.2.2", "rdma_stack_repository_key_url": f"{BASE}/right.asc",
}
OFFLINE = {"rdma_stack_offline_package": {"url": f"{BASE}/right.asc", "sha256": "0" * 64}}


def repository(name: str) -> dict[str, str]:
    return {"rdma_stack_repository_url": f"{BASE}/{name}"}


def both(*words: str) -> dict[str, tuple[str, ...]]:
    return {APT: words, DNF: words}


CAUSES = (
    Cause("the key has another fingerprint", {"rdma_stack_repository_key_url": f"{BASE}/wrong.asc"}, both("fingerprint")),
    Cause("signed by another key", repository("doca-3.2.2-wrong-key"), both("sign")),
    Cause("the index was changed", repository("doca-3.2.2-tampered"), both("doca")),
    Cause("a package is missing", repository("doca-3.2.2-missing"), both("ucx")),
    Cause("a package is another file", repository("doca-3.2.2-corrupt"), both("mlnx-tools")),
    Cause("the offline package is another file", OFFLINE, both("sha256")),
    Cause("a package is held", {}, {APT: ("libibverbs1", "held"), DNF: ("libibverbs", "locked")}, causes.hold, causes.let_go),
    Cause("a package of others would go", {}, both("site-verbs-tool"), causes.foreign, causes.no_foreign),
    Cause("the system is not supported", {}, both("Slackware"), causes.other_system, causes.own_system),
    Cause("the package manager is busy", {}, both("lock"), causes.be_busy, causes.end_busy),
    Cause("the disk is full", {}, both("MiB free"), causes.fill_disk, causes.empty_disk),
    Cause("files: a newer kernel is installed", {}, both(causes.NEWER, "reboot"), causes.newer_kernel, causes.container_again),
    Cause("files: headers are missing", {}, {APT: ("linux-headers-",), DNF: ("kernel-devel-",)}, causes.no_headers, causes.container_again),
)


class Run(NamedTuple):
    before: dict[str, State]
    hosts: dict[str, Host]
    after: dict[str, State]


class Refusals:
    """Runs the role once for each cause, when a test first asks."""

    def __init__(self, scenario: str) -> None:
        self.story = Story(scenario, COMMON)
        self.story.common["rdma_stack_repository_fingerprint"] = self.story.fingerprint()
        self.containers = {node.name: self.story.cluster.container(node.name) for node in self.story.cluster.nodes}
        self.runs: dict[str, Run] = {}

    def run(self, limit: str | None = None, **values: Any) -> Run:
        before = self.story.states()
        self.story.say(values)
        hosts = self.story.playbook.run(limit=limit)
        return Run(before, hosts, self.story.states())

    def of(self, cause: Cause) -> Run:
        if cause.name not in self.runs:
            try:
                for container in self.containers.values():
                    cause.put(container)
                self.runs[cause.name] = self.run(**cause.values)
            finally:
                for container in self.containers.values():
                    cause.take(container)
        return self.runs[cause.name]


@pytest.fixture(scope="session")
def refusals(scenario: str) -> Refusals:
    return Refusals(scenario)


@pytest.mark.parametrize("node", [APT, DNF])
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_one_clear_line_and_nothing_changed(refusals: Refusals, cause: Cause, node: str) -> None:
    run = refusals.of(cause)
    host = run.hosts[node]
    assert len(host.failed) == 1, host.failed
    _task, message = host.failed[0]
    assert [word for word in cause.words[node] if word not in message] == [], message
    assert "\n" not in message.strip()
    assert "Traceback" not in message
    assert run.after[node] == run.before[node]


def test_an_interrupted_dpkg_is_repaired_only_with_consent(refusals: Refusals) -> None:
    apt = refusals.containers[APT]
    causes.interrupt(apt)
    refused = refusals.run(APT)
    assert refused.before[APT].packages["site-slow"][0] == "iF ", "dpkg was not interrupted"
    assert [message for _task, message in refused.hosts[APT].failed if "repair" in message and "interrupted dpkg" in message]
    assert refused.after[APT] == refused.before[APT]


def test_without_a_cause_both_nodes_are_served(refusals: Refusals) -> None:
    """Last: what was left behind by no cause, and an interrupted dpkg with consent to repair it."""
    run = refusals.run(rdma_consent=[*COMMON["rdma_consent"], "repair"])
    assert {node: host.failed for node, host in run.hosts.items()} == {APT: [], DNF: []}
    assert run.after[APT].installed["doca-ofed"] == run.after[DNF].installed["doca-ofed"] == "3.2.2-035000"
    assert run.after[APT].packages["site-slow"][0] == "ii "
