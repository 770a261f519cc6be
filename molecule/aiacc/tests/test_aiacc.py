# SPDX-License-Identifier: GPL-3.0-or-later
"""AIACC's plugin from an unsigned package: refused with one line while anything is wrong, then installed once and found by the loader.

The packages are stand-ins (molecule.yml says why); dpkg, apt, rpm, dnf, ldconfig, download and copy are real.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nccl_files
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, located, mirror_path
from cluster import Cluster
from playbook import Host, Playbook

APT, DNF = "bookworm", "says-rocky9"
ENDINGS = {APT: "deb", DNF: "rpm"}
NAME, PLUGIN = "aiacc-nccl-plugin", "/usr/local/lib/libnccl-net.so"
MIRROR, WORK = "/srv/mirror", "/root/stand-in"
DEPENDS = {APT: "libibverbs1", DNF: "libibverbs"}
# As a person would check whether anything changed: files, links and what is installed; not the cache of downloads.
LISTED = ("find", "/etc", "/usr/local", "/opt", "-not", "-type", "d", "-printf", "%p %s %m %l %T@\n")
INSTALLED = {APT: ("dpkg-query", "-W"), DNF: ("rpm", "-qa")}
CONTROL = f"""Package: {NAME}
Version: {{version}}
Architecture: amd64
Maintainer: nobody <nobody@example.com>
Depends: {DEPENDS[APT]}
Description: stand-in of a test
"""
SPEC = f"""Name: {NAME}
Version: {{version}}
Release: 1
Summary: Stand-in of a test
License: GPL-3.0-or-later
AutoReqProv: no
Requires: {DEPENDS[DNF]}
%description
Stand-in.
%files
/usr/local/lib/*
"""

Values = dict[str, Any]


class Run(NamedTuple):
    before: dict[str, str]
    hosts: dict[str, Host]
    after: dict[str, str]

    def unchanged(self, node: str) -> bool:
        return self.before[node] == self.after[node]


class Story:
    """The nodes, the packages in their mirrors, and what the inventory says."""

    def __init__(self, scenario: str) -> None:
        self.cluster, self.playbook = Cluster(scenario), Playbook(scenario)
        self.nodes = {node.name: self.cluster.container(node.name) for node in self.cluster.nodes}
        self.library = self.playbook.build / "libnccl-net.so.0.0.0"
        subprocess.run(("gcc", "-shared", "-nostdlib", "-Wl,-soname,libnccl-net.so.0", "-x", "c", "/dev/null", "-o", str(self.library)),
                       check=True, timeout=60)
        self.pins: dict[str, str] = {}
        self.archives: dict[str, Path] = {}
        for node, ending in ENDINGS.items():
            row = find_artifact(f"aiacc_nccl_plugin_{ending}")
            assert row is not None
            first = self.build(node, "1.0.2")
            self.pins[row.name] = hashlib.sha256(first.read_bytes()).hexdigest()
            target = f"{MIRROR}/{mirror_path(located(row))}"
            self.nodes[node].run("mkdir", "-p", target.rpartition("/")[0])
            self.nodes[node].copy_in(first, target)
            self.archives[node] = self.build(node, "1.1.0")

    def build(self, node: str, version: str) -> Path:
        """An unsigned package with the files of the real one; a copy of it on this machine."""
        container, ending = self.nodes[node], ENDINGS[node]
        root = f"{WORK}/{version}"
        library = f"{root}/usr/local/lib"
        container.run("mkdir", "-p", library)
        container.copy_in(self.library, f"{library}/libnccl-net.so.0.0.0")
        for link in ("libnccl-net.so", "libnccl-net.so.0"):
            container.run("ln", "-s", "libnccl-net.so.0.0.0", f"{library}/{link}")
        if ending == "deb":
            container.write(f"{root}/DEBIAN/control", CONTROL.format(version=version))
            container.run("dpkg-deb", "--root-owner-group", "--build", root, f"{WORK}/{NAME}-{version}.deb")
        else:
            container.write(f"{WORK}/{version}.spec", SPEC.format(version=version))
            container.run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {WORK}/rpm", "--define", f"_rpmdir {WORK}/out",
                          "--define", "__spec_install_post %{nil}", "--buildroot", root, f"{WORK}/{version}.spec")
            built = container.out("find", f"{WORK}/out", "-name", f"{NAME}-{version}-*.rpm").strip()
            container.run("mv", built, f"{WORK}/{NAME}-{version}.rpm")
        local = self.playbook.build / f"{NAME}-{version}.{ending}"
        container.copy_out(f"{WORK}/{NAME}-{version}.{ending}", local)
        return local

    def states(self) -> dict[str, str]:
        return {name: "\n".join(sorted(container.out(*LISTED).splitlines())) + container.out(*INSTALLED[name])
                for name, container in self.nodes.items()}

    def run(self, values: Values | None = None, hosts: Mapping[str, Values] | None = None, *, check: bool = False) -> Run:
        common = {"rdma_artifact_mirror": f"file://{MIRROR}", "rdma_artifact_pins": self.pins}
        self.playbook.say({**common, **(values or {})}, hosts or {})
        before = self.states()
        return Run(before, self.playbook.run(check=check), self.states())

    @property
    def newer(self) -> dict[str, Values]:
        """Release 1.1.0 as a file of the controller's."""
        return {
            node: {"aiacc_version": "1.1.0", "aiacc_archive": str(self.archives[node]),
                   "rdma_artifact_pins": {f"aiacc_nccl_plugin_{ENDINGS[node]}-1.1.0": digest(self.archives[node])}}
            for node in ENDINGS}  # fmt: skip

    def installed(self, node: str) -> str:
        argv = ("dpkg-query", "-W", "-f", "${Version}", NAME) if node == APT else ("rpm", "-q", "--qf", "%{VERSION}", NAME)
        return self.nodes[node].run(*argv, check=False).stdout


def refusals(story: Story) -> dict[str, Run]:
    """Every one before anything is installed."""
    zeros = dict.fromkeys(story.pins, "0" * 64)
    wrong = {node: {**values, "rdma_artifact_pins": dict.fromkeys(values["rdma_artifact_pins"], "0" * 64)}
             for node, values in story.newer.items()}
    other = {node: {"aiacc_archive": values["aiacc_archive"],
                    "rdma_artifact_pins": dict.fromkeys(story.pins, digest(story.archives[node]))} for node, values in story.newer.items()}
    runs = {
        "no sha256": story.run({"rdma_artifact_pins": {}}),
        "wrong sha256": story.run({"rdma_artifact_pins": zeros}),
        "wrong sha256 of a file": story.run(hosts=wrong),
        "another release in the file": story.run(hosts=other),
        "turned off": story.run({"nccl_overrides": {"NCCL_NET_PLUGIN": "none"}}),
        "NCCL 2.20 wanted": story.run(
            {"nccl_install": "source", "nccl_version": "2.20.5", "rdma_artifact_pins": {**story.pins, "nccl-source": "0" * 64}}),
    }
    file = story.playbook.build / "libnccl.so.2"
    file.write_bytes(nccl_files.elf("2.20.5", "12.4"))
    for container in story.nodes.values():
        container.copy_in(file, "/usr/local/lib/libnccl.so.2")
    runs["NCCL 2.20 found"] = story.run()
    for container in story.nodes.values():
        container.run("rm", "/usr/local/lib/libnccl.so.2")
        container.write("/etc/profile.d/site.sh", "export NCCL_NET_PLUGIN=none\n")
    runs["turned off on the node"] = story.run()
    for container in story.nodes.values():
        container.run("rm", "/etc/profile.d/site.sh")
    return runs


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Told(NamedTuple):
    runs: dict[str, Run]
    versions: dict[str, dict[str, str]]
    caches: dict[str, str]


@pytest.fixture(scope="session")
def told(scenario: str) -> Told:
    story = Story(scenario)
    runs = refusals(story)
    versions = {"before": {node: story.installed(node) for node in ENDINGS}}
    runs["check"] = story.run(check=True)
    runs["apply"] = story.run()
    versions["apply"] = {node: story.installed(node) for node in ENDINGS}
    caches = {node: story.nodes[node].out("ldconfig", "-p") for node in ENDINGS}
    runs["again"] = story.run()
    runs["newer"] = story.run(hosts=story.newer)
    versions["newer"] = {node: story.installed(node) for node in ENDINGS}
    runs["back without consent"] = story.run()
    runs["back"] = story.run({"rdma_consent": ["downgrade"]})
    versions["back"] = {node: story.installed(node) for node in ENDINGS}
    runs["not wanted"] = story.run({"rdma_nccl_profile": "erdma-native"})
    versions["not wanted"] = {node: story.installed(node) for node in ENDINGS}
    return Told(runs, versions, caches)


@pytest.mark.parametrize("node", ENDINGS)
@pytest.mark.parametrize(("cause", "words"), [
    ("no sha256", "aiacc-nccl-plugin 1.0.2 is not signed and not pinned"),
    ("wrong sha256", f"and not {'0' * 64}, which rdma_artifact_pins names; nothing was changed"),
    ("wrong sha256 of a file", f"and not {'0' * 64}, which rdma_artifact_pins names; nothing was changed"),
    ("another release in the file", "and not aiacc-nccl-plugin 1.0.2 (aiacc_version); nothing was changed"),
    ("turned off", "NCCL_NET_PLUGIN"),
    ("NCCL 2.20 wanted", "2.8 to 2.16"),
    ("NCCL 2.20 found", "NCCL /usr/local/lib/libnccl.so.2: is 2.20.5, and aiacc-nccl-plugin goes with NCCL 2.8 to 2.16"),
    ("turned off on the node", "/etc/profile.d/site.sh: sets NCCL_NET_PLUGIN=none"),
])  # fmt: skip
def test_one_clear_line_and_nothing_changed(told: Told, cause: str, words: str, node: str) -> None:
    run = told.runs[cause]
    ((_task, message),) = run.hosts[node].failed
    assert words in message
    assert "\n" not in message.strip()
    assert run.unchanged(node)
    assert told.versions["before"][node] != "1.0.2"


@pytest.mark.parametrize("node", ENDINGS)
def test_check_mode_says_that_it_would_and_does_nothing(told: Told, node: str) -> None:
    run = told.runs["check"]
    assert run.hosts[node].failed == []
    assert run.hosts[node].changed != []
    assert run.hosts[node].plan[0]["what"] == f"package {NAME}"
    assert run.unchanged(node)


@pytest.mark.parametrize("node", ENDINGS)
def test_it_is_installed_with_what_it_needs_and_the_loader_finds_it(told: Told, node: str) -> None:
    assert told.runs["apply"].hosts[node].failed == []
    assert told.versions["apply"][node] == "1.0.2"
    assert DEPENDS[node] in told.runs["apply"].after[node]
    assert f"=> {PLUGIN}\n" in told.caches[node]
    assert ("/etc/ld.so.conf.d/railwright-aiacc.conf" in told.runs["apply"].after[node]) is False, "Debian's loader looks there by itself"


@pytest.mark.parametrize("node", ENDINGS)
def test_the_second_apply_changes_nothing(told: Told, node: str) -> None:
    run = told.runs["again"]
    assert (run.hosts[node].failed, run.hosts[node].changed) == ([], [])
    assert run.unchanged(node)


@pytest.mark.parametrize("node", ENDINGS)
def test_a_newer_release_is_installed_and_an_older_one_only_with_consent(told: Told, node: str) -> None:
    assert told.runs["newer"].hosts[node].failed == []
    assert told.versions["newer"][node] == "1.1.0"
    refused = told.runs["back without consent"]
    ((_task, message),) = refused.hosts[node].failed
    assert "downgrade" in message
    assert refused.unchanged(node)
    assert told.runs["back"].hosts[node].failed == []
    assert told.versions["back"][node] == "1.0.2"


@pytest.mark.parametrize("node", ENDINGS)
def test_nothing_is_taken_off_that_nobody_asked_to(told: Told, node: str) -> None:
    run = told.runs["not wanted"]
    assert (run.hosts[node].failed, run.hosts[node].changed) == ([], [])
    assert told.versions["not wanted"][node] == "1.0.2"
