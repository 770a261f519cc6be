# SPDX-License-Identifier: GPL-3.0-or-later
"""A journal of work that can be stopped: one JSON object a line, each on the disk before the next thing happens.

Its first line says with what the work was begun. The last line may be torn by a power cut, and is cut off then; other damage is refused.
"""

import json
import os
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, read_json
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import open_own
from railwright.exitcodes import CommandError, InputError
from railwright.inventories import Given
from railwright.ownership import state_directory
from railwright.runs import site_name
from railwright.writing import make_directories, sync_directory

SCHEMA = 1
Record = dict[str, Any]


class Lines:
    """An open journal. ``work``: what it is of, as messages name it."""

    def __init__(self, path: Path, descriptor: int, work: str) -> None:
        self.path, self._descriptor, self._work = path, descriptor, work

    def add(self, *records: Record) -> None:
        """What was given is on the disk when this returns, or nothing of it is."""
        data = b"".join(json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n" for record in records)
        whole = os.fstat(self._descriptor).st_size
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, whole)  # a full disk takes half a line: the next one must not be glued to it
            raise CommandError(f"{self.path}: {error.strerror}; without its journal the {self._work} goes no further") from error

    def close(self) -> None:
        os.close(self._descriptor)


def directory(name: str) -> Path:
    return state_directory(name)


def place_of(name: str, inventory: Given, run: str) -> Path:
    return directory(name) / f"{site_name(inventory)}-{run}.jsonl"


def last_of(name: str, inventory: Given, work: str) -> Path:
    """The newest journal of this inventory. Raises InputError."""
    found = sorted(directory(name).glob(f"{site_name(inventory)}-*.jsonl"))
    if not found:
        raise InputError(f"--resume: no {work} of this inventory was interrupted; allowed: a new one, without --resume")
    return found[-1]


def begin(path: Path, head: Record, work: str) -> int:
    """The descriptor of a new one. Raises FileExistsError where there is one."""
    make_directories(path.parent, 0o700)
    descriptor = open_own(str(path), os.O_WRONLY | os.O_EXCL | os.O_APPEND)
    Lines(path, descriptor, work).add({"kind": "start", "schema": SCHEMA, **head})
    sync_directory(path.parent)
    return descriptor


def damaged(path: Path, error: Exception, work: str, line: int | None = None) -> InputError:
    where = f"{path}:{line}" if line else str(path)
    said = str(error) if line else repr(error)
    return InputError(f"{where}: is damaged ({said}); the {work} cannot be resumed from it", path, line)


def read(path: Path, work: str) -> tuple[list[Record], int]:
    """Its records, the first of which is of this schema, and where the last whole one ends. Raises InputError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", path) from error
    good = data.rfind(b"\n") + 1
    records = []
    for number, line in enumerate(data[:good].split(b"\n")[:-1], start=1):
        try:
            records.append(mapping(read_json(line.decode("utf-8"))))
        except ValueError as error:
            raise damaged(path, error, work, number) from error
    if not records or records[0].get("kind") != "start" or records[0].get("schema") != SCHEMA:
        raise InputError(f"{path}: is no journal of this version; begin a new {work}", path, 1)
    return records, good


def go_on(path: Path, good: int) -> int:
    """The descriptor of one, behind its last whole line."""
    descriptor = open_own(str(path), os.O_WRONLY | os.O_APPEND)
    os.ftruncate(descriptor, good)
    os.fsync(descriptor)
    return descriptor
