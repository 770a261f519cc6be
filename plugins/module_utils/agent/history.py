# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers: one line a record, each with its checksum, in files of bounded size.

A torn write loses one record: what is no whole line is passed over. A record has ``t`` (seconds since the epoch), ``up`` (seconds since
boot, which no clock moves), ``boot`` (an id of the kernel's) and ``kind``.
"""

import json
import zlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ..formats.outside import is_digits, json_object, mapping
from ..host.host import Host
from ..host.kernel_ring import uptime

DIRECTORY = "/var/lib/railwright/agent"
SEGMENT = 1024 * 1024  # bytes of a file, of which there are at most SEGMENTS: 30 days of 8 rails and 8 GPUs take a fifth of it
SEGMENTS = 18
LINE = 64 * 1024  # bytes of a record
HOUR, DAY = 3600.0, 86400.0
KEPT_DAYS = 30


class Moment(NamedTuple):
    """``boot``: '' where the kernel does not say."""

    t: float
    up: float
    boot: str

    def since(self, record: Dict[str, Any]) -> float:
        """Seconds since a record. Within a boot its own clock counts; from before it at least all of it, wherever the calendar jumped."""
        if record["boot"] == self.boot:
            return max(self.up - float(record["up"]), 0.0)
        return max(self.t - float(record["t"]), self.up)


def is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_stamped(record: Any) -> bool:
    """Return whether a record of a file has the three clocks that ``Moment.since`` reads."""
    return isinstance(record, dict) and is_time(record.get("t")) and is_time(record.get("up")) and isinstance(record.get("boot"), str)


def now(host: Host, t: float) -> Moment:
    """``t``: what the calendar says."""
    up = uptime(host)
    return Moment(t, up if up < float("inf") else 0.0, (host.line("/proc/sys/kernel/random/boot_id") or "")[:36])


class History:
    def __init__(self, host: Host, directory: str = DIRECTORY) -> None:
        self._host, self._directory = host, directory
        self.lost = 0  # records that could not be written

    def files(self) -> List[str]:
        """The oldest first. Their names count up, so that no clock decides which goes."""
        names = [name for name in self._host.listdir(self._directory) if name.endswith(".log") and is_digits(name[:-4])]
        return ["%s/%s" % (self._directory, name) for name in sorted(names, key=lambda name: int(name[:-4]))]

    def append(self, moment: Moment, kind: str, **fields: Any) -> Optional[str]:
        """Why it could not be written; None where it was."""
        text = json.dumps(dict(fields, t=round(moment.t, 1), up=round(moment.up, 1), boot=moment.boot, kind=kind), separators=(",", ":"))
        if len(text) > LINE:
            self.lost += 1
            return "a record of %d bytes" % len(text)
        files = self.files()
        if not files or (self._host.size(files[-1]) or 0) + len(text) > SEGMENT:
            files.append("%s/%06d.log" % (self._directory, int(files[-1][-10:-4]) + 1 if files else 1))
        try:
            for path in files[:-SEGMENTS]:
                self._host.remove(path)
            # Not for everybody: it holds messages of the kernel, which dmesg_restrict keeps from users.
            self._host.append(files[-1], "%08x %s" % (zlib.crc32(text.encode("utf-8")), text), 0o600)
        except OSError as error:
            self.lost += 1
            return str(error)
        return None

    def records(self, moment: Moment, days: float = KEPT_DAYS) -> Iterator[Dict[str, Any]]:
        """Whole ones of so many days, the oldest first."""
        for path in self.files():
            for line in (self._host.read(path, SEGMENT + LINE) or "").split("\n"):
                record = _record(line)
                if record is not None and moment.since(record) <= days * DAY:
                    yield record


def _record(line: str) -> Optional[Dict[str, Any]]:
    checksum, _space, text = line.partition(" ")
    if checksum != "%08x" % zlib.crc32(text.encode("utf-8", "replace")):
        return None
    found = json_object(text)
    return found if is_stamped(found) and isinstance(mapping(found).get("kind"), str) else None


def is_down(record: Any) -> bool:
    """Return whether a record says of which port the link went down, and how often."""
    return is_stamped(record) and isinstance(record.get("part"), str) and isinstance(record.get("name"), str) and (
        isinstance(record.get("n", 1), int))
