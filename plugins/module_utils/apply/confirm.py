# SPDX-License-Identifier: GPL-3.0-or-later
"""Networking with confirmation: what a controller has not confirmed over a fresh connection, the node takes back by itself.

Before the first effect the node arms a timer (``watchdog_units.py``) that undoes the journal of
this run (``watchdog.py``), from a copy of this very code. At the end of the effects the
time begins anew; the next module run, with mode ``confirm``, stops it. See docs/confirm.md.
"""

import contextlib
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from ..errors import RailwrightError
from ..host.host import Host
from ..plan.areas import CONFIRMED_AREAS
from ..types import Change
from .journal import APPLIED, APPLYING, LOCK, OPEN, TAKEN_BACK, UNCONFIRMED, Journal, load, newest_first, set_state
from .watchdog import wait_for_lock
from .watchdog_units import BASE, CODE, FOLDERS, PACKAGE, SERVICE, STATE, TIMER, alive, disarm, note_pending, pending, systemctl, unit_texts

# All that taking back needs.
PARTS = (
    "errors", "types", "host.host", "host.run", "host.write", "apply.journal", "apply.transaction", "apply.watchdog_units",
    "apply.watchdog")
MAIN = "from railwright_node.apply.watchdog import main\n\nmain()\n"
NOTHING = "none"  # outcome of a run that the node knows nothing of
LOCK_SECONDS = 5.0  # the controller asks again


class Switch(NamedTuple):
    """What the controller asks for: how long the node waits for it (0: not at all), and the name by which it will ask again."""

    seconds: int
    token: str


def guarded(changes: Sequence[Change]) -> bool:
    return any(change.area in CONFIRMED_AREAS and not change.external for change in changes)


@contextlib.contextmanager
def held(host: Host, journal: Journal, changes: Sequence[Change], switch: Optional[Switch]) -> Iterator[bool]:
    """The switch is armed while the effects happen, and stays so only where they wait for their confirmation then."""
    if switch is None or not switch.seconds or not guarded(changes):
        yield False
        return
    arm(host, journal, switch)
    try:
        yield True
    finally:
        if journal.state not in OPEN:  # applying: whoever should have undone it has died of something, and the timer is still there
            disarm(host)


def arm(host: Host, journal: Journal, switch: Switch) -> None:
    """Raises RailwrightError when it cannot be armed; nothing has changed then, and nothing of it is left."""
    journal.seconds = switch.seconds
    try:
        host.make_directory(STATE, 0o755)
        for directory in (BASE,) + FOLDERS:
            host.make_directory(directory, 0o700)
        for path, text in sorted(code().items()):
            host.write(path, text, 0o600)
        note_pending(host, {"run": journal.run_id, "token": switch.token, "seconds": switch.seconds})
        for path, text in sorted(unit_texts(journal.run_id, switch.seconds, interpreter()).items()):
            host.write(path, text)
        systemctl(host, "--no-reload", "enable", TIMER)  # one reload for its link and its file
        systemctl(host, "daemon-reload")
        systemctl(host, "restart", TIMER)
    except (OSError, RailwrightError) as error:
        disarm(host)
        raise RailwrightError("the timer that would take the change back cannot be armed, nothing was changed: %s" % error) from error


def begin_wait(host: Host, journal: Journal) -> None:
    """The effects hold: from now on the controller has its whole time. Call with the lock held, so that nothing is being taken back."""
    journal.close(UNCONFIRMED)
    # The effects may have taken longer than the timer: then the service waits for the lock. Whoever kills us in between leaves one of them.
    systemctl(host, "restart", TIMER)
    systemctl(host, "stop", SERVICE)


def interpreter() -> str:
    if not sys.executable:
        raise RailwrightError("Python does not know its own path")
    return sys.executable


def code() -> Dict[str, str]:
    """The files of the copy, from wherever this code was loaded: AnsiballZ's archive, or a directory."""
    found = {CODE + "/__main__.py": MAIN}
    found.update(("%s/__init__.py" % folder, "") for folder in FOLDERS[1:])
    package = __name__.rsplit(".", 2)[0]
    for part in PARTS:
        loader: Any = getattr(sys.modules["%s.%s" % (package, part)], "__loader__", None)
        text = loader.get_source("%s.%s" % (package, part)) if hasattr(loader, "get_source") else None
        if text is None:
            raise RailwrightError("the source of %s cannot be had from %r" % (part, loader))
        found["%s/%s.py" % (PACKAGE, part.replace(".", "/"))] = text
    return found


def refuse_pending(host: Host) -> None:
    """One run at a time waits: a second one on top of it could not be taken back in order. Call with the lock held."""
    waiting = pending(host)
    if waiting is None:
        return
    if alive(host):
        raise RailwrightError("run %s is not confirmed; its controller confirms it, or this node takes it back within %s s. Nothing was "
                              "changed: try again then." % (waiting.get("run"), waiting.get("seconds")))
    disarm(host)  # somebody stopped the timer; the run's journal is named as interrupted


def confirm(host: Host, run: str, token: str) -> Dict[str, Any]:
    """Keep the change, if it waits for that, and say what became of the run; where the node is busy with it, how far that is."""
    try:
        lock = wait_for_lock(host, LOCK_SECONDS)
    except OSError as error:
        raise RailwrightError("cannot take the lock %s: %s (root is needed: become: true)" % (LOCK, error.strerror)) from error
    if lock is None:
        return outcome(host, run, token)
    try:
        with host.shielded():
            path = find(host, run, token)
            document = None if path is None else load(host, path)
            if path is not None and document is not None and document.get("state") == UNCONFIRMED:
                set_state(host, path, document, APPLIED)
                disarm(host)
    finally:
        host.unlock(lock)
    return outcome(host, run, token)


def find(host: Host, run: str, token: str) -> Optional[str]:
    """The journal of a run by its token, which is its alone, or by its name."""
    for path in newest_first(host):
        document = load(host, path) or {}
        if (token and document.get("token") == token) or (not token and document.get("run") == run):
            return path
    return None


def outcome(host: Host, run: str, token: str) -> Dict[str, Any]:
    """What became of a run. One that has written nothing yet is under way as long as anybody holds the lock: it may be that one."""
    path = find(host, run, token)
    document = None if path is None else load(host, path)
    if document is None:
        return {"state": APPLYING if locked(host) else NOTHING, "run": run, "changes": [], "troubles": [], "restore_point": ""}
    return {"state": document.get("state"), "run": document.get("run"), "changes": change_keys(document),
            "troubles": document.get("troubles", []), "restore_point": path}


def locked(host: Host) -> bool:
    try:
        lock = host.lock(LOCK)
    except OSError:
        return False
    if lock is not None:
        host.unlock(lock)
    return lock is None


def change_keys(document: Dict[str, Any]) -> List[str]:
    """In the order of the effects, each once."""
    found: List[str] = []
    for entry in document.get("entries", []):
        if entry["change"] not in found:
            found.append(entry["change"])
    return found


def notes(host: Host) -> List[str]:
    """What a plan says of the run before it, when that one did not stay or is not sure to."""
    paths = newest_first(host)
    document = load(host, paths[0]) if paths else None
    if document is None:
        return []
    keys = "; ".join(change_keys(document))
    if document.get("state") == TAKEN_BACK:
        return ["this node took back the last apply (run %s) by itself: its controller did not confirm it within %s s. Taken back: %s" % (
            document.get("run"), document.get("seconds"), keys)]
    if document.get("state") == UNCONFIRMED and alive(host):
        return ["the last apply (run %s) waits for its confirmation; without it this node takes it back within %s s: %s" % (
            document.get("run"), document.get("seconds"), keys)]
    return []
