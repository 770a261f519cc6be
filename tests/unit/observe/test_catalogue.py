# SPDX-License-Identifier: GPL-3.0-or-later
"""Systems and their end of life; the names of inbox packages per release."""

import re

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.inbox import FAMILIES, inbox_packages, package_of_module
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.platforms import (
    SYSTEMS,
    end_of_life,
    family_of,
    find_system,
    supported_names,
)
from ansible_collections.railwright.rdma.plugins.module_utils.types import Platform

TODAY = "2026-11-20"


def platform(os_id: str, version: str, codename: str = "") -> Platform:
    family, manager = family_of(os_id, (), version)
    return Platform(os_id, version, codename, (), "", family, manager)


@pytest.mark.parametrize(
    ("os_id", "version", "over"),
    [
        ("centos", "7", True),
        ("centos", "8", True),
        ("centos-stream", "8", True),
        ("ubuntu", "18.04", True),
        ("ubuntu", "20.04", True),
        ("debian", "11", True),
        ("alinux", "2.1903", True),
        ("openEuler", "22.03", True),
        ("sles", "15.6", True),
        ("debian", "12", False),
        ("debian", "13", False),
        ("ubuntu", "22.04", False),
        ("ubuntu", "24.04", False),
        ("ubuntu", "26.04", False),
        ("rhel", "8.10", False),
        ("rocky", "9.6", False),
        ("almalinux", "10.0", False),
        ("centos-stream", "9", False),
        ("alinux", "3", False),
        ("anolis", "8.10", False),
        ("openEuler", "24.03", False),
        ("sles", "15.7", False),
    ],
)
def test_end_of_life(os_id: str, version: str, over: bool) -> None:
    row = find_system(os_id, version)
    assert row is not None
    assert end_of_life(row, TODAY) is over
    assert end_of_life(row, row.eol) is False  # the last day still counts
    assert (row.name in supported_names(TODAY)) is not over


def test_a_system_without_a_row() -> None:
    assert find_system("debian", "99") is None
    assert family_of("debian", (), "99") == ("debian", "apt")
    assert family_of("mystery", ("fedora",)) == ("redhat", "dnf")
    assert family_of("mystery", ()) == ("unknown", "unknown")


def test_rows_are_complete_and_unique() -> None:
    assert len({(row.id, row.version) for row in SYSTEMS}) == len(SYSTEMS)
    for row in SYSTEMS:
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.eol), row
        assert row.family in FAMILIES, row
        assert row.why, row
        assert row.source, row


@pytest.mark.parametrize(
    ("version", "codename", "name"),
    [
        ("12", "bookworm", "librdmacm1"),
        ("11", "bullseye", "librdmacm1"),
        ("13", "trixie", "librdmacm1t64"),
        ("14", "forky", "librdmacm1t64"),
    ],
)
def test_renamed_packages(version: str, codename: str, name: str) -> None:
    names = [row.name for row in inbox_packages(platform("debian", version, codename))]
    assert name in names
    assert len([found for found in names if found.startswith("librdmacm1")]) == 1


def test_packages_per_family() -> None:
    assert {"rdma-core", "libibverbs-utils", "perftest"} <= {row.name for row in inbox_packages(platform("rocky", "9"))}
    assert {"rdma-ndd", "libmlx5-1"} <= {row.name for row in inbox_packages(platform("sles", "15.7"))}
    assert inbox_packages(platform("mystery", "1")) == ()


def test_who_provides_what() -> None:
    assert package_of_module(platform("ubuntu", "24.04", "noble"), "6.8.0-85-generic", "rdma_rxe") == "linux-modules-extra-6.8.0-85-generic"
    assert package_of_module(platform("rocky", "9"), "5.14.0-570", "siw") == "kernel-modules-extra-5.14.0-570"
    assert package_of_module(platform("debian", "12", "bookworm"), "6.1.0", "rdma_rxe") is None
    assert package_of_module(platform("ubuntu", "24.04", "noble"), "6.8.0", "mlx5_ib") is None
