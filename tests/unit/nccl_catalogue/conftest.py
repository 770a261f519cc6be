# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of captured nodes for the tests of the NCCL profiles."""

from collections.abc import Callable
from pathlib import Path

import pytest

from profile_trees import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Tree]:
    return lambda name: Tree(name, tmp_path)
