# SPDX-License-Identifier: GPL-3.0-or-later
"""One apply of everything, on three releases of Debian: packages, files, services, what is effective, and what a reboot leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest

SUITES = {"node1": ("bookworm", "3.11", "root"), "node2": ("trixie", "3.13", "ops"), "node3": ("bullseye", "3.9", "root")}
FILES = (
    "/etc/modules-load.d/railwright.conf", "/etc/systemd/network/10-railwright-rail0.network", "/etc/security/limits.d/90-railwright.conf",
    "/etc/systemd/system.conf.d/90-railwright.conf", "/etc/systemd/user.conf.d/90-railwright.conf", "/etc/sysctl.d/90-railwright.conf",
    "/etc/nccl.conf", "/etc/profile.d/railwright-nccl.sh",
)


def link(text: str) -> tuple[int, list[str]]:
    """MTU and IPv4 addresses from `ip -j addr show dev`."""
    found = json.loads(text)[0]
    return found["mtu"], [f"{item['local']}/{item['prefixlen']}" for item in found["addr_info"] if item["family"] == "inet"]


def test_the_nodes_differ_as_they_should(host: Any, node: str) -> None:
    suite, python, user = SUITES[node]
    assert host.system_info.codename == suite
    assert host.check_output("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'") == python
    assert host.check_output("id -un") == user


@pytest.mark.parametrize("name", ["rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "perftest"])
def test_package(host: Any, name: str) -> None:
    assert host.package(name).is_installed


@pytest.mark.parametrize("path", FILES)
def test_file(host: Any, path: str) -> None:
    file = host.file(path)
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644)
    assert file.content_string.startswith("# Managed by railwright (railwright.rdma)")


def test_rail(host: Any, rails: Any) -> None:
    for _rail, netdev, address in rails:
        assert link(host.check_output(f"ip -j addr show dev {netdev}")) == (9000, [address])


def test_full_size_frames_reach_every_other_node(host: Any, node: str) -> None:
    for place, other in enumerate(SUITES):
        if other != node:
            with host.sudo():
                host.check_output(f"ping -n -c 1 -W 2 -M do -s 8972 -I eth1 198.18.0.{place + 11}")


def test_services(host: Any) -> None:
    assert host.service("systemd-networkd").is_running
    assert host.service("systemd-networkd").is_enabled
    assert host.check_output("systemctl show -p DefaultLimitMEMLOCK --value") == "infinity"
    assert host.check_output("systemctl --failed --plain --no-legend") == ""


def test_sysctls(host: Any) -> None:
    wanted = {"rp_filter": 2, "arp_ignore": 2, "arp_announce": 2}
    assert {key: int(host.file(f"/proc/sys/net/ipv4/conf/eth1/{key}").content_string) for key in wanted} == wanted


def test_nccl(host: Any) -> None:
    values = dict(line.split("=", 1) for line in host.file("/etc/nccl.conf").content_string.splitlines() if not line.startswith("#"))
    assert (values["NCCL_IB_TC"], values["NCCL_SOCKET_IFNAME"]) == ("106", "=eth0")
    assert host.check_output("bash -lc 'printenv NCCL_IB_TC'") == "106"


def test_the_management_interface_is_as_it_was(host: Any) -> None:
    mtu, addresses = link(host.check_output("ip -j addr show dev eth0"))
    assert (mtu, len(addresses)) == (1500, 1)


def test_a_reboot_leaves_the_rail_and_the_limits_as_they_are(container: Any, rails: Any, until: Any) -> None:
    container.restart()
    for _rail, netdev, address in rails:
        until(lambda netdev=netdev, address=address: link(container.out("ip", "-j", "addr", "show", "dev", netdev)) == (9000, [address]))
    assert container.out("systemctl", "show", "-p", "DefaultLimitMEMLOCK", "--value").strip() == "infinity"
