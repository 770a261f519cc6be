# SPDX-License-Identifier: GPL-3.0-or-later
"""The watchdog: the node reverts a run that its controller has not confirmed.

It runs alone, from the copy that ``confirm.py`` left below ``/var/lib/railwright/confirm``, without Ansible and without anybody who
looks. What it says is in the journal of systemd, what it did in the restore point's ``journal.json``. Its timer is a unit file that is
enabled, and no transient one: a node that reboots meanwhile starts it again, and counts from there. All of it goes as soon as nothing
waits any more.
"""

import contextlib
import sys
from typing import Dict

from ..errors import RailwrightError
from ..host.host import Host
from .journal import INCOMPLETE, LOCK, OPEN, REVERTED, document_path, load_journal, set_state
from .transaction import roll_back

# An apply that is still at work is left to it: when it ends it counts anew, and if it dies its lock goes with it.
WAIT_SECONDS = 6 * 3600.0
STATE = "/var/lib/railwright"
BASE = STATE + "/confirm"  # root's alone: what lies here runs as root
PENDING = BASE + "/pending.json"  # what the node waits for: run, token, seconds
CODE = BASE + "/code"
PACKAGE = CODE + "/railwright_node"
FOLDERS = (BASE, CODE, PACKAGE, PACKAGE + "/apply", PACKAGE + "/host")
TIMER = "railwright-watchdog.timer"
SERVICE = "railwright-watchdog.service"
UNITS = "/etc/systemd/system"
HEADER = "# Managed by railwright (railwright.rdma): here only as long as a change waits for its confirmation.\n"
# Accuracy: systemd's own is a minute. RemainAfterElapse: a timer that has done its work must not look armed.
TIMER_TEXT = HEADER + """[Unit]
Description=Revert railwright's run %(run)s unless its controller confirms it

[Timer]
OnActiveSec=%(seconds)d
AccuracySec=500ms
RemainAfterElapse=no

[Install]
WantedBy=timers.target
"""
# After a reboot the managers must have set what is to be reverted. Simple, so that no boot waits for it. Its timer is gone by then: what
# it fails of (a full disk, the kernel that kills it for memory, a fault of ours) must not leave the change for ever, so it tries again.
SERVICE_TEXT = HEADER + """[Unit]
Description=Revert railwright's run %(run)s, which nobody confirmed
After=network.target network-online.target openibd.service

[Service]
Type=simple
ExecStart=%(python)s -I -B %(code)s %(run)s
Restart=on-failure
RestartSec=60
"""


def unit_texts(run: str, seconds: int, python: str) -> Dict[str, str]:
    values = {"run": run, "seconds": seconds, "python": word(python), "code": CODE}
    return {"%s/%s" % (UNITS, TIMER): TIMER_TEXT % values, "%s/%s" % (UNITS, SERVICE): SERVICE_TEXT % values}


def word(text: str) -> str:
    """One word of a command line as systemd reads it; a plain path stays as it is."""
    if all(char.isalnum() or char in "/._-+" for char in text):
        return text
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(char, escaped)
    return '"%s"' % text


def systemctl(host: Host, *words: str) -> None:
    """Raises RailwrightError with systemd's own words."""
    result = host.run(("systemctl",) + words, timeout=60.0)
    if not result.ok:
        raise RailwrightError("systemctl %s: exit %d: %s" % (" ".join(words), result.rc, (result.err or result.out).strip()[-500:]))


def alive(host: Host) -> bool:
    """The timer runs, or what it started is at work (or waits for the lock)."""
    states = host.run(("systemctl", "is-active", TIMER, SERVICE)).out.split()
    return bool({"active", "activating", "deactivating"}.intersection(states))


def disarm(host: Host, *, service: bool = True) -> None:
    """Nothing waits any more. The journal says so already, so whatever fails here can do no harm: the program finds nothing to revert.

    ``service`` False: that is us.
    """
    for words in (("stop", TIMER),) + ((("stop", SERVICE),) if service else ()) + (("--no-reload", "disable", TIMER),):
        host.run(("systemctl",) + words, timeout=60.0)
    for path in unit_texts("", 0, ""):
        with contextlib.suppress(OSError):
            host.remove(path)
    host.run(("systemctl", "daemon-reload"), timeout=60.0)
    for directory in reversed(FOLDERS):
        for name in host.listdir(directory):
            with contextlib.suppress(OSError):
                host.remove("%s/%s" % (directory, name))
        with contextlib.suppress(OSError):
            host.rmdir(directory)


def revert(host: Host, run: str, seconds: float = WAIT_SECONDS) -> str:
    """What became of it, in one line. Raises RailwrightError when an apply did not end within ``seconds``."""
    lock = host.lock(LOCK, seconds)
    if lock is None:
        raise RailwrightError("run %s: another apply held %s for %d s; nothing was reverted" % (run, LOCK, seconds))
    try:
        with host.shielded():
            answer = undo(host, run)
            disarm(host, service=False)
            return answer
    finally:
        host.unlock(lock)


def undo(host: Host, run: str) -> str:
    path = document_path(run)
    document = load_journal(host, path)
    if document is None or document.get("state") not in OPEN:
        return "run %s: nothing to revert" % run
    troubles = roll_back(host, document["entries"])
    set_state(host, path, document, INCOMPLETE if troubles else REVERTED, troubles)
    if troubles:
        return "run %s was reverted in part: %s. Restore point: %s" % (run, "; ".join(troubles), path)
    return "run %s was reverted; the node is as it was before" % run


def main() -> None:
    """Any exit but 0, also by what nobody expected, makes systemd start it again."""
    try:
        sys.stderr.write(revert(Host(), sys.argv[1]) + "\n")
    except (OSError, RailwrightError) as error:
        raise SystemExit(str(error)) from error
