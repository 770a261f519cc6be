# SPDX-License-Identifier: GPL-3.0-or-later
"""Inspections of which a test sets the facts alone."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import Inspection, inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform

DEBIAN = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")


def bare_inspection(
    node: str,
    spec: Spec,
    facts: dict[str, Any],
    nvswitches: tuple[str, ...] = (),
    functions: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
) -> Inspection:
    """A node without an interface, an HCA or a GPU of its own: what is judged stands in the facts."""
    identity = Identity(node, DEBIAN, "6.1.0-28-amd64", "x86_64", "3.11.2", None, (), (), ("systemd",), (), nvswitches, functions, unread)
    return inspection_of(node, spec, identity, facts)
