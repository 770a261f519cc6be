# SPDX-License-Identifier: GPL-3.0-or-later
"""What an apply and a rollback have in common: alone on the node, and undone as a whole when anything goes wrong."""

import contextlib
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from ..errors import ApplyError, RailwrightError
from ..host.host import Host
from .journal import APPLYING, INCOMPLETE, LOCK, ROLLED_BACK, Journal, snapshot_of, sweep

# Revert what a journal holds: after a failure, and by the node alone when nobody confirmed a change (``watchdog.py``).
#
# It stands alone, with little beside it, since the node keeps a copy of these files while a change waits for its confirmation.

COMMAND_SECONDS = 120.0


def roll_back(host: Host, entries: Sequence[Dict[str, Any]]) -> List[str]:
    """Undo journal entries from last to first; return what could not be undone.

    Commands without an undo of their own are refreshes (daemon-reload and the like): they are repeated afterwards, so that daemons see the
    restored files. The command that failed may have had half an effect or none: its undo is tried, and may fail. Whatever one entry ends
    with, a fault of ours too, the others are undone.
    """
    troubles: List[str] = []
    refreshes: List[Tuple[List[str], float]] = []
    for entry in reversed(entries):
        may_fail = entry.get("kind") == "run" and not entry.get("done")
        try:
            undo_entry(host, entry)
        except (OSError, RailwrightError) as error:
            if not may_fail:
                troubles.append("%s: %s" % (entry["change"], error))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            troubles.append("%s: %r" % (entry.get("change"), error))
            continue
        if entry["kind"] == "run" and entry["done"] and not entry["undo"]:
            refresh = entry["argv"], max(COMMAND_SECONDS, entry.get("seconds", 0))  # an initramfs takes as long the second time
            if refresh not in refreshes:
                refreshes.insert(0, refresh)
    for argv, seconds in refreshes:
        result = host.run(argv, timeout=seconds)
        if not result.ok:
            troubles.append("%s: exit %d" % (" ".join(argv), result.rc))
    return troubles


def undo_entry(host: Host, entry: Dict[str, Any]) -> None:
    kind = entry["kind"]
    if kind in ("write", "remove"):
        if not as_before(host, entry):
            host.restore(entry["path"], snapshot_of(entry))
        sweep(host, entry)
        for directory in entry["directories"]:
            if host.exists(directory):  # a read-only file system refuses it also for what is not there
                host.rmdir(directory)
    elif kind == "value":
        if not as_before(host, entry):
            host.set_value(entry["path"], entry["content"])
    elif kind == "run":
        for argv in entry["undo"]:
            result = host.run(argv, timeout=max(COMMAND_SECONDS, entry.get("seconds", 0)))  # a flash takes as long backwards
            if not result.ok and not stays_loaded(argv, result.err):
                raise RailwrightError("%s: exit %d: %s" % (" ".join(argv), result.rc, result.err.strip()[-500:]))


def as_before(host: Host, entry: Dict[str, Any]) -> bool:
    """Whether a file, or a value, is as its entry keeps it. What took no effect takes no undo either: an immutable file, a refused value.

    A value that was written is undone all the same: one that reads as before need not be in effect as before.
    """
    if entry["kind"] == "value":
        return not entry["done"] and "was" in entry and host.line(entry["path"]) == entry["was"]
    kept = snapshot_of(entry)
    try:
        here = host.snapshot(entry["path"])
    except OSError:
        return False
    if here is not None and kept is not None and kept.attributes is None:
        here = here._replace(attributes=None)
    return here == kept


def stays_loaded(argv: Sequence[str], err: str) -> bool:
    """A module that others have taken up since (udev loads what uses it): it changes no setting, and the next boot is without it."""
    return list(argv[:2]) == ["modprobe", "-r"] and " is in use" in err


AS_IT_WAS = "Everything was rolled back; the node is as it was."


@contextlib.contextmanager
def exclusive(host: Host, *, wanted: bool = True) -> Iterator[None]:
    """Keep every other apply off this node. Begins before the plan: one made while another apply ran would be out of date."""
    if not wanted:
        yield
        return
    try:
        lock = host.lock(LOCK)
    except OSError as error:
        raise RailwrightError("cannot take the lock %s: %s; nothing was changed (root is needed: become: true)" % (
            LOCK, error.strerror)) from error
    if lock is None:
        raise RailwrightError("another apply is running on this node (lock %s is held); nothing was changed" % LOCK)
    try:
        yield
    finally:
        host.unlock(lock)


@contextlib.contextmanager
def rollback_on_error(host: Host, journal: Journal) -> Iterator[None]:
    """Whatever goes wrong inside, also in our own code, the node does not stay half changed."""
    try:
        yield
    except ApplyError:
        raise  # rolled back already
    except (OSError, RailwrightError) as error:
        fail(host, journal, str(error))
    finally:
        if journal.state == APPLYING:
            with contextlib.suppress(ApplyError):  # the error that brought us here says more
                fail(host, journal, "unexpected error")


def fail(host: Host, journal: Journal, message: str, end: str = AS_IT_WAS) -> None:
    """Undo everything in the journal, then raise ApplyError saying what came of it; ``end`` where that went well."""
    troubles = roll_back(host, journal.entries)
    try:
        journal.close(INCOMPLETE if troubles else ROLLED_BACK)
    except OSError:  # a full disk, perhaps what made us fail: the journal on it still holds every entry
        journal.state = INCOMPLETE if troubles else ROLLED_BACK
    if troubles:
        raise ApplyError("%s. ROLLBACK INCOMPLETE: %s. Restore point: %s" % (message, "; ".join(troubles), journal.path), False)
    raise ApplyError("%s. %s" % (message, end), True)
