# SPDX-License-Identifier: GPL-3.0-or-later
"""Area repositories: keyrings, definitions, pins, holds, what is not ours, and an interrupted dpkg."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import packages, repositories
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import repository_files as text
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import INDEX_SIGNED
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import VENDORS
from ansible_collections.railwright.rdma.plugins.module_utils.formats.openpgp import fingerprints
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import downloads, needs_dry_run, package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity
from packages_nodes import NOBLE, ROCKY, SLES, Node, whats

# The primary key packet of the sample certificate of RFC 9580, appendix A.3, and another one: keys without any tool.
KEY = base64.b64decode("xioGY4d/4xsAAAAg+U2nu0jWCmHlZ3BqZYfQMxmZu52JGggkLq2EVD34laM=")
OTHER = KEY[:-1] + b"\x01"
KEYRING = "/etc/apt/keyrings/railwright-doca.asc"
SOURCES, PINS = "/etc/apt/sources.list.d/railwright-doca.sources", "/etc/apt/preferences.d/railwright-doca.pref"
LIST = "/etc/dnf/plugins/versionlock.list"
Make = Callable[..., Any]


class Area:
    """The area on one node."""

    def __init__(self, node: Node, spec: Spec, identity: Identity) -> None:
        self.node, self.spec, self.identity = node, spec, identity
        self.desired = repositories.desired(spec, identity)

    def plan(self) -> list[Change]:
        changes = repositories.plan(self.desired, repositories.observe(self.node, self.desired))
        assert all(change.area == "repositories" and change.ops and change.why and change.source for change in changes)
        return changes

    def keys(self) -> list[str]:
        return [change.what for change in self.plan()]

    def problems(self) -> list[str]:
        observed = repositories.observe(self.node, self.desired)
        found = repositories.problems(self.spec, self.identity, self.desired) + repositories.conflicts(self.desired, observed)
        return [f"{problem.subject}: {problem.message}" for problem in found]

    def converge(self) -> None:
        for op in (op for change in self.plan() for op in change.ops):
            if op.kind == "write":
                self.node.write(op.path, op.content, op.mode)
            elif op.kind == "remove":
                self.node.remove(op.path)
        assert self.plan() == []


@pytest.fixture
def fingerprint() -> str:
    """Of version 6, so longer than what an inventory may say today: the area does not care."""
    return fingerprints(KEY)[0]


@pytest.fixture
def area(node: Node, doca: Make, identity: Make, monkeypatch: pytest.MonkeyPatch, fingerprint: str) -> Callable[..., Area]:
    real = repositories.repositories_of
    monkeypatch.setattr(repositories, "repositories_of", lambda spec, who: tuple(
        row._replace(fingerprint=fingerprint if row.fingerprint else None) for row in real(spec, who)))

    def build(*platform: Any, **values: Any) -> Area:
        return Area(node, doca(**values), identity(*platform))

    return build


def test_a_new_repository_on_apt(area: Make, node: Node, fingerprint: str) -> None:
    node.put("/var/cache/railwright/keys/doca", OTHER + KEY)
    found = area()
    assert [(what, before) for what, (before, _after, _class) in whats(found.plan()).items()] == [
        ("signing key of repository doca", None), ("file " + PINS, None), ("file " + SOURCES, None)]  # fmt: skip
    assert {change.disruption for change in found.plan()} == {"none"}
    found.converge()
    assert fingerprints(node.read_bytes(KEYRING) or b"") == (fingerprint,), "the other key of the vendor's file does not come along"
    lines = (node.read(SOURCES) or "").splitlines()
    assert lines[0].startswith("# Managed by railwright")
    assert lines[2:] == ["Types: deb", "URIs: https://mirror.example/doca/", "Suites: ./", "Signed-By: " + KEYRING]
    assert "Package: dkms\nPin: release l=DOCA-HOST*\nPin-Priority: -1\n" in (node.read(PINS) or "")


def test_the_plan_is_the_same_with_and_without_the_downloaded_key(area: Make, node: Node) -> None:
    without = [(change.key, change.before, change.after, change.disruption) for change in area().plan()]
    node.put("/var/cache/railwright/keys/doca", KEY)
    assert [(change.key, change.before, change.after, change.disruption) for change in area().plan()] == without


def test_a_key_that_is_not_the_pinned_one_is_never_written(area: Make, node: Node) -> None:
    node.put("/var/cache/railwright/keys/doca", OTHER)
    change = area().plan()[0]
    assert [op.kind for op in change.ops] == ["run"]
    assert change.ops[0].argv[0] == "test", "fails, and changes nothing"


@pytest.mark.parametrize(("content", "before"), [(OTHER, "other"), (OTHER + KEY, "both"), (b"garbage", "none")])
def test_a_keyring_holds_the_pinned_key_and_nothing_else(area: Make, node: Node, content: bytes, before: str, fingerprint: str) -> None:
    node.put("/var/cache/railwright/keys/doca", KEY)
    area().converge()
    node.put(KEYRING, content)
    (change,) = area().plan()
    wanted = {"other": list(fingerprints(OTHER)), "both": [*fingerprints(OTHER), fingerprint], "none": []}
    assert (change.what, change.before, change.after) == ("signing key of repository doca", wanted[before], [fingerprint])


def test_downloads_only_where_a_key_is_wanted(area: Make, node: Node, doca: Make, identity: Make, fingerprint: str) -> None:
    first = area().plan()
    assert downloads(doca(), identity(), first) == [
        {"url": "https://mirror.example/key.gpg", "dest": "/var/cache/railwright/keys/doca", "checksum": ""}]  # fmt: skip
    assert needs_dry_run(first)
    node.put("/var/cache/railwright/keys/doca", KEY)
    area().converge()
    assert downloads(doca(), identity(), area().plan()) == []
    assert not needs_dry_run(area().plan())


def test_another_url_changes_the_definition_alone(area: Make, node: Node) -> None:
    node.put("/var/cache/railwright/keys/doca", KEY)
    area().converge()
    assert area(rdma_stack_repository_url="https://mirror.example/doca-next/").keys() == ["file " + SOURCES]


def test_what_is_not_wanted_any_more_goes_if_it_is_ours(area: Make, node: Node, spec: Make, identity: Make) -> None:
    node.put("/var/cache/railwright/keys/doca", KEY)
    area().converge()
    node.put("/etc/apt/sources.list.d/railwright-somebody.sources", "# not ours for all its name\n")
    inbox = Area(node, spec(), identity())
    assert whats(inbox.plan())["file " + KEYRING][1] is None
    inbox.converge()
    assert [node.exists(path) for path in (KEYRING, SOURCES, PINS)] == [False, False, False]
    assert node.exists("/etc/apt/sources.list.d/railwright-somebody.sources")


def test_definition_on_dnf(area: Make, node: Node) -> None:
    node.put("/var/cache/railwright/keys/doca", KEY)
    area(ROCKY).converge()
    content = node.read("/etc/yum.repos.d/railwright-doca.repo") or ""
    for line in ("[railwright-doca]", "baseurl=https://mirror.example/doca/", "gpgcheck=1", "enabled=1", "skip_if_unavailable=0",
                 "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-railwright-doca", "priority=50"):  # fmt: skip
        assert line in content.splitlines()


def test_dnf_checks_the_index_of_every_vendor_who_signs_it(area: Make, node: Node) -> None:
    (row,) = area(ROCKY).desired.repositories
    for name, (signed, why) in INDEX_SIGNED.items():
        assert len(why) > 20, name
        lines = text.definition("dnf", row._replace(name=name, index_signed=signed)).splitlines()
        assert {"gpgcheck=1", f"repo_gpgcheck={int(signed)}"} <= set(lines)
    assert not row.index_signed
    assert {name for name, (signed, _why) in INDEX_SIGNED.items() if signed} == {"cuda"}
    assert {row.name for row in ARTIFACTS if row.kind == "repository" and row.name.split("-")[0] not in INDEX_SIGNED} == set()


@pytest.mark.parametrize("stack", VENDORS)
def test_an_older_index_that_nobody_signed_has_not_what_is_asked_for(stack: str, node: Node, spec: Make, identity: Make) -> None:
    """Its packages are signed, whatever their age: the release that is asked for keeps them away."""
    where = {"rdma_stack": stack, "rdma_stack_repository_url": "https://mirror.example/x/", "rdma_stack_repository_key_url":
             "https://mirror.example/key", "rdma_stack_repository_fingerprint": "A" * 40}
    wanted = packages.desired(spec(**where), identity(ROCKY))
    assert wanted.vendor is not None
    [meta] = [row for row in wanted.packages if row.name == wanted.vendor.meta]
    assert meta.version == f"{wanted.vendor.release}*"
    node.rpm(("bash", "5.1-1"))
    steps = package_steps(packages.plan(wanted, packages.observe(node, wanted)), "dnf")["steps"]
    assert f"{meta.name}-{meta.version}" in [name for step in steps for name in step["names"]]


def test_the_key_is_not_pinned(node: Node, spec: Make, identity: Make) -> None:
    """DOCA's rpms have a key that the catalogue knows no fingerprint of."""
    found = Area(node, spec(rdma_stack="doca"), identity(ROCKY))
    (said,) = found.problems()
    assert said.startswith("repository doca: its signing key (https://linux.mellanox.com/public/repo/doca/")
    assert said.endswith("set rdma_stack_repository_fingerprint to the key's fingerprint")
    assert not [what for what in whats(found.plan()) if what.startswith("signing key")]


@pytest.mark.parametrize(("path", "content"), [
    ("/etc/apt/sources.list", "deb http://mirror.example/doca ./\n"),
    ("/etc/apt/sources.list.d/doca.list", "deb [signed-by=/usr/share/keyrings/k.gpg arch=amd64] https://mirror.example/doca/ ./\n"),
    ("/etc/apt/sources.list.d/doca.sources", "Types: deb\nURIs: https://other.example/ https://mirror.example/doca/./\nSuites: ./\n"),
])  # fmt: skip
def test_a_definition_of_somebody_else_is_a_conflict_that_names_the_file(area: Make, node: Node, path: str, content: str) -> None:
    node.put(path, content)
    (said,) = area().problems()
    assert said.startswith(f"repository doca: is defined in {path} already")


def test_definitions_that_are_switched_off_or_elsewhere_are_none(area: Make, node: Node) -> None:
    node.put("/etc/apt/sources.list.d/a.list", "# deb https://mirror.example/doca/ ./\ndeb https://mirror.example/docker/ ./\n")
    node.put("/etc/apt/sources.list.d/b.sources", "Enabled: no\nURIs: https://mirror.example/doca/\nSuites: ./\n")
    assert area().problems() == []
    node.put("/etc/yum.repos.d/c.repo", "[c]\nbaseurl=https://mirror.example/doca\nenabled=0\n[d]\nbaseurl=https://x.example\n")
    assert area(ROCKY).problems() == []
    node.put("/etc/yum.repos.d/c.repo", "[c]\nbaseurl=https://mirror.example/doca\n")
    assert "/etc/yum.repos.d/c.repo" in area(ROCKY).problems()[0]


def test_an_interrupted_dpkg_is_repaired_first_and_with_consent(area: Make, node: Node) -> None:
    node.dpkg(("bash", "5.2-1"), ("perftest", "1-1", "install ok half-configured"), ("mft", "1-1", "install ok unpacked"))
    change = area().plan()[0]
    assert (change.what, change.before, change.after, change.disruption) == (
        "interrupted dpkg", {"perftest": "half-configured", "mft": "unpacked"}, None, "repair")  # fmt: skip
    assert change.ops[0].argv[0] == "dpkg"
    assert change.ops[0].argv[-2:] == ("--configure", "-a")
    node.dpkg(("bash", "5.2-1"))
    node.put("/var/lib/dpkg/updates/0007", "")
    assert area().plan()[0].before == {"/var/lib/dpkg/updates": "not merged"}


# What dpkg 1.21 said on a node whose disk had been full while one package of many was unpacked.
STUCK = """dpkg: dependency problems prevent configuration of doca-ofed:
 doca-ofed depends on mlnx-ofed-kernel-dkms (= 25.10.OFED.25.10.3.1.1-1); however:
  Version of mlnx-ofed-kernel-dkms on system is 25.10.OFED.25.10.2.1.1-1.
"""


@pytest.mark.parametrize(("answer", "state", "apt"), [
    (Result(1, "", STUCK), "unpacked", True), (Result(0, "", ""), "unpacked", False), (Result(0, "", ""), "half-installed", True),
    (Result(127, "", "dpkg: not recorded"), "unpacked", False),
])  # fmt: skip
@pytest.mark.parametrize("journal", [False, True])
def test_what_dpkg_alone_cannot_finish_is_left_to_the_package_step(
    area: Make, node: Node, monkeypatch: pytest.MonkeyPatch, answer: Result, state: str, apt: bool, journal: bool
) -> None:
    """Nothing but a trial of dpkg's is run for the plan; and apt takes no order while dpkg's journal is there."""
    asked: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], timeout: float = 30.0, stdin: str | None = None) -> Result:
        asked.append(tuple(argv))
        return answer if argv[0] == "dpkg" else Result(127, "", "")

    monkeypatch.setattr(node, "run", run)
    node.dpkg(("bash", "5.2-1"), ("doca-ofed", "1-1", f"install ok {state}"))
    if journal:
        node.put("/var/lib/dpkg/updates/0007", "")
    found = area()
    change = repositories.plan(found.desired, repositories.observe(node, found.desired))[0]
    assert (change.what, change.disruption, change.external) == ("interrupted dpkg", "repair", apt and not journal)
    assert [op.argv[-1] for op in change.ops] == (["--set-selections"] * journal if apt else ["-a"])
    assert all("--no-act" in argv for argv in asked if argv[0] == "dpkg")


def test_kernel_hold_on_apt_holds_images_and_meta_packages(node: Node, spec: Make, identity: Make) -> None:
    kernel = ("image-amd64", "image-6.1.0-26-amd64", "headers-6.1.0-26-amd64", "headers-amd64", "libc-dev", "base")
    node.dpkg(*((f"linux-{name}", "6.1.112-1") for name in kernel))
    found = Area(node, spec(rdma_stack_kernel_hold=True), identity())
    assert found.keys() == ["file /etc/apt/preferences.d/railwright-kernel.pref"]
    found.converge()
    content = node.read("/etc/apt/preferences.d/railwright-kernel.pref") or ""
    assert [row.split(": ")[1] for row in content.splitlines() if row.startswith("Package: ")] == [
        "linux-headers-amd64", "linux-image-6.1.0-26-amd64", "linux-image-amd64"]  # fmt: skip
    assert content.count("Pin: version 6.1.112-1\nPin-Priority: 1001") == 3
    Area(node, spec(), identity()).converge()
    assert not node.exists("/etc/apt/preferences.d/railwright-kernel.pref")


def test_kernel_hold_on_dnf_is_a_block_in_the_version_locks(node: Node, spec: Make, identity: Make) -> None:
    node.put(LIST, "# Added by an admin\nbash-0:5.1.8-9.el9.*\n")
    found = Area(node, spec(rdma_stack_kernel_hold=True), identity(ROCKY))
    (change,) = found.plan()
    assert change.before is None
    assert "kernel-core-5.14.0-427.13.1.el9_4.*" in change.after
    found.converge()
    assert (node.read(LIST) or "").startswith("# Added by an admin\nbash-0:5.1.8-9.el9.*\n")
    Area(node, spec(), identity(ROCKY)).converge()
    assert node.read(LIST) == "# Added by an admin\nbash-0:5.1.8-9.el9.*\n", "the admin's lines are as they were"


def test_zypper_systems_are_told(node: Node, spec: Make, identity: Make) -> None:
    found = Area(node, spec(rdma_stack_kernel_hold=True), identity(SLES))
    assert found.plan() == []
    assert found.problems() == ["package manager: zypper: repositories and holds are managed with apt and dnf only"]


def test_module_streams_as_dnf_writes_them() -> None:
    content = text.module_file("nvidia-driver:580-open")
    assert content == "[nvidia-driver]\nname=nvidia-driver\nstream=580-open\nprofiles=\nstate=enabled\n"
    assert text.enabled_stream(content) == "580-open"
    assert text.enabled_stream(content.replace("enabled", "disabled")) is None
    assert text.enabled_stream("") is None


@pytest.mark.parametrize(("one", "other", "same"), [
    ("https://a.example/x/", "http://a.example/x", True), ("https://a.example/x/./", "https://a.example/x", True),
    ("file:///srv/x", "file:/srv/x/", True), ("https://a.example/x", "https://a.example/xy", False),
    ("file:///a.example/x", "https://a.example/x", False),
])  # fmt: skip
def test_the_same_repository_by_other_words(one: str, other: str, same: bool) -> None:
    assert text.same_place(one, other) is same


def test_ubuntu_uses_the_same_files(area: Make) -> None:
    assert area(NOBLE).keys()[0] == "signing key of repository doca"
