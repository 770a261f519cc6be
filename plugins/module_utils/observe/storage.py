# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the node's storage runs over RDMA: a reload of the stack's modules would pull it away.

File systems from /proc/mounts (NFS and SMB by their options, Lustre by its @o2ib network identifiers, BeeGFS unless its configuration turns
RDMA off, GPFS where verbs are on, WEKA always), block devices from sysfs (NVMe over Fabrics, iSER, SRP).
"""

import re
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

from ..formats import sysfs_values
from ..host.host import Host

MOUNTS = "/proc/mounts"
_LIMIT = 16 * 1024 * 1024  # a container host may have ten thousand mounts
_ESCAPE = re.compile(r"\\([0-7]{3})")  # how /proc/mounts writes blanks
_NFS = ("nfs", "nfs4", "cifs", "smb3")
_SCSI = {"iscsi_iser": "iSER", "ib_srp": "SRP"}
BEEGFS_CONFIG = "/etc/beegfs/beegfs-client.conf"
GPFS_CONFIG = "/var/mmfs/gen/mmfs.cfg"


class RdmaStorage(NamedTuple):
    """One thing in use: ``kind`` as people call it, ``where`` its mount point or device."""

    kind: str
    where: str


def rdma_storage(host: Host) -> List[RdmaStorage]:
    return _mounts(host) + _nvme(host) + _scsi(host)


def _mounts(host: Host) -> List[RdmaStorage]:
    found: List[RdmaStorage] = []
    known: Dict[str, bool] = {}  # by file: the mounts of a node have one configuration, or few

    def says(path: str, judge: Callable[[str], bool]) -> bool:
        if path not in known:
            known[path] = judge(host.read(path) or "")
        return known[path]

    for line in (host.read(MOUNTS, _LIMIT) or "").splitlines():
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        kind = _kind(says, fields[0], fields[2], fields[3].split(","))
        if kind is not None:
            found.append(RdmaStorage(kind, _plain(fields[1])))
    return found


def _kind(says: Callable[[str, Callable[[str], bool]], bool], source: str, filesystem: str, options: Sequence[str]) -> Optional[str]:
    if filesystem in _NFS and ("proto=rdma" in options or "rdma" in options):
        return "NFS over RDMA" if filesystem.startswith("nfs") else "SMB Direct"
    if filesystem == "lustre" and "@o2ib" in source:
        return "Lustre o2ib"
    if filesystem == "beegfs" and says(_beegfs_file(options), _beegfs_uses_rdma):
        return "BeeGFS"
    if filesystem == "gpfs" and says(GPFS_CONFIG, _gpfs_uses_rdma):
        return "GPFS with verbs"
    return "WEKA" if filesystem == "wekafs" else None


def _gpfs_uses_rdma(text: str) -> bool:
    return re.search(r"^[ \t]*verbsRdma[ \t]+enable", text, re.MULTILINE) is not None


def _beegfs_file(options: Sequence[str]) -> str:
    named = [option.partition("=")[2] for option in options if option.startswith("cfgFile=")]
    return named[0] if named and named[0].startswith("/") else BEEGFS_CONFIG


def _beegfs_uses_rdma(text: str) -> bool:
    """connUseRDMA is true unless the file says otherwise (BeeGFS client configuration)."""
    values = re.findall(r"^[ \t]*connUseRDMA[ \t]*=[ \t]*(\S+)", text, re.MULTILINE)
    return not values or values[-1].lower() not in ("false", "0", "no")


def _plain(path: str) -> str:
    text = _ESCAPE.sub(lambda code: chr(int(code.group(1), 8)), path)
    return "".join(c if c.isprintable() else "?" for c in text)


def _nvme(host: Host) -> List[RdmaStorage]:
    return [
        RdmaStorage("NVMe over RDMA", name) for name in host.listdir("/sys/class/nvme")
        if sysfs_values.is_name(name) and host.line("/sys/class/nvme/%s/transport" % name) == "rdma"]


def _scsi(host: Host) -> List[RdmaStorage]:
    found: List[RdmaStorage] = []
    for name in host.listdir("/sys/class/scsi_host"):
        kind = _SCSI.get(host.line("/sys/class/scsi_host/%s/proc_name" % name) or "") if sysfs_values.is_name(name) else None
        if kind is not None:
            found.append(RdmaStorage(kind, name))
    return found
