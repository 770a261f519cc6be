# SPDX-License-Identifier: GPL-3.0-or-later
"""Saved plans and batches on the nodes that the story of remediate leaves clean: a canary that fails, and a node that drifted meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from verbs import Verb, verb

CONF, SYSCTL = "/etc/nccl.conf", "net.ipv4.conf.eth1.arp_ignore"
CHANGE, NODES = "nccl: file /etc/nccl.conf", ("node1", "node2", "node3")
SPOIL = f"echo NCCL_DEBUG=TRACE > {CONF}"


class Story(NamedTuple):
    """``conf``: the first line of the file by chapter and node."""

    runs: dict[str, Verb]
    conf: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def story(told: Any, scenario: str, tmp_path_factory: pytest.TempPathFactory) -> Story:
    assert told.playbook
    cluster, place = Cluster(scenario), tmp_path_factory.mktemp("plans")
    containers = {name: cluster.container(name) for name in NODES}
    runs: dict[str, Verb] = {}
    conf: dict[str, dict[str, str]] = {}

    def do(chapter: str, name: str, *more: str) -> None:
        runs[chapter] = verb(cluster.inventory, name, *more)
        conf[chapter] = {node: one.out("head", "-n", "1", CONF).strip() for node, one in containers.items()}

    def at(node: str, script: str) -> None:
        containers[node].run("sh", "-ec", script)

    for node in NODES:
        at(node, SPOIL)
    first, second = str(place / "first.plan"), str(place / "second.plan")
    do("planned", "plan", "--area", "nccl", "-o", first)
    at("node1", f"cp {CONF} /root/other; mount --bind /root/other {CONF}; mount -o remount,ro,bind {CONF}")
    do("canary", "apply", first, "--canary", "1", "--batch", "2")
    at("node1", f"umount {CONF}")
    do("resumed", "apply", "--resume")
    for node in NODES:
        at(node, SPOIL)
    do("again", "plan", "-o", second)
    at("node2", f"sysctl -qw {SYSCTL}=0")
    do("saved", "apply", second)
    do("edited", "apply", edited(Path(second)))
    do("rest", "apply")
    do("clean", "plan")
    return Story(runs, conf)


def edited(path: Path) -> str:
    other = path.with_name("edited.plan")
    other.write_text(path.read_text().replace("NCCL_DEBUG=TRACE", "NCCL_DEBUG=INFO"))
    return str(other)


def test_a_canary_that_fails_leaves_the_others_untouched(story: Story) -> None:
    assert story.runs["planned"].changes() == {name: [CHANGE] for name in NODES}
    run = story.runs["canary"]
    assert run.code == 1, run
    assert {name: node["status"] for name, node in run.document["nodes"].items()} == {"node1": "failed", "node2": "ok", "node3": "ok"}
    assert run.document["summary"]["changes"] == 0
    assert story.conf["canary"] == dict.fromkeys(NODES, "NCCL_DEBUG=TRACE")
    assert "not touched: node2, node3" in run.said
    assert "go on with: railwright apply -i " in run.said


def test_it_goes_on_where_it_stopped(story: Story) -> None:
    run = story.runs["resumed"]
    assert (run.code, run.document["summary"]["changes"]) == (0, 3), run
    assert "NCCL_DEBUG=TRACE" not in story.conf["resumed"].values()


def test_a_node_that_drifted_since_is_refused_and_no_other(story: Story) -> None:
    run = story.runs["saved"]
    assert run.code == 1, run
    node = run.document["nodes"]["node2"]
    assert node["message"].startswith(f"the node is no longer as it was when this was planned (new: sysctl: sysctl {SYSCTL})"), node
    assert [name for name, line in story.conf["saved"].items() if line == "NCCL_DEBUG=TRACE"] == ["node2"]


def test_an_edited_file_reaches_no_node(story: Story) -> None:
    run = story.runs["edited"]
    assert (run.code, run.document) == (64, None), run
    assert "is not as it was written (sha256); plan it again" in run.said


def test_what_was_refused_is_made_by_a_new_plan(story: Story) -> None:
    assert story.runs["rest"].changes() == {"node1": [], "node2": [f"sysctl: sysctl {SYSCTL}", CHANGE], "node3": []}
    assert story.runs["rest"].code == 0
    assert story.runs["clean"].code == 0
