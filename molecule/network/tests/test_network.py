# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails have their MTU and address: now, after a restart of the manager, after a reboot; the management interface is left alone."""

from __future__ import annotations

import json
from typing import Any

UNIT = "systemd-networkd"


def link(json_text: str) -> tuple[int, list[str]]:
    """MTU and global addresses from `ip -j addr show dev`."""
    found = json.loads(json_text)[0]
    return found["mtu"], [f"{item['local']}/{item['prefixlen']}" for item in found["addr_info"] if item["scope"] == "global"]


def peer_of(scenario: str, node: str) -> Any:
    """The other node of the pair."""
    from cluster import Cluster

    nodes = Cluster(scenario).nodes
    return nodes[next(place for place, item in enumerate(nodes) if item.name == node) ^ 1]


def test_mtu_and_address_hold_now(host: Any, rails: Any) -> None:
    found = {rail: link(host.check_output(f"ip -j addr show dev {netdev}")) for rail, netdev, _address in rails}
    assert found == {rail: (9000, [address]) for rail, _netdev, address in rails}


def test_the_rails_files_say_so_for_the_next_boot(host: Any, rails: Any) -> None:
    for rail, netdev, address in rails:
        file = host.file(f"/etc/systemd/network/10-railwright-{rail}.network")
        assert (file.user, file.group, file.mode) == ("root", "root", 0o644)
        lines = file.content_string.splitlines()
        assert lines[0].startswith("# Managed by railwright")
        assert {f"Name={netdev}", "MTUBytes=9000", f"Address={address}"} <= set(lines)


def test_the_manager_runs_now_and_at_boot(host: Any) -> None:
    assert host.service(UNIT).is_running
    assert host.service(UNIT).is_enabled


def test_frames_of_the_full_mtu_reach_the_other_node(host: Any, scenario: str, node: str, rails: Any) -> None:
    for (_rail, netdev, address), peer in zip(rails, peer_of(scenario, node).rails, strict=True):
        payload = 8952 if ":" in address else 8972
        host.check_output(f"ping -n -c 3 -W 2 -M do -s {payload} -I {netdev} {peer['address'].partition('/')[0]}")


def test_the_management_interface_is_as_it_was(host: Any) -> None:
    mtu, addresses = link(host.check_output("ip -j addr show dev eth0"))
    assert mtu == 1500
    assert len(addresses) == 1
    directory = "/etc/systemd/network"
    assert not [name for name in host.file(directory).listdir() if "eth0" in host.file(f"{directory}/{name}").content_string]


def test_rails_come_back_after_a_restart_of_the_manager(container: Any, rails: Any, until: Any) -> None:
    container.run("systemctl", "restart", UNIT)
    for _rail, netdev, address in rails:
        until(lambda netdev=netdev, address=address: link(container.out("ip", "-j", "addr", "show", "dev", netdev)) == (9000, [address]))


def test_rails_come_back_after_a_reboot(container: Any, rails: Any, until: Any) -> None:
    container.restart()
    for _rail, netdev, address in rails:
        until(lambda netdev=netdev, address=address: link(container.out("ip", "-j", "addr", "show", "dev", netdev)) == (9000, [address]))
    mtu, addresses = link(container.out("ip", "-j", "addr", "show", "dev", "eth0"))
    assert (mtu, len(addresses)) == (1500, 1)
