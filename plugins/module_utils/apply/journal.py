# SPDX-License-Identifier: GPL-3.0-or-later
"""The restore point of one apply: written ahead of every effect, kept on the node.

``/var/lib/railwright/restore/<run>/journal.json`` holds, per effect, what it takes to undo it. It is on disk before the effect happens, so
that a node that loses power in between still knows how it was. Mode 0600: old file contents may hold secrets.

What cannot be kept whole (unreadable, not a regular file) is refused here, before the effect: an undo that guesses would destroy it. Beside
what was before, an entry says how the effect left it, so that a later rollback notices what somebody else has changed since.

A restore point has a number that only rises: a node's clock may jump, and a rollback undoes in order.
"""

import base64
import hashlib
import json
import secrets
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..errors import RailwrightError
from ..host.host import Host, Snapshot
from ..host.write import Attributes
from ..types import Op

ROOT = "/var/lib/railwright/restore"
KEEP = 20  # runs whose restore points are kept on a node; older ones are removed after a successful apply
PACKAGES = "packages.json"  # beside a journal, or alone: every package before and after a package step (rollback/packages.py)
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LOCK = "/run/railwright.lock"  # whoever writes a journal, or what is in it, holds it
APPLYING, UNCONFIRMED, APPLIED, ROLLED_BACK = "applying", "unconfirmed", "applied", "rolled back"
INTERRUPTED, INCOMPLETE, REVERTED = "interrupted", "rollback incomplete", "reverted"
OPEN = (APPLYING, UNCONFIRMED)  # what the node reverts when nobody confirms it
NEEDED = (UNCONFIRMED, INTERRUPTED, INCOMPLETE)  # somebody, or the node itself, may still have to restore from these
DOCUMENT_LIMIT = 256 * 1024 * 1024  # it holds whole files


class Journal:
    """Entries in the order of their effects; each is JSON and enough to undo it."""

    def __init__(self, host: Host, run_id: str, token: str = "") -> None:
        """``token``: the controller's own name for this run, by which it asks for it again (confirm.py)."""
        if not run_id or not all(char.isalnum() or char in "-_.:" for char in run_id) or run_id.startswith("."):
            raise RailwrightError("run id %r: letters, digits and -_.: only" % run_id)
        self._host = host
        self.number = next_number(host)
        self.base = run_id
        self.run_id = unused(host, run_id)
        self.path = document_path(self.run_id)
        self.entries: List[Dict[str, Any]] = []
        self.state = APPLYING
        self.token = token
        self.seconds = 0  # how long it waits for its confirmation, if it does
        self.boot = host.line(BOOT_ID)
        self.reboots: Sequence[str] = ()  # keys of the changes that only a reboot made, or makes, effective
        self.interrupted: Sequence[str] = ()  # journals of earlier runs that died half-way
        self.undid: Sequence[str] = ()  # a rollback: the restore points that it undoes

    def record(self, key: str, op: Op, disruption: str = "none", left: Optional[str] = None) -> Dict[str, Any]:
        """Write down how to undo ``op``; call before executing it. Raises OSError when that cannot be known or written.

        ``left``: digest of the file that the effect leaves, where it is not the op's own content.
        """
        entry = {"change": key, "kind": op.kind, "path": op.path, "argv": list(op.argv), "undo": [list(item) for item in op.undo],
                 "done": False, "disruption": disruption}
        if op.kind == "run":
            entry["seconds"] = op.seconds
        if op.kind in ("write", "remove"):
            entry["directories"] = missing_directories(self._host, op.path)
            entry.update(as_json(self._host.snapshot(op.path)))
            entry["left"] = None if op.kind == "remove" else left or digest(op.content.encode("utf-8"))
        elif op.kind == "value":
            entry["was"] = self._host.line(op.path)
            entry["content"] = op.undo[0][0] if op.undo else entry["was"]
            if entry["content"] is None:
                raise RailwrightError("%s cannot be read, so it could not be restored" % op.path)
            entry["wrote"] = op.content
        self.entries.append(entry)
        try:
            self.save()
        except OSError:
            self.entries.pop()  # never on disk, and its effect never happens
            raise
        return entry

    def done(self, entry: Dict[str, Any]) -> None:
        """Its effect has happened. A kernel file may read otherwise than it was written; on disk with the next entry, or the end."""
        entry["done"] = True
        if entry["kind"] == "value":
            entry["left"] = self._host.line(entry["path"])

    @property
    def unconfirmed(self) -> str:
        """The run that the node reverts unless it is confirmed; empty where it waits for nothing."""
        return self.run_id if self.state == UNCONFIRMED else ""

    def close(self, state: str) -> None:
        """``state``: applied, unconfirmed, rolled back, or rollback incomplete."""
        self.state = state
        self.save()

    def save(self) -> None:
        document: Dict[str, Any] = {
            "version": 1, "run": self.run_id, "base": self.base, "number": self.number, "state": self.state, "boot": self.boot,
            "reboots": list(self.reboots), "undid": list(self.undid), "entries": self.entries}
        if self.token:
            document.update(token=self.token, seconds=self.seconds)
        write_document(self._host, self.path, document)


def write_document(host: Host, path: str, document: Dict[str, Any]) -> None:
    host.write(path, json.dumps(document, indent=1, sort_keys=True) + "\n", 0o600)


def document_path(run: str) -> str:
    return "%s/%s/journal.json" % (ROOT, run)


def set_state(host: Host, path: str, document: Dict[str, Any], state: str, troubles: Sequence[str] = ()) -> None:
    """Close the journal of an apply that has ended. ``troubles``: what could not be reverted."""
    write_document(host, path, dict(document, state=state, **({"troubles": list(troubles)} if troubles else {})))


def as_json(kept: Optional[Snapshot]) -> Dict[str, Any]:
    """Text stays readable for a person who restores by hand; any other bytes, and those of attributes, are base64."""
    if kept is None:
        return {"content": None, "encoding": "utf-8", "mode": None, "owner": None, "link": None, "attributes": {}}
    encoding = "utf-8"
    try:
        content = None if kept.content is None else kept.content.decode("utf-8")
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(kept.content or b"").decode("ascii"), "base64"
    attributes = {name: base64.b64encode(value).decode("ascii") for name, value in kept.attributes or ()}
    return {"content": content, "encoding": encoding, "mode": kept.mode, "owner": list(kept.owner), "link": kept.link,
            "attributes": attributes}


def snapshot_of(entry: Dict[str, Any]) -> Optional[Snapshot]:
    """The file that an entry keeps; None when there was none."""
    if entry["content"] is None and entry["link"] is None:
        return None
    content: Optional[bytes] = None
    if entry["content"] is not None:
        content = base64.b64decode(entry["content"]) if entry["encoding"] == "base64" else entry["content"].encode("utf-8")
    attributes: Optional[Attributes] = None
    if "attributes" in entry:
        attributes = tuple((name, base64.b64decode(value)) for name, value in sorted(entry["attributes"].items()))
    return Snapshot(content, entry["mode"], (entry["owner"][0], entry["owner"][1]), entry["link"], attributes)


def missing_directories(host: Host, path: str) -> List[str]:
    """The directories that a write would make, the deepest first: the order in which an undo removes them."""
    found: List[str] = []
    directory = path.rpartition("/")[0]
    while directory and not host.exists(directory):
        found.append(directory)
        directory = directory.rpartition("/")[0]
    return found


def new_run_id() -> str:
    """For who was given none; random, since two controllers may ask in the same second."""
    return "%s-%s" % (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), secrets.token_hex(4))


def unused(host: Host, run_id: str) -> str:
    """The run id, numbered when it is taken: several roles of one run apply one after the other."""
    name, number = run_id, 1
    while host.exists("%s/%s" % (ROOT, name)):
        number += 1
        name = "%s.%d" % (run_id, number)
    return name


def mark_interrupted(host: Host) -> List[str]:
    """Restore points of applies that died half-way (kill -9, power loss). Call with the lock held: nobody is at work on them.

    The plan that follows shows what they left undone; what they did is in their journal.
    """
    found: List[str] = []
    for name in host.listdir(ROOT):
        path = document_path(name)
        document = load_journal(host, path)
        if document is not None and document.get("state") in OPEN:
            for entry in document.get("entries", []):
                sweep(host, entry)
            set_state(host, path, document, INTERRUPTED)
            found.append(path)
    return found


def sweep(host: Host, entry: Dict[str, Any]) -> None:
    """Remove what the writer of this entry left beside its file if it died before the end. With the lock held."""
    if entry["kind"] in ("write", "remove") and not entry["done"]:
        host.sweep(entry["path"])


def load_journal(host: Host, path: str) -> Optional[Dict[str, Any]]:
    try:
        document = json.loads(host.read(path, DOCUMENT_LIMIT) or "")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def prune(host: Host) -> None:
    """Drop the restore points of the oldest runs beyond ``KEEP``, but none that somebody may still have to restore from."""
    found = points(host)
    kept = list(dict.fromkeys(point.base for point in reversed(found)))[:KEEP]
    for point in found:
        if point.base in kept or point.document.get("state") in NEEDED:
            continue
        directory = "%s/%s" % (ROOT, point.name)
        for name in host.listdir(directory):
            host.remove("%s/%s" % (directory, name))
        host.rmdir(directory)


class Point(NamedTuple):
    """A restore point on the node: one directory, with a journal, a record of packages, or both."""

    name: str
    base: str  # the run that it is part of: RUN of RUN, RUN.2, RUN.3
    number: int  # 0 for those of versions that had no numbers
    written: float
    document: Dict[str, Any]  # the journal, {} where there is none
    packages: Dict[str, Any]  # the record, {} where there is none


def points(host: Host) -> List[Point]:
    """The oldest first."""
    return sorted((read_point(host, name) for name in host.listdir(ROOT)), key=lambda point: (point.number, point.written, point.name))


def read_point(host: Host, name: str) -> Point:
    paths = document_path(name), "%s/%s/%s" % (ROOT, name, PACKAGES)
    document, packages = load_journal(host, paths[0]) or {}, load_journal(host, paths[1]) or {}
    number = document.get("number") or packages.get("number") or 0
    head, dot, tail = name.rpartition(".")
    base = document.get("base") or packages.get("base") or (head if dot and tail.isdigit() else name)
    return Point(name, str(base), number if isinstance(number, int) else 0,
                 max(host.mtime(path) or 0.0 for path in paths), document, packages)


def next_number(host: Host) -> int:
    return 1 + max((point.number for point in points(host)), default=0)


def digest(content: Optional[bytes]) -> Optional[str]:
    """Of a file as it is; None: there is none."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def newest_first(host: Host) -> List[str]:
    """The journals on this node, by the time of their last entry."""
    paths = [document_path(name) for name in host.listdir(ROOT)]
    return sorted(paths, key=lambda path: (host.mtime(path) or 0.0, path), reverse=True)
