# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an inventory, before it is loaded: a digest of them all."""

import hashlib
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from typing import Any

from railwright.ansible_env import UserConfig
from railwright.exitcodes import InputError
from railwright.inventories import Inventories
from railwright.ownership import open_checked

BESIDE = re.compile(r"group_vars|host_vars|[a-z]+_plugins")  # of an inventory that is a file
LEFT_OUT = re.compile(r"\..*|.*\.pyc", re.DOTALL)  # hidden and compiled files; Ansible passes over both, but not over __pycache__
ROUNDS = 200_000  # of PBKDF2: plans are shared, and a fast digest would give a short secret away to who knows the rest


@dataclass
class Content:
    hash: Any = field(default_factory=hashlib.sha256)  # of names, contents, and which files are executable
    files: list[Path] = field(default_factory=list)
    executables: list[Path] = field(default_factory=list)
    plugins: list[Path] = field(default_factory=list)  # in directories that ansible.cfg names

    def sealed(self, salt: str | None = None) -> str:
        """Return the digest in the form that a plan holds."""
        salt = secrets.token_hex(16) if salt is None else salt
        return f"{salt}:{hashlib.pbkdf2_hmac('sha256', self.hash.digest(), salt.encode('utf-8', 'replace'), ROUNDS).hex()}"

    def matches(self, sealed: str) -> bool:
        return compare_digest(self.sealed(sealed.partition(":")[0]).encode(), sealed.encode("utf-8", "replace"))


def content_of(inventory: Inventories, *, trusted: bool = False) -> Content:
    """Read all files of an inventory: those of its directory, or of the variables and plugins beside its file; ansible.cfg, and the plugins
    that it names. ``trusted``: refuse a file that another user could have written. Raises OSError, InputError.
    """
    found = Content()
    for number, path in enumerate(inventory):
        beside = [] if path.is_dir() else sorted(entry for entry in path.parent.iterdir() if BESIDE.fullmatch(entry.name))
        for part in (path, *beside):
            _add(found, f"{number}/{'' if part == path else part.name}", part, (), trusted=trusted)
    config = UserConfig.find(os.environ, Path.cwd())
    if config.path is not None:
        _add(found, "ansible.cfg", config.path, (), trusted=trusted)
        number = len(found.files)
        for key, path in config.plugins():
            _add(found, key, path, (), trusted=trusted)
        found.plugins, found.files = found.files[number:], found.files[: number - 1]
    return found


def _add(found: Content, name: str, path: Path, above: tuple[tuple[int, int], ...], *, trusted: bool) -> None:
    """Take a file, or all that is below a directory, into the digest as ``name``."""
    descriptor, why = open_checked(path)
    try:
        state = os.fstat(descriptor)
        if trusted and why:
            raise InputError(why, path)
        if stat.S_ISDIR(state.st_mode):
            key = (state.st_dev, state.st_ino)
            if key in above:
                raise InputError(f"{path}: is a link to a directory above it; allowed: an inventory without such links", path)
            for entry in sorted(path.iterdir()):  # by its path: where it counts, nobody else can rename anything on it
                if "_vars/" in f"{name}/" or not LEFT_OUT.fullmatch(entry.name):  # a host may be called .x
                    _add(found, f"{name}/{entry.name}", entry, (*above, key), trusted=trusted)
            return
        executable = bool(state.st_mode & 0o111)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            found.hash.update(json.dumps([name, executable]).encode() + hashlib.file_digest(stream, "sha256").digest())
        found.files.append(path)
        if executable:
            found.executables.append(path)
    finally:
        os.close(descriptor)
