# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node's disk can take what railwright writes: its files in /etc, its restore points in /var/lib."""

import posixpath
from typing import Optional, Sequence

from .host import Host
from .write import READ_ONLY

PLACES = ("/etc", "/var/lib")
MIB = 1024 * 1024


def refusing_disk(host: Host, places: Sequence[str] = PLACES) -> Optional[str]:
    """Which of the places cannot be written, and why, in one sentence; None where all can, and of a captured node."""
    for wanted in places if host.live else ():
        place = wanted
        while not host.exists(place) and place != "/":
            place = posixpath.dirname(place)
        found = host.filesystem(place)
        if found is None:
            continue
        free = found.f_bavail if host.user() else found.f_bfree  # blocks that are reserved are root's to use
        if found.f_flag & READ_ONLY:
            return "%s is on a file system that is mounted read-only" % place
        if found.f_blocks and not free:
            return "%s is on a file system that is full (0 of %s MiB free)" % (place, "{:,}".format(found.f_blocks * found.f_frsize // MIB))
        if found.f_files and not found.f_ffree:  # some count no inodes
            return "%s is on a file system that is full (0 of %s inodes free)" % (place, "{:,}".format(found.f_files))
    return None
