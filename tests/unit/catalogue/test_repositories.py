# SPDX-License-Identifier: GPL-3.0-or-later
"""Which repositories a node wants, where they are for the site, and whose key must have signed them."""

from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, label_of, rows_of
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import Repository, repositories_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

MakeSpec = Callable[..., Spec]
MakeIdentity = Callable[..., Identity]
OTHER = "AAAA0000AAAA0000AAAA0000AAAA0000AAAA0000"
OWN = {
    "rdma_stack_repository_url": "http://r.example.com/doca/",
    "rdma_stack_repository_key_url": "http://r.example.com/key.asc",
    "rdma_stack_repository_fingerprint": OTHER,
}


def one(spec: Spec, identity: Identity) -> Repository:
    found = repositories_of(spec, identity)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("vendor", "system", "label"),
    [
        ("doca", "ubuntu 24.04", "ubuntu24.04"),
        ("cuda", "ubuntu 24.04", "ubuntu2404"),
        ("mlnx_ofed", "ubuntu 22.04", "ubuntu22.04"),
        ("doca", "debian 12", "debian12"),
        ("cuda", "debian 13", "debian13"),
        ("doca", "debian 12.5", "debian12"),
        ("doca", "rhel 9.4", "rhel9"),
        ("doca", "rocky 9.5", "rhel9"),
        ("doca", "almalinux 10.0", "rhel10"),
        ("doca", "ol 9.4", None),
        ("cuda", "rocky 8.10", "rhel8"),
        ("cuda", "ol 9.4", "rhel9"),
        ("mlnx_ofed", "rocky 9.5", "rhel9.5"),
        ("doca", "centos 7.9", None),
        ("cuda", "fedora 44", None),
        ("doca", "alinux 3", None),
        ("cuda", "sles 15.7", None),
    ],
)
def test_what_a_vendor_calls_a_system(vendor: str, system: str, label: str | None, make_identity: MakeIdentity) -> None:
    assert label_of(vendor, make_identity(system).platform) == label


def test_no_row_for_a_release_that_the_vendor_has_not(make_identity: MakeIdentity) -> None:
    """The label can be told, the repository is not there."""
    assert rows_of("doca", make_identity("ubuntu 20.04")) == (None, None)
    assert rows_of("mlnx_ofed", make_identity("rocky 9.4")) == (None, None)
    assert rows_of("cuda", make_identity("debian 12", "aarch64")) == (None, None)


@pytest.mark.parametrize(
    ("arch", "doca", "cuda"),
    [
        ("x86_64", "/doca/3.2.3/ubuntu24.04/x86_64/", "/repos/ubuntu2404/x86_64/"),
        ("aarch64", "/doca/3.2.3/ubuntu24.04/arm64-sbsa/", "/repos/ubuntu2404/sbsa/"),
    ],
)
def test_a_gpu_node_wants_two(arch: str, doca: str, cuda: str, make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    first, second = repositories_of(make_spec(gpu_driver_branch="580"), make_identity(arch=arch, gpus=8))
    assert (first.name, second.name) == ("doca", "cuda")
    assert first.url.endswith(doca)
    assert first.key_url == first.url + "doca_keyring.gpg"
    assert second.url.endswith(cuda)
    assert second.key_url == second.url + "3bf863cc.pub"
    assert first.flat
    assert second.flat


def test_rules_where_two_repositories_give_the_same(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    doca, cuda = repositories_of(make_spec(cuda_version="13.0"), make_identity(gpus=1))
    assert (doca.label, doca.excludes, doca.priority) == ("DOCA-HOST*", ("dkms",), 600)
    assert (cuda.label, cuda.excludes, cuda.priority) == ("NVIDIA CUDA", ("mft*", "kernel-mft*"), 600)
    doca, cuda = repositories_of(make_spec(cuda_version="13.0"), make_identity("rocky 9.5", gpus=1))
    assert (doca.label, doca.excludes, doca.priority) == ("", (), 50)
    assert (cuda.excludes, cuda.priority) == (("mft*", "kernel-mft*"), None)


@pytest.mark.parametrize(
    ("values", "gpus", "names"),
    [
        ({"rdma_stack": "inbox"}, 8, []),
        ({"rdma_stack": "soft_roce"}, 8, []),
        ({"rdma_stack": "inbox", "gpu_driver_branch": "580"}, 0, []),
        ({"rdma_stack": "inbox", "gpu_driver_branch": "580"}, 1, ["cuda"]),
        ({"rdma_stack": "inbox", "gpu_driver_branch": "580", "gpu_driver_source": "distribution"}, 1, []),
        ({"rdma_stack": "inbox", "gpu_driver_branch": "580", "gpu_driver_source": "distribution", "cuda_version": "13.0"}, 1, ["cuda"]),
        ({}, 0, ["doca"]),
        ({"rdma_stack_offline_package": {"url": "file:///srv/d.deb", "sha256": "0" * 64}}, 0, []),
    ],
)
def test_only_what_the_node_needs(
    values: dict[str, object], gpus: int, names: list[str], make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    assert [row.name for row in repositories_of(make_spec(**values), make_identity(gpus=gpus))] == names


def test_a_mirror_stands_in_for_every_vendor(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    found = repositories_of(make_spec(artifact_mirror="http://m.example.com/rw/", cuda_version="13.0"), make_identity(gpus=1))
    assert [row.url for row in found] == [
        "http://m.example.com/rw/linux.mellanox.com/public/repo/doca/3.2.3/ubuntu24.04/x86_64/",
        "http://m.example.com/rw/developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/",
    ]
    assert all(row.key_url.startswith(row.url) for row in found)


def test_a_mirror_is_no_reason_to_trust_another_key(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    plain = one(make_spec(), make_identity())
    assert one(make_spec(artifact_mirror="file:///srv/mirror"), make_identity()).fingerprint == plain.fingerprint


def test_the_operators_own_urls_are_taken_as_they_are(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    found = one(make_spec(artifact_mirror="http://m.example.com", **OWN), make_identity())
    assert (found.url, found.key_url, found.fingerprint) == tuple(OWN.values())
    assert found.source == "inventory"


def test_a_repository_of_ones_own_for_a_system_that_the_vendor_has_not(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    assert one(make_spec(rdma_stack="doca", **OWN), make_identity("debian 11")).url == OWN["rdma_stack_repository_url"]


def test_a_copy_of_the_vendors_repository_keeps_the_vendors_key(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    found = one(make_spec(rdma_stack_repository_url="http://copy.example.com/doca/"), make_identity())
    row = find_artifact("doca-key-ubuntu24.04-x86_64")
    assert row is not None
    assert (found.url, found.fingerprint) == ("http://copy.example.com/doca/", row.value)
    assert found.key_url.endswith("/doca_keyring.gpg")


def test_no_fingerprint_where_nobody_read_one(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    """DOCA's rpms are signed with a key that lies elsewhere: the operator has to pin one."""
    identity = make_identity("rocky 9.5")
    assert one(make_spec(), identity).fingerprint is None
    for values in (
        {"rdma_stack_repository_fingerprint": OTHER},
        {"artifact_pins": {"doca-key-rhel9-x86_64": OTHER}},
        {"artifact_pins": {"doca-rhel9-x86_64": OTHER}},
    ):
        assert one(make_spec(**values), identity).fingerprint == OTHER


def test_another_release_from_its_own_directory(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    found = one(make_spec(rdma_stack_version="3.2.1"), make_identity())
    assert "/doca/3.2.1/" in found.url
    assert "/doca/3.2.1/" in found.key_url
    assert found.purpose == "NVIDIA DOCA-OFED 3.2.1"


def test_an_older_driver_than_the_newest_is_pinned_on_apt(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    spec = make_spec(rdma_stack="inbox", gpu_driver_branch="580", cuda_version="13.0", cuda_cudnn_version="9.13")
    cuda = one(spec, make_identity(gpus=1))
    assert [(pin.packages[0], pin.version) for pin in cuda.pins] == [("*nvidia*", "580.173.02-*"), ("libcudnn*", "9.13.*")]
    assert cuda.stream is None
    assert one(spec, make_identity("rocky 9.5", gpus=1)).pins == (), "dnf finds what fits together itself"


@pytest.mark.parametrize(
    ("system", "flavour", "stream"),
    [
        ("rocky 9.5", "open", "nvidia-driver:580-open"),
        ("almalinux 8.10", "proprietary", "nvidia-driver:580-dkms"),
        ("rhel 10.0", "open", None),
        ("ubuntu 24.04", "open", None),
    ],
)
def test_el_8_and_9_take_the_branch_from_a_module_stream(
    system: str, flavour: str, stream: str | None, make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    spec = make_spec(rdma_stack="inbox", gpu_driver_branch="580", gpu_driver_flavour=flavour)
    assert one(spec, make_identity(system, gpus=1)).stream == stream
