# SPDX-License-Identifier: GPL-3.0-or-later
"""When a process and the node itself began, as the kernel says it; and the accounts that processes run under."""

import pwd
import re
from typing import NamedTuple, Optional, Union

from ..errors import RailwrightError
from ..host.host import Host

_BOOT = re.compile(r"^btime ([0-9]{1,18})$", re.MULTILINE)


class Account(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str


def account(name: str, key: str) -> Account:
    """``key``: of the inventory, which names it."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise RailwrightError("%s: %s: this node has no such user; allowed: one who exists on every node" % (key, name)) from error
    return Account(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def boot_time(host: Host) -> Optional[int]:
    """Seconds since the epoch; None where it cannot be read."""
    found = _BOOT.search(host.read("/proc/stat") or "")
    return int(found.group(1)) if found is not None else None


def start_time(host: Host, pid: Union[int, str]) -> Optional[str]:
    """Field 22 of /proc/PID/stat: clock ticks since boot; None when there is no such process, or only what is left of it (a zombie).

    The name in field 2 may hold spaces and brackets, so count from its end.
    """
    text = host.read("/proc/%s/stat" % pid, 4096)
    fields = text.rpartition(")")[2].split() if text else []
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else None
