# SPDX-License-Identifier: GPL-3.0-or-later
"""One dictionary, two grammars: NCCL's own file and the login shells' say the same, and a user's export wins."""

from __future__ import annotations

from typing import Any

import pytest

CONF, PROFILE = "/etc/nccl.conf", "/etc/profile.d/railwright-nccl.sh"


def conf(host: Any) -> dict[str, str]:
    """As NCCL reads it: everything after the first `=` is the value."""
    lines = [line for line in host.file(CONF).content_string.splitlines() if not line.startswith("#")]
    assert all("=" in line and not line.startswith(("export", " ")) for line in lines), lines
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("path", [CONF, PROFILE])
def test_everybody_may_read_them_and_root_alone_write(host: Any, path: str) -> None:
    file = host.file(path)
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644)
    assert file.content_string.startswith("# Managed by railwright")


def test_the_profile_of_the_fabric_and_the_inventorys_overrides(host: Any) -> None:
    found = conf(host)
    assert found["NCCL_IB_TC"] == "106", "DSCP 26, from the QoS profile of RoCE"
    assert found["NCCL_SOCKET_IFNAME"] == "=eth0", "the management interface"
    assert (found["NCCL_DEBUG"], found["NCCL_IB_TIMEOUT"]) == ("WARN", "21"), "the inventory's"


def test_no_device_list_without_devices(host: Any, applied: Any, node: str) -> None:
    assert "NCCL_IB_HCA" not in conf(host)
    notes = [note for item in applied.of("rdma_state", node) for note in item["answer"]["notes"]]
    assert [note for note in notes if "no RDMA device on rail0 (eth1)" in note]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_login_shell_exports_the_same(host: Any, shell: str) -> None:
    wanted = conf(host)
    shown = host.check_output(f"env -i {shell} -c '. {PROFILE}; env'")
    found = dict(line.split("=", 1) for line in shown.splitlines() if line.startswith("NCCL_"))
    assert wanted
    assert found == wanted


def test_what_a_user_exports_wins(host: Any) -> None:
    assert host.check_output(f"NCCL_DEBUG=TRACE sh -c '. {PROFILE}; printenv NCCL_DEBUG'") == "TRACE"
