# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for the areas that deal with packages: a captured tree that can be written, and the identity that goes with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Gpu, Hca, Identity, Platform
from field_specs import build_spec

FINGERPRINT = "A" * 40
BOOKWORM = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
TRIXIE = Platform("debian", "13", "trixie", (), "Debian GNU/Linux 13", "debian", "apt")
NOBLE = Platform("ubuntu", "24.04", "noble", ("debian",), "Ubuntu 24.04 LTS", "debian", "apt")
ROCKY = Platform("rocky", "9.6", "", ("rhel",), "Rocky Linux 9.6", "redhat", "dnf")
SLES = Platform("sles", "15.6", "", ("suse",), "SLES 15 SP6", "suse", "zypper")
KERNELS = {"debian": "6.1.0-26-amd64", "redhat": "5.14.0-427.13.1.el9_4.x86_64", "suse": "6.4.0-150600.21-default"}


class Node(TreeHost):
    """A tree to write in."""

    def put(self, path: str, text: str | bytes) -> None:
        full = Path(self.root) / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text.encode() if isinstance(text, str) else text)

    def dpkg(self, *rows: tuple[str, str] | tuple[str, str, str]) -> None:
        """Name, version and state (``install ok installed`` when left out)."""
        stanza = "Package: %s\nStatus: %s\nVersion: %s\n\n"
        whole = [(row[0], row[2] if len(row) > 2 else "install ok installed", row[1]) for row in rows]
        self.put("/var/lib/dpkg/status", "".join(stanza % row for row in whole))

    def rpm(self, *rows: tuple[str, str]) -> None:
        self.put("/cmd/rpm_-qa", "".join(f"{name} {version}\n" for name, version in rows))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(str(tmp_path))
    found.dpkg(("bash", "5.2-1"))
    found.put("/etc/apt/keyrings/.keep", "")
    found.put("/etc/pki/rpm-gpg/.keep", "")
    return found


@pytest.fixture
def identity() -> Callable[..., Identity]:
    def build(platform: Platform = BOOKWORM, *capabilities: str, gpus: int = 0) -> Identity:
        hca = Hca("mlx5_0", None, "0000:1a:00.0", "mlx5_core", (), (1,), (), "Ethernet")
        found = tuple(Gpu(f"0000:0{index}:00.0", "0x2330", 0) for index in range(gpus))
        able = ("systemd", *capabilities)
        return Identity("node1", platform, KERNELS[platform.family], "x86_64", "3.11.2", None, (), (hca,), able, found)

    return build


@pytest.fixture
def spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        rails = [{"name": "rail0", "match": {"pci": "0000:1a:00.0"}, "address": "192.0.2.11/28"}]
        found, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, "rdma_stack": "inbox", **values}, "node1")
        assert found is not None, findings
        return found

    return build


@pytest.fixture
def doca(spec: Callable[..., Spec]) -> Callable[..., Spec]:
    """DOCA from a repository of the site."""

    def build(**values: Any) -> Spec:
        own = {"rdma_stack": "doca", "rdma_stack_repository_url": "https://mirror.example/doca/", "rdma_stack_repository_key_url":
               "https://mirror.example/key.gpg", "rdma_stack_repository_fingerprint": FINGERPRINT}  # fmt: skip
        return spec(**{**own, **values})

    return build


def whats(changes: list[Change]) -> dict[str, tuple[Any, Any, str]]:
    return {change.what: (change.before, change.after, change.disruption) for change in changes}
