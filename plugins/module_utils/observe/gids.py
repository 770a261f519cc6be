# SPDX-License-Identifier: GPL-3.0-or-later
"""The GID table of a port. Empty slots are left out; their attributes are not even read.

A mlx5 port has 255 slots of which a handful are used, and the kernel answers EINVAL for the
type and interface of an empty one: the GIDs are read first, the rest for those that hold something.
"""

from typing import Any, Dict, List, Optional

from ..formats import sysfs_values
from ..host.host import Host
from .devices import attribute

IDENTITY_SLOTS = 16  # the reserved slots of a port's own interface come first (ib_cache.c); identity looks no further


def observe_gids(host: Host, port: str) -> Optional[List[Dict[str, Any]]]:
    """Every used slot of a port's table in order; None when there is no table to read."""
    slots = _slots(host, port + "/gids")
    if not slots:
        return None
    gids = []
    readable = False
    for index in slots:
        gid = sysfs_values.gid(attribute(host, "%s/gids/%d" % (port, index)))
        readable = readable or gid is not None
        if gid is None or gid == sysfs_values.ZERO_GID:
            continue
        gids.append({
            "index": index,
            "gid": gid,
            "type": sysfs_values.token(attribute(host, "%s/gid_attrs/types/%d" % (port, index))),
            "netdev": _netdev(host, port, index),
        })
    return gids if readable else None


def first_netdev(host: Host, port: str) -> Optional[str]:
    """The interface that the kernel itself ties to a port: the one of its lowest GID."""
    for index in _slots(host, port + "/gid_attrs/ndevs")[:IDENTITY_SLOTS]:
        netdev = _netdev(host, port, index)
        if netdev is not None:
            return netdev
    return None


def port_guid(gids: Optional[List[Dict[str, Any]]], link_layer: Optional[str]) -> Optional[str]:
    """sysfs has no file for it: the low half of GID 0, which is how libibumad (ibstat) gets it.

    On Ethernet only a link-local GID 0 holds one; an address in that slot is no GUID.
    """
    for entry in gids or []:
        if entry["index"] != 0:
            continue
        prefix, low = entry["gid"][:19], entry["gid"][20:]
        if low == "0000:0000:0000:0000" or (link_layer != "InfiniBand" and prefix != "fe80:0000:0000:0000"):
            return None
        return str(low)
    return None


def _netdev(host: Host, port: str, index: int) -> Optional[str]:
    return sysfs_values.name(attribute(host, "%s/gid_attrs/ndevs/%d" % (port, index)))


def _slots(host: Host, directory: str) -> List[int]:
    numbers = (sysfs_values.integer(name) for name in host.listdir(directory))
    return sorted(number for number in numbers if number is not None and 0 <= number < 65536)
