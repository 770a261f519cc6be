# SPDX-License-Identifier: GPL-3.0-or-later
"""Networking with confirmation: what a controller has not confirmed over a fresh connection, the node reverts by itself.

Before the first effect the node arms a timer that undoes the journal of this run (``watchdog.py``), from a copy of this very code. At
the end of the effects the time begins anew; the next module run, with mode ``confirm``, stops it. See docs/confirm.md.
"""

import contextlib
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import RailwrightError
from ..host.host import Host
from ..types import CONFIRMED_AREAS, Change, Identity
from . import journal as journals
from .journal import Journal, load_journal
from .transaction import rollback_on_error
from .watchdog import CODE, FOLDERS, PACKAGE, PENDING, SERVICE, STATE, TIMER, alive, disarm, systemctl, unit_texts

# All that reverting needs.
PARTS = ("errors", "types", "host.host", "host.run", "host.write", "apply.journal", "apply.transaction", "apply.watchdog")
MAIN = "from railwright_node.apply.watchdog import main\n\nmain()\n"
NOTHING = "none"  # outcome of a run that the node knows nothing of
LOCK_SECONDS = 5.0  # the controller asks again


class Switch(NamedTuple):
    """What the controller asks for: how long the node waits for it (0: not at all), and the name by which it will ask again."""

    seconds: int
    token: str


def switch_of(params: Dict[str, Any], identity: Identity) -> Optional[Switch]:
    """Only a controller that will come back to confirm asks for one, and only systemd has the timer."""
    if not params.get("confirm_token"):
        return None
    return Switch(params["confirm_seconds"] if identity.has("systemd") else 0, params["confirm_token"])


@contextlib.contextmanager
def journalled(host: Host, run_id: str, changes: Sequence[Change], switch: Optional[Switch]) -> Iterator[Journal]:
    """One run, undone as a whole on error; its networking waits for its confirmation at the end. The caller holds ``exclusive``."""
    refuse_pending(host)
    try:
        interrupted = journals.mark_interrupted(host)
    except OSError as error:
        raise RailwrightError("cannot write below %s: %s; nothing was changed" % (journals.ROOT, error.strerror)) from error
    with host.shielded():
        journal = Journal(host, run_id, switch.token if switch is not None else "")
        journal.interrupted = interrupted
        with armed_watchdog(host, journal, changes, switch) as armed, rollback_on_error(host, journal):
            yield journal
            if armed:
                begin_wait(host, journal)
            else:
                journal.close(journals.APPLIED)
        with contextlib.suppress(OSError):  # too many restore points are no reason to fail a run that held
            journals.prune(host)


@contextlib.contextmanager
def armed_watchdog(host: Host, journal: Journal, changes: Sequence[Change], switch: Optional[Switch]) -> Iterator[bool]:
    """The switch is armed while the effects happen, and stays so only where they wait for their confirmation then."""
    guarded = any(change.area in CONFIRMED_AREAS and not change.external for change in changes)
    if switch is None or not switch.seconds or not guarded:
        yield False
        return
    arm(host, journal, switch)
    try:
        yield True
    finally:
        if journal.state not in journals.OPEN:  # applying: who should have undone it has died of something, and the timer is still there
            disarm(host)


def arm(host: Host, journal: Journal, switch: Switch) -> None:
    """Raises RailwrightError when it cannot be armed; nothing has changed then, and nothing of it is left."""
    journal.seconds = switch.seconds
    if not sys.executable:
        raise RailwrightError("the timer that would take the change back cannot be armed, nothing was changed: Python does not know its "
                              "own path")
    try:
        host.make_directory(STATE, 0o755)
        for directory in FOLDERS:
            host.make_directory(directory, 0o700)
        for path, text in sorted(code().items()):
            host.write(path, text, 0o600)
        journals.write_document(host, PENDING, {"run": journal.run_id, "token": switch.token, "seconds": switch.seconds})
        for path, text in sorted(unit_texts(journal.run_id, switch.seconds, sys.executable).items()):
            host.write(path, text)
        systemctl(host, "--no-reload", "enable", TIMER)  # one reload for its link and its file
        systemctl(host, "daemon-reload")
        systemctl(host, "restart", TIMER)
    except (OSError, RailwrightError) as error:
        disarm(host)
        raise RailwrightError("the timer that would take the change back cannot be armed, nothing was changed: %s" % error) from error


def begin_wait(host: Host, journal: Journal) -> None:
    """The effects hold: from now on the controller has its whole time. Call with the lock held, so that nothing is being reverted."""
    journal.close(journals.UNCONFIRMED)
    # The effects may have taken longer than the timer: then the service waits for the lock. Whoever kills us in between leaves one of them.
    systemctl(host, "restart", TIMER)
    systemctl(host, "stop", SERVICE)


def code() -> Dict[str, str]:
    """The files of the copy, from wherever this code was loaded: AnsiballZ's archive, or a directory."""
    found = {CODE + "/__main__.py": MAIN}
    found.update(("%s/__init__.py" % folder, "") for folder in FOLDERS[2:])
    package = __name__.rsplit(".", 2)[0]
    for part in PARTS:
        loader: Any = getattr(sys.modules["%s.%s" % (package, part)], "__loader__", None)
        text = loader.get_source("%s.%s" % (package, part)) if hasattr(loader, "get_source") else None
        if text is None:
            raise RailwrightError("the source of %s cannot be had from %r" % (part, loader))
        found["%s/%s.py" % (PACKAGE, part.replace(".", "/"))] = text
    return found


def refuse_pending(host: Host) -> None:
    """One run at a time waits: a second one on top of it could not be reverted in order. Call with the lock held."""
    waiting = load_journal(host, PENDING)
    if waiting is None:
        return
    if alive(host):
        raise RailwrightError("run %s is not confirmed; its controller confirms it, or this node reverts it within %s s. Nothing was "
                              "changed: try again then." % (waiting.get("run"), waiting.get("seconds")))
    disarm(host)  # somebody stopped the timer; the run's journal is named as interrupted


def confirm(host: Host, run: str, token: str) -> Dict[str, Any]:
    """Keep the change, if it waits for that, and say what became of the run; where the node is busy with it, how far that is."""
    try:
        lock = host.lock(journals.LOCK, LOCK_SECONDS)
    except OSError as error:
        raise RailwrightError("cannot take the lock %s: %s (root is needed: become: true)" % (journals.LOCK, error.strerror)) from error
    if lock is None:
        return outcome(host, run, token)
    try:
        with host.shielded():
            path, document = find_journal(host, run, token)
            if document.get("state") == journals.UNCONFIRMED:
                journals.set_state(host, path, document, journals.APPLIED)
                disarm(host)
    finally:
        host.unlock(lock)
    return outcome(host, run, token)


def find_journal(host: Host, run: str, token: str) -> Tuple[str, Dict[str, Any]]:
    """The journal of a run by its token, which is its alone, or by its name: its path and what it holds. Both are empty without one."""
    for path in journals.newest_first(host):
        document = load_journal(host, path) or {}
        if (token and document.get("token") == token) or (not token and document.get("run") == run):
            return path, document
    return "", {}


def outcome(host: Host, run: str, token: str) -> Dict[str, Any]:
    """What became of a run. One that has written nothing yet is under way as long as anybody holds the lock: it may be that one."""
    path, document = find_journal(host, run, token)
    if not document:
        return {"state": journals.APPLYING if locked(host) else NOTHING, "run": run, "changes": [], "troubles": [], "restore_point": ""}
    return {"state": document.get("state"), "run": document.get("run"), "changes": change_keys(document),
            "troubles": document.get("troubles", []), "restore_point": path}


def locked(host: Host) -> bool:
    try:
        lock = host.lock(journals.LOCK)
    except OSError:
        return False
    if lock is not None:
        host.unlock(lock)
    return lock is None


def change_keys(document: Dict[str, Any]) -> List[str]:
    """In the order of the effects, each once."""
    return list(dict.fromkeys(entry["change"] for entry in document.get("entries", [])))


def notes(host: Host) -> List[str]:
    """What a plan says of the run before it, when that one did not stay or is not sure to."""
    paths = journals.newest_first(host)
    document = (load_journal(host, paths[0]) if paths else None) or {}
    keys = "; ".join(change_keys(document))
    if document.get("state") == journals.REVERTED:
        return ["this node reverted the last apply (run %s) by itself: its controller did not confirm it within %s s. Reverted: %s" % (
            document.get("run"), document.get("seconds"), keys)]
    if document.get("state") == journals.UNCONFIRMED and alive(host):
        return ["the last apply (run %s) waits for its confirmation; without it this node reverts it within %s s: %s" % (
            document.get("run"), document.get("seconds"), keys)]
    return []
