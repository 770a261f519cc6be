# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the node's storage runs over RDMA: a reload of the stack's modules would pull it away.

File systems from /proc/mounts (NFS and SMB by their options, Lustre by its @o2ib network identifiers, BeeGFS unless its configuration turns
RDMA off, GPFS where verbs are on, WEKA always), block devices from sysfs (NVMe over Fabrics, iSER, SRP).
"""

import functools
import re
from typing import Callable, List, NamedTuple, Optional, Pattern, Sequence

from ..formats import sysfs_values
from ..host.disk import plain_path
from ..host.host import Host

MOUNTS = "/proc/mounts"
_LIMIT = 16 * 1024 * 1024  # a container host may have ten thousand mounts
_BEEGFS_RDMA = re.compile(r"^[ \t]*connUseRDMA[ \t]*=[ \t]*(\S+)", re.MULTILINE)
_GPFS_VERBS = re.compile(r"^[ \t]*verbsRdma[ \t]+(enable)", re.MULTILINE)
_NFS = ("nfs", "nfs4", "cifs", "smb3")
_SCSI = {"iscsi_iser": "iSER", "ib_srp": "SRP"}
BEEGFS_CONFIG = "/etc/beegfs/beegfs-client.conf"
GPFS_CONFIG = "/var/mmfs/gen/mmfs.cfg"


class RdmaStorage(NamedTuple):
    """One thing in use: ``kind`` as people call it, ``where`` its mount point or device."""

    kind: str
    where: str


def rdma_storage(host: Host) -> List[RdmaStorage]:
    found = _mounts(host)
    found += [RdmaStorage("NVMe over RDMA", name) for name in host.listdir("/sys/class/nvme")
              if sysfs_values.is_name(name) and host.line("/sys/class/nvme/%s/transport" % name) == "rdma"]
    for name in host.listdir("/sys/class/scsi_host"):
        kind = _SCSI.get(host.line("/sys/class/scsi_host/%s/proc_name" % name) or "") if sysfs_values.is_name(name) else None
        if kind is not None:
            found.append(RdmaStorage(kind, name))
    return found


def _mounts(host: Host) -> List[RdmaStorage]:
    # Read once: ten thousand mounts of a node have one configuration, or few.
    settings = functools.lru_cache(maxsize=64)(lambda path, pattern: pattern.findall(host.read(path) or ""))
    found: List[RdmaStorage] = []
    for line in (host.read(MOUNTS, _LIMIT) or "").splitlines():
        fields = line.split(" ")
        kind = _kind(settings, fields[0], fields[2], fields[3].split(",")) if len(fields) >= 4 else None
        if kind is not None:
            found.append(RdmaStorage(kind, "".join(c if c.isprintable() else "?" for c in plain_path(fields[1]))))
    return found


def _kind(settings: Callable[[str, Pattern[str]], List[str]], source: str, filesystem: str, options: Sequence[str]) -> Optional[str]:
    if filesystem in _NFS and ("proto=rdma" in options or "rdma" in options):
        return "NFS over RDMA" if filesystem.startswith("nfs") else "SMB Direct"
    if filesystem == "lustre" and "@o2ib" in source:
        return "Lustre o2ib"
    if filesystem == "beegfs":  # connUseRDMA is true unless the file says otherwise (BeeGFS client configuration)
        named = next((option.partition("=")[2] for option in options if option.startswith("cfgFile=")), "")
        values = settings(named if named.startswith("/") else BEEGFS_CONFIG, _BEEGFS_RDMA)
        return "BeeGFS" if not values or values[-1].lower() not in ("false", "0", "no") else None
    if filesystem == "gpfs":
        return "GPFS with verbs" if settings(GPFS_CONFIG, _GPFS_VERBS) else None
    return "WEKA" if filesystem == "wekafs" else None
