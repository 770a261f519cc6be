# SPDX-License-Identifier: GPL-3.0-or-later
"""Port counters: whatever the driver offers, by the names of its files.

``N/A (no PMA)`` of a virtual function, EINVAL of a restricted one and anything else
that is no number is None: a counter that cannot be read is not zero.
"""

from typing import Dict, Optional

from ..host.host import Host
from . import sysfs_values
from .devices import attribute


def observe_counters(host: Host, directory: str) -> Dict[str, Optional[int]]:
    """Every counter of a directory in alphabetical order; {} when there is no such directory."""
    return {
        name: sysfs_values.integer(attribute(host, directory + "/" + name))
        for name in host.listdir(directory) if sysfs_values.is_name(name)
    }


def observe_hw_counters(host: Host, hca: str, port: str) -> Dict[str, Optional[int]]:
    """The driver's counters: of the port, else of the device (erdma and others know no ports there)."""
    return observe_counters(host, port + "/hw_counters") or observe_counters(host, hca + "/hw_counters")
