# SPDX-License-Identifier: GPL-3.0-or-later
"""The inbox stack: packages and tools are there, modules are listed for the next boot."""

from __future__ import annotations

from typing import Any

import pytest

PACKAGES = ("rdma-core", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1", "rdmacm-utils", "infiniband-diags", "perftest")
TOOLS = ("ibv_devinfo", "ib_write_bw", "ib_read_lat", "ibstat", "rping")


@pytest.mark.parametrize("name", [*PACKAGES, "ethtool"])
def test_package(host: Any, name: str) -> None:
    assert host.package(name).is_installed


@pytest.mark.parametrize("name", TOOLS)
def test_tool(host: Any, name: str) -> None:
    assert host.exists(name)


def test_the_verbs_library_answers(host: Any) -> None:
    """That there is no device is for the library to say, so it loads. Without ib_uverbs in the kernel below it says it the second way."""
    said = host.check_output("ibv_devinfo 2>&1 || true")  # its 255 is ssh's own exit status for a lost connection
    assert said in ("No IB devices found", "Failed to get IB devices list: Function not implemented")


def test_modules_are_listed_for_the_next_boot(host: Any) -> None:
    file = host.file("/etc/modules-load.d/railwright.conf")
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644)
    listed = [line for line in file.content_string.splitlines() if line and not line.startswith("#")]
    assert listed == ["ib_core", "ib_uverbs", "rdma_ucm", "ib_umad", "siw"]


def test_a_container_loads_no_module_and_the_role_says_so(applied: Any, node: str) -> None:
    notes = [note for item in applied.of("rdma_state", node) for note in item["answer"]["notes"]]
    assert [note for note in notes if note.startswith("kernel_modules: this is a container")]


def test_check_mode_named_every_package_and_installed_none(runs: list[Any], applied: Any, node: str) -> None:
    """The apply after it still found them missing."""
    steps = [run.of("rdma_state", node)[0]["answer"]["packages"]["steps"] for run in (runs[0], applied)]
    missing = [{name for step in part for name in step["names"]} for part in steps]
    assert missing[0] == missing[1]
    assert {*PACKAGES, "ethtool"} <= missing[0]
