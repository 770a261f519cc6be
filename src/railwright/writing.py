# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written on the controller and how: strict JSON; files whole or not at all, never where another user's link leads."""

import contextlib
import errno
import io
import json
import math
import os
import stat
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import hidden
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import named_errors, open_own
from railwright.exitcodes import InputError

MAX_LINKS = 40  # as the kernel


def write_atomic(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Beside its target, synced, renamed; for the owner's eyes only, unless ``mode`` says otherwise. Raises OSError.

    A link stays one: its target is replaced. What is no regular file (a pipe, /dev/null, /dev/stdout) is written into as it is.
    A link or a named pipe that neither we nor root made is an error: in a directory that others may write to, it is a trap.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    target = _target(path)
    if _exists(path) and not target.is_file():  # also a deleted file behind /dev/stdout: no name leads to it
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb") as stream:
            stream.write(data)
        return
    descriptor, name = tempfile.mkstemp(prefix=".railwright-", dir=target.parent)  # new, no link, and known to nobody before
    beside = Path(name)
    try:
        with named_errors(str(target)), os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)  # whatever the umask is
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def own_file(path: Path) -> io.BufferedRandom:
    """Open a file of ours for reading and writing. A link, or a file of another user or that others may write, is replaced by a new one."""
    return io.BufferedRandom(io.FileIO(path, "r+", opener=partial(open_own, renew=True)))


def new_file(path: Path) -> None:
    """For -o, before anybody is asked anything. Raises InputError."""
    if path.exists() or not path.parent.is_dir():
        raise InputError(f"-o {path}: {'exists already' if path.exists() else 'its directory does not exist'}; allowed: a new file")


def write_output(path: Path, text: str, option: str = "-o") -> None:
    """For the option that names a file. Readable by all: node_exporter, CI and browsers run as other users. Raises InputError."""
    try:
        write_atomic(path, text, 0o644)
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror}") from error


def make_directories(path: Path, mode: int = 0o777) -> None:
    """A directory and those above it that are missing, on the disk when this returns; the umask counts, too."""
    missing: list[Path] = []
    while not (path.exists() if missing else path.is_dir()):  # what is there and is none is mkdir's to name
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode, exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(path: Path) -> None:
    """So that the names in it outlive a power cut. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # who may write into a directory need not be allowed to open it
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # fsync(2): this file system has no such thing for a directory
            raise
    finally:
        os.close(descriptor)


def usual_mode() -> int:
    """What the umask leaves of a file's mode: for files that the operator goes on to edit."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def xdg(variable: str, fallback: str) -> Path:
    """A base directory of this user; the XDG specification says to ignore relative paths."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else Path.home() / fallback


def json_text(document: Any, indent: int | None = 2) -> str:
    """A document that any JSON reader takes: in ASCII, so that no locale can break it, with a newline at the end.

    ``indent``: None where only programs read it, which costs a fifth.
    Python writes NaN and Infinity, which RFC 8259 (section 6) has not, and a strict reader refuses all of a document that holds one.
    Both may come from a node's answer or from an inventory: they become text.
    """
    document = hidden(document)
    try:
        return json.dumps(document, indent=indent, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(document), indent=indent, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


def _target(path: Path) -> Path:
    """Where the links lead. Each is held while it is inspected: nobody can put another one in its place in between."""
    for _link in range(MAX_LINKS):
        try:
            held = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return path
        try:
            state = os.fstat(held)
            if state.st_uid not in (os.geteuid(), 0) and (stat.S_ISLNK(state.st_mode) or stat.S_ISFIFO(state.st_mode)):
                raise PermissionError(errno.EACCES, "is a link or a pipe of another user, and is not followed", str(path))
            if not stat.S_ISLNK(state.st_mode):
                return path
            path = path.parent / os.readlink("", dir_fd=held)
        finally:
            os.close(held)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _exists(path: Path) -> bool:
    """By way of the kernel, whose protection of links in shared directories is an error here and not an answer."""
    with contextlib.suppress(FileNotFoundError):
        path.stat()
        return True
    return False
