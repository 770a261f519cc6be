# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the operator has on the controller, read once: an archive that is not the pinned one, and what a Python environment is made of
and is not, are refused before any of it travels to a node."""

import contextlib
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.lock import parse_explicit, parse_lock, wheel_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

VAULT = b"$ANSIBLE_VAULT;"


def wrong_archive(key: str, path: str, artifact: str, sha256: str) -> str | None:
    """Why the archive that the inventory's ``key`` names cannot be used; None when it is the pinned one."""
    try:
        found = file_digest(Path(path))
    except OSError as error:
        return f"{key} {path} cannot be read on the controller: {error.strerror}; no node was changed"
    if found != sha256:
        return f"{key} {path} has the sha256 {found} and not {sha256}, which is pinned for {artifact}; no node was changed"
    return None


def is_encrypted(path: str) -> bool:
    """Whether a file is in a vault of Ansible's as a whole."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(len(VAULT)) == VAULT
    except OSError:
        return False


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


LOCK, WHEELS = "ai_environment_requirements", "ai_environment_wheels"
INSTALLER, EXPLICIT = "ai_environment_conda_installer", "ai_environment_conda_explicit"
TEXT_LIMIT = 4 * 1024 * 1024


def bill_of(spec: Spec) -> dict[str, Any]:
    """What the module is told. Raises RailwrightError for a file that cannot be read or holds what is not pinned."""
    bill: dict[str, Any] = {"lock": None, "wheels": {}, "sizes": {}, "conda": {}, "conda_sha256": ""}
    if spec["ai_environment_kind"] == "none":
        return bill
    if spec[LOCK] is not None:
        bill["lock"] = _text(LOCK, spec[LOCK])
        parse_lock(bill["lock"], spec[LOCK])
    if spec[WHEELS] is not None:
        bill["wheels"], bill["sizes"] = _wheels(spec[WHEELS])
    if spec["ai_environment_kind"] == "conda":
        found, _size = _digest(INSTALLER, Path(spec[INSTALLER]))
        wanted = spec[INSTALLER + "_sha256"]
        if found != wanted:
            raise RailwrightError(f"{INSTALLER} {spec[INSTALLER]} has the sha256 {found} and not {wanted}, which is {INSTALLER}_sha256")
        text = _text(EXPLICIT, spec[EXPLICIT])
        bill["conda"] = parse_explicit(text, spec[EXPLICIT])
        bill["conda_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return bill


def _text(key: str, path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(TEXT_LIMIT + 1)
        if len(data) > TEXT_LIMIT:
            raise RailwrightError(f"{key} {path} is larger than {TEXT_LIMIT >> 20} MiB; allowed: a lock")
        return data.decode("utf-8")
    except OSError as error:
        raise RailwrightError(f"{key} {path} cannot be read on the controller: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RailwrightError(f"{key} {path} is no text") from error


def _wheels(directory: str) -> tuple[dict[str, str], dict[str, int]]:
    """sha256 and size by file name."""
    try:
        files = sorted(path for path in Path(directory).iterdir() if path.suffix == ".whl")
    except OSError as error:
        raise RailwrightError(f"{WHEELS} {directory} cannot be read on the controller: {error.strerror}") from error
    if not files:
        raise RailwrightError(f"{WHEELS} {directory} holds no wheel; allowed: a directory of *.whl, as pip download makes it")
    for path in files:
        if wheel_of(path.name) is None:
            raise RailwrightError(f"{WHEELS} {directory}: {path.name} is not the name of a wheel")
    read = {path.name: _digest(WHEELS, path) for path in files}
    return {name: digest for name, (digest, _size) in read.items()}, {name: size for name, (_digest, size) in read.items()}


def _digest(key: str, path: Path) -> tuple[str, int]:
    try:
        return file_digest(path), path.stat().st_size
    except OSError as error:
        raise RailwrightError(f"{key} {path} cannot be read on the controller: {error.strerror}") from error
