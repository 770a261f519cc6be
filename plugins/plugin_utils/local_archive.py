# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the operator has on the controller: one that is not the pinned one is refused before it travels to any node."""

import contextlib
import hashlib
import os
import re
import tempfile
from pathlib import Path


def wrong_archive(key: str, path: str, artifact: str, sha256: str) -> str | None:
    """Why the archive that the inventory's ``key`` names cannot be used; None when it is the pinned one."""
    try:
        found = file_digest(Path(path))
    except OSError as error:
        return f"{key} {path} cannot be read on the controller: {error.strerror}; no node was changed"
    if found != sha256:
        return f"{key} {path} has the sha256 {found} and not {sha256}, which is pinned for {artifact}; no node was changed"
    return None


def file_digest(path: Path) -> str:
    """sha256 of some GB: every task of every node asks, each in a process of its own, so what was read is remembered in a file.

    A file with the same path, inode, size and time is taken for the same; on the node what arrives is compared all the same.
    Raises OSError.
    """
    state = path.stat()
    name = hashlib.sha256(f"{path.absolute()}\n{state.st_ino}\n{state.st_size}\n{state.st_mtime_ns}".encode()).hexdigest()
    kept = cache_directory() / name
    with contextlib.suppress(OSError, UnicodeDecodeError):
        digest = kept.read_text(encoding="ascii")
        if re.fullmatch(r"[0-9a-f]{64}", digest):
            return digest
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    with contextlib.suppress(OSError):  # a controller without a home computes it again
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=kept.parent)
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(digest)
        Path(temporary).replace(kept)
    return digest


def cache_directory() -> Path:
    value = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    return (Path(value) if value.startswith("/") else Path.home() / ".cache") / "railwright" / "sums"
