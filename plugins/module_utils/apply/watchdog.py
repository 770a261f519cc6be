# SPDX-License-Identifier: GPL-3.0-or-later
"""What the timer starts: the node takes back a run that its controller has not confirmed.

It runs alone, from the copy that ``confirm.py`` left below ``/var/lib/railwright/confirm``,
without Ansible and without anybody who looks. What it says is in the journal of systemd,
what it did in the restore point's ``journal.json``.
"""

import sys
import time
from typing import Optional

from ..errors import RailwrightError
from ..host.host import Host
from .journal import INCOMPLETE, LOCK, OPEN, TAKEN_BACK, document_path, load, set_state
from .transaction import roll_back
from .watchdog_units import disarm

# An apply that is still at work is left to it: when it ends it counts anew, and if it dies its lock goes with it.
WAIT_SECONDS = 6 * 3600.0


def take_back(host: Host, run: str, seconds: float = WAIT_SECONDS) -> str:
    """What became of it, in one line. Raises RailwrightError when an apply did not end within ``seconds``."""
    lock = wait_for_lock(host, seconds)
    if lock is None:
        raise RailwrightError("run %s: another apply held %s for %d s; nothing was taken back" % (run, LOCK, seconds))
    try:
        with host.shielded():
            answer = undo(host, run)
            disarm(host, service=False)
            return answer
    finally:
        host.unlock(lock)


def undo(host: Host, run: str) -> str:
    path = document_path(run)
    document = load(host, path)
    if document is None or document.get("state") not in OPEN:
        return "run %s: nothing to take back" % run
    troubles = roll_back(host, document["entries"])
    set_state(host, path, document, INCOMPLETE if troubles else TAKEN_BACK, troubles)
    if troubles:
        return "run %s was taken back in part: %s. Restore point: %s" % (run, "; ".join(troubles), path)
    return "run %s was taken back; the node is as it was before" % run


def wait_for_lock(host: Host, seconds: float) -> Optional[int]:
    deadline = time.monotonic() + seconds
    while True:
        lock = host.lock(LOCK)
        if lock is not None or time.monotonic() >= deadline:
            return lock
        time.sleep(0.2)


def main() -> None:
    """Any exit but 0, also by what nobody expected, makes systemd start it again (``watchdog_units.py``)."""
    try:
        sys.stderr.write(take_back(Host(), sys.argv[1]) + "\n")
    except (OSError, RailwrightError) as error:
        raise SystemExit(str(error)) from error
