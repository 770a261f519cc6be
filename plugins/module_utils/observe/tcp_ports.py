# SPDX-License-Identifier: GPL-3.0-or-later
"""On which ports somebody listens."""

from typing import List

from ..formats import sysfs_values
from ..host.host import Host


def listening(host: Host) -> List[int]:
    """TCP ports in state LISTEN (0A), both families."""
    lines = [line.split() for path in ("/proc/net/tcp", "/proc/net/tcp6") for line in (host.read(path) or "").splitlines()[1:]]
    ports = [sysfs_values.integer("0x" + fields[1].rpartition(":")[2]) for fields in lines if len(fields) > 3 and fields[3] == "0A"]
    return [port for port in ports if port is not None]
