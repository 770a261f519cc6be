# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node may be worked on at all: system, kernel, Python, root, disk, clock.

The same judgement is used twice: by the rdma_preflight action plugin, which gets its evidence from one shell round trip before there is any
Python on the node, and by every plan on the node itself.
"""

import re
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..catalogue.platforms import end_of_life, find_system, supported_names
from ..catalogue.stacks import stack_of, vendor_stack
from ..catalogue.sysctls import canonical
from ..formats.outside import is_digits, whole
from ..formats.text import numbers
from ..host.host import Host
from ..spec.model import Spec
from ..types import Identity, Problem

AREA = "preflight"
PYTHON_FLOOR = (3, 6)  # what the target code is written for
MOUNTS = ("/", "/var")
# Room in MiB where modules are built and put into the initramfs, which is written beside the old one. Choice; what the packages
# themselves take is added up by rdma_packages.
DRIVER_ROOM = {"/boot": 128, "/usr": 1024}
MOST_RESERVED = 95  # per cent of memory; choice: the system itself takes some GiB
_PAGES = re.compile(r"hugepagesz=([0-9]{1,9})([KMGkmg])|hugepages=([0-9]{1,15})")
_MEMORY = re.compile(r"^(MemTotal|Hugepagesize): +([0-9]{1,15}) kB$", re.MULTILINE)
LAST_SECOND = 253402300799  # of the year 9999: time.gmtime takes no later one everywhere
TRANSPORT_SECONDS = 120.0  # from the controller's clock reading to ours: upload and start of a module on a slow node
# stack -> (first kernel that has what we use, what that is, marks of vendor kernels that have it earlier)
KERNEL_FLOORS: Dict[str, Tuple[Tuple[int, int], str, Tuple[str, ...]]] = {
    "inbox": ((4, 5), "the GID types (RoCE v2) in sysfs", (".el7",)),
    "doca": ((4, 18), "DOCA-OFED 3.2's oldest systems (RHEL 8)", ()),
    "mlnx_ofed": ((4, 18), "MLNX_OFED 24.10's oldest systems that are still maintained (RHEL 8)", ()),
    "soft_roce": ((5, 1), "rdma link add (RDMA_NLDEV_CMD_NEWLINK)", (".el8",)),
}


class Evidence(NamedTuple):
    """What was seen. None (or an absent mount) is not judged. Times are seconds since the epoch."""

    uid: Optional[int]
    free_mb: Dict[str, int]
    clock: Optional[float]  # the node's
    sent: Optional[float]  # the controller's clock before the node's was read …
    received: Optional[float]  # … and after
    synchronised: Optional[bool]
    memory: Mapping[str, int] = {}  # KiB by the names of /proc/meminfo


def observe_preflight(host: Host, now: Optional[float] = None) -> Evidence:
    """The evidence as the node itself sees it; ``now`` is the controller's clock when it asked."""
    uid = whole(host.run(("id", "-u")).out, 0, (1 << 32) - 1)
    clock = whole(host.run(("date", "+%s")).out, 0, LAST_SECOND) if now is not None else None
    free: Dict[str, int] = {}
    for mount in MOUNTS + tuple(sorted(DRIVER_ROOM)):
        size = host.free_bytes(mount) if host.live else None
        if size is not None:
            free[mount] = size // 1048576
    memory = {name: int(size) for name, size in _MEMORY.findall(host.read("/proc/meminfo") or "")}
    return Evidence(uid, free, clock, now, None if now is None else now + TRANSPORT_SECONDS, None, memory)


def preflight_problems(spec: Spec, identity: Identity, evidence: Evidence) -> List[Problem]:
    """Everything that forbids work on this node."""
    found = _system(spec, identity, evidence) + _kernel(spec, identity)
    python = numbers(identity.python)
    if python and python < PYTHON_FLOOR:
        found.append(Problem(AREA, "Python", "%s is too old; at least %s is needed" % (identity.python, "%d.%d" % PYTHON_FLOOR)))
    if evidence.uid not in (None, 0):
        found.append(Problem(AREA, "root", "runs as user id %s; root is needed: set become: true, or log in as root" % evidence.uid))
    if not identity.has("systemd"):
        found.append(Problem(AREA, "systemd", "is not what this node was started with; units, modules-load.d and sysctl.d need it"))
    wanted = spec["preflight_min_free_mb"]
    found += [Problem(AREA, "disk " + mount, "%d MiB free, %d needed (preflight_min_free_mb)" % (evidence.free_mb[mount], wanted))
              for mount in MOUNTS if evidence.free_mb.get(mount, wanted) < wanted]
    stack = vendor_stack(spec, identity)
    driver = spec["gpu_driver_branch"] is not None and bool(identity.gpus)
    if not identity.has("container") and (driver or (stack is not None and bool(stack.dkms))):  # kernel modules are built here
        found += [
            Problem(AREA, "disk " + mount, "%d MiB free, %d needed to build and install kernel modules" % (evidence.free_mb[mount], needed))
            for mount, needed in sorted(DRIVER_ROOM.items()) if evidence.free_mb.get(mount, needed) < needed]
    if not identity.has("container"):  # whose memory is the machine's below
        found += _memory(spec, evidence.memory)
    skew = clock_skew(evidence)
    if abs(skew) > spec["preflight_max_clock_skew_s"]:
        found.append(Problem(AREA, "clock", "%d s %s the controller's; at most %d s are allowed (preflight_max_clock_skew_s)" % (
            abs(skew), "ahead of" if skew > 0 else "behind", spec["preflight_max_clock_skew_s"])))
    return found


def _memory(spec: Spec, memory: Mapping[str, int]) -> List[Problem]:
    """Return a problem for each key that reserves so much of the node's memory that too little is left to run on."""
    total = memory.get("MemTotal")
    if total is None:
        return []
    text = "%s reserves %d MiB of the node's %d MiB; at most %d %% can be reserved"
    return [Problem(AREA, key, text % (key, kib // 1024, total // 1024, MOST_RESERVED))
            for key, kib in reserved(spec, memory.get("Hugepagesize", 2048)) if kib * 100 > total * MOST_RESERVED]


def reserved(spec: Spec, page: int) -> Iterator[Tuple[str, int]]:
    """Keys that reserve memory, each with its KiB. ``page``: KiB of a huge page where no kernel argument names another size."""
    for name, value in spec["host_tuning_sysctls"].items():
        unit = {"nr_hugepages": page, "nr_hugepages_mempolicy": page, "min_free_kbytes": 1}.get(canonical(name).partition("vm/")[2])
        if unit is not None and is_digits(str(value).strip()):
            yield "host_tuning_sysctls.%s" % name, int(value) * unit
    for size, unit, number in _PAGES.findall(" ".join(spec["pci_tuning_kernel_args"])):
        if number:
            yield "pci_tuning_kernel_args: hugepages=%s" % number, int(number) * page
        else:
            page = int(size) * {"K": 1, "M": 1024, "G": 1024 * 1024}[unit.upper()]


def preflight_warnings(spec: Spec, identity: Identity, evidence: Evidence) -> List[Problem]:
    """What a person should know and nobody has to fix first."""
    found: List[Problem] = []
    if evidence.synchronised is False:
        found.append(Problem(AREA, "clock", "is not synchronised (timedatectl: NTPSynchronized=no); set up chrony or systemd-timesyncd"))
    row = find_system(identity.platform.id, identity.platform.version)
    if row is not None and spec["accept_eol"] and end_of_life(row, today(evidence)):
        found.append(Problem(AREA, "system", "%s has had no security updates since %s; accepted by rdma_accept_eol" % (row.name, row.eol)))
    return found


def clock_skew(evidence: Evidence) -> float:
    """Seconds that the node's clock is ahead (negative: behind), 0 for anything that the round trip explains."""
    if evidence.clock is None or evidence.sent is None or evidence.received is None:
        return 0.0
    if evidence.clock > evidence.received:
        return evidence.clock - evidence.received
    # `date +%s` cuts the fraction off, so up to a second behind is no skew
    return min(0.0, evidence.clock + 1.0 - evidence.sent)


def today(evidence: Evidence) -> str:
    """The ISO date: the controller's where known. A node whose clock is wrong must not decide what is out of support."""
    seconds = evidence.sent if evidence.sent is not None else evidence.clock
    return "" if seconds is None else time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _system(spec: Spec, identity: Identity, evidence: Evidence) -> List[Problem]:
    platform, date = identity.platform, today(evidence)
    row = find_system(platform.id, platform.version)
    name = platform.pretty or ("%s %s" % (platform.id, platform.version)).strip() or "an unknown system"
    if row is None:
        return [Problem(AREA, "system", "%s is not supported; supported are %s" % (name, ", ".join(supported_names(date))))]
    if end_of_life(row, date) and not spec["accept_eol"]:
        return [Problem(AREA, "system", "%s has had no security updates since %s; set rdma_accept_eol: true to go on all the same. "
                        "Supported are %s" % (name, row.eol, ", ".join(supported_names(date))))]
    return []


def _kernel(spec: Spec, identity: Identity) -> List[Problem]:
    floor, reason, backports = KERNEL_FLOORS[stack_of(spec, identity)]
    kernel = numbers(identity.kernel)
    if not kernel or kernel >= floor or any(mark in identity.kernel for mark in backports):
        return []
    return [Problem(AREA, "kernel", "%s is too old for rdma_stack %s, which needs %s: kernel %s or later" % (
        identity.kernel, stack_of(spec, identity), reason, "%d.%d" % floor))]
