# SPDX-License-Identifier: GPL-3.0-or-later
"""The stacks on real apt and dpkg: what is installed after each step, whose it is, and what is gone again."""

from __future__ import annotations

from typing import Any

import pytest

INBOX = {"bookworm": "44.0-2", "trixie": "56.1-1", "bullseye": "33.2-1"}
CORE = ("rdma-core", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "infiniband-diags")
RELEASES = {
    "doca 3.2.2": ("doca-ofed", "3.2.2-035000", "2510.0.11-1"),
    "doca 3.2.3": ("doca-ofed", "3.2.3-019000", "2510.0.12-1"),
    "doca 3.2.2 again": ("doca-ofed", "3.2.2-035000", "2510.0.11-1"),
    "mlnx_ofed": ("mlnx-ofed-all", "24.10-4.1.4.0", "2410mlnx54-1.2410068"),
    "doca after mlnx_ofed": ("doca-ofed", "3.2.3-019000", "2510.0.12-1"),
}
VENDOR = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "ofed-scripts", "mlnx-tools", "mft", "openmpi", "ucx")
DKMS = "3.0.10-8"  # the distribution's; the vendor's is 3.2.1


@pytest.mark.parametrize("node", INBOX)
@pytest.mark.parametrize("name", ["inbox", "inbox again"])
def test_inbox_is_the_distributions(story: Any, name: str, node: str) -> None:
    found = story[name].after[node].installed
    assert {package: found.get(package) for package in CORE} == dict.fromkeys(CORE, INBOX[node])
    assert [package for package in (*VENDOR, "doca-ofed", "mlnx-ofed-all") if package in found] == []


@pytest.mark.parametrize("node", INBOX)
@pytest.mark.parametrize("name", RELEASES)
def test_the_release_is_whole(story: Any, name: str, node: str) -> None:
    meta, version, core = RELEASES[name]
    found = story[name].after[node].installed
    assert found.get(meta) == version
    assert {package: found.get(package) for package in CORE} == dict.fromkeys(CORE, core)
    assert [package for package in VENDOR if package not in found] == []
    assert found["dkms"] == DKMS, "the vendor's newer dkms must not win"


@pytest.mark.parametrize("node", INBOX)
def test_one_vendor_leaves_nothing_to_the_next(story: Any, node: str) -> None:
    assert "24.10" not in str(story["doca after mlnx_ofed"].after[node].installed)
    assert "mlnx-ofed-all" not in story["doca after mlnx_ofed"].after[node].installed


@pytest.mark.parametrize("node", INBOX)
def test_the_repository_goes_with_the_stack(story: Any, node: str) -> None:
    def ours(step: str) -> list[str]:
        files = story[step].after[node].files
        return [path for path in files if path.startswith("/etc/apt/") and ("doca" in path or "mlnx" in path)]

    assert ours("inbox") == ours("inbox again") == []
    assert ours("doca 3.2.2") == ours("doca 3.2.3")
    assert len(ours("doca 3.2.2")) >= 2, "a definition and a pin at least; the keyring lies where apt reads it"
