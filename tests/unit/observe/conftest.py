# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree that a test writes itself, file by file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost

MakeTree = Callable[[dict[str, str]], TreeHost]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """A captured tree from {path: text}; called again it adds to the same tree."""

    def write(files: dict[str, str]) -> TreeHost:
        for path, text in files.items():
            full = tmp_path / "node" / path.lstrip("/")
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text)
        (tmp_path / "node").mkdir(exist_ok=True)
        return TreeHost(str(tmp_path / "node"))

    return write
