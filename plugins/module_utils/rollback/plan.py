# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a rollback: what comes back, what somebody else has changed since, which classes of disruption it has.

A rollback to RUN undoes everything since, the newest first. A rollback is itself a restore point that names what it undid: both together
have no effect, and are passed over as long as both lie within what is to be undone.

It reads, and changes nothing. Its changes have the form of every plan, so consent, confirmation and
the command line take them as they take an apply's; what carries them out is ``rollback/apply.py``.
"""

import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..apply import journal
from ..apply.journal import Point, digest, document_path, points, snapshot_of
from ..areas.stack.repositories import WHY_REPAIR
from ..areas.stack.repository_files import DEFINITIONS, KEYRINGS, PREFERENCES
from ..errors import RailwrightError
from ..formats.masking import masked_change
from ..formats.outside import rows as objects
from ..formats.text import grouped
from ..host.host import Host, Snapshot
from ..observe.packages import VERSIONLOCK, unfinished
from ..types import FILE, SETTING, Change, Identity, Op, Problem, Subject, heaviest
from .packages import MANAGERS, Row, changed_names, left_by, observe_packages, package_rows, row_change, stays

PACKAGES = "packages"  # ``force`` of this leaves all packages as they are
REPOSITORY_PLACES = tuple(DEFINITIONS.values()) + tuple(KEYRINGS.values()) + (PREFERENCES, "/etc/apt/sources.list", VERSIONLOCK["dnf"][0])
WITHOUT_EFFECT = (journal.ROLLED_BACK, journal.REVERTED)  # what these held was undone when they ended
DOUBTFUL = (journal.APPLYING, journal.INTERRUPTED, journal.INCOMPLETE)  # cut off, or undone in part: an effect may be there or not
FILES = ("write", "remove")
Told = Tuple[Optional[str], Optional[str]]  # for code, and for people; both are None of what is not there


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
                              "brought back to before it" % (len(missing), run, journal.KEEP))
    return chosen[::-1]


def effective(chosen: Sequence[Point]) -> List[Point]:
    """Without what has no effect, and without rollbacks together with what they undid. The newest first."""
    names = {point.name for point in chosen}
    passed: Set[str] = set()
    found: List[Point] = []
    for point in chosen:
        undid = set(point.document.get("undid") or ()) if point.document.get("state") == journal.APPLIED else set()
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
            path = entry["path"]
            wanted, words = (str(entry["content"]),) * 2 if entry["kind"] == "value" else told(snapshot_of(entry))
            target = found.get(path) or Target(path, "value" if entry["kind"] == "value" else "file", entry["change"].partition(": ")[0],
                                               point.name, None, None, (entry.get("left"),), "left" in entry or doubtful)
            if doubtful or not entry["done"]:
                target = target._replace(accepted=target.accepted + (entry.get("left"), wanted))
            found[path] = target._replace(wanted=wanted, words=words)
    return list(found.values())


def told(kept: Optional[Snapshot]) -> Told:
    """The digest of a file; and digest, size and mode, never the content: a file that is restored may hold secrets."""
    if kept is None or kept.content is None:
        return None, None
    found = digest(kept.content)
    return found, "%d bytes, mode %04o, sha256 %s" % (len(kept.content), kept.mode, (found or "")[:12])


class TargetState(NamedTuple):
    """A target as it is on the node."""

    now: Optional[str]
    words: Optional[str]
    trouble: Optional[str]


def inspect_target(host: Host, target: Target) -> TargetState:
    if target.kind == "value":
        line = host.line(target.path)
        return TargetState(line, line, None)
    try:
        return TargetState(*told(host.snapshot(target.path)), trouble=None)
    except OSError as error:
        return TargetState(None, None, "%s: it could not be kept, so it is not touched" % error.strerror)


def judge(host: Host, target: Target, found: TargetState, force: Sequence[str]) -> Optional[Problem]:
    """Somebody else's change since: not what the runs left, and not what is to come back either."""
    if found.trouble is not None:
        return Problem(target.area, target.path, found.trouble)
    held = None
    if target.kind == "file" and (found.now, found.words) != (target.wanted, target.words):
        held = host.obstacle(target.path, removing=target.words is None)
    if held is not None:
        return Problem(target.area, target.path, held)
    if not target.judged or found.now == target.wanted or found.now in target.accepted or target.path in force:
        return None
    if target.kind == "value" and found.now is None:  # its interface or module is gone, and the value with it
        return None
    when = host.mtime(target.path) if target.kind == "file" else None
    changed = "" if when is None else time.strftime(" at %Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    return Problem(target.area, target.path, "was changed%s by somebody else than run %s, which touched it last: it is %s, and would "
                   "become %s. To restore it all the same: --force %s" % (
                       changed, target.run, found.words or "absent", target.words or "absent", target.path))


def runs(history: Sequence[Point], now: Dict[str, str]) -> List[Dict[str, Any]]:
    """For people: one row a run, the newest first."""
    undone = {name for point in history if point.document.get("state") == journal.APPLIED for name in point.document.get("undid") or ()}
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
    """What nobody has confirmed yet is its own node's to revert, and nothing is put below it."""
    text = "waits for its confirmation; without it the node reverts it by itself. Try again then"
    return [Problem("confirm", "run " + point.base, text)
            for point in history if point.document.get("state") == journal.UNCONFIRMED]


class Rollback(NamedTuple):
    """What it takes to have the node as it was right before a run."""

    run: str
    known: bool  # the node has a restore point of that run
    undone: Tuple[Point, ...]  # the newest first
    rows: Tuple[Row, ...]  # packages that differ and come back
    changes: Tuple[Change, ...]
    problems: Tuple[Problem, ...]
    notes: Tuple[str, ...]
    reboots: Tuple[str, ...]


def plan_rollback(host: Host, identity: Identity, run: str, force: Sequence[str] = ()) -> Rollback:
    """Raises RailwrightError where it cannot be planned at all."""
    history = points(host)
    chosen = since(history, run)
    undone = effective(chosen)
    if not chosen:
        return Rollback(run, False, (), (), (), (), (), ())
    judged = [(target, inspect_target(host, target)) for target in targets(undone)]
    found = [judge(host, target, seen, force) for target, seen in judged]
    problems = waits(history) + [problem for problem in found if problem is not None]
    rows, more, notes = _packages(host, identity, undone, history, force)
    reboots = reboots_of(host, undone)
    known = {target.path: (target, seen) for target, seen in judged}
    changes = _changes(undone, known)
    left = unfinished(host)
    if rows and left.any:  # of a package step, or a rollback, that was killed: apt takes no order before that is finished
        torn = ", ".join("%s %s" % row for row in left.packages) or "not merged"
        changes.append(Change("repositories", "interrupted dpkg", torn, None, "repair", WHY_REPAIR, "dpkg(1), --configure --pending", ()))
    changes += [row_change(row, identity.platform.package_manager) for row in rows]
    changes += [Change(key.partition(": ")[0], key.partition(": ")[2], "in effect", "as before", "reboot",
                       "what it undoes is in effect since a reboot", document_path(undone[0].name), ()) for key in reboots]
    gone = ["%s is not there any more, so nothing is restored" % target.path for target, seen in judged
            if target.kind == "value" and seen.now is None]
    return Rollback(run, True, tuple(undone), tuple(rows), tuple(changes), tuple(problems + more), tuple(gone + notes), reboots)


def _packages(
    host: Host, identity: Identity, undone: Sequence[Point], history: Sequence[Point], force: Sequence[str]
) -> Tuple[List[Row], List[Problem], List[str]]:
    """Rows that come back, what forbids it, what is to be said."""
    if not [point for point in undone if point.packages]:
        return [], [], []
    manager = identity.platform.package_manager
    if PACKAGES in force:
        return [], [], ["packages stay as they are, as --force packages asks"]
    if manager not in MANAGERS:
        text = "packages of %s cannot be restored; to leave them as they are: --force packages" % manager
        return [], [Problem("packages", manager, text)], []
    now = observe_packages(host, manager)
    found = [(row, stays(row, identity.kernel)) for row in package_rows(undone, history, now["versions"]) if row.differs]
    rows = [row for row in (row._replace(wanted=" ".join(sorted({*row.wanted.split(), *kept}))) for row, kept in found) if row.differs]
    foreign = [row for row in rows if row.foreign and row.name not in force]
    problems = [Problem("packages", "package " + row.name,
                        "was changed by somebody else than run %s: it is %s, that run left %s, and it would become %s. To restore it all "
                        "the same: --force %s" % (row.run, row.now or "absent", row.left or "absent", row.wanted or "absent", row.name))
                for row in foreign]
    held = [row for row in rows if row.name in now["held"]]
    problems += [Problem("packages", "package " + row.name, "is held at %s by apt-mark hold and must become %s; lift the hold: "
                         "apt-mark unhold %s" % (row.now, row.wanted or "absent", row.name)) for row in held]
    named = [" ".join([row.name] + [version for version in kept if identity.kernel not in row.name]) for row, kept in found if kept]
    notes = ["package %s stays: the kernel %s that runs is its own" % (name, identity.kernel) for name in named]
    assumed = sorted({row.run for row in rows if row.assumed})
    notes += ["run %s has not written down how it left the packages: what differs since is taken for its own" % run for run in assumed]
    return rows, problems, notes


def reboots_of(host: Host, undone: Sequence[Point]) -> Tuple[str, ...]:
    """Keys of what is in effect since a reboot after its run. Where there was none, it never came into effect."""
    boot = host.line(journal.BOOT_ID)
    since = [point for point in undone if entries_of(point) and point.document.get("boot") not in (None, boot)]
    return tuple(dict.fromkeys(key for point in since for key in point.document.get("reboots") or ()))


def _changes(undone: Sequence[Point], known: Dict[str, Tuple[Any, TargetState]]) -> List[Change]:
    """One change of the plan for each of the journals', the last first; what is as it was already needs none."""
    changes = grouped((entry["change"], (point, entry)) for point in undone for entry in reversed(entries_of(point)))
    found: List[Change] = []
    for key, rows in changes.items():
        area, _colon, what = key.partition(": ")
        words = [pair for pair in dict.fromkeys(_words(entry, known) for _point, entry in rows) if pair[0] != pair[1]]
        if words:
            ops = tuple(Op(entry["kind"], entry["path"], "", 0, tuple(entry["argv"]), ()) for _point, entry in rows)
            names = list(dict.fromkeys(point.name for point, _entry in rows))
            found.append(masked_change(Change(
                area, what, "; ".join(pair[0] for pair in words), "; ".join(pair[1] for pair in words),
                heaviest([entry.get("disruption", "none") for _point, entry in rows]),
                "changed by run %s" % ", ".join(names), document_path(names[0]), ops, _subject(ops))))
    return found


def _subject(ops: Sequence[Op]) -> Subject:
    """The last file, or the last part of the kernel file's path: what hides a value that is probably a secret goes by its name."""
    last = next((op for op in ops if op.path), None)
    if last is None:
        return SETTING
    return SETTING._replace(name=last.path.rpartition("/")[2]) if last.kind == "value" else Subject(FILE, last.path)


def _words(entry: Dict[str, Any], known: Dict[str, Tuple[Any, TargetState]]) -> Tuple[str, str]:
    if entry["kind"] == "run":
        undo = "; ".join(" ".join(argv) for argv in entry["undo"])
        return (" ".join(entry["argv"]), undo) if undo else ("", "")
    target, seen = known[entry["path"]]
    same = seen.now == target.wanted and (target.kind == "value" or seen.words == target.words)  # the words have the mode too
    if same or (target.kind == "value" and seen.now is None):
        return "", ""
    return "%s: %s" % (entry["path"], seen.words or "absent"), "%s: %s" % (entry["path"], target.words or "absent")


def repository_changes(undone: Sequence[Point]) -> List[Change]:
    """The files of repositories as they will be, for the overlay of the dry run; the oldest point says how."""
    ops: Dict[str, Op] = {}
    for point in undone:
        for entry in reversed(entries_of(point)):
            if entry["kind"] in ("write", "remove") and entry["path"].startswith(REPOSITORY_PLACES):
                ops[entry["path"]] = _op(entry)
    return [Change("repositories", "files", None, None, "none", "", "", tuple(ops[path] for path in sorted(ops)))] if ops else []


def _op(entry: Dict[str, Any]) -> Op:
    kept = snapshot_of(entry)
    if kept is None or kept.content is None:
        return Op("remove", entry["path"], "", 0, (), ())
    try:
        return Op("write", entry["path"], kept.content.decode("utf-8"), kept.mode, (), ())
    except UnicodeDecodeError as error:
        raise RailwrightError("%s was a binary file before; the package step cannot be proved with it" % entry["path"]) from error


def refused(rollback: Rollback, expected: Optional[Sequence[str]]) -> Optional[str]:
    """Why it must not be carried out, in one line; None where nothing speaks against it."""
    if rollback.problems:
        return "; ".join("%s: %s: %s" % (item.area, item.subject, item.message) for item in rollback.problems)
    strange = [change.key for change in rollback.changes if expected is not None and change.key not in expected]
    if strange:
        return "plan diverged: to be restored is now also %s; nothing was changed. Plan again and inspect it" % "; ".join(strange)
    return None
