# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stack a node gets, what is the vendor's among packages, and which systems and devices a stack leaves out."""

import fnmatch
import re
from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import (
    MARK,
    PROFILES,
    VENDOR_STACKS,
    has_nvidia_hca,
    served,
    stack_of,
    stack_problem,
    vendor_stack,
)
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

MakeSpec = Callable[..., Spec]
MakeIdentity = Callable[..., Identity]


@pytest.mark.parametrize(
    ("system", "arch", "stack"),
    [
        ("ubuntu 22.04", "x86_64", "doca"),
        ("ubuntu 24.04", "x86_64", "doca"),
        ("ubuntu 24.04", "aarch64", "doca"),
        ("ubuntu 20.04", "x86_64", "inbox"),
        ("ubuntu 26.04", "x86_64", "inbox"),
        ("debian 12", "x86_64", "doca"),
        ("debian 13", "x86_64", "doca"),
        ("debian 13", "aarch64", "inbox"),
        ("debian 11", "x86_64", "inbox"),
        ("rhel 9.4", "x86_64", "doca"),
        ("rocky 8.10", "x86_64", "doca"),
        ("rocky 9.5", "aarch64", "doca"),
        ("almalinux 10.0", "x86_64", "doca"),
        ("alinux 3", "x86_64", "inbox"),
        ("openEuler 24.03", "x86_64", "inbox"),
        ("sles 15.7", "x86_64", "inbox"),
        ("ubuntu 24.04", "ppc64le", "inbox"),
    ],
)
def test_auto_is_doca_where_the_system_has_a_repository(
    system: str, arch: str, stack: str, make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    identity = make_identity(system, arch)
    assert stack_of(make_spec(), identity) == stack
    assert stack_problem(make_spec(), identity) is None, "auto never chooses what is then refused"


def test_auto_is_inbox_without_an_nvidia_device(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    assert stack_of(make_spec(), make_identity(driver=None)) == "inbox"
    assert stack_of(make_spec(), make_identity(driver="bnxt_re")) == "inbox"
    assert vendor_stack(make_spec(), make_identity(driver="rdma_rxe")) is None


def test_an_interface_is_enough(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    """Before any RDMA module is loaded mlx5_core drives the interface already."""
    identity = make_identity(driver=None, nic_driver="mlx5_core")
    assert has_nvidia_hca(identity)
    assert stack_of(make_spec(), identity) == "doca"


def test_auto_is_inbox_on_erdma(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    assert stack_of(make_spec(fabric="erdma", mtu=8500), make_identity(nic_driver="mlx5_core")) == "inbox"


def test_auto_is_doca_where_the_site_has_a_repository(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    spec = make_spec(rdma_stack_repository_url="http://m.example.com/doca/")
    assert stack_of(spec, make_identity("debian 11")) == "doca"
    assert stack_problem(spec, make_identity("debian 11")) is None


@pytest.mark.parametrize(("driver", "device_id"), [("mlx5_core", "0x1013"), ("mlx4_core", "0x1003")])
def test_auto_is_inbox_where_doca_leaves_the_device_out(
    driver: str, device_id: str, make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    identity = make_identity(driver=driver, device_id=device_id)
    assert stack_of(make_spec(), identity) == "inbox"
    assert stack_problem(make_spec(), identity) is None


def test_an_older_device_beside_the_rails_decides_nothing(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    """A ConnectX-4 for storage or management stands in many GPU nodes."""
    identity = make_identity(nic_driver="mlx5_core")
    old = identity.hcas[0]._replace(name="mlx5_9", pci="0000:c1:00.0", device_id="0x1013", netdevs=("eth9",), port_netdevs=("eth9",))
    both = identity._replace(hcas=(old, *identity.hcas))
    assert stack_of(make_spec(), both) == "doca"
    assert stack_problem(make_spec(), both) is None


def test_what_is_asked_for_is_what_it_gets(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    for stack in ("inbox", "soft_roce", "doca", "mlnx_ofed"):
        assert stack_of(make_spec(rdma_stack=stack), make_identity(driver=None)) == stack


def test_the_vendors_stack_in_this_familys_names(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    stack = vendor_stack(make_spec(), make_identity("ubuntu 24.04"))
    assert stack is not None
    assert (stack.name, stack.release, stack.meta, stack.version, stack.unit) == ("doca", "3.2.3", "doca-ofed", "3.2.3*", "openibd.service")
    assert stack.dkms == ("mlnx-ofed-kernel", "iser", "isert", "srp")
    stack = vendor_stack(make_spec(rdma_stack_version="3.2.1", rdma_stack_profile="doca-roce"), make_identity("rocky 9.5"))
    assert stack is not None
    assert (stack.release, stack.meta, stack.version, stack.dkms[0]) == ("3.2.1", "doca-roce", "3.2.1*", "mlnx-ofa_kernel")
    for release in ("3.4.0", "3.5.0"):  # feature releases beside the LTS
        stack = vendor_stack(make_spec(rdma_stack_version=release), make_identity("rocky 9.5"))
        assert stack is not None
        assert (stack.release, stack.version) == (release, release + "*")
    stack = vendor_stack(make_spec(rdma_stack="mlnx_ofed"), make_identity("ubuntu 22.04"))
    assert stack is not None
    assert (stack.meta, stack.version) == ("mlnx-ofed-all", "24.10-4.1.4.0*")


@pytest.mark.parametrize(
    "version",  # as public package lists and bug reports show them
    [
        "2510.0.11-1",
        "2601.0.7-1",
        "2410mlnx54-1.2410068",
        "2507mlnx58-1.2507097.0214",
        "54mlnx1-1.54103",
        "25.10.OFED.25.10.1.7.1-1",
        "24.10.OFED.24.10.2.1.8.1-1.kver.5.15.0-10",
        "5.21.7.MLNX20241106.df2ec25-0.1.2410068",
        "1.14.462-1.2410068",
        "1.16.0-1.2310409",
        "24.10.0-0.65.g9093bae.2410068",
        "2510.0.11-1.el9",
    ],
)
def test_a_version_of_the_vendors(version: str) -> None:
    assert re.search(MARK, version)


@pytest.mark.parametrize(
    "version",
    [
        "44.0-2",
        "50.0-2ubuntu0.2",
        "56.1-1",
        "61.0-2.el9",
        "4.5+0.17-1",
        "24.01.0+0.38-1",
        "25.04.0.0.84-1.el9",
        "3.3.23-2",
        "4.21.0+1-1",
        "1:4.29.0+1-1",
        "48.0-1.el9",
        "2.30.7-1",
        "1.18.0+ds-3",
        "4.1.4-3",
        "20240717-1",
        "1.20240717-1",
    ],
)
def test_a_version_of_the_distributions(version: str) -> None:
    assert not re.search(MARK, version)


@pytest.mark.parametrize(
    "name",
    ["doca-ofed", "mlnx-ofed-kernel-dkms", "mlnx-tools", "ofed-scripts", "kmod-mlnx-ofa_kernel", "iser-dkms", "mft", "kernel-mft-dkms"],
)
def test_names_that_only_the_vendor_uses(name: str) -> None:
    assert any(fnmatch.fnmatchcase(name, glob) for stack in VENDOR_STACKS for glob in stack.family)


@pytest.mark.parametrize(
    "name", ["rdma-core", "libibverbs1", "perftest", "ucx", "openmpi", "opensm", "infiniband-diags", "mstflint", "dkms"]
)
def test_names_that_both_use_tell_nothing(name: str) -> None:
    assert not any(fnmatch.fnmatchcase(name, glob) for stack in VENDOR_STACKS for glob in stack.family)


@pytest.mark.parametrize(
    ("values", "identity", "message"),
    [
        (
            {"rdma_stack": "doca"},
            {"system": "sles 15.7"},
            "DOCA-OFED 3.2.3 comes as packages of Debian's and Red Hat's families; this is sles 15.7 on x86_64. Use rdma_stack: inbox",
        ),
        (
            {"rdma_stack": "doca"},
            {"device_id": "0x1013"},
            "mlx5_0: DOCA-OFED 3.2.3 does not support ConnectX-4, DOCA 2.9 LTS is the last that does; use rdma_stack: mlnx_ofed or inbox",
        ),
        (
            {"rdma_stack": "mlnx_ofed"},
            {"system": "ubuntu 22.04", "device_id": "0xa2dc"},
            "mlx5_0: MLNX_OFED 24.10-4.1.4.0 does not support BlueField-3, ConnectX-7 and BlueField-2 are its last; use rdma_stack: doca",
        ),
        (
            {"rdma_stack": "doca"},
            {"driver": "mlx4_core", "device_id": "0x1003"},
            "mlx5_0: DOCA-OFED 3.2.3 has no driver for ConnectX-3 and older (mlx4_core); use rdma_stack: inbox",
        ),
    ],
)
def test_one_line_says_what_a_stack_leaves_out(
    values: dict[str, str], identity: dict[str, str], message: str, make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    assert stack_problem(make_spec(**values), make_identity(**identity)) == message


def test_a_system_without_a_repository_is_told_which_have_one(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    message = stack_problem(make_spec(rdma_stack="doca"), make_identity("debian 11"))
    assert message is not None
    assert message.startswith("DOCA-OFED 3.2.3 has no repository for debian 11 on x86_64; the catalogue knows ")
    assert "ubuntu24.04 (aarch64, x86_64)" in message
    assert "rdma_stack_repository_url" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("values", "identity"),
    [
        ({"rdma_stack": "doca", "rdma_stack_version": "2.9.4"}, {"device_id": "0x1013"}),
        ({"rdma_stack": "mlnx_ofed"}, {"system": "ubuntu 22.04", "device_id": "0x1013"}),
        ({"rdma_stack": "doca"}, {"device_id": "0xa2dc"}),
        ({"rdma_stack": "doca"}, {"device_id": None}),
        ({"rdma_stack": "inbox"}, {"system": "sles 15.7", "device_id": "0x1013"}),
        ({"rdma_stack": "doca", "rdma_stack_offline_package": {"url": "file:///srv/d.deb", "sha256": "0" * 64}}, {"system": "debian 11"}),
    ],
)
def test_what_works_is_not_refused(
    values: dict[str, object], identity: dict[str, str | None], make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    assert stack_problem(make_spec(**values), make_identity(**identity)) is None


def test_every_stack_serves_some_system_with_its_first_profile() -> None:
    for stack in VENDOR_STACKS:
        assert served(stack.name)
        assert stack.meta == PROFILES[stack.name][0]
