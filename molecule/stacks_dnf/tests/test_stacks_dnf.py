# SPDX-License-Identifier: GPL-3.0-or-later
"""The stacks on real dnf and rpm (a Debian that says it is Rocky Linux 9): what is installed after each step, and what is gone again."""

from __future__ import annotations

from typing import Any

import pytest

NODE = "says-rocky9"
CORE = ("rdma-core", "libibverbs", "libibverbs-utils", "librdmacm", "librdmacm-utils", "infiniband-diags")
RELEASES = {
    "doca 3.2.2": ("doca-ofed", "3.2.2-035000", "2510.0.11-1.el9"), "doca 3.2.3": ("doca-ofed", "3.2.3-019000", "2510.0.12-1.el9"),
    "doca 3.2.2 again": ("doca-ofed", "3.2.2-035000", "2510.0.11-1.el9"),
    "mlnx_ofed": ("mlnx-ofed-all", "24.10-4.1.4.0.rhel9", "2410mlnx54-1.2410068.el9"),
    "doca after mlnx_ofed": ("doca-ofed", "3.2.3-019000", "2510.0.12-1.el9"),
}
VENDOR = ("mlnx-ofa_kernel-dkms", "mlnx-ofa_kernel", "ofed-scripts", "mlnx-tools", "mft", "openmpi", "ucx")


@pytest.mark.parametrize("name", ["inbox", "inbox again"])
def test_inbox_is_the_distributions(story: Any, name: str) -> None:
    found = story[name].after[NODE].installed
    assert {package: found.get(package) for package in CORE} == dict.fromkeys(CORE, "57.0-1.el9")
    assert [package for package in (*VENDOR, "doca-ofed", "mlnx-ofed-all") if package in found] == []


@pytest.mark.parametrize("name", RELEASES)
def test_the_release_is_whole(story: Any, name: str) -> None:
    meta, version, core = RELEASES[name]
    found = story[name].after[NODE].installed
    assert found.get(meta) == version
    assert {package: found.get(package) for package in CORE} == dict.fromkeys(CORE, core)
    assert [package for package in VENDOR if package not in found] == []


def test_one_vendor_leaves_nothing_to_the_next(story: Any) -> None:
    assert "2410" not in str(story["doca after mlnx_ofed"].after[NODE].installed)
    assert "mlnx-ofed-all" not in story["doca after mlnx_ofed"].after[NODE].installed


def test_the_repository_goes_with_the_stack(story: Any) -> None:
    def ours(step: str) -> list[str]:
        files = story[step].after[NODE].files
        return [path for path in files if path.startswith(("/etc/yum.repos.d/", "/etc/pki/")) and ("doca" in path or "mlnx" in path)]

    assert ours("inbox") == ours("inbox again") == []
    assert ours("doca 3.2.2") == ours("doca 3.2.3")
    assert ours("doca 3.2.2")
