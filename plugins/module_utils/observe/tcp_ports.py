# SPDX-License-Identifier: GPL-3.0-or-later
"""On which ports somebody listens."""

from typing import List

from ..formats import sysfs_values
from ..host.host import Host


def listening(host: Host) -> List[int]:
    """TCP ports in state LISTEN (0A), both families."""
    ports = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (host.read(path) or "").splitlines()[1:]:
            fields = line.split()
            port = sysfs_values.integer("0x" + fields[1].rpartition(":")[2]) if len(fields) > 3 and fields[3] == "0A" else None
            if port is not None:
                ports.append(port)
    return ports
