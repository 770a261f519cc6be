# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill a directory with what an inventory's nodes download, each file where ``rdma_artifact_mirror`` looks for it.

A file has its name only when all of it is there and it is the pinned one. ``SHA256SUMS`` beside them has every file's sha256, in
sha256sum's form; of a file that nobody pinned it is the only word on what it was.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import mirror_path
from ansible_collections.railwright.rdma.plugins.module_utils.formats.openpgp import extract
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.artifact_rows import Row
from railwright.exitcodes import CommandError, InputError
from railwright.mirror.download import Limits, Refused, download, drop_parts
from railwright.report.text import size_text
from railwright.writing import make_directories, sync_directory, usual_mode, write_atomic

MANIFEST = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64}) [ *](.{1,4096})")
MOST_LINES = 100_000
NAME_BYTES = 230  # what a file system takes, less what the name of a part has behind it
DEPTH = 24
KEY_BYTES = 1 << 20
KEPT, FETCHED, LEFT_OUT, FAILED = "kept", "fetched", "left out", "failed"


class Outcome(NamedTuple):
    """What became of one artifact. ``path``: below the directory; None where it has none. ``sha256``: of the file that lies there."""

    name: str
    state: str
    path: str | None
    text: str
    sha256: str | None = None


def fill(directory: Path, rows: Sequence[Row], limits: Limits | None = None) -> Iterator[Outcome]:
    """Each artifact in turn; what is there is kept. Raises InputError, CommandError and OSError for the directory itself."""
    make_directories(directory)
    with _alone(directory):
        sums = read_manifest(directory / MANIFEST)
        for row in rows:
            yield _one(directory, row, sums, limits or Limits())


def read_manifest(path: Path) -> dict[str, str]:
    """The sha256 by path. Raises InputError for a file that sha256sum did not write."""
    try:
        lines = lines_in(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8; allowed: what sha256sum writes", path) from None
    found = [LINE.fullmatch(line) for line in lines[:MOST_LINES]]
    wrong = found.index(None) + 1 if None in found else MOST_LINES if len(lines) > MOST_LINES else None
    if wrong is not None:
        raise InputError(f"{path} line {wrong} is no line of sha256sum's; move the file away, and it is written again", path, wrong)
    return {match[2]: match[1] for match in found if match is not None}


def _one(directory: Path, row: Row, sums: dict[str, str], limits: Limits) -> Outcome:
    path: str | None = None
    try:
        if row.kind == "repository":
            where = f"to {row.path}" if row.path is not None else "where the inventory says"
            return Outcome(row.name, LEFT_OUT, None, f"is a repository: copy it whole, with its signatures, {where}")
        if urlsplit(row.url).scheme == "file":
            return Outcome(row.name, LEFT_OUT, None, "is a file of the nodes: they take it from there")
        path = place(row)
        _open_way(directory, directory / path)
        return _brought(directory, path, row, sums, limits)
    except Refused as error:
        return Outcome(row.name, FAILED, path, str(error))
    except OSError as error:
        return Outcome(row.name, FAILED, path, f"{error.strerror or error}: {path}; what came is kept, and the next run goes on there")


def place(row: Row) -> str:
    """The path of its file below the mirror, as a server that is asked for the address finds it. Raises Refused."""
    if "://" not in row.url:
        raise Refused("the inventory names no package index to take it from: set nccl_wheel_index")
    address = row.path if row.path is not None else mirror_path(row.url) or ""
    try:
        path = unquote(re.split(r"[?#]", address, maxsplit=1)[0], errors="strict")
    except UnicodeDecodeError:
        raise Refused("its address is no UTF-8") from None
    names = path.split("/")
    if len(names) < 2 or len(names) > DEPTH or any(_bad(name) for name in names):
        raise Refused(f"its address {path[:100]!a} gives no path below the mirror; allowed: HOST/PATH of up to {DEPTH} names, each "
                      f"of 1 to {NAME_BYTES} bytes, without .., backslashes and control characters")
    return path


def _bad(name: str) -> bool:
    return name in ("", ".", "..") or "\\" in name or not name.isprintable() or len(name.encode("utf-8", "replace")) > NAME_BYTES


def _open_way(directory: Path, target: Path) -> None:
    """The directories above a file, none of which may be a link that leads elsewhere."""
    for above in (*reversed(target.relative_to(directory).parents[:-1]), target.relative_to(directory)):
        step = directory / above
        if step.is_symlink() or (step.exists() and not (step.is_file() if step == target else step.is_dir())):
            raise Refused(f"{above} in the mirror is a link or no {'file' if step == target else 'directory'}: move it away")
    make_directories(target.parent)


def _brought(directory: Path, path: str, row: Row, sums: dict[str, str], limits: Limits) -> Outcome:
    target, state, text = directory / path, KEPT, ""
    if target.exists():
        with target.open("rb") as stream:
            wrong, sha256 = _judged(stream, row, sums.get(path))
        if wrong is not None:
            target.unlink()
            state, text = FETCHED, f"{wrong}, so it was fetched again; "
    else:
        state = FETCHED
    if state == FETCHED:
        sha256 = _fetched(target, row, limits._replace(size=KEY_BYTES) if row.kind == "key" else limits)
    drop_parts(target)
    if sums.get(path) != sha256:
        sums[path] = sha256
        listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
        write_atomic(directory / MANIFEST, listed, usual_mode())
    own = f"; the inventory's own address: set {row.name} to MIRROR/{path}" if row.path is None else ""
    return Outcome(row.name, state, path, f"{text}{size_text(target.stat().st_size)}, {_word(row)}{own}", sha256)


def _word(row: Row) -> str:
    if row.value is not None and row.pin in ("sha256", "fingerprint"):
        return f"{row.pin} as pinned"
    return f"no sum is known: recorded in {MANIFEST}; nodes refuse it until the inventory pins it"


def _judged(stream: BufferedReader | BufferedRandom, row: Row, recorded: str | None) -> tuple[str | None, str]:
    """What is wrong with a file, or None; and its sha256."""
    stream.seek(0)
    sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    state = os.fstat(stream.fileno())
    if row.value is not None and row.pin == "sha256":
        return (None if sha256 == row.value else f"its sha256 was {sha256} and not {row.value}, which is pinned"), sha256
    if row.value is not None and row.pin == "fingerprint":
        stream.seek(0)
        right = state.st_size <= KEY_BYTES and extract(stream.read(), row.value) is not None
        return (None if right else f"it held no key with the fingerprint {row.value}, which is pinned"), sha256
    if recorded is None and state.st_uid not in (os.geteuid(), 0):
        return f"it is another user's, and {MANIFEST} has no sum of it", sha256
    return (None if recorded in (None, sha256) else f"its sha256 was {sha256} and not {recorded}, as {MANIFEST} has it"), sha256


def _fetched(target: Path, row: Row, limits: Limits) -> str:
    """Under its name once it is right. One that was continued and is wrong is taken once more, whole: its beginning may be another's."""
    pinned = row.value is not None and row.pin == "sha256"
    while True:
        part, continued = download(row.url, target, limits, pinned=pinned)
        with part:
            wrong, sha256 = _judged(part, row, None)
            if wrong is None:
                publish(part, target)
                return sha256
        drop_parts(target)
        if not continued:
            raise Refused(f"{wrong}; it was removed")


def publish(part: BufferedRandom, target: Path) -> None:
    """Give the file that was written and judged its name. Raises Refused where another file has taken the part's name meanwhile."""
    os.fchmod(part.fileno(), usual_mode())
    os.fsync(part.fileno())
    if not os.path.samestat(Path(part.name).lstat(), os.fstat(part.fileno())):
        raise Refused(f"{part.name} was replaced by another user while it was written")
    Path(part.name).replace(target)
    sync_directory(target.parent)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"{directory}: another railwright fills this mirror") from None
        yield
    finally:
        os.close(descriptor)
