# SPDX-License-Identifier: GPL-3.0-or-later
"""A result in a file that another program reads at any moment: whole or not at all, and readable for it."""

from __future__ import annotations

import os
from pathlib import Path

MODE = 0o644  # node_exporter and CI run as other users; what is in it is no secret


def write_readable(path: Path, text: str) -> None:
    """Beside its target, synced, renamed. Raises OSError. The name beside it ends otherwise, so that no collector reads it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), MODE)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
