# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a unit of systemd is there, and whether it runs."""

from typing import Optional

from ..host.host import Host

DIRECTORIES = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def unit_installed(host: Host, unit: str, *more: str) -> bool:
    """``more``: directories beside those of administrators and packages."""
    return any(host.exists("%s/%s" % (directory, unit)) for directory in DIRECTORIES + more)


def unit_active(host: Host, unit: str) -> Optional[bool]:
    """None when there is no such unit, or nobody to ask."""
    answer = host.run(("systemctl", "is-active", unit)).out.strip() if unit_installed(host, unit) else ""
    return answer == "active" if answer else None
