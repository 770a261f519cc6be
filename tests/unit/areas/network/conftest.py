# SPDX-License-Identifier: GPL-3.0-or-later
"""A node made of files: its interfaces, its managers' state, what commands would answer.

``Node.carry_out`` does to the tree what a plan's file operations do to a node and
leaves live values alone, so that a test can plan from its own result.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import evidence, network
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Hca, Identity, Nic, Platform, Problem

MAC = "02:00:00:00:01:01"
MANAGEMENT = Nic("eth0", "02:00:00:00:00:01", "0000:00:02.0", "virtio_net", "ethernet", management=True)
RAIL = Nic("eth1", MAC, "0000:1a:00.0", "mlx5_core", "ethernet", management=False)
DEBIAN = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
SHOW = ("systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState")


class Node:
    """The tree, the identity that goes with it, and the wishes of its host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.nics: list[Nic] = [MANAGEMENT, RAIL]
        self.hcas: list[Hca] = []
        self.units: dict[str, tuple[str, str, str]] = {}
        self.addresses: dict[str, list[str]] = {}
        self.max_mtu = 9216
        self.values: dict[str, Any] = {
            "fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "consent": [], "expect": {}, "network_backend": "auto",
            "network_manage_addresses": True, "network_source_routing": "auto", "network_ipoib_mode": "datagram", "network_opensm": False,
            "rails": [],
        }
        self.rail()
        self.link("eth0", "2", mtu=1500, addresses=["192.0.2.5/24"])
        self.link("eth1", "3", mtu=1500, up=False)

    def rail(self, **changes: Any) -> None:
        """The host's one rail; ``changes`` go on top of the usual wishes."""
        rail = {"name": "rail0", "index": 0, "match": "mac", "value": MAC, "address": "10.10.0.11/24", "gateway": None, "mtu": 9000}
        self.values["rails"] = [{**rail, **changes}]

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        full = self.root / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(content, encoding="utf-8")
        full.chmod(mode)

    def tool(self, name: str) -> None:
        self.write(f"/usr/sbin/{name}", "", 0o755)

    def link(self, name: str, ifindex: str, *, mtu: int, up: bool = True, addresses: Sequence[str] = (), **more: str) -> None:
        base = f"/sys/class/net/{name}"
        values = {"ifindex": ifindex, "mtu": str(mtu), "flags": "0x1003" if up else "0x1002", "carrier": "1" if up else "0", **more}
        for key, value in values.items():
            self.write(f"{base}/{key}", value + "\n")
        self.addresses[name] = list(addresses)

    def unit(self, name: str, active: str, enabled: str, load: str = "loaded") -> None:
        self.units[name] = (load, active, enabled)

    def networkd(self, active: str = "active", enabled: str = "enabled") -> None:
        """A node with systemd-networkd 252."""
        self.tool("networkctl")
        self.unit("systemd-networkd.service", active, enabled)
        self.unit("systemd-networkd-wait-online.service", "inactive", enabled)
        self.write("/cmd/" + recording_name(("networkctl", "--version")), "systemd 252 (252.39-1~deb12u2)\n+PAM\n")

    def networkmanager(self, *, managed: bool = True) -> None:
        self.tool("nmcli")
        self.unit("NetworkManager.service", "active", "enabled")
        self.write("/run/NetworkManager/devices/3", f"[device]\nmanaged={'true' if managed else 'false'}\n")

    def ifupdown(self, interfaces: str = "source /etc/network/interfaces.d/*\n") -> None:
        self.tool("ifquery")
        self.unit("networking.service", "active", "enabled")
        self.write("/etc/network/interfaces", interfaces)

    def netplan(self) -> None:
        self.tool("netplan")
        self.write("/etc/netplan/50-cloud-init.yaml", "network:\n  version: 2\n", 0o600)

    def record(self, argv: Sequence[str], output: str) -> None:
        self.write("/cmd/" + recording_name(argv), output)

    def host(self) -> TreeHost:
        """The tree as it is now, with what its commands would say."""
        blocks = []
        for name in evidence.UNITS:
            load, active, enabled = self.units.get(name, ("not-found", "inactive", ""))
            blocks.append(f"Id={name}\nLoadState={load}\nActiveState={active}\nUnitFileState={enabled}\n")
        self.record((*SHOW, *evidence.UNITS), "\n".join(blocks))
        rows = [{"ifname": name, "max_mtu": self.max_mtu, "addr_info": [_address(item) for item in items]}
                for name, items in self.addresses.items()]
        self.record(("ip", "-j", "-d", "addr", "show"), json.dumps(rows))
        return TreeHost(str(self.root))

    def spec(self) -> Spec:
        return Spec(self.values)

    def identity(self) -> Identity:
        return Identity("node", DEBIAN, "6.1.0", "x86_64", "3.11", None, tuple(self.nics), tuple(self.hcas), ("systemd",))

    def plan(self) -> list[Change]:
        desired = network.desired(self.spec(), self.identity())
        return network.plan(desired, network.observe(self.host(), desired))

    def whats(self) -> list[str]:
        return [change.what for change in self.plan()]

    def change(self, what: str) -> Change:
        return next(change for change in self.plan() if change.what == what)

    def conflicts(self) -> list[Problem]:
        desired = network.desired(self.spec(), self.identity())
        return network.conflicts(desired, network.observe(self.host(), desired))

    def carry_out(self, changes: Sequence[Change]) -> list[tuple[str, ...]]:
        """Files as the plan wants them; returns the commands that it would run."""
        commands = []
        for op in (op for change in changes for op in change.ops):
            if op.kind == "write":
                self.write(op.path, op.content, op.mode)
            elif op.kind == "remove":
                (self.root / op.path.lstrip("/")).unlink()
            else:
                commands.append(op.argv)
        return commands

    def second_rail(self, address: str, gateway: str | None = None) -> None:
        """One more rail beside the first, down and bare."""
        mac = "02:00:00:00:01:02"
        self.nics.append(Nic("eth2", mac, "0000:1b:00.0", "mlx5_core", "ethernet", management=False))
        rail = {**self.values["rails"][0], "name": "rail1", "index": 1, "value": mac, "address": address, "gateway": gateway}
        self.values["rails"].append(rail)
        self.link("eth2", "4", mtu=1500, up=False)

    def routing(self, family: str, rules: dict[str, int], tables: dict[int, list[dict[str, Any]]]) -> None:
        """What ``ip`` says of rules (address: table) and of the tables."""
        rows = [{"priority": 0, "src": "all", "table": "local"}]
        rows += [{"priority": 4791, "src": address, "table": str(table)} for address, table in rules.items()]
        self.record(("ip", "-j", family, "rule", "show"), json.dumps(rows))
        for table, routes in tables.items():
            self.record(("ip", "-j", family, "route", "show", "table", str(table)), json.dumps(routes))

    def live(self, mtu: int = 9000, addresses: Sequence[str] = ("10.10.0.11/24",)) -> None:
        """The rail as the plan's commands would leave it."""
        self.link("eth1", "3", mtu=mtu, addresses=addresses)


def _address(cidr: str) -> dict[str, Any]:
    loose, cidr = cidr.startswith("~"), cidr.lstrip("~")  # a test's form of noprefixroute, as NetworkManager adds addresses
    cidr, _at, metric = cidr.partition("@")  # a test's form of a metric
    local, _slash, length = cidr.partition("/")
    bare = length.endswith("!")  # a test's word for "without broadcast"
    row = {"local": local, "prefixlen": int(length.rstrip("!")), "family": "inet6" if ":" in local else "inet",
           "scope": "link" if local.startswith("fe80:") else "global", **({"metric": int(metric)} if metric else {}),
           **({"noprefixroute": True} if loose else {})}
    return row if bare or row["family"] == "inet6" else {**row, "broadcast": "255.255.255.255"}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)
