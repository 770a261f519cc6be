# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a rollback: what comes back, what somebody else has changed since, which classes of disruption it has.

It reads, and changes nothing. Its changes have the form of every plan, so consent, confirmation and
the command line take them as they take an apply's; what carries them out is ``rollback/apply.py``.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..apply.journal import BOOT_ID, Point, document_path, points, snapshot_of
from ..areas.stack.repositories import WHY_REPAIR
from ..areas.stack.repository_files import DEFINITIONS, KEYRINGS, PREFERENCES
from ..errors import RailwrightError
from ..formats.masking import masked_change
from ..host.host import Host
from ..observe.package_state import VERSIONLOCK, Unfinished, unfinished
from ..types import FILE, SETTING, Change, Identity, Op, Problem, Subject, heaviest
from .package_records import MANAGERS, Row, keeping, observe_packages, package_rows, row_change, stays
from .points import Found, effective, entries_of, judge, look, since, targets, waits

PACKAGES = "packages"  # ``force`` of this leaves all packages as they are
REPOSITORY_PLACES = tuple(DEFINITIONS.values()) + tuple(KEYRINGS.values()) + (PREFERENCES, "/etc/apt/sources.list", VERSIONLOCK["dnf"][0])


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
    judged = [(target, look(host, target)) for target in targets(undone)]
    found = [judge(host, target, seen, force) for target, seen in judged]
    problems = waits(history) + [problem for problem in found if problem is not None]
    rows, more, notes = _packages(host, identity, undone, history, force)
    reboots = reboots_of(host, undone)
    known = {target.path: (target, seen) for target, seen in judged}
    changes = _changes(undone, known)
    changes += _repair(unfinished(host)) if rows else []
    changes += [row_change(row, identity.platform.package_manager) for row in rows]
    changes += [Change(key.partition(": ")[0], key.partition(": ")[2], "in effect", "as before", "reboot",
                       "what it undoes is in effect since a reboot", document_path(undone[0].name), ()) for key in reboots]
    gone = ["%s is not there any more, so nothing is put back" % target.path for target, seen in judged
            if target.kind == "value" and seen.now is None]
    return Rollback(run, True, tuple(undone), tuple(rows), tuple(changes), tuple(problems + more), tuple(gone + notes), reboots)


def _repair(left: Unfinished) -> List[Change]:
    """Of a package step, or a rollback, that was killed: apt takes no order before that is finished."""
    if not left.any:
        return []
    found = ", ".join("%s %s" % row for row in left.packages) or "not merged"
    return [Change("repositories", "interrupted dpkg", found, None, "repair", WHY_REPAIR, "dpkg(1), --configure --pending", ())]


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
        text = "packages of %s cannot be put back; to leave them as they are: --force packages" % manager
        return [], [Problem("packages", manager, text)], []
    now = observe_packages(host, manager)
    found = [(row, stays(row, identity.kernel)) for row in package_rows(undone, history, now["versions"]) if row.differs]
    rows = [row for row in (keeping(row, kept) for row, kept in found) if row.differs]
    foreign = [row for row in rows if row.foreign and row.name not in force]
    problems = [Problem("packages", "package " + row.name,
                        "was changed by somebody else than run %s: it is %s, that run left %s, and it would become %s. To put it back all "
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
    boot = host.line(BOOT_ID)
    found: List[str] = []
    for point in undone:
        if entries_of(point) and point.document.get("boot") not in (None, boot):
            found += [key for key in point.document.get("reboots") or () if key not in found]
    return tuple(found)


def _changes(undone: Sequence[Point], known: Dict[str, Tuple[Any, Found]]) -> List[Change]:
    """One change of the plan for each of the journals', the last first; what is as it was already needs none."""
    grouped: Dict[str, List[Tuple[Point, Dict[str, Any]]]] = {}
    for point in undone:
        for entry in reversed(entries_of(point)):
            grouped.setdefault(entry["change"], []).append((point, entry))
    found: List[Change] = []
    for key, rows in grouped.items():
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


def _words(entry: Dict[str, Any], known: Dict[str, Tuple[Any, Found]]) -> Tuple[str, str]:
    if entry["kind"] == "run":
        undo = "; ".join(" ".join(argv) for argv in entry["undo"])
        return (" ".join(entry["argv"]), undo) if undo else ("", "")
    target, seen = known[entry["path"]]
    same = seen.now == target.wanted and (target.kind == "value" or seen.words == target.words)  # the words have the mode too
    if same or (target.kind == "value" and seen.now is None):
        return "", ""
    return "%s: %s" % (entry["path"], seen.words or "absent"), "%s: %s" % (entry["path"], target.words or "absent")


def repository_changes(undone: Sequence[Point]) -> List[Change]:
    """The files of repositories as they will be, for the overlay of the proof; the oldest point says how."""
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
        return "plan diverged: to be put back is now also %s; nothing was changed. Plan again and look at it" % "; ".join(strange)
    return None
