# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives that the operator has on the controller: one that is not the pinned one is refused before it travels to any node."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def wrong_archive(key: str, path: str, artifact: str, sha256: str) -> str | None:
    """Why the archive that the inventory's ``key`` names cannot be used; None when it is the pinned one."""
    try:
        state = Path(path).stat()
        found = _digest(path, state.st_size, state.st_mtime_ns)
    except OSError as error:
        return f"{key} {path} cannot be read on the controller: {error.strerror}; no node was changed"
    if found != sha256:
        return f"{key} {path} has the sha256 {found} and not {sha256}, which is pinned for {artifact}; no node was changed"
    return None


@lru_cache(maxsize=8)
def _digest(path: str, _size: int, _time: int) -> str:
    """Some hundred MB: read once a run, not once a node."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
