# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of eRDMA's systems, as the tests of packages have theirs; see tests/lib/packages_nodes.py."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.platforms import family_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform
from field_specs import build_spec
from packages_nodes import node

__all__ = ["node"]
CODENAMES = {"ubuntu 18.04": "bionic", "ubuntu 20.04": "focal", "ubuntu 22.04": "jammy", "ubuntu 24.04": "noble", "debian 11": "bullseye",
             "debian 12": "bookworm", "debian 13": "trixie"}


@pytest.fixture
def erdma() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        rails = [{"name": f"rail{i}", "match": {"mac": f"02:00:00:00:01:0{i}"}, "address": f"198.51.100.{11 + 128 * i}/25"} for i in (0, 1)]
        found, findings = build_spec({"fabric": "erdma", "mtu": 8500, "rails": rails, **values}, "node1")
        assert found is not None, findings
        return found

    return build


@pytest.fixture
def on() -> Callable[..., Identity]:
    """A node by the name of its system."""

    def build(system: str, arch: str = "x86_64") -> Identity:
        name, _space, version = system.partition(" ")
        family, manager = family_of(name, (), version)
        platform = Platform(name, version, CODENAMES.get(system, ""), (), system, family, manager)
        return Identity("node1", platform, "5.10.134-17", arch, "3.6.8", "kvm", (), (), ("systemd",))

    return build
