# SPDX-License-Identifier: GPL-3.0-or-later
"""eRDMA's user space on real apt and dnf: from Alibaba's signed repository where the distribution lacks the provider, or one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import Container
from verbs import but_examples

if TYPE_CHECKING:
    from conftest import Told

APT, DNF, INBOX = "says-ubuntu2204", "says-alinux3", "debian12"
NODES = (APT, DNF, INBOX)
SERVED = (APT, DNF)
PACKAGES = {APT: ("libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1"),
            DNF: ("libibverbs", "rdma-core", "librdmacm", "libibverbs-utils")}
VERSION = {APT: "52.0-1", DNF: "52.0-1.el8"}
OLD = {APT: "39.0-1", DNF: "35.0-1.al8"}
DRIVER = "/etc/libibverbs.d/erdma.driver"
FILES = {
    APT: ("/etc/apt/keyrings/railwright-erdma.asc", "/etc/apt/preferences.d/railwright-erdma.pref",
          "/etc/apt/sources.list.d/railwright-erdma.sources"),
    DNF: ("/etc/pki/rpm-gpg/RPM-GPG-KEY-railwright-erdma", "/etc/yum.repos.d/railwright-erdma.repo"),
}
REFUSED = {
    "the key is not pinned": dict.fromkeys(SERVED, ("its signing key", "erdma_repository_fingerprint")),
    "another key": dict.fromkeys(SERVED, ("signing key", "has fingerprint", "erdma_repository_fingerprint", "nothing was changed")),
    "a system without a repository": {
        APT: ("Alibaba has no eRDMA repository for Debian GNU/Linux 11", "Ubuntu 22.04", "Alibaba Cloud Linux 3"),
        DNF: ("Alibaba has no eRDMA repository for Rocky Linux 9.6", "Ubuntu 22.04", "Alibaba Cloud Linux 3")},
}


def container(told: Told, node: str) -> Container:
    return told.story.cluster.container(node)


def defined(told: Told, node: str) -> list[str]:
    """What the role left of the repository."""
    places = ("/etc/apt/", "/etc/yum.repos.d/", "/etc/pki/")
    return sorted(path for path in told.role.after[node].files if path.startswith(places) and "railwright-erdma" in path)


@pytest.mark.parametrize("node", SERVED)
@pytest.mark.parametrize("cause", REFUSED)
def test_one_clear_line_and_nothing_changed(told: Told, cause: str, node: str) -> None:
    refusal = told.refusals[cause]
    ((_task, message),) = refusal.hosts[node].failed
    assert [words for words in REFUSED[cause][node] if words not in message] == [], message
    assert "\n" not in message.strip()
    assert refusal.after[node] == refusal.before[node]


def test_nobody_failed_and_check_mode_showed_what_came(told: Told) -> None:
    for run in (told.role.check, told.role.apply, told.role.again):
        assert {node: host.failed for node, host in run.items()} == {node: [] for node in NODES}
    assert told.role.between == told.role.before
    for node in NODES:
        shown, done = ([change["key"] for change in run[node].plan] for run in (told.role.check, told.role.apply))
        assert shown == done
        assert shown, "a run that has nothing to do proves nothing"


@pytest.mark.parametrize("node", SERVED)
def test_packages_are_alibabas_and_the_provider_is_there(told: Told, node: str) -> None:
    before, after = told.role.before[node].installed, told.role.after[node].installed
    assert {before.get(name) for name in PACKAGES[node]} == {OLD[node], None}, "some were there, without the provider"
    assert {name: after.get(name) for name in PACKAGES[node]} == dict.fromkeys(PACKAGES[node], VERSION[node])
    assert DRIVER not in told.role.before[node].files
    assert DRIVER in told.role.after[node].files
    assert "perftest" in after


@pytest.mark.parametrize("node", SERVED)
def test_the_repository_is_defined_with_a_keyring_of_its_own(told: Told, node: str) -> None:
    assert defined(told, node) == sorted(FILES[node])
    text = container(told, node).out("cat", FILES[node][-1]).splitlines()
    wanted = {
        APT: {"URIs: file:///srv/mirror/mirrors.aliyun.com/erdma/apt/ubuntu/", "Suites: jammy/erdma", "Components: main",
              "Architectures: amd64", "Signed-By: " + FILES[APT][0]},
        DNF: {"baseurl=file:///srv/mirror/mirrors.aliyun.com/erdma/yum/redhat/8/erdma/x86_64/", "gpgcheck=1",
              "gpgkey=file://" + FILES[DNF][0]},
    }
    assert wanted[node] <= set(text)
    assert not [path for path in told.role.after[node].files if path.startswith("/etc/apt/trusted.gpg")
                and path not in told.role.before[node].files], "a key of ours pins one repository and no other"


def test_an_update_of_the_system_leaves_them(told: Told) -> None:
    """apt and dnf themselves say what they would do now."""
    assert "libibverbs" not in container(told, APT).out("apt-get", "-s", "dist-upgrade")
    assert container(told, DNF).run("dnf", "-q", "check-update", *PACKAGES[DNF], check=False).returncode == 0


def test_the_distribution_that_has_the_provider_is_enough(told: Told) -> None:
    after = told.role.after[INBOX]
    assert after.installed["ibverbs-providers"] == "44.0-2"
    assert DRIVER in after.files
    assert defined(told, INBOX) == []


@pytest.mark.parametrize("node", NODES)
def test_the_driver_starts_in_the_mode_of_nodes_without_a_gpu(told: Told, node: str) -> None:
    """In a container nothing can be loaded: what a boot of the machine would read is all."""
    assert "options erdma compat_mode=Y" in container(told, node).out("cat", "/etc/modprobe.d/railwright-erdma.conf").splitlines()


@pytest.mark.parametrize("node", NODES)
def test_a_second_run_of_the_role_changes_nothing(told: Told, node: str) -> None:
    host = told.role.again[node]
    assert (host.changed, [answer["plan"] for answer in host.of("rdma_state") if answer["plan"]]) == ([], [])


def test_a_mirror_is_told_what_it_must_hold(told: Told) -> None:
    paths = {row["name"]: row["path"] for row in told.artifacts if row["name"].startswith("erdma-")}
    assert paths["erdma-key"] == "mirrors.aliyun.com/erdma/GPGKEY"
    assert {"erdma-apt-x86_64", "erdma-redhat7-x86_64", "erdma-redhat8-x86_64"} <= set(paths)


def test_the_example_site_lints_without_a_word(told: Told) -> None:
    assert told.verbs["lint"].code == 0, told.verbs["lint"]
    assert but_examples(told.verbs["lint"]) == []


def test_plan_then_apply_then_nothing(told: Told) -> None:
    verbs = told.verbs
    assert verbs["plan"].code == 2, verbs["plan"]
    assert set(verbs["plan"].changes()) == set(NODES)
    assert all(verbs["plan"].changes().values())
    assert verbs["apply"].code == 0, verbs["apply"]
    assert verbs["apply again"].code == 0, verbs["apply again"]
    assert verbs["apply again"].changes() == verbs["plan again"].changes() == {node: [] for node in NODES}
    assert verbs["plan again"].code == 0


@pytest.mark.parametrize("node", NODES)
def test_the_rails_have_alibabas_mtu_and_nccl_its_profile(told: Told, node: str) -> None:
    for name in ("eth1", "eth2"):
        (link,) = container(told, node).json("ip", "-j", "link", "show", "dev", name)
        assert link["mtu"] == 1400
    lines = told.native[node]
    assert "NCCL_SOCKET_IFNAME==eth0" in lines or "NCCL_SOCKET_IFNAME=eth0" in lines
    assert "NCCL_NET_PLUGIN=none" in lines, "erdma-native and AIACC's plugin exclude each other"
    assert not [line for line in lines if line.startswith("NCCL_IB_TC")]


def test_with_aiacc_the_site_changes_once(told: Told) -> None:
    verbs = told.aiacc
    assert [verbs[name].code for name in ("lint", "plan", "apply", "apply again", "plan again")] == [0, 2, 0, 0, 0], verbs
    for changes in verbs["plan"].changes().values():
        assert "aiacc: package aiacc-nccl-plugin" in changes
    assert verbs["apply again"].changes() == {node: [] for node in NODES}


@pytest.mark.parametrize("node", NODES)
def test_aiaccs_plugin_is_found_by_the_loader_and_switched_off_by_nothing(told: Told, node: str) -> None:
    assert "=> /usr/local/lib/libnccl-net.so\n" in container(told, node).out("ldconfig", "-p")
    assert "NCCL_NET_PLUGIN" not in container(told, node).out("cat", "/etc/nccl.conf", "/etc/profile.d/railwright-nccl.sh")
