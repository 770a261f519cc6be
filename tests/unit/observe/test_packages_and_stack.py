# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages from dpkg and rpm, and which RDMA stack they and the modules amount to."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.packages import RPM_LIST, query_packages
from ansible_collections.railwright.rdma.plugins.module_utils.observe.stack import observe_stack

MakeTree = Callable[[dict[str, str]], TreeHost]
ROCKY = {"etc/os-release": 'ID="rocky"\nVERSION_ID="9.6"\n'}
DEBIAN = {"etc/os-release": 'ID="debian"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'}
STATUS = (
    "Package: perftest\nStatus: install ok installed\nVersion: 4.5+0.17-1\nDescription: x\n Package: not-a-field\n\n"
    "Package: libibverbs1\nStatus: hold ok installed\nVersion: 44.0-2\n\n"
    "Package: mstflint\nStatus: deinstall ok config-files\nVersion: 4.21\n\n"
    "Package: rdma-core\nStatus: install ok unpacked\nVersion: 44.0-2\n\n"
    "Package: last\nStatus: install ok installed\nVersion: 1"
)


def test_dpkg_counts_what_is_installed_and_nothing_else(make_tree: MakeTree) -> None:
    host = make_tree({**DEBIAN, "var/lib/dpkg/status": STATUS})
    names = ["perftest", "libibverbs1", "mstflint", "rdma-core", "last", "absent", "not-a-field"]
    assert query_packages(host, observe_identity(host), names) == {"last": "1", "libibverbs1": "44.0-2", "perftest": "4.5+0.17-1"}


def test_an_unreadable_database_is_not_an_empty_one(make_tree: MakeTree) -> None:
    host = make_tree({**DEBIAN, "var/lib/dpkg/status": "\x7fELF garbage\n"})
    assert query_packages(host, observe_identity(host), ["perftest"]) is None


def test_rpm_by_the_exact_command(make_tree: MakeTree) -> None:
    answer = "perftest 24.07.0-1.el9\nkernel 5.14.0-503.el9\nkernel 5.14.0-70.el9\nkernel 5.14.0-427.el9\n"
    host = make_tree({**ROCKY, f"cmd/{recording_name(RPM_LIST)}": answer})
    found = query_packages(host, observe_identity(host), ["perftest", "rdma-core", "kernel"])
    assert found == {"kernel": "5.14.0-503.el9", "perftest": "24.07.0-1.el9"}, "of several versions the newest"


@pytest.mark.parametrize("name", ["rpm_-qa", "rpm_-qa.txt", "rpm_-qa_--last"])
def test_rpm_by_a_recorded_list(make_tree: MakeTree, name: str) -> None:
    host = make_tree({**ROCKY, f"cmd/{name}": "rdma-core-54.0-1.el9.x86_64\nlibibverbs-utils-54.0-1.el9.x86_64\nnonsense\n"})
    found = query_packages(host, observe_identity(host), ["rdma-core", "libibverbs-utils", "libibverbs"])
    assert found == {"libibverbs-utils": "54.0-1.el9", "rdma-core": "54.0-1.el9"}


def test_rpm_that_does_not_answer(make_tree: MakeTree) -> None:
    host = make_tree(ROCKY)
    assert query_packages(host, observe_identity(host), ["rdma-core"]) is None


def modules_dep(path: str) -> dict[str, str]:
    return {"lib/modules/6.1.0/modules.dep": f"{path}:\n"}


@pytest.mark.parametrize(
    ("packages", "files", "expected"),
    [
        ({"doca-ofed": "3.2.1", "rdma-core": "2507"}, {}, ("doca", "3.2.1", "package doca-ofed")),
        ({"mlnx-ofed-all": "24.10-1.1.4.0", "rdma-core": "2410"}, {}, ("mlnx_ofed", "24.10-1.1.4.0", "package mlnx-ofed-all")),
        ({"doca-ofed": "3.2.1"}, {"cmd/ofed_info_-s": "MLNX_OFED_LINUX-24.10-0.7.0.0:\n"}, ("doca", "3.2.1", "package doca-ofed")),
        ({"doca-host": "3.2.1", "rdma-core": "50.0"}, {}, ("inbox", "50.0", "package rdma-core")),  # only the repository is there
        (
            {"rdma-core": "2410mlnx"},
            {**modules_dep("extra/mlnx-ofa_kernel/mlx5_core.ko"), "sys/module/mlx5_core/version": "24.10-1.1.4\n"},
            ("mlnx_ofed", "24.10-1.1.4", "module extra/mlnx-ofa_kernel/mlx5_core.ko"),
        ),
        (
            {},
            {**modules_dep("updates/dkms/mlx5_core.ko.zst"), "sys/module/mlx5_core/version": "25.10-1.7.1\n"},
            ("doca", "25.10-1.7.1", "module updates/dkms/mlx5_core.ko.zst"),
        ),
        (
            {"rdma-core": "44.0"},
            {**modules_dep("kernel/drivers/net/mlx5_core.ko"), "cmd/ofed_info_-s": "MLNX_OFED_LINUX-24.10-0.7.0.0:\n"},
            ("inbox", "44.0", "package rdma-core"),
        ),  # ofed_info outlived its stack
        ({}, {"cmd/ofed_info_-s": "MLNX_OFED_LINUX-24.10-0.7.0.0:\n"}, ("mlnx_ofed", "24.10-0.7.0.0", "ofed_info -s")),
        ({}, {"cmd/ofed_info_-s": "OFED-internal-25.10-1.2.8:\n"}, ("doca", "25.10-1.2.8", "ofed_info -s")),
        ({}, modules_dep("kernel/drivers/infiniband/core/ib_core.ko"), ("inbox", None, "module kernel/drivers/infiniband/core/ib_core.ko")),
        ({}, {}, (None, None, None)),
    ],
)
def test_stack(make_tree: MakeTree, packages: dict[str, str], files: dict[str, str], expected: tuple[str | None, ...]) -> None:
    found = observe_stack(make_tree(files), "6.1.0", packages)
    assert (found["name"], found["version"], found["source"]) == expected


def test_facts_take_a_given_identity(nodes: Path) -> None:
    host = TreeHost(str(nodes / "rxe"))
    other = observe_identity(host)._replace(hostname="renamed")
    assert observe_facts(host, other)["hostname"] == "renamed"
