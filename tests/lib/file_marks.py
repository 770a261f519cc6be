# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are marked immutable or append-only for a while."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: marks files immutable")


@contextlib.contextmanager
def marked(path: Path, letter: str = "i") -> Iterator[None]:
    """As by chattr; without its mark afterwards, whoever set it."""
    subprocess.run(("chattr", "+" + letter, path), check=True)
    try:
        yield
    finally:
        subprocess.run(("chattr", "-" + letter, path), check=True)
