# SPDX-License-Identifier: GPL-3.0-or-later
"""Where eRDMA's user space comes from: the distribution that has the provider, Alibaba's repository for the system, or one clear line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import repositories
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import repository_files as text
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma import INBOX, PLACES, inbox_provider
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import Repository, repositories_of
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_platform
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run import Case, check_keys
from ansible_collections.railwright.rdma.plugins.module_utils.plan.preflight import Evidence, preflight_problems
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

PINNED = {"erdma_repository_fingerprint": "A" * 40}
MakeSpec = Callable[..., Spec]
On = Callable[..., Identity]


def one(spec: Spec, identity: Identity) -> Repository:
    (row,) = repositories_of(spec, identity)
    return row


def problems(spec: Spec, identity: Identity) -> list[str]:
    return [f"{row.subject}: {row.message}" for row in repositories.problems(spec, identity, repositories.desired(spec, identity))]


@pytest.mark.parametrize(("system", "end", "suite"), [
    ("ubuntu 18.04", "/erdma/apt/ubuntu/", "bionic/erdma"),
    ("ubuntu 20.04", "/erdma/apt/ubuntu/", "focal/erdma"),
    ("ubuntu 22.04", "/erdma/apt/ubuntu/", "jammy/erdma"),
    ("alinux 3", "/erdma/yum/redhat/8/erdma/x86_64/", None),
    ("alinux 2.1903", "/erdma/yum/redhat/7/erdma/x86_64/", None),
    ("centos 7", "/erdma/yum/redhat/7/erdma/x86_64/", None),
    ("centos 8", "/erdma/yum/redhat/8/erdma/x86_64/", None),
    ("rocky 8.10", "/erdma/yum/redhat/8/erdma/x86_64/", None),
    ("almalinux 8.10", "/erdma/yum/redhat/8/erdma/x86_64/", None),
    ("rhel 8.9", "/erdma/yum/redhat/8/erdma/x86_64/", None),
    ("anolis 8.6", "/erdma/yum/redhat/8/erdma/x86_64/", None),
])
def test_each_system_has_its_own_place(system: str, end: str, suite: str | None, erdma: MakeSpec, on: On) -> None:
    row = one(erdma(**PINNED), on(system))
    assert row.url.endswith(end)
    assert row.key_url.endswith("/erdma/GPGKEY")
    assert "$" not in row.url
    assert suite is None or row.suite == suite
    assert [found for found in problems(erdma(**PINNED), on(system)) if "package manager" not in found] == []


@pytest.mark.parametrize("system", ["debian 12", "debian 13.1", "ubuntu 24.04", "ubuntu 26.04"])
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_distributions_own_where_it_has_the_provider(system: str, arch: str, erdma: MakeSpec, on: On) -> None:
    assert repositories_of(erdma(), on(system, arch)) == ()
    assert problems(erdma(), on(system, arch)) == []


@pytest.mark.parametrize("system", ["debian 11", "rocky 9.4", "sles 15.7", "openEuler 22.03", "alinux 4", "ubuntu 23.10"])
def test_a_system_with_neither_is_one_line_with_its_ways_out(system: str, erdma: MakeSpec, on: On) -> None:
    (said,) = problems(erdma(**PINNED), on(system))
    assert said.startswith(f"erdma_repository: Alibaba has no eRDMA repository for {system} on x86_64; it serves Ubuntu 18.04, ")
    for words in ("Alibaba Cloud Linux 3", "Anolis OS 8", "on x86_64", "Debian 12", "43 or newer", "erdma_repository_url"):
        assert words in said
    assert "set erdma_repository: false to take the distribution's packages" in said
    assert "Debian 11" not in said.partition("it serves")[2], "what is allowed, not what was refused"
    assert problems(erdma(erdma_repository="false"), on(system)) == []


@pytest.mark.parametrize("system", ["ubuntu 22.04", "alinux 3"])
def test_another_architecture_is_one_line(system: str, erdma: MakeSpec, on: On) -> None:
    (said,) = problems(erdma(**PINNED), on(system, "aarch64"))
    assert said.startswith(f"erdma_repository: Alibaba's eRDMA repositories hold packages for x86_64 alone; this is {system} on aarch64.")
    assert repositories_of(erdma(**PINNED), on(system, "aarch64")) == ()


def test_true_asks_for_it_even_where_the_distribution_has_the_provider(erdma: MakeSpec, on: On) -> None:
    (said,) = problems(erdma(erdma_repository="true"), on("debian 12"))
    assert "Alibaba has no eRDMA repository for debian 12" in said


def test_a_repository_of_the_sites_own_serves_any_system(erdma: MakeSpec, on: On) -> None:
    own = {"erdma_repository_url": "https://r.example.com/erdma/", "erdma_repository_key_url": "https://r.example.com/key.asc", **PINNED}
    for system, arch in (("debian 12", "x86_64"), ("debian 11", "aarch64"), ("rocky 9.4", "aarch64")):
        row = one(erdma(**own), on(system, arch))
        assert (row.url, row.key_url, row.source, row.architectures) == (
            own["erdma_repository_url"], own["erdma_repository_key_url"], "inventory", "")
        assert problems(erdma(**own), on(system, arch)) == []


def test_a_copy_of_alibabas_keeps_alibabas_key(erdma: MakeSpec, on: On) -> None:
    row = one(erdma(erdma_repository_url="https://r.example.com/erdma/", **PINNED), on("rocky 9.4"))
    assert row.key_url.endswith("/erdma/GPGKEY")


def test_the_key_is_not_pinned(erdma: MakeSpec, on: On) -> None:
    (said,) = problems(erdma(), on("alinux 3"))
    assert "its signing key" in said
    assert said.endswith("set erdma_repository_fingerprint to the key's fingerprint")
    for values in (PINNED, {"artifact_pins": {"erdma-key": "A" * 40}}):
        assert one(erdma(**values), on("alinux 3")).fingerprint == "A" * 40
        assert problems(erdma(**values), on("alinux 3")) == []


def test_a_mirror_stands_in_for_the_vendors_host(erdma: MakeSpec, on: On) -> None:
    row = one(erdma(artifact_mirror="http://m.example.com/rw/", **PINNED), on("ubuntu 22.04"))
    assert row.url.startswith("http://m.example.com/rw/mirrors.")
    assert row.url.endswith("/erdma/apt/ubuntu/")
    assert row.key_url.startswith("http://m.example.com/rw/mirrors.")


@pytest.mark.parametrize("values", [{"erdma_repository": "false"}, {"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox"}])
def test_where_it_is_not_wanted(values: dict[str, Any], erdma: MakeSpec, on: On) -> None:
    assert repositories_of(erdma(**values), on("alinux 3")) == ()


def test_the_definition_for_apt(erdma: MakeSpec, on: On) -> None:
    row = one(erdma(**PINNED), on("ubuntu 22.04"))
    lines = text.definition("apt", row).splitlines()
    assert lines[2:] == ["Types: deb", f"URIs: {row.url}", "Suites: jammy/erdma", "Components: main", "Architectures: amd64",
                         "Signed-By: /etc/apt/keyrings/railwright-erdma.asc"]
    pins = text.preferences(row) or ""
    assert 'Package: libibverbs1 ibverbs-providers ibverbs-utils librdmacm1\nPin: origin "' in pins
    assert "Package: *" not in pins, "another repository on the same host is nobody's business here"


def test_the_definition_for_dnf(erdma: MakeSpec, on: On) -> None:
    lines = text.definition("dnf", one(erdma(**PINNED), on("alinux 3"))).splitlines()
    assert "gpgcheck=1" in lines
    assert "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-railwright-erdma" in lines
    assert next(line for line in lines if line.startswith("baseurl=")).endswith("/yum/redhat/8/erdma/x86_64/")
    assert "priority=50" in lines


def test_another_key_is_refused_by_the_dry_run(erdma: MakeSpec, on: On, node: Any) -> None:
    spec, identity = erdma(**PINNED), on("ubuntu 22.04")
    wanted = repositories.desired(spec, identity)
    observed = repositories.observe(node, wanted)
    case = Case(identity, (), wanted.repositories, tuple(repositories.plan(wanted, observed)), {"erdma": b"no key"}, ())
    with pytest.raises(Exception, match=r"repository erdma: the signing key from .*GPGKEY holds no OpenPGP key, not A{40} "
                                        r"\(erdma_repository_fingerprint\); nothing was changed"):
        check_keys(case)


def test_the_tables_do_not_contradict_each_other(on: On) -> None:
    """A system that Alibaba serves has no provider of its own, as far as that is known."""
    assert {(row.id, row.version) for row in PLACES} & {(row.id, row.version) for row in INBOX if row.provider} == set()
    assert {row.rdma_core: row.provider for row in INBOX}["39.0"] is False
    assert {row.rdma_core: row.provider for row in INBOX}["44.0"] is True
    assert inbox_provider(on("rocky 8.10").platform) is None


@pytest.mark.parametrize("system", ["centos 7", "centos 8", "alinux 2.1903", "ubuntu 18.04", "ubuntu 20.04"])
def test_a_system_without_security_updates_is_refused_unless_accepted(system: str, erdma: MakeSpec, on: On) -> None:
    evidence = Evidence(0, {}, None, 1795219200.0, 1795219201.0, None)  # sent on 2026-11-21

    def said(**values: Any) -> list[str]:
        return [row.message for row in preflight_problems(erdma(**PINNED, **values), on(system), evidence) if row.subject == "system"]

    assert len(said()) == 1
    assert "set rdma_accept_eol: true" in said()[0]
    assert said(accept_eol=True) == []


@pytest.mark.parametrize("there", [True, False])
def test_dnf_on_a_system_that_has_yum_3(there: bool, tmp_path: Path, erdma: MakeSpec, on: On) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID="centos"\nVERSION_ID="7"\nNAME="CentOS Linux"\n')
    if there:
        (tmp_path / "usr/bin").mkdir(parents=True)
        (tmp_path / "usr/bin/dnf").write_text("")
    identity = on("centos 7")._replace(platform=observe_platform(TreeHost(str(tmp_path))))
    said = problems(erdma(**PINNED), identity)
    assert said == [] if there else len(said) == 1 and said[0].endswith("install dnf on this node first (yum install dnf)")
