# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the package manager: waits for apt or dnf of somebody else, and names the process when it lasts too long.

apt and rpm take record locks (fcntl), which /proc/locks lists with the inode and the process;
dnf writes its process id into files.
"""

import re
import time
from typing import NamedTuple, Optional

from ..errors import RailwrightError
from ..formats.outside import is_digits
from ..host.host import Host

RECORD_LOCKS = {
    "apt": ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"),
    "dnf": ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"),
}
PID_FILES = {"dnf": ("/var/cache/dnf/metadata_lock.pid", "/var/cache/dnf/download_lock.pid", "/var/lib/dnf/rpmdb_lock.pid",
                     "/var/log/log_lock.pid")}
_LOCK_LINE = re.compile(r"^[0-9]+: (?:POSIX|OFDLCK) +\S+ +WRITE +([0-9]{1,18}) [0-9a-f]+:[0-9a-f]+:([0-9]{1,18}) ", re.MULTILINE)
_STARTED_BY_ROOT = re.compile(r"^Uid:\t0\t", re.MULTILINE)
POLL_SECONDS = 1.0


class Holder(NamedTuple):
    path: str
    pid: int
    command: str


def wait_for_locks(host: Host, manager: str, seconds: float) -> None:
    """Return when nobody holds the package manager; raise RailwrightError with the holder after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        holder = lock_holder(host, manager)
        if holder is None:
            return
        if time.monotonic() >= deadline:
            raise RailwrightError("%s is held by process %d (%s) for longer than rdma_stack_lock_wait_s (%d s); nothing was changed" % (
                holder.path, holder.pid, holder.command, seconds))
        time.sleep(POLL_SECONDS)


def lock_holder(host: Host, manager: str) -> Optional[Holder]:
    # A process of another container has the number 0 or -1 and cannot be named.
    locks = [(int(pid), inode) for pid, inode in _LOCK_LINE.findall(host.read("/proc/locks") or "")]
    for path in RECORD_LOCKS.get(manager, ()):
        inode = host.run(("stat", "-L", "-c", "%i", path)).out.strip() if host.exists(path) else ""
        for pid, locked in locks:
            # Only root's processes can have it open; another user may have a file with this number in another file system.
            if locked == inode and _STARTED_BY_ROOT.search(host.read("/proc/%d/status" % pid, 4096) or ""):
                return Holder(path, pid, command_of(host, pid))
    for path in PID_FILES.get(manager, ()):
        owner = (host.line(path) or "").split(" ")[0]
        if is_digits(owner) and host.exists("/proc/" + owner):
            return Holder(path, int(owner), command_of(host, int(owner)))
    return None


def command_of(host: Host, pid: int) -> str:
    """The command line of a process, printable and short."""
    words = (host.read("/proc/%d/cmdline" % pid, 4096) or "").replace("\0", " ").strip()
    return re.sub(r"[^\x20-\x7e]", "?", words)[:120] or "unknown"
