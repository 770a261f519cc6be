# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node's disk can take what railwright, and Ansible, write: files in /etc, restore points in /var/lib, temporary files.

A file system that gave up after an error of its disk need not be mounted read-only: on newer kernels ext4 sets no such flag, and says it
to whoever syncs or writes (seen on Linux 6.18: statvfs and /proc/mounts have rw, and every write ends in EROFS). So one that had an error
is asked to sync a directory, which changes nothing, and may take long where somebody else writes much. XFS counts no errors, and has no
flag either.
The sentence is the same by every way that a node is asked: see plugin_utils/node_disk.py.
"""

import errno
import posixpath
import re
import time
from typing import NamedTuple, Optional, Sequence

from .host import Host
from .kernel_ring import read_ring
from .write import READ_ONLY

# Joined here, since linters take a written /tmp for the name of a temporary file.
PLACES = tuple("/" + name for name in ("etc", "var/lib", "tmp", "var/tmp"))
MOUNTS = "/proc/self/mountinfo"
BOOT = "/proc/stat"
MIB = 1024 * 1024
SAID = 200  # characters of a line of the kernel's
# ext4, XFS and btrfs when they give up, and who remounted it; what it was that they found. In grep's words too: node_disk.py.
GAVE_UP, FOUND = "[Rr]ead-?only|re-mounted [^ ]+ ro|[Ss]hut(ting)? down", "[Ee]rror|corrupt"
_BOOT = re.compile(r"^btime ([0-9]{1,12})$", re.MULTILINE)
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A line of mountinfo. ``device``: as the log calls it, vda1 or dm-0; ``read_only``: the file system, ``fixed``: this mount of it."""

    point: str
    device: str
    kind: str = ""
    read_only: bool = False
    fixed: bool = False


def refusing_disk(host: Host, places: Sequence[str] = PLACES) -> Optional[str]:
    """Which file system takes nothing, and why, in one sentence; None where all of the places can be written, and of a captured node."""
    for wanted in places if host.live else ():
        place = wanted
        while not host.exists(place) and place != "/":
            place = posixpath.dirname(place)
        found, mount = host.filesystem(place), mount_of(host, place)
        if found is None:
            return "the file system of %s gives no answer" % place
        fault = host.sync_fault(place) if may_have_given_up(host, mount) else None
        free = found.f_bavail if host.user() else found.f_bfree  # blocks that are reserved are root's to use
        fixed = not host.user() and (mount.fixed or found.f_flag & READ_ONLY)
        if mount.read_only or fixed or fault is not None:
            why = "takes no writes (I/O error)" if fault == errno.EIO else "is mounted read-only"
            return "%s %s%s" % (mount.point, why, since(host, mount.device))
        if found.f_blocks and not free:
            return "%s is full (0 of %s MiB free)" % (mount.point, "{:,}".format(found.f_blocks * found.f_frsize // MIB))
        if found.f_files and not found.f_ffree:  # some count no inodes
            return "%s is full (0 of %s inodes free)" % (mount.point, "{:,}".format(found.f_files))
    return None


def plain_path(text: str) -> str:
    """Of a line of /proc/mounts or mountinfo, which write blanks and more as octal numbers."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def mount_of(host: Host, place: str) -> Mount:
    """Where the file system of a place is mounted: the nearest above it, of several there the last; in doubt the place itself."""
    best = Mount("", "")
    for line in (host.read(MOUNTS) or "").split("\n"):
        fields, source = line.split(" "), line.partition(" - ")[2].split(" ")
        if len(fields) < 6 or len(source) < 2:
            continue
        point = plain_path(fields[4])
        if len(point) >= len(best.point) and (place + "/").startswith(point.rstrip("/") + "/"):
            device = posixpath.basename(host.readlink("/sys/dev/block/" + fields[2]) or source[1])
            best = Mount(point, device, source[0], source[-1].split(",")[0] == "ro", fields[5].split(",")[0] == "ro")
    return best if best.point else Mount(place, "")


def may_have_given_up(host: Host, mount: Mount) -> bool:
    errors = host.line("/sys/fs/ext4/%s/errors_count" % mount.device) if mount.kind.startswith("ext") else "0"
    return errors != "0" or mount.kind == "xfs"


def since(host: Host, device: str) -> str:
    """Return when the kernel gave a file system up, and its reason, from its ring; empty without such a message."""
    reason, when, told = "", None, ""
    for seconds, text, _number in read_ring(host) if device else []:
        if not re.search(r"\b%s\b" % re.escape(device), text):
            continue
        if re.search(GAVE_UP, text):
            when, told = int(seconds), reason or text
        elif re.search(FOUND, text):
            reason = text
    boot = _BOOT.search(host.read(BOOT) or "")
    if when is None:
        return ""
    clock = time.strftime(" since %Y-%m-%dT%H:%M:%SZ", time.gmtime(int(boot.group(1)) + when)) if boot is not None else ""
    return "%s (kernel: %s)" % (clock, told[:SAID])
