# SPDX-License-Identifier: GPL-3.0-or-later
"""When a process and the node itself began, as the kernel says it; whether a unit of systemd is there, and whether it runs."""

import re
from typing import Optional, Union

from ..host.host import Host

UNIT_DIRECTORIES = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_BOOT = re.compile(r"^btime ([0-9]{1,18})$", re.MULTILINE)


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


def unit_installed(host: Host, unit: str, *more: str) -> bool:
    """``more``: directories beside those of administrators and packages."""
    return any(host.exists("%s/%s" % (directory, unit)) for directory in UNIT_DIRECTORIES + more)


def unit_active(host: Host, unit: str) -> Optional[bool]:
    """None when there is no such unit, or nobody to ask."""
    answer = host.run(("systemctl", "is-active", unit)).out.strip() if unit_installed(host, unit) else ""
    return answer == "active" if answer else None
