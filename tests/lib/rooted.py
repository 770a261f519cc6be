# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Host under a directory of the test's, and a change to carry out there."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Op


class RootedHost(Host):
    """The real Host with every file under a directory of the test's; commands are real."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def path(self, path: str) -> str:
        return self.root + path


def change(*ops: Op, what: str = "something") -> Change:
    return Change("test", what, "old", "new", "none", "why", "source", tuple(ops))
