# SPDX-License-Identifier: GPL-3.0-or-later
"""A node to write on; see tests/lib/aiacc_node.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aiacc_node import AiaccNode


@pytest.fixture
def node(tmp_path: Path) -> Callable[..., AiaccNode]:
    def make(os_name: str = "ubuntu2404") -> AiaccNode:
        return AiaccNode(tmp_path / os_name, os_name)

    return make
