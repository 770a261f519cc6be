# SPDX-License-Identifier: GPL-3.0-or-later
"""The network area against the real managers: networkd, ifupdown, NetworkManager, netplan.

Each container has a management interface and a rail with a MAC of its own. The rail is
configured by the real core, broken by hand, repaired, and inspected again after the
manager was restarted and after the container was.
"""

import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import harness
from field_specs import build_spec
from harness import Container, Link

ROOT = Path(__file__).resolve().parents[2]
ADDRESS, OTHER, STRANGER, GATEWAY = "10.10.0.11/24", "10.10.0.12/24", "192.0.2.99/32", "10.10.0.1"
ADDRESS_6, GATEWAY_6 = "fd00:10::11/64", "fd00:10::1"
TABLE = 47910
NUMBERS = itertools.count(1)


class Manager(NamedTuple):
    """One way a node can be set up, and where the rail's settings end up."""

    id: str
    packages: tuple[str, ...]
    files: tuple[tuple[str, str], ...]  # put there before: what makes this manager own the node
    hardware: bool  # the rail counts as hardware and is matched by MAC
    unit: str
    path: str


MANAGERS = (
    Manager("networkd", (), (), True, "systemd-networkd", "/etc/systemd/network/10-railwright-rail0.network"),
    Manager("networkd-by-name", (), (), False, "systemd-networkd", "/etc/systemd/network/10-railwright-rail0.network"),
    Manager("ifupdown", ("ifupdown",), (), True, "networking", "/etc/network/interfaces.d/railwright-rail0"),
    Manager("networkmanager", ("network-manager",), (), True, "NetworkManager",
            "/etc/NetworkManager/system-connections/railwright-rail0.nmconnection"),
    # netplan matches the permanent MAC alone, and no interface of a container has one: by name here.
    Manager("netplan", ("netplan.io",), (("/etc/netplan/01-node.yaml", "network:\n  version: 2\n"),), False, "systemd-networkd",
            "/etc/netplan/60-railwright.yaml"),
    Manager("netplan-networkmanager", ("netplan.io", "network-manager"),
            (("/etc/netplan/01-node.yaml", "network:\n  version: 2\n  renderer: NetworkManager\n"),), False, "NetworkManager",
            "/etc/netplan/60-railwright.yaml"),
)


class Node:
    """A container under one manager, driven by the core inside it."""

    def __init__(self, manager: Manager, container: Container, mac: str) -> None:
        self.manager, self.container, self.mac = manager, container, mac
        self.address, self.gateway, self.mtu, self.routing = ADDRESS, GATEWAY, 9000, "auto"

    def ask(self, mode: str, consent: tuple[str, ...] = ("link",), switch: int = 0) -> dict[str, Any]:
        rail = {"name": "rail0", "match": {"mac": self.mac}, "address": self.address, **({"gateway": self.gateway} if self.gateway else {})}
        spec, findings = build_spec({"fabric": "roce", "mtu": self.mtu, "consent": list(consent), "rails": [rail],
                                     "network_source_routing": self.routing,
                                     "accept_eol": True, "preflight_min_free_mb": 1}, "node")
        assert spec is not None, findings
        request = {"spec": spec.as_dict(), "mode": mode, "areas": ["network"], "hardware": ["eth1"] if self.manager.hardware else [],
                   "switch": [switch, "token"] if switch else None}
        done = self.container.run("python3", "/opt/railwright/core_driver.py", stdin=json.dumps(request))
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def plan(self) -> list[str]:
        answer = self.ask("plan")
        assert answer["problems"] == []
        return [change["what"] for change in answer["plan"]]

    def apply(self) -> None:
        answer = self.ask("apply")
        assert answer["error"] is None, answer["error"]

    def apply_unconfirmed(self) -> None:
        """An apply that nobody comes back to, until the node has reverted it."""
        answer = self.ask("apply", switch=10)
        assert answer["error"] is None, answer["error"]
        waits = ("test", "-e", "/var/lib/railwright/confirm/pending.json")
        assert self.container.run(*waits, check=False).returncode == 0
        assert self.holds(), "what did not come about need not be reverted"
        deadline = time.monotonic() + 60
        while self.container.run(*waits, check=False).returncode == 0:
            assert time.monotonic() < deadline, self.container.run("journalctl", "-b", "--no-pager", "-u", "railwright-watchdog").stdout
            time.sleep(0.3)
        assert self.container.json("cat", answer["restore_point"])["state"] == "reverted"

    def files(self) -> list[str]:
        """All of /etc, byte for byte."""
        listed = self.container.out("find", "/etc", "-type", "f", "-printf", "%m %U %G ", "-exec", "sha256sum", "{}", ";")
        return sorted(listed.splitlines())

    def link(self, name: str = "eth1") -> dict[str, Any]:
        found: dict[str, Any] = self.container.json("ip", "-j", "addr", "show", "dev", name)[0]
        return found

    def addresses(self, name: str = "eth1") -> list[str]:
        return [f"{item['local']}/{item['prefixlen']}" for item in self.link(name)["addr_info"] if item["scope"] == "global"]

    def policy(self) -> tuple[bool, list[str]]:
        """Whether the rail's address is sent to the rail's table, and that table."""
        family = "-6" if ":" in self.address else "-4"
        rules = self.container.json("ip", "-j", family, "rule", "show")
        ruled = any(rule.get("src") == self.address.partition("/")[0] and rule.get("table") == str(TABLE) for rule in rules)
        routes = self.container.json("ip", "-j", family, "route", "show", "table", str(TABLE)) if ruled else []
        return ruled, sorted({route["dst"] + (" via " + route["gateway"] if "gateway" in route else "") for route in routes
                              if not route["dst"].startswith(("fe80:", "ff00:"))})

    def observed(self) -> tuple[object, ...]:
        """What an apply may change; link-local addresses are the manager's own business."""
        return self.link()["mtu"], self.addresses(), self.policy(), self.plan()

    def holds(self) -> bool:
        routed = bool(self.gateway) or self.routing == "true"
        network = "fd00:10::/64" if ":" in self.address else "10.10.0.0/24"
        wanted = (routed, sorted([network, *(["default via " + self.gateway] if self.gateway else [])]) if routed else [])
        return self.link()["mtu"] == self.mtu and self.address in self.addresses() and self.policy() == wanted

    def settles(self) -> None:
        """Managers answer before they are done: wait, with a bound, and show what is there when it passes."""
        deadline = time.monotonic() + 30
        while not self.holds():
            assert time.monotonic() < deadline, self.state()
            time.sleep(0.3)

    def state(self) -> str:
        """What is there, for the message of a failed test."""
        lines = [f"mtu {self.link()['mtu']}, addresses {self.addresses()}, policy {self.policy()}"]
        return "\n".join([*lines, self.journal()])

    def journal(self) -> str:
        return self.container.run("journalctl", "-b", "-n", "40", "--no-pager", "-u", self.manager.unit, check=False).stdout


@pytest.fixture(scope="module", params=MANAGERS, ids=[manager.id for manager in MANAGERS])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    manager: Manager = request.param
    name = f"railwright-network-{os.getpid()}-{next(NUMBERS)}"
    mac = f"02:00:00:{os.getpid() >> 8 & 255:02x}:{os.getpid() & 255:02x}:01"
    image = harness.build((*manager.packages, "iputils-ping"))
    network = harness.create_network(name)
    container = None
    try:
        container = harness.start(image, name, (Link("podman", "eth0"), Link(network, "eth1", mac)))
        container.run("mkdir", "-p", "/opt/railwright")
        container.copy_in(ROOT / "plugins" / "module_utils", "/opt/railwright/module_utils")
        container.copy_in(ROOT / "tests" / "containers" / "core_driver.py", "/opt/railwright/core_driver.py")
        for path, content in manager.files:
            container.write(path, content, "0600")
        yield Node(manager, container, mac)
    finally:
        if container is not None:
            container.remove()
        harness.remove_network(network)


def test_failed_apply_leaves_the_node_as_it_was(node: Node) -> None:
    """The file cannot be written, which is found out after the live interface was changed."""
    before = node.observed()
    node.container.run("mkdir", "-p", str(Path(node.manager.path).parent))
    node.container.run("ln", "-s", "/proc/nowhere/file", node.manager.path)  # links are followed, and nobody can make a directory there
    answer = node.ask("apply")
    node.container.run("rm", node.manager.path)
    assert "No such file or directory" in answer["error"]
    assert "Everything was rolled back" in answer["error"]
    assert node.observed() == before


def test_a_first_apply_that_nobody_confirms_is_reverted(node: Node) -> None:
    """By the node itself, with the manager that has been told to let go of the interface again."""
    before, files = node.observed(), node.files()
    node.apply_unconfirmed()
    assert node.files() == files
    assert node.observed() == before


def test_first_apply_configures_the_rail_and_leaves_nothing_to_do(node: Node) -> None:
    before = node.addresses("eth0")
    planned = node.plan()
    assert f"file {node.manager.path}" in planned
    assert {"MTU of rail0 (eth1)", "address of rail0 (eth1)", "route of rail0 (eth1)"} <= set(planned)
    node.apply()
    assert node.holds(), node.state()
    assert node.plan() == []
    assert node.addresses("eth0") == before, "the management interface was touched"


def test_a_change_that_nobody_confirms_is_reverted(node: Node) -> None:
    node.settles()
    before, files = node.observed(), node.files()
    was = node.address, node.gateway, node.mtu
    node.address, node.gateway, node.mtu = OTHER, "", 4200
    node.apply_unconfirmed()
    node.address, node.gateway, node.mtu = was
    node.settles()
    assert (node.observed(), node.files()) == (before, files)


def test_live_drift_is_named_exactly_and_repaired(node: Node) -> None:
    node.settles()
    node.container.run("ip", "link", "set", "dev", "eth1", "mtu", "1500")
    node.container.run("ip", "addr", "del", node.address, "dev", "eth1")
    drift = node.plan()
    assert drift[:2] == ["MTU of rail0 (eth1)", "address of rail0 (eth1)"]
    assert set(drift[2:]) <= {"route of rail0 (eth1)"}  # the kernel takes routes away with their address
    node.apply()
    assert node.holds()
    assert node.plan() == []


def test_lost_file_is_named_exactly_and_written_again(node: Node) -> None:
    node.container.run("rm", node.manager.path)
    assert node.plan() == [f"file {node.manager.path}"]
    refused = node.ask("apply", consent=())
    assert "refused without consent" in refused["error"]
    node.apply()
    assert node.holds()
    assert node.plan() == []


def test_settings_survive_a_restart_of_the_manager(node: Node) -> None:
    node.container.run("systemctl", "restart", node.manager.unit)
    node.settles()
    assert node.plan() == []


def test_settings_come_back_after_a_reboot_with_no_apply(node: Node) -> None:
    node.container.restart()
    node.settles()
    assert node.addresses("eth0"), "the management interface has lost its address"
    assert node.plan() == []


def test_changed_wishes_replace_only_what_was_ours(node: Node) -> None:
    node.container.run("ip", "addr", "add", STRANGER, "dev", "eth1")
    node.address, node.gateway, node.mtu = OTHER, "", 4200
    planned = node.plan()
    assert {"MTU of rail0 (eth1)", "address of rail0 (eth1)", "route of rail0 (eth1)", f"file {node.manager.path}"} <= set(planned)
    node.apply()
    node.settles()
    assert ADDRESS not in node.addresses()
    if node.manager.id == "ifupdown":  # the others own the whole interface, and take strangers off themselves
        assert STRANGER in node.addresses()
    assert node.plan() == []


def test_a_rail_without_gateway_is_source_routed_when_asked_for(node: Node) -> None:
    node.routing = "true"
    assert {"route of rail0 (eth1)", f"file {node.manager.path}"} <= set(node.plan())
    node.apply()
    node.settles()
    assert node.plan() == []
    node.container.run("systemctl", "restart", node.manager.unit)
    node.settles()
    assert node.plan() == []


@pytest.mark.parametrize("gateway", [GATEWAY_6, ""])
def test_ipv6_rail_comes_and_stays(node: Node, gateway: str) -> None:
    """From IPv4, whose address, rule and table go; then from one with a gateway to one without."""
    node.address, node.gateway, node.routing = ADDRESS_6, gateway, "true"
    node.apply()
    node.settles()
    assert OTHER not in node.addresses()
    assert not [rule for rule in node.container.json("ip", "-j", "-4", "rule", "show") if rule.get("table") == str(TABLE)]
    assert node.plan() == []
    node.container.run("systemctl", "restart", node.manager.unit)
    node.settles()
    assert node.plan() == []


def test_ipv6_rail_comes_back_after_a_reboot_with_no_apply(node: Node) -> None:
    node.container.restart()
    node.settles()
    assert node.plan() == []
