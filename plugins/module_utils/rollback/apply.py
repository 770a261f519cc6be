# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a rollback as one transaction: what the journals hold, the newest first, then the packages.

It is a run like any other, with a restore point of its own: what fails is taken forward again, networking waits for its confirmation, and a
later rollback can undo it. One that is killed leaves a journal that says how far it came; the next rollback undoes that part first.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..apply.confirm import Switch, journalled
from ..apply.journal import Journal, Point, digest, snapshot_of, write_document
from ..apply.transaction import COMMAND_SECONDS, as_before, fail, stays_loaded
from ..errors import RailwrightError
from ..host.host import Host
from ..types import Op
from .packages import change, changed_names, names_for, observe_packages, record_before, record_path, settle_marks
from .plan import DOUBTFUL, Rollback, entries_of


class Done(NamedTuple):
    """What a rollback left behind."""

    restore_point: str
    notes: Tuple[str, ...]
    unconfirmed: str  # the run that the node reverts unless it is confirmed


def carry_out(
    host: Host, rollback: Rollback, run_id: str, manager: str, wait: float, switch: Optional[Switch] = None, force: Sequence[str] = ()
) -> Done:
    """The caller holds ``exclusive`` and has asked ``refused``. Raises RailwrightError before, ApplyError after the first effect."""
    with journalled(host, run_id, rollback.changes, switch) as journal:
        journal.undid = [point.name for point in rollback.undone]
        journal.reboots = rollback.reboots
        journal.save()
        notes = undo_points(host, rollback.undone, journal, force) + put_packages_back(host, rollback, journal, manager, wait)
    return Done(journal.path, tuple(notes), journal.unconfirmed)


def undo_points(host: Host, undone: Sequence[Point], journal: Journal, force: Sequence[str]) -> List[str]:
    """Every entry backwards; commands without an undo are refreshes (daemon-reload …) and are repeated once, when all files are back."""
    notes: List[str] = []
    refreshes: List[Dict[str, Any]] = []
    for point in undone:
        doubtful = point.document.get("state") in DOUBTFUL
        for entry in reversed(entries_of(point)):
            if entry["kind"] == "run" and not entry["undo"]:
                if entry["done"] and entry["argv"] not in [other["argv"] for other in refreshes]:
                    refreshes.insert(0, entry)
                continue
            try:
                undo(host, entry, journal)
            except (OSError, RailwrightError) as error:
                if not (doubtful or not entry["done"] or entry["change"] in force):
                    raise RailwrightError("%s: %s" % (entry["change"], failure_text(error))) from error
                notes.append("not undone: %s: %s" % (entry["change"], failure_text(error)))
    for entry in refreshes:
        run_one(host, journal, entry, entry["argv"], ())
    return notes


def failure_text(error: Exception) -> str:
    return "%s: %s" % (error.filename, error.strerror) if isinstance(error, OSError) else str(error)


def undo(host: Host, entry: Dict[str, Any], journal: Journal) -> None:
    """One effect reverted, in the journal before it happens: what undoes this again is the effect itself."""
    kind, path, disruption = entry["kind"], entry["path"], entry.get("disruption", "none")
    if kind == "run":
        for index, argv in enumerate(entry["undo"]):  # "true": without an undo it would count as a refresh
            run_one(host, journal, entry, argv, (entry["argv"],) if index == 0 else (("true",),))
    elif kind == "value":
        if not host.exists(path) or as_before(host, entry):
            return  # the plan has said so
        now = host.line(path)
        back = entry.get("wrote") if entry.get("left") == now else now  # some read otherwise than they are written
        op = Op("value", path, entry["content"], 0, (), ((back,),) if back is not None else ())
        mine = journal.record(entry["change"], op, disruption)
        host.set_value(path, entry["content"])
        journal.done(mine)
    else:
        if not as_before(host, entry):
            kept = snapshot_of(entry)
            op = Op("remove" if kept is None else "write", path, "", 0, (), ())
            mine = journal.record(entry["change"], op, disruption, digest(None if kept is None else kept.content))
            host.restore(path, kept)
            journal.done(mine)
        for directory in entry["directories"]:
            host.rmdir(directory)


def run_one(host: Host, journal: Journal, entry: Dict[str, Any], argv: Sequence[str], undo_argv: Sequence[Sequence[str]]) -> None:
    seconds = max(COMMAND_SECONDS, entry.get("seconds", 0))
    op = Op("run", "", "", 0, tuple(argv), tuple(tuple(item) for item in undo_argv), seconds)
    mine = journal.record(entry["change"], op, entry.get("disruption", "none"))
    result = host.run(argv, timeout=seconds)
    if not result.ok and not stays_loaded(argv, result.err):
        raise RailwrightError("%s: exit %d: %s" % (" ".join(argv), result.rc, (result.err or result.out).strip()[-500:]))
    journal.done(mine)


def put_packages_back(host: Host, rollback: Rollback, journal: Journal, manager: str, wait: float) -> List[str]:
    """With a record beside the journal, as every package step has; what half changed is said."""
    names = names_for(rollback.rows, manager)
    if not names.wanted:
        return []
    record = record_before(host, manager, journal.run_id, {row.name: (row.area, row.disruption) for row in rollback.rows}, beside=journal)
    try:
        change(host, manager, names, wait, record_path(journal.run_id) + ".transaction")
        oldest: Dict[str, Any] = next((point.packages["before"] for point in reversed(rollback.undone) if point.packages.get("before")), {})
        troubles = settle_marks(host, names, oldest) if manager == "apt" else ()
    except RailwrightError as error:
        changed = changed_names(record["before"]["versions"], observe_packages(host, manager)["versions"])
        end = "Files and values are as they were before this rollback; packages are %s" % (
            "half changed: %s. A new rollback goes on from there" % ", ".join(changed) if changed else "untouched")
        fail(host, journal, "the packages could not be restored: %s" % error, end)
    finally:
        write_document(host, record_path(journal.run_id), dict(record, after=observe_packages(host, manager)))
    return ["packages are back; %s" % text for text in troubles]
