# SPDX-License-Identifier: GPL-3.0-or-later
"""What an apply and a rollback have in common: alone on the node, and undone as a whole when anything goes wrong."""

import contextlib
from typing import Iterator

from ..errors import ApplyError, RailwrightError
from ..host.host import Host
from .journal import APPLYING, INCOMPLETE, LOCK, ROLLED_BACK, Journal
from .rollback import roll_back

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
def undone_on_error(host: Host, journal: Journal) -> Iterator[None]:
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
