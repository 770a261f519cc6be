# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose commands answer with what the real ones printed (``recorded/``), and the area as plan.py calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.firewall import firewall
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity, Nic, Platform
from field_specs import build_spec

RECORDED = Path(__file__).parent / "recorded"
DEBIAN = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
PEERS = ["192.0.2.11/32", "192.0.2.12/32", "198.18.0.11/32"]


class Node(TreeHost):
    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.base = root

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, encoding="utf-8")
        full.chmod(mode)

    def say(self, command: tuple[str, ...], answer: str) -> None:
        self.put("/cmd/" + recording_name(command), answer)

    def nft(self, answer: str) -> None:
        self.say(("nft", "-j", "list", "ruleset"), answer)


class Planner:
    """``derived``: what the controller found in the inventory."""

    def __init__(self, node: Node, **values: Any) -> None:
        derived = values.pop("derived", {"peers": PEERS, "unknown": []})
        rails = [{"name": "rail0", "match": {"mac": "52:54:00:00:00:01"}, "address": "198.18.0.11/24"}]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, **values}, "node1")
        assert spec is not None, findings
        self.node = node
        self.spec = Spec({**spec.as_dict(), "firewall_derived": derived})
        nics = (Nic("eth0", "52:54:00:00:00:09", None, "virtio_net", "ethernet", True, 0),
                Nic("eth1", "52:54:00:00:00:01", "0000:00:04.0", "mlx5_core", "ethernet", False))
        self.identity = Identity("node1", DEBIAN, "6.1.0", "x86_64", "3.11.2", None, nics, (), ("systemd",))

    def _look(self) -> tuple[firewall.Desired, firewall.Observed]:
        wanted = firewall.desired(self.spec, self.identity)
        return wanted, firewall.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        changes = firewall.plan(*self._look())
        assert all(change.area == "firewall" and change.disruption == "none" and change.why and change.source for change in changes)
        return changes

    def whats(self) -> list[str]:
        return [change.what for change in self.plan()]

    def conflicts(self) -> list[str]:
        return [f"{item.subject}: {item.message}" for item in firewall.conflicts(*self._look())]

    def notes(self) -> list[str]:
        return firewall.notes(*self._look())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def planner(node: Node) -> Callable[..., Planner]:
    return lambda **values: Planner(node, **values)


@pytest.fixture
def recorded() -> Callable[[str], str]:
    return lambda name: (RECORDED / name).read_text(encoding="utf-8")
