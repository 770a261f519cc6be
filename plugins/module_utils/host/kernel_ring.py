# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log as records of ``/dev/kmsg``, not as text, because any program can write lines into the text.

The kernel prints names that a program chooses (the file name of one that crashed), dmesg prints the separators in them, and over syslog(2)
the kernel itself starts a stamped line at a line feed. ``/dev/kmsg`` gives one record a read, with its facility and sequence number, and
escapes what is not printable. Source: Documentation/ABI/testing/dev-kmsg.
"""

import re
from typing import List, NamedTuple

from .host import Host

KMSG = "/dev/kmsg"
RING = 32 * 1024 * 1024  # bytes: twice the largest ring that is in use
LINE = 600  # characters of a message that are read
# The log's clock is not disciplined by NTP: it may run ahead of the uptime by some parts per million.
AHEAD, AHEAD_SECONDS = 1.001, 60.0
_KERNEL = 8  # priorities below it are of facility 0, which only the kernel uses
# A flag other than - marks the rest of a message that another CPU interrupted: no driver begins a message there.
_RECORD = re.compile(r"([0-9]{1,4}),([0-9]{1,19}),([0-9]{1,18}),-(?:,[^;]{0,200})?;(.{0,%d})" % LINE)
# Netfilter's targets LOG and log: their prefix, then this. Source: net/netfilter/nf_log_syslog.c
_PACKET = re.compile(r"IN=[^ ]{0,64} OUT=")
ALL_NAMESPACES = "/proc/sys/net/netfilter/nf_log_all_netns"
_UPTIME = re.compile(r"[0-9]{1,12}\.[0-9]{1,6}")


class Record(NamedTuple):
    """One message. ``at``: seconds since boot; ``number``: its sequence number in the kernel's ring, -1 from other sources."""

    at: float
    text: str
    number: int = -1


def read_ring(host: Host) -> List[Record]:
    """Return the messages of the kernel's ring, oldest first; [] where it cannot be read. A message of a program is left out."""
    data = (host.read_bytes(KMSG, RING) or b"").decode("ascii", "replace")
    found = [match.groups() for match in map(_RECORD.match, data.split("\n")) if match is not None]
    records = [Record(int(stamp) / 1e6, text, int(number)) for priority, number, stamp, text in found if int(priority) < _KERNEL]
    return believable(host, records)


def uptime(host: Host) -> float:
    """Return the seconds since boot; infinity where the node does not tell."""
    found = _UPTIME.match(host.read("/proc/uptime", 256) or "")
    return float("inf") if found is None else float(found.group())


def believable(host: Host, records: List[Record]) -> List[Record]:
    """Drop messages with a stamp in the future, because a reader of what is new would pass over everything until then; and logged packets
    where each network namespace may log them, because a user in a namespace chooses how such a message begins."""
    bound = uptime(host) * AHEAD + AHEAD_SECONDS if records else 0.0
    packets = {record for record in records if _PACKET.search(record.text)}
    if packets and host.line(ALL_NAMESPACES) != "1":
        packets = set()
    return [record for record in records if record.at <= bound and record not in packets]
