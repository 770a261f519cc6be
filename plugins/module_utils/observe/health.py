# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``health`` of the facts: what tells, in one look and without a wish, that a node should take no jobs. Passive and bounded.

Each command has five seconds, and is run only where there is something to ask about. What needs root and has it not is None, with the
reason beside it where a reader would wonder.
"""

import re
from typing import Any, Dict, List, Mapping, Optional

from ..formats.outside import number
from ..formats.sysfs_values import integer, is_name, pci_address
from ..host.disk import MOUNTS, mount_of, plain_path
from ..host.host import Host
from ..types import Identity
from .devices import attribute, pci_attribute
from .gpu_health import TIMED_OUT, observe_gpu_health
from .kernel_log import observe_log
from .link_health import observe_ports
from .neighbours import observe_neighbours
from .processes import boot_time, observe_processes

SECONDS = 5.0
EDAC = "/sys/devices/system/edac/mc"
RESTORE = "/var/lib/railwright/restore"  # apply/journal.py, which no observer may import
RUNS = 20
MEMORIES, MOUNTS_ASKED, FUNCTIONS = 64, 16, 256
PLACES = tuple("/" + name for name in ("", "var", "tmp"))
ANYBODYS = PLACES[2]  # anybody can fill it
CLOCK = ("timedatectl", "show", "-p", "NTPSynchronized", "--value")
NETWORK_FILES = ("nfs", "nfs4")
_ERRORS = re.compile(r"^([A-Za-z0-9_]{1,40}) ([0-9]{1,18})$", re.MULTILINE)
AER_FILES = (("corrected", "aer_dev_correctable"), ("nonfatal", "aer_dev_nonfatal"), ("fatal", "aer_dev_fatal"))
HARMLESS = "UnsupReq"  # what a bus scan provokes: advisory, and on healthy machines too


def observe_health(host: Host, identity: Identity, facts: Mapping[str, Any]) -> Dict[str, Any]:
    """``facts``: those already observed of the same node: gpus, hcas."""
    container = identity.virtual == "container"
    gpu = observe_gpu_health(host, identity.gpus, facts.get("gpus") or [])
    return {
        "boot": boot_time(host),
        "up_hours": up_hours(host),
        "applies": observe_applies(host),
        "log": observe_log(host),
        "gpu": gpu,
        "processes": None if container else observe_processes(host, (gpu or {}).get("gpus") or []),
        "ports": observe_ports(host, facts.get("hcas") or []),
        "neighbours": observe_neighbours(host, facts.get("hcas") or []),
        "aer": observe_aer(host, facts),
        "memory": [] if container else observe_memory(host),
        "clock": clock_synchronised(host) if identity.has("systemd") and not container else None,
        "mounts": observe_mounts(host),
        "disks": observe_disks(host),
    }


def observe_applies(host: Host) -> List[int]:
    """When the last applies ended, in seconds since the epoch."""
    return [int(when) for when in (host.mtime("%s/%s" % (RESTORE, name)) for name in host.listdir(RESTORE)[-RUNS:]) if when]


def up_hours(host: Host) -> Optional[int]:
    text = (host.read("/proc/uptime", 256) or "").split(" ")[0]
    seconds = number(text)
    return int(seconds // 3600) if seconds is not None and seconds >= 0 else None


def observe_aer(host: Host, facts: Mapping[str, Any]) -> Dict[str, Any]:
    """The kernel's own counters of PCIe errors since boot of GPUs, HCAs and the bridges above them: how many tell, and those of any."""
    functions: List[str] = []
    for device in list(facts.get("gpus") or []) + list(facts.get("hcas") or []):
        link = device.get("link") or {}
        functions += [address for address in [device.get("pci") or device.get("pci_address")] + list(link.get("path") or []) if address]
    rows: List[Dict[str, Any]] = [
        dict({name: _aer_count(pci_attribute(host, address, file)) for name, file in AER_FILES}, pci=address)
        for address in [name for name in dict.fromkeys(functions) if pci_address(name)][:FUNCTIONS]]
    read = [row for row in rows if any(row[name] is not None for name, _file in AER_FILES)]
    return {"read": len(read), "counted": [row for row in read if any(row[name] for name, _file in AER_FILES)]}


def _aer_count(text: Optional[str]) -> Optional[int]:
    rows = _ERRORS.findall(text or "")
    return sum(int(count) for name, count in rows if not name.startswith("TOTAL_") and name != HARMLESS) if rows else None


def observe_memory(host: Host) -> List[Dict[str, Any]]:
    """What the memory controllers have counted since their driver was loaded (EDAC)."""
    names = [name for name in host.listdir(EDAC) if name.startswith("mc") and is_name(name)][:MEMORIES]
    return [{"controller": name, "corrected": integer(attribute(host, "%s/%s/ce_count" % (EDAC, name))),
             "uncorrected": integer(attribute(host, "%s/%s/ue_count" % (EDAC, name)))} for name in names]


def clock_synchronised(host: Host) -> Optional[bool]:
    if host.which(CLOCK[0]) is None:
        return None
    return {"yes": True, "no": False}.get(host.run(CLOCK, SECONDS).out.strip())


def observe_mounts(host: Host) -> Dict[str, Any]:
    """NFS mounts, and those of which statfs(2) did not answer in its time: a child waits, and not we."""
    points: List[str] = []
    for line in (host.read(MOUNTS) or "").splitlines():
        fields, source = line.split(" "), line.partition(" - ")[2].split(" ")
        point = plain_path(fields[4]) if len(fields) > 5 else ""
        if source[0] in NETWORK_FILES and point.startswith("/") and point not in points and len(points) < MOUNTS_ASKED:
            points.append(point)
    if not points:
        return {"asked": [], "silent": []}
    answer = host.run(("stat", "-f", "-c", "%n", "--") + tuple(points), SECONDS)
    told = answer.out.split("\n")
    # It hangs at the first one; of those behind it nothing is known.
    silent = [point for point in points if point not in told][:1] if answer.rc == TIMED_OUT else []
    return {"asked": points, "silent": silent}


def observe_disks(host: Host) -> List[Dict[str, Any]]:
    """File systems that a node cannot do without and that take nothing of a user's: ``full`` or ``read-only``. Not of a captured tree."""
    found: List[Dict[str, Any]] = []
    for place in PLACES if host.live else ():
        state = host.filesystem(place)
        if state is None:
            continue
        if mount_of(host, place).read_only:  # the file system's own word: a service may see its whole machine read-only
            found.append({"place": place, "state": "read-only"})
        elif (state.f_blocks and not state.f_bavail) or (state.f_files and not state.f_ffree):
            found.append({"place": place, "state": "full", "anybodys": place == ANYBODYS})
    return found
