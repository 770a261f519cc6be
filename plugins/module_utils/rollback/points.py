# SPDX-License-Identifier: GPL-3.0-or-later
"""The restore points of a node as runs, and what it takes to have the node as it was before one of them.

A rollback to RUN undoes everything since, the newest first. A rollback is itself a restore point
that names what it undid: both together have no effect, and are passed over as long as both lie
within what is to be undone. Nothing here changes a node.
"""

import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..apply.journal import (
    APPLIED,
    APPLYING,
    INCOMPLETE,
    INTERRUPTED,
    KEEP,
    ROLLED_BACK,
    TAKEN_BACK,
    UNCONFIRMED,
    Point,
    digest,
    snapshot_of,
)
from ..errors import RailwrightError
from ..formats.outside import rows as objects
from ..host.host import Host
from ..types import Problem
from .package_records import changed_names, left_by

WITHOUT_EFFECT = (ROLLED_BACK, TAKEN_BACK)  # what these held was undone when they ended
DOUBTFUL = (APPLYING, INTERRUPTED, INCOMPLETE)  # cut off, or undone in part: an effect may be there or not
FILES = ("write", "remove")


def entries_of(point: Point) -> List[Dict[str, Any]]:
    """The effects that are there, or may be."""
    return [] if point.document.get("state") in WITHOUT_EFFECT else objects(point.document.get("entries"))


def has_effect(point: Point) -> bool:
    return bool(entries_of(point) or point.packages)


def since(history: Sequence[Point], run: str) -> List[Point]:
    """The restore points from ``run`` on, the newest first; [] where the node knows no such run. Raises RailwrightError at a gap."""
    first = next((index for index, point in enumerate(history) if run in (point.base, point.name)), None)
    if first is None:
        return []
    chosen = list(history[first:])
    numbers = [point.number for point in chosen if point.number]
    missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else []
    if missing:
        raise RailwrightError("%d restore points between run %s and now are gone (the last %d runs are kept), so the node cannot be "
                              "brought back to before it" % (len(missing), run, KEEP))
    return chosen[::-1]


def effective(chosen: Sequence[Point]) -> List[Point]:
    """Without what has no effect, and without rollbacks together with what they undid. The newest first."""
    names = {point.name for point in chosen}
    passed: Set[str] = set()
    found: List[Point] = []
    for point in chosen:
        undid = set(point.document.get("undid") or ()) if point.document.get("state") == APPLIED else set()
        if point.name in passed or not has_effect(point):
            continue
        if undid and undid <= names:
            passed |= undid
            continue
        found.append(point)
    return found


class Target(NamedTuple):
    """A file or a kernel value that the undone runs changed. Files by digest (None: there is none), values as they read."""

    path: str
    kind: str  # file or value
    area: str
    run: str  # the newest point that touched it
    wanted: Optional[str]
    words: Optional[str]  # what ``wanted`` is, for people
    accepted: Tuple[Optional[str], ...]  # as the runs left it, or may have
    judged: bool  # False: a version wrote the journal that did not say how it left things


def targets(undone: Sequence[Point]) -> List[Target]:
    found: Dict[str, Target] = {}
    for point in undone:
        doubtful = point.document.get("state") in DOUBTFUL
        for entry in reversed(entries_of(point)):
            if entry["kind"] == "run":
                continue
            path, wanted, words = entry["path"], before_of(entry), words_of(entry)
            target = found.get(path) or Target(path, "value" if entry["kind"] == "value" else "file", entry["change"].partition(": ")[0],
                                               point.name, None, None, (entry.get("left"),), "left" in entry or doubtful)
            if doubtful or not entry["done"]:
                target = target._replace(accepted=target.accepted + (entry.get("left"), wanted))
            found[path] = target._replace(wanted=wanted, words=words)
    return list(found.values())


def before_of(entry: Dict[str, Any]) -> Optional[str]:
    if entry["kind"] == "value":
        return str(entry["content"])
    kept = snapshot_of(entry)
    return digest(None if kept is None else kept.content)


def words_of(entry: Dict[str, Any]) -> Optional[str]:
    """Digest, size and mode, never the content: a file that is put back may hold secrets."""
    if entry["kind"] == "value":
        return str(entry["content"])
    kept = snapshot_of(entry)
    return None if kept is None or kept.content is None else describe(kept.content, kept.mode)


def describe(content: bytes, mode: int) -> str:
    return "%d bytes, mode %04o, sha256 %s" % (len(content), mode, (digest(content) or "")[:12])


class Found(NamedTuple):
    """A target as it is on the node."""

    now: Optional[str]
    words: Optional[str]
    trouble: Optional[str]


def look(host: Host, target: Target) -> Found:
    if target.kind == "value":
        line = host.line(target.path)
        return Found(line, line, None)
    try:
        kept = host.snapshot(target.path)
    except OSError as error:
        return Found(None, None, "%s: it could not be kept, so it is not touched" % error.strerror)
    if kept is None or kept.content is None:
        return Found(None, None, None)
    return Found(digest(kept.content), describe(kept.content, kept.mode), None)


def judge(host: Host, target: Target, found: Found, force: Sequence[str]) -> Optional[Problem]:
    """Somebody else's change since: not what the runs left, and not what is to come back either."""
    if found.trouble is not None:
        return Problem(target.area, target.path, found.trouble)
    if not target.judged or found.now == target.wanted or found.now in target.accepted or target.path in force:
        return None
    if target.kind == "value" and found.now is None:  # its interface or module is gone, and the value with it
        return None
    when = host.mtime(target.path) if target.kind == "file" else None
    changed = "" if when is None else time.strftime(" at %Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    return Problem(target.area, target.path, "was changed%s by somebody else than run %s, which touched it last: it is %s, and would "
                   "become %s. To put it back all the same: --force %s" % (
                       changed, target.run, found.words or "absent", target.words or "absent", target.path))


def runs(history: Sequence[Point], now: Dict[str, str]) -> List[Dict[str, Any]]:
    """For people: one row a run, the newest first."""
    undone = {name for point in history if point.document.get("state") == APPLIED for name in point.document.get("undid") or ()}
    rows: Dict[str, Dict[str, Any]] = {}
    for point in reversed(history):
        row = rows.setdefault(point.base, {"run": point.base, "points": 0, "when": 0.0, "state": "", "files": 0, "values": 0, "commands": 0,
                                           "packages": 0, "packages_assumed": False, "undid": []})
        entries = entries_of(point)
        row["points"] += 1
        row["when"] = max(row["when"], point.written)
        row["state"] = row["state"] or ("undone" if point.name in undone else str(point.document.get("state", "")))
        row["files"] += len({entry["path"] for entry in entries if entry["kind"] in FILES})
        row["values"] += len({entry["path"] for entry in entries if entry["kind"] == "value"})
        row["commands"] += sum(entry["kind"] == "run" and bool(entry["undo"]) for entry in entries)
        row["undid"] += list(point.document.get("undid") or ())
        if point.packages:
            after, assumed = left_by(point, history, now)
            row["packages"] += len(changed_names(point.packages["before"]["versions"], after))
            row["packages_assumed"] = row["packages_assumed"] or assumed
    return [dict(row, state=row["state"] or "packages only") for row in rows.values()]


def waits(history: Sequence[Point]) -> List[Problem]:
    """What nobody has confirmed yet is its own node's to take back, and nothing is put below it."""
    text = "waits for its confirmation; without it the node takes it back by itself. Try again then"
    return [Problem("confirm", "run " + point.base, text)
            for point in history if point.document.get("state") == UNCONFIRMED]
