# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the lab keeps things. Images are a cache; the machines are state."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from railwright import writing
from railwright.lab.errors import LabError


def _xdg(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification says to ignore relative paths.
    return Path(value) if value.startswith("/") else Path.home() / fallback


def cache_root() -> Path:
    """Images: safe to delete, rebuilt when needed."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "railwright" / "lab"


def default_state_dir() -> Path:
    """Machines, keys and the inventory of the default lab."""
    return _xdg("XDG_STATE_HOME", ".local/state") / "railwright" / "lab"


@dataclass(frozen=True)
class LabPaths:
    """Every path of one lab."""

    root: Path

    @classmethod
    def of(cls, state_dir: Path | None) -> LabPaths:
        return cls((state_dir or default_state_dir()).absolute())

    @property
    def state_file(self) -> Path:
        return self.root / "state.json"

    @property
    def ssh_key(self) -> Path:
        return self.root / "ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.root / "ssh" / "known_hosts"

    @property
    def inventory(self) -> Path:
        return self.root / "inventory"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    def node(self, name: str) -> Path:
        return self.nodes / name

    @property
    def tag(self) -> str:
        """A short name for this lab, for things that are global to the machine (namespaces)."""
        return sha256(str(self.root).encode()).hexdigest()[:8]


@contextmanager
def locked(lock_file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold an exclusive lock; a second caller waits or is told, instead of being left to guess."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise LabError(f"another railwright is working on this lab (lock: {lock_file})") from exc
        yield


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """As every file of the controller is written, with the directory that it lies in; readable by others, where nothing else is said."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writing.write_atomic(path, text, mode)
