# SPDX-License-Identifier: GPL-3.0-or-later
"""A captured tree of binary files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost


@pytest.fixture
def make_node(tmp_path: Path) -> Callable[[dict[str, bytes]], TreeHost]:
    """A captured tree from {path: content}; called again it adds to the same tree."""

    def write(files: dict[str, bytes]) -> TreeHost:
        for path, content in files.items():
            full = tmp_path / "node" / path.lstrip("/")
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content)
        (tmp_path / "node").mkdir(exist_ok=True)
        return TreeHost(str(tmp_path / "node"))

    return write
