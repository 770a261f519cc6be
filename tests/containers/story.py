# SPDX-License-Identifier: GPL-3.0-or-later
"""A story of inventory changes on a scenario's nodes: before and after every run, what is installed and what lies in PLACES.

A step is planned (--check), applied, and applied again; what the tests judge is kept, nothing is judged here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import standins
from cluster import Cluster
from harness import Container
from playbook import Host, Playbook

DPKG = ("dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\t${db:Status-Want}\n")
RPM = ("rpm", "-qa", "--qf", "ii\t%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\t%{INSTALLTIME}\n")
PLACES = ("/etc", "/boot", "/usr/src")
FILES = ("find", *PLACES, "-type", "f", "-exec", "sha256sum", "{}", "+")
LINKS = ("find", *PLACES, "-type", "l", "-printf", "%l  %p\n")
MLNX_OFED = "24.10-4.1.4.0"
MIRROR = "/srv/mirror"
LINKER = """
import json, os, sys
for link, target in json.loads(sys.argv[2]).items():
    link = os.path.join(sys.argv[1], link)
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.path.lexists(link) or os.symlink(target, link)
"""


class State(NamedTuple):
    """A node at one moment.

    ``packages``: name -> (status, version, whether held or when installed); ``files``: path -> digest or target of a link.
    """

    packages: Mapping[str, tuple[str, str, str]]
    files: Mapping[str, str]

    @property
    def installed(self) -> dict[str, str]:
        return {name: version for name, (status, version, _more) in self.packages.items() if status.strip() == "ii"}


class Step(NamedTuple):
    """One chapter. ``again`` is the second apply; None where the first one was refused by design."""

    before: dict[str, State]
    check: dict[str, Host]
    between: dict[str, State]
    apply: dict[str, Host]
    after: dict[str, State]
    again: dict[str, Host]


def observe(container: Container) -> State:
    """What is installed, by the package manager's own database, and /etc."""
    rpm = container.run("test", "-e", "/etc/redhat-release", check=False).returncode == 0
    rows = [line.split("\t") for line in container.out(*(RPM if rpm else DPKG)).splitlines()]
    listed = container.out(*FILES) + container.out(*LINKS)
    files = {path: digest for digest, _gap, path in (line.partition("  ") for line in listed.splitlines())}
    # A name may be there more than once in rpm (gpg-pubkey): its version is then part of the name.
    packages = {(f"{name}-{version}" if name == "gpg-pubkey" else name): (status, version, more) for status, name, version, more in rows}
    return State(packages, files)


class Story:
    """The nodes of a scenario, and the inventory values that hold in every step."""

    def __init__(self, scenario: str, common: Mapping[str, Any]) -> None:
        self.cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.common = dict(common)

    def states(self) -> dict[str, State]:
        return {node.name: observe(self.cluster.container(node.name)) for node in self.cluster.nodes}

    def say(self, values: Mapping[str, Any], hosts: Mapping[str, dict[str, Any]] | None = None) -> None:
        self.playbook.say({**self.common, **values}, hosts or {})

    def step(self, values: Mapping[str, Any], hosts: Mapping[str, dict[str, Any]]) -> Step:
        """Plan, apply, apply again."""
        self.say(values, hosts)
        if values.get("rdma_artifact_mirror"):
            self.fill_mirror()
        before = self.states()
        check = self.playbook.run(check=True)
        between = self.states()
        applied = self.playbook.run()
        after = self.states()
        refused = any(host.failed for host in applied.values())
        return Step(before, check, between, applied, after, {} if refused else self.playbook.run())

    def fingerprint(self) -> str:
        """Of the key that signed what these nodes have: a later build of the stand-ins has another one."""
        container = self.cluster.container(self.cluster.nodes[0].name)
        return str(json.loads(container.out("cat", f"{standins.NODE_PATH}/keys.json"))["right"])

    def fill_mirror(self) -> None:
        """The mirror on every node, by what ``railwright artifacts`` lists for the inventory: the key lies in the repository itself."""
        rows = [row for row in self.playbook.artifacts() if row["kind"] == "repository" and "path" in row]
        links = {row["path"].rstrip("/"): f"{standins.NODE_PATH}/{row['name'].partition('-')[0]}-{row['version']}" for row in rows}
        for node in self.cluster.nodes:
            self.cluster.container(node.name).run("python3", "-", MIRROR, json.dumps(links), stdin=LINKER)


VENDOR_CLASSES = ["restart", "reload"]  # consent of the whole story but for what one step is about


def tell(scenario: str) -> dict[str, Step]:
    """The life of a stack: there and back, forward and (with consent) backward, and from one vendor to another.

    Packages come through the mirror; for nodes that no vendor has a repository for the inventory names one.
    """
    story = Story(scenario, {})
    unknown = [node.name for node in story.cluster.nodes if node.entry.get("own_repository")]

    def step(stack: str, *consent: str) -> Step:
        name, _space, version = stack.partition(" ")
        values: dict[str, Any] = {"rdma_stack": name, "rdma_consent": [*VENDOR_CLASSES, *consent]}
        hosts = {}
        if version:
            own = {"rdma_stack_repository_url": f"file://{standins.NODE_PATH}/{name}-{version}",
                   "rdma_stack_repository_key_url": f"file://{standins.NODE_PATH}/right.asc"}
            values |= {"rdma_stack_version": version, "rdma_stack_repository_fingerprint": story.fingerprint()}
            # NVIDIA has MLNX_OFED for few systems, none of them here.
            values |= {"rdma_artifact_mirror": f"file://{MIRROR}"} if name == "doca" else own
            hosts = dict.fromkeys(unknown, own) if name == "doca" else {}
        return story.step(values, hosts)

    return {
        "inbox": step("inbox"),
        "doca 3.2.2": step("doca 3.2.2"),
        "doca 3.2.3": step("doca 3.2.3"),
        "doca 3.2.2 without consent": step("doca 3.2.2"),
        "doca 3.2.2 again": step("doca 3.2.2", "downgrade"),
        "inbox again": step("inbox"),
        "mlnx_ofed": step(f"mlnx_ofed {MLNX_OFED}"),
        "doca after mlnx_ofed": step("doca 3.2.3"),
    }
