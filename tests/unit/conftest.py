# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by the unit tests: captured nodes, and a guard that keeps a unit test from being more than one."""

import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import forget
from node_trees import NODES
from railwright.cli import console

# A busy machine is slow to draw and to run an example, which is no failure.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")


@pytest.fixture(scope="session")
def nodes() -> Path:
    """The directory of captured nodes: one directory each, with sys/, proc/, etc/ and cmd/."""
    return NODES


@pytest.fixture(autouse=True)
def fresh_consoles() -> None:
    """The command line keeps its consoles; each test has a standard output of its own."""
    console.out.cache_clear()
    console.err.cache_clear()


@pytest.fixture(autouse=True)
def nothing_hidden() -> None:
    """What a vault of the test before held."""
    forget()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test connects to nothing but Unix sockets and this machine: a slow name server must not be part of it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        local = not isinstance(address, tuple) or str(address[0]) in ("127.0.0.1", "::1", "localhost")
        assert local, f"a unit test wants to connect to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
