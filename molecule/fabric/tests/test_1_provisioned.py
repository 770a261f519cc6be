# SPDX-License-Identifier: GPL-3.0-or-later
"""What a converged node really has: effective values, not only files."""

from __future__ import annotations

from typing import Any


def test_memlock_is_unlimited_for_a_login(host: Any) -> None:
    assert host.check_output("su - root -c 'ulimit -l'").split()[-1] == "unlimited"


def test_memlock_is_unlimited_for_a_new_service(host: Any) -> None:
    shown = host.check_output("systemd-run --quiet --wait --pipe sh -c 'ulimit -l'")
    assert shown.split()[-1] == "unlimited"


def test_the_rail_has_its_mtu_and_the_link_its_active_mtu(host: Any) -> None:
    assert host.file("/sys/class/net/eth1/mtu").content_string.strip() == "9000"
    assert "active_mtu" in host.check_output("ibv_devinfo -d rxe0")
    assert "4096 (5)" in host.check_output("ibv_devinfo -d rxe0")


def test_the_rdma_link_is_active(host: Any) -> None:
    assert host.file("/sys/class/infiniband/rxe0/ports/1/state").content_string.strip() == "4: ACTIVE"


def test_sysctls_hold(host: Any) -> None:
    assert host.sysctl("net.ipv4.conf.eth1.rp_filter") == 2
    assert host.sysctl("net.ipv4.neigh.default.gc_thresh3") == 16384


def test_both_nccl_files_say_the_same(host: Any) -> None:
    conf = host.file("/etc/nccl.conf").content_string
    pairs = dict(line.split("=", 1) for line in conf.splitlines() if line and not line.startswith("#"))
    assert pairs["NCCL_IB_HCA"] == "=rxe0:1"
    assert pairs["NCCL_IB_TC"] == "106"
    for name, value in pairs.items():
        assert host.check_output(f". /etc/profile.d/railwright-nccl.sh; printenv {name}") == value


def test_the_management_interface_is_as_it_was(host: Any) -> None:
    assert host.file("/sys/class/net/eth0/mtu").content_string.strip() == "1500"
