# SPDX-License-Identifier: GPL-3.0-or-later
"""Files with settings for the linter."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a file below the test's directory; returns its path."""
    def put(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)
    return put
