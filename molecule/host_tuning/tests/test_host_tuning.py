# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of logins and services, and the rails' sysctls: in their files and as the node has them now."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

MANAGER = ["[Manager]", "DefaultLimitMEMLOCK=infinity", "DefaultLimitNOFILE=1024:1048576"]
RAIL_KEYS = {"rp_filter": 2, "arp_ignore": 2, "arp_announce": 2}


def lines(host: Any, path: str) -> list[str]:
    """The lines of a file of ours; who owns it and who may read it is judged on the way."""
    file = host.file(path)
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644), path
    content: list[str] = file.content_string.splitlines()
    assert content[0].startswith("# Managed by railwright"), path
    return [line for line in content if not line.startswith("#")]


def test_login_limits(host: Any) -> None:
    wanted = itertools.product(("*", "root"), ("soft", "hard"), ("memlock unlimited", "nofile 1048576"))
    assert set(lines(host, "/etc/security/limits.d/90-railwright.conf")) == {" ".join(words) for words in wanted}


@pytest.mark.parametrize("directory", ["system.conf.d", "user.conf.d"])
def test_service_limits(host: Any, directory: str) -> None:
    assert lines(host, f"/etc/systemd/{directory}/90-railwright.conf") == MANAGER


def test_systemd_has_taken_the_limits(host: Any) -> None:
    names = ("DefaultLimitMEMLOCK", "DefaultLimitNOFILE", "DefaultLimitNOFILESoft")
    shown = host.check_output("systemctl show " + " ".join(f"-p {name}" for name in names))
    assert dict(line.split("=") for line in shown.splitlines()) == dict(zip(names, ("infinity", "1048576", "1024"), strict=True))


def test_a_service_that_starts_now_gets_them(host: Any) -> None:
    host.check_output("systemd-run --quiet --unit railwright-probe -p RemainAfterExit=yes true")
    try:
        assert host.check_output("systemctl show railwright-probe -p LimitMEMLOCK --value") == "infinity"
    finally:
        host.run("systemctl stop railwright-probe")


def test_sysctls_are_in_the_file(host: Any, rails: Any) -> None:
    found = dict(line.split(" = ") for line in lines(host, "/etc/sysctl.d/90-railwright.conf"))
    wanted = {f"net.ipv4.conf.{netdev}.{key}": str(value) for _rail, netdev, _address in rails for key, value in RAIL_KEYS.items()}
    assert {key: found.get(key) for key in wanted} == wanted
    assert found["net.core.somaxconn"] == "8192", "the inventory's own"
    assert "vm.zone_reclaim_mode" not in found, "the inventory has taken it out"
    assert not [key for key in found if ".eth0." in key], "eth0 is no rail"


def test_sysctls_hold_now(host: Any, rails: Any) -> None:
    for _rail, netdev, _address in rails:
        assert {key: host.sysctl(f"net.ipv4.conf.{netdev}.{key}") for key in RAIL_KEYS} == RAIL_KEYS
    assert host.sysctl("net.core.somaxconn") == 8192


def test_the_file_is_one_that_systemd_applies(host: Any, rails: Any) -> None:
    """What udev does at boot when a rail appears: the file alone brings the value back."""
    for _rail, netdev, _address in rails:
        host.check_output(f"sysctl -w net.ipv4.conf.{netdev}.rp_filter=0")
        host.check_output(f"/lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf/{netdev}")
        assert host.sysctl(f"net.ipv4.conf.{netdev}.rp_filter") == 2


def test_what_a_container_cannot_have_is_said_and_not_tried(applied: Any, host: Any, node: str) -> None:
    notes = [note for item in applied.of("rdma_state", node) for note in item["answer"]["notes"]]
    assert [note for note in notes if "cannot be changed from inside this container" in note or "this kernel does not have it" in note]
    assert not host.file("/etc/systemd/system/railwright-cpu-governor.service").exists
