# SPDX-License-Identifier: GPL-3.0-or-later
"""active_mtu, the one port attribute that sysfs lacks: from ``ibv_devinfo -v`` or its recording.

It is never computed from an interface's MTU: the two differ exactly when something is wrong.
"""

import re
from typing import Dict, Tuple

from ..host.host import Host
from . import sysfs_values

PortKey = Tuple[str, int]

_HCA = re.compile(r"\s*hca_id:\s*(\S+)\s*\Z")
_PORT = re.compile(r"\s*port:\s*([0-9]{1,3})\s*\Z")
_ACTIVE_MTU = re.compile(r"\s*active_mtu:\s*([0-9]{3,4})(?: \([0-9]+\))?\s*\Z")
MTUS = (256, 512, 1024, 2048, 4096)  # enum ibv_mtu; a recording cut off in the number gives none of them
TIMEOUT = 20.0  # a device in trouble makes ibv_open_device wait for its firmware


def active_mtus(host: Host) -> Dict[PortKey, int]:
    """(HCA, port) -> active_mtu in bytes. A port that verbs does not tell about is missing."""
    if host.live:
        return parse_devinfo(host.run(["ibv_devinfo", "-v"], TIMEOUT).out)
    found: Dict[PortKey, int] = {}
    for name in host.listdir("/cmd"):
        if name.startswith("ibv_devinfo"):  # with or without -v, or one file a device (-d mlx5_0)
            found.update(parse_devinfo(host.read("/cmd/" + name) or ""))
    return found


def parse_devinfo(text: str) -> Dict[PortKey, int]:
    """The active_mtu lines of ``ibv_devinfo``, with or without -v."""
    found: Dict[PortKey, int] = {}
    hca, port = None, None
    for line in text.splitlines():
        hca_line, port_line, mtu_line = _HCA.match(line), _PORT.match(line), _ACTIVE_MTU.match(line)
        if hca_line:
            hca, port = sysfs_values.name(hca_line.group(1)), None
        elif port_line:
            port = int(port_line.group(1))
        elif mtu_line and hca is not None and port is not None and int(mtu_line.group(1)) in MTUS:
            found[(hca, port)] = int(mtu_line.group(1))
    return found
