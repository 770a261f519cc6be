# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check of health: what it is, why, from where on it counts and who says so, what to do, and whether the node may take jobs.

It is a part of the table of all checks (catalogue/checks.py). A check that fails is critical, one that only ever warns is minor: as drift
says it of any verdict (plan/areas.py).
"""

from typing import NamedTuple, Tuple

from ..types import CRITICAL, MINOR
from .xids import SOURCE as XID_CATALOGUE

FLAPS, FLAP_HOURS, QUIET_HOURS = 3, 12, 0.5  # downs of one port that drain, in how long; after boot links may come and go
CORRECTED_AN_HOUR = 8 * 60  # PCIe errors: DCGM warns of a GPU that replays more often than 8 times a minute
MEMORY_A_DAY = 100  # corrected errors of a memory controller: mcelog.conf, mem-ce-error-threshold of a socket
FLAPS_A_DAY = 5  # Azure's health checks call 5 flaps in 24 hours bad


class Check(NamedTuple):
    """``what``: holds where it passes. ``source``: the inventory's key that expects it, or who says so. ``threshold``: when it counts, and
    what else to know. ``command``: shows more; '': that of its family. Of health alone: ``subject``, what a pass is said of; ``jobs``,
    whether the node may take some at the worst of it; ``severity``, which is that of the area elsewhere."""

    check: str
    what: str
    source: str
    threshold: str = ""
    command: str = ""
    why: str = ""
    todo: str = ""
    subject: str = ""
    severity: str = ""
    jobs: bool = True


def _fault(check: str, subject: str, what: str, why: str, threshold: str, source: str, todo: str, command: str = "") -> Check:
    return Check(check, what, source, threshold, command, why, todo, subject, CRITICAL, jobs=False)


def _warning(*texts: str) -> Check:
    return _fault(*texts)._replace(severity=MINOR, jobs=True)


_SMI = "nvidia-smi(1)"
_MEMORY = "NVIDIA, GPU Memory Error Management"
CHECKS: Tuple[Check, ...] = (
    _warning("node.kernel_log", "kernel log", "the kernel's log since boot can be read",
             "without it nothing is known of Xids, AER and the like", "unknown without root or group adm", "dmesg_restrict (kernel)",
             "ask as root"),
    _fault("gpu.xid", "GPUs", "no Xid since boot", "the driver's own word of a GPU's fault",
           "each by NVIDIA's action; an application's own only warns; where the GPU itself asks for nothing, resets only warn",
           XID_CATALOGUE,
           "what NVIDIA's catalogue says of the number; the verdict names it",
             "dmesg | grep -i xid; nvidia-smi -q"),
    _fault("gpu.sxid", "NVSwitches", "no SXid since boot", "NVLink between all GPUs of the node", "Fatal fails, Non-fatal warns",
           "NVIDIA Fabric Manager User Guide", "drain, reset all GPUs and NVSwitches together or reboot",
             "dmesg | grep -i sxid; systemctl status nvidia-fabricmanager"),
    _fault("gpu.answers", "GPUs", "nvidia-smi answers in 5 s and knows every GPU of the driver", "a GPU that is lost makes it fail or hang",
           "one silent GPU", _SMI, "inspect the kernel's log for Xid 79, then reboot"),
    _fault("gpu.recovery", "GPUs", "the GPU asks for no recovery", "the driver's own verdict, made from all its errors",
           "anything but None", _SMI + ", gpu_recovery_action", "drain, then what it says: reset, reboot, drain P2P"),
    _fault("gpu.ecc", "GPUs", "no uncorrectable error of memory since the driver was loaded", "wrong results, or jobs that end",
           "1 fails; warns where the GPU asks for no recovery; SRAM threshold exceeded fails", _MEMORY,
           "drain, reset the GPU, run dcgmi diag -r 3"),
    _fault("gpu.remap", "GPUs", "no row remapping, retirement or repair waits or failed", "memory that is known to be bad is still in use",
           "failed fails, pending warns", _MEMORY, "pending: reset the GPU when its jobs are done; failed: return it"),
    _fault("gpu.thermal", "GPUs", "clocks are not lowered for heat", "the whole job waits for the slowest GPU",
           "by hardware fails, by software warns; no degree left to the limit warns", _SMI,
           "inspect fans, air flow, inlet temperature, heat sink"),
    _fault("gpu.clocks", "GPUs", "hardware does not hold clocks back", "a power supply or cable that fails halves a GPU's clock",
           "power brake or slowdown active", _SMI, "inspect power supplies, cables and the BMC's log"),
    _warning("gpu.power", "GPUs", "the power limit is that of its like", "one GPU with a lower limit slows the job",
             "differs from most of its kind", "the node's other GPUs", "nvidia-smi -pl with the others' limit"),
    _fault("gpu.nvlink", "GPUs", "as many NVLinks are up as on its like, none with recovery errors",
           "NCCL falls back to fewer links or PCIe", "fewer links fail; recovery or replay errors warn", "DCGM health watch of NVLink",
           "reset all GPUs of the fabric; else reseat or return"),
    _fault("gpu.fabric", "GPUs", "the NVLink fabric says that it is healthy", "NVLink 5 goes on with less bandwidth",
           "degraded or unhealthy", _SMI + ", fabric health", "inspect the fabric manager and nvlsm, then reset all GPUs of the fabric"),
    _warning("gpu.mig", "GPUs", "MIG is as on its like, and no change waits", "a job gets slices in place of GPUs", "differs, or pending",
             "the node's other GPUs", "nvidia-smi -mig, then reset the GPU"),
    _fault("pci.aer", "PCIe", "no uncorrected PCIe error of GPUs, HCAs and the bridges above them",
           "a link that fails takes its device away", "fatal fails, nonfatal warns, corrected warn beyond 8 a minute since boot",
           "kernel, PCI AER; DCGM's limit of replays", "reseat card, riser or cable; replace the part",
             "dmesg | grep -i aer; sudo lspci -vv -s {pci}"),
    _fault("hca.health", "HCAs", "no NIC's firmware failed since boot, none stopped sending", "all traffic of the NIC is lost meanwhile",
           "failed without recovery fails, with recovery warns", "mlx5 health.c", "update firmware, reset the NIC or reboot"),
    _fault("port.flaps", "ports", "links stay up", "each flap stops NCCL for seconds, or ends the job",
           "3 in 12 hours fail, 1 warns; not in the first half hour, nor 10 minutes before the end of an apply",
           "gpud: 3 in 12 h; Azure: 5 in 24 h", "clean or replace cable and transceiver, inspect the switch's port",
             "dmesg | grep -iE 'link (is )?(up|down)'; rdma link show {hca}/{port}"),
    _fault("port.optics", "transceivers", "temperature, voltage, bias and power are within the module's own limits", "errors, then flaps",
           "alarm thresholds fail, warning thresholds warn", "SFF-8636, CMIS: thresholds of the module",
           "clean the fibre, cool or replace the module",
             "sudo mlxlink -d {hca} -m"),
    _warning("port.fec", "ports", "ports of one speed have one FEC", "ends that disagree lose blocks or the link",
             "differs from most of its kind", "the node's other ports", "ethtool --set-fec auto on both ends"),
    _fault("node.machine_check", "CPUs", "no machine check since boot", "wrong results or a crash to come",
           "uncorrected fails, corrected warns", "kernel, x86 MCE and APEI", "the BMC's log and rasdaemon name the part"),
    _fault("node.memory", "memory", "no uncorrected error of memory", "wrong results or a crash to come",
           "1 uncorrected fails; corrected warn beyond 100 a day since boot", "kernel, EDAC; mcelog.conf",
           "replace the DIMM that EDAC names",
             "grep -r . /sys/devices/system/edac/mc/mc*/*_count"),
    _warning("node.oom", "memory", "the kernel killed nothing for lack of memory", "a job that dies without a word", "1 since boot",
             "kernel", "look for the job that needs more than it asked for"),
    _warning("node.hung", "processes", "nothing hung in the kernel since boot", "a device or a file system does not answer", "1 since boot",
             "kernel, hung_task_timeout_secs (120 s)", "the stack in the kernel's log says in what",
             "ps -eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
    _fault("node.disk", "disks", "/, /var and /tmp take writes; no file system gave up", "jobs and daemons fail in odd ways",
           "read-only or full fails, I/O errors warn", "kernel", "drain, inspect the disk (smartctl), free room",
             "df -h; dmesg | grep -iE 'i/o error|read-only'"),
    _fault("node.nfs", "NFS", "every NFS server answers", "jobs hang where they touch it",
           "silent for 5 s, or the kernel's last word of it", "kernel, net/sunrpc", "inspect the server and the way to it"),
    _warning("node.clock", "clock", "synchronised", "logs, certificates and flaps of several nodes are compared by it",
             "NTPSynchronized=no", "timedatectl(1)", "inspect chrony or systemd-timesyncd",
             "timedatectl; chronyc tracking"),
)
BY_CHECK = {row.check: row for row in CHECKS}
