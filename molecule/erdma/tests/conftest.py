# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of eRDMA's nodes, told once: refusals, the role alone by ansible-playbook, the whole site by the command line, with AIACC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

import standins
from aiacc_package import into_mirror, library
from playbook import Host
from story import LINKER, MIRROR, State, Step, Story
from verbs import Verb, site

ROCKY9 = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\nPRETTY_NAME="Rocky Linux 9.6 (stand-in)"\n'
BULLSEYE = 'ID=debian\nVERSION_ID="11"\nVERSION_CODENAME=bullseye\nPRETTY_NAME="Debian GNU/Linux 11 (stand-in)"\n'
UNSERVED = {"says-ubuntu2204": BULLSEYE, "says-alinux3": ROCKY9}
WRONG_KEY = f"file://{standins.NODE_PATH}/wrong.asc"


class Refusal(NamedTuple):
    before: dict[str, State]
    hosts: dict[str, Host]
    after: dict[str, State]


class Told(NamedTuple):
    story: Story
    refusals: dict[str, Refusal]
    role: Step
    verbs: dict[str, Verb]
    artifacts: list[dict[str, str]]
    native: dict[str, list[str]]  # by node, NCCL's file before AIACC came
    aiacc: dict[str, Verb]


def bring_aiacc(story: Story) -> dict[str, Any]:
    """The plugin's package in every node's mirror; what the inventory must say to have it."""
    plugin = library(story.playbook.build / "libnccl-net.so.0.0.0")
    hosts: dict[str, Any] = {}
    for node in story.cluster.nodes:
        ending = "deb" if node.entry["standin"] == "deb" else "rpm"
        hosts[node.name] = {"rdma_artifact_pins": into_mirror(story.cluster.container(node.name), ending, plugin, MIRROR)}
    return hosts


def fill_mirror(story: Story) -> list[dict[str, str]]:
    """What a mirror must hold, by what ``railwright artifacts`` lists for this inventory, and where the stand-in of each row is."""
    rows = story.playbook.artifacts()
    places = {row["name"]: row["path"].rstrip("/") for row in rows if "path" in row}
    for node in story.cluster.nodes:
        kind = "apt" if node.entry["standin"] == "deb" else "redhat8"
        links = {places[f"erdma-{kind}-x86_64"]: f"{standins.NODE_PATH}/erdma-{kind}",
                 places["erdma-key"]: f"{standins.NODE_PATH}/right.asc"}
        story.cluster.container(node.name).run("python3", "-", MIRROR, json.dumps(links), stdin=LINKER)
    return rows


def refused(story: Story, values: Mapping[str, Any]) -> Refusal:
    story.say(values)
    before = story.states()
    return Refusal(before, story.playbook.run(limit=",".join(UNSERVED)), story.states())


def unserved(story: Story) -> Refusal:
    """For one run the nodes say that they are systems that Alibaba has nothing for."""
    for name, text in UNSERVED.items():
        container = story.cluster.container(name)
        container.run("cp", "/etc/os-release", "/root/os-release")
        container.write("/etc/os-release", text)
    try:
        return refused(story, {"rdma_accept_eol": True})
    finally:
        for name in UNSERVED:
            story.cluster.container(name).run("cp", "/root/os-release", "/etc/os-release")


@pytest.fixture(scope="session")
def told(scenario: str) -> Told:
    """In order; what a step leaves on the nodes is where the next one begins."""
    story = Story(scenario, {"rdma_artifact_mirror": f"file://{MIRROR}"})
    story.say({})
    artifacts = fill_mirror(story)
    pinned = {"erdma_repository_fingerprint": story.fingerprint()}
    refusals = {
        "the key is not pinned": refused(story, {}),
        "another key": refused(story, {**pinned, "erdma_repository_key_url": WRONG_KEY}),
    }
    story.common |= pinned
    refusals["a system without a repository"] = unserved(story)
    story.say({})
    before = story.states()
    check = story.playbook.run(check=True)
    between = story.states()
    applied = story.playbook.run()
    role = Step(before, check, between, applied, story.states(), story.playbook.run())
    verbs = site(story.playbook.inventory)
    native = {node.name: story.cluster.container(node.name).out("cat", "/etc/nccl.conf").splitlines() for node in story.cluster.nodes}
    story.say({"rdma_nccl_profile": "erdma-aiacc"}, bring_aiacc(story))
    return Told(story, refusals, role, verbs, artifacts, native, site(story.playbook.inventory))
