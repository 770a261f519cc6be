# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the node's storage runs over RDMA: a reload of the stack's modules would pull it away.

File systems from /proc/mounts (NFS and SMB by their options, Lustre by its @o2ib network identifiers, BeeGFS unless its configuration turns
RDMA off, GPFS where verbs are on, WEKA always), block devices from sysfs (NVMe over Fabrics, iSER, SRP).

And GPUDirect Storage where nvidia-fs is installed: the module, the storage drivers that registered with it, cufile.json. Only files are
read: gdscheck would start CUDA on every GPU, and it takes most of what it prints from these files. nvidia-fs lists ``wekafsio`` always: it
counts where that module is loaded. Sources: NVIDIA/gds-nvidia-fs 06eb38e (src/nvfs-proc.c, src/nvfs-dma.c), GDS's configuration guide.
"""

import functools
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Pattern, Sequence

from ..formats import sysfs_values
from ..formats.outside import json_object, lines_in, mapping
from ..host.disk import plain_path
from ..host.host import Host
from .dkms import dkms_builds
from .modules import module_index, running_modules

MOUNTS = "/proc/mounts"
_LIMIT = 16 * 1024 * 1024  # a container host may have ten thousand mounts
_BEEGFS_RDMA = re.compile(r"^[ \t]*connUseRDMA[ \t]*=[ \t]*(\S+)", re.MULTILINE)
_GPFS_VERBS = re.compile(r"^[ \t]*verbsRdma[ \t]+(enable)", re.MULTILINE)
_NFS = ("nfs", "nfs4", "cifs", "smb3")
_SCSI = {"iscsi_iser": "iSER", "ib_srp": "SRP"}
BEEGFS_CONFIG = "/etc/beegfs/beegfs-client.conf"
GPFS_CONFIG = "/var/mmfs/gen/mmfs.cfg"
NVIDIA_FS = "/proc/driver/nvidia-fs"
CUFILE = "/etc/cufile.json"
_CUFILE_LIMIT = 64 * 1024
_ALWAYS = "wekafsio"
_P2PDMA = re.compile(r'"use_pci_p2pdma"[ \t]*:[ \t]*true')  # for all, or for a kind of device


class RdmaStorage(NamedTuple):
    """One thing in use: ``kind`` as people call it, ``where`` its mount point or device."""

    kind: str
    where: str


def rdma_storage(host: Host) -> List[RdmaStorage]:
    found = _mounts(host)
    found += [RdmaStorage("NVMe over RDMA", name) for name in host.listdir("/sys/class/nvme")
              if sysfs_values.is_name(name) and host.line("/sys/class/nvme/%s/transport" % name) == "rdma"]
    hosts = filter(sysfs_values.is_name, host.listdir("/sys/class/scsi_host"))
    kinds = [(_SCSI.get(host.line("/sys/class/scsi_host/%s/proc_name" % name) or ""), name) for name in hosts]
    return found + [RdmaStorage(kind, name) for kind, name in kinds if kind is not None]


def _mounts(host: Host) -> List[RdmaStorage]:
    # Read once: ten thousand mounts of a node have one configuration, or few.
    settings = functools.lru_cache(maxsize=64)(lambda path, pattern: pattern.findall(host.read(path) or ""))
    found: List[RdmaStorage] = []
    for line in lines_in(host.read(MOUNTS, _LIMIT) or ""):
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


def observe_gds(host: Host, kernel: Optional[str]) -> Optional[Dict[str, Any]]:
    """None where nvidia-fs is neither loaded, nor on disk for this kernel, nor known to DKMS: libcufile alone comes with every CUDA."""
    running = running_modules(host)
    loaded = None if running is None else "nvidia_fs" in running
    if not (loaded or "nvidia_fs" in module_index(host, kernel) or any(build.module == "nvidia-fs" for build in dkms_builds(host))):
        return None
    names = _registered(host)
    version = (host.line(NVIDIA_FS + "/version") or "").partition(":")[2]
    return {
        "loaded": loaded,
        "version": sysfs_values.token(version),
        "storage": None if names is None else [name for name in names if name != _ALWAYS or _ALWAYS in (running or {})],
        "config": _cufile(host),
    }


def _registered(host: Host) -> Optional[List[str]]:
    """The names of ``NAME: VERSION`` lines; None where the module shows none of it."""
    text = host.read(NVIDIA_FS + "/modules", _CUFILE_LIMIT)
    names = None if text is None else [line.partition(":")[0] for line in lines_in(text) if ":" in line]
    return None if names is None else sorted({name for name in names if sysfs_values.is_name(name)})


def _cufile(host: Host) -> Optional[Dict[str, Any]]:
    """cufile.json: JSON with lines of comment. None without the file; ``read`` false for one that cannot be understood."""
    text = host.read(CUFILE, _CUFILE_LIMIT)
    if text is None:
        return None
    text = "\n".join(line for line in lines_in(text) if not line.lstrip().startswith("//"))
    found = json_object(text)
    compat = mapping(mapping(found).get("properties")).get("allow_compat_mode")
    return {"read": found is not None, "allow_compat_mode": compat if isinstance(compat, bool) else None,
            "use_pci_p2pdma": found is not None and _P2PDMA.search(text) is not None}
