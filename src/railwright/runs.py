# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of past runs: one private directory each, written whole or not at all.

A record holds what was judged and planned, never the environment, never an Ansible
variable: it may be sent to a colleague.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from railwright.exitcodes import InputError
from railwright.inventories import BETWEEN, Given, inventories, stored_text
from railwright.ownership import state_directory
from railwright.reading import read_bounded
from railwright.writing import json_text, make_directories, write_atomic

SCHEMA = 1
LIMIT = 1 << 30  # characters of a record: the facts of 10,000 nodes are a third of it
_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z]+(-[0-9a-f]{4,8})?")  # older records have a shorter random part, or none


@dataclass
class Run:
    """One run of a verb that judges or changes nodes; the fields are the keys of run.json."""

    id: str
    verb: str
    inventory: str
    limit: str | None
    started: str
    railwright: str
    finished: str = ""
    exit_code: int = 0
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    bench: dict[str, Any] | None = None  # nccl-tests: documents.py has the form
    ddp: dict[str, Any] | None = None  # the training benchmark
    traffic: list[dict[str, Any]] = field(default_factory=list)  # growth of counters while perftest ran: documents.py has the form
    reachability: dict[str, Any] | None = None  # who reached whom on which rail
    isolate: dict[str, Any] | None = None  # a search for slow parts
    burn_in: dict[str, Any] | None = None  # rounds of bench, and parts by serial number
    leaves: dict[str, dict[str, str]] = field(default_factory=dict)  # node -> rail -> its leaf switch, as the inventory has it
    schema: int = SCHEMA

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))  # asdict copies all of it, and the facts of 10,000 nodes are large


def runs_directory() -> Path:
    """State, not cache: it is the only copy of what was seen. Raises InputError."""
    return state_directory("runs")


def timestamp(moment: datetime) -> str:
    """UTC in ISO 8601's basic form: sorts as text and is a file name everywhere."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def new_id(verb: str, moment: datetime | None = None) -> str:
    """An id that no other run has: two may start in the same second, and on two controllers, which would hold each other's leases."""
    return f"{timestamp(moment or datetime.now(UTC))}-{verb}-{secrets.token_hex(4)}"


def site_path(inventory: Given) -> str:
    """One name for an inventory, by whatever link or relative path it was reached: for locks, and for what is known of it."""
    return stored_text(BETWEEN.join(map(os.path.realpath, inventories(inventory))))


def site_name(inventory: Given) -> str:
    """The same as a file's name: two inventories may have nodes of the same name."""
    return hashlib.sha256(site_path(inventory).encode()).hexdigest()[:16]


def save_run(run: Run) -> Path:
    """Store a run and return its directory; a reader sees the whole record or none."""
    target = runs_directory() / run.id
    make_directories(target, 0o700)
    write_atomic(target / "run.json", json_text(run.as_dict(), indent=None))
    return target


def stored() -> list[str]:
    """Ids of the stored runs, oldest first."""
    directory = runs_directory()
    if not directory.is_dir():
        return []
    found = [entry for entry in directory.iterdir() if _ID.fullmatch(entry.name) and (entry / "run.json").is_file()]
    # By the record's own time: within one second the names do not say which came last.
    return [entry.name for entry in sorted(found, key=lambda entry: (entry.name[:16], (entry / "run.json").stat().st_mtime_ns))]


def load_run(identity: str | None = None) -> Run:
    """A stored run, the newest by default. Raises InputError when there is none."""
    known = stored()
    if not known:
        raise InputError(f"no run is stored in {runs_directory()} yet; run plan, apply, validate or bench first")
    chosen = identity or known[-1]
    if chosen not in known:
        raise InputError(f"no stored run {chosen!r}; newest: {', '.join(known[:-4:-1])}")
    path = state_directory("runs", chosen) / "run.json"
    try:
        data = read_json(read_bounded(path, str(path), LIMIT, f"is larger than {LIMIT >> 20} MiB").decode(), LIMIT)
        if data.pop("schema", None) != SCHEMA:
            raise InputError(f"{path}: written by another version of railwright (schema is not {SCHEMA}); run the verb again")
        return Run(**{**data, "id": chosen})  # the id is a directory's name, where the report is written
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a run record: {error}") from error


def readable(ids: Iterable[str]) -> Iterator[Run]:
    """Each of these runs whose record can be read: a broken one, or another version's, keeps nobody from the others."""
    for identity in ids:
        with suppress(InputError):
            yield load_run(identity)


def of_inventory(inventory: Given | None) -> Iterator[Run]:
    """Stored runs, the newest first; with an inventory its own."""
    name = None if inventory is None else site_path(inventory)
    return (run for run in readable(reversed(stored())) if name in (None, run.inventory))
