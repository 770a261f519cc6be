# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of past runs: one private directory each, written whole or not at all.

A record holds what was judged and planned, never the environment, never an Ansible
variable: it may be sent to a colleague.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from railwright import strict_json
from railwright.exitcodes import InputError

SCHEMA = 1
_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z]+(-[0-9a-f]{4})?")


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
    schema: int = SCHEMA

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def runs_directory() -> Path:
    """State, not cache: it is the only copy of what was seen."""
    value = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore relative paths.
    base = Path(value) if value.startswith("/") else Path.home() / ".local" / "state"
    return base / "railwright" / "runs"


def timestamp(moment: datetime) -> str:
    """UTC in ISO 8601's basic form: sorts as text and is a file name everywhere."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def new_id(verb: str, moment: datetime | None = None) -> str:
    """An id that no stored run has; two runs may start in the same second."""
    identity = f"{timestamp(moment or datetime.now(UTC))}-{verb}"
    try:
        taken = (runs_directory() / identity).exists()
    except OSError:  # not readable: storing will say so, after the run
        taken = False
    return f"{identity}-{secrets.token_hex(2)}" if taken else identity


def save(run: Run) -> Path:
    """Store a run and return its directory; a reader sees the whole record or none."""
    directory = runs_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = directory / run.id
    target.mkdir(mode=0o700, exist_ok=True)
    write_atomic(target / "run.json", strict_json.dumps(run.as_dict()))
    return target


def write_atomic(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Beside its target, synced, renamed; for the owner's eyes only, unless ``mode`` says otherwise. Raises OSError.

    A link stays one: its target is replaced. What is no regular file (a pipe, /dev/null, /dev/stdout) is written into as it is.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    target = Path(os.path.realpath(path))
    if _exists(path) and not target.is_file():  # also a deleted file behind /dev/stdout: no name leads to it
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb") as stream:
            stream.write(data)
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)  # whatever the umask is
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _exists(path: Path) -> bool:
    """By way of the kernel, whose protection of links in shared directories is an error here and not an answer."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def stored() -> list[str]:
    """Ids of the stored runs, oldest first."""
    directory = runs_directory()
    if not directory.is_dir():
        return []
    found = [entry for entry in directory.iterdir() if _ID.fullmatch(entry.name) and (entry / "run.json").is_file()]
    # By the record's own time: within one second the names do not say which came last.
    return [entry.name for entry in sorted(found, key=lambda entry: (entry.name[:16], (entry / "run.json").stat().st_mtime_ns))]


def load(identity: str | None = None) -> Run:
    """A stored run, the newest by default. Raises InputError when there is none."""
    known = stored()
    if not known:
        raise InputError(f"no run is stored in {runs_directory()} yet; run plan, apply, validate or bench first")
    chosen = identity or known[-1]
    if chosen not in known:
        raise InputError(f"no stored run {chosen!r}; newest: {', '.join(known[:-4:-1])}")
    path = runs_directory() / chosen / "run.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("schema", None) != SCHEMA:
            raise InputError(f"{path}: written by another version of railwright (schema is not {SCHEMA}); run the verb again")
        return Run(**data)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a run record: {error}") from error
