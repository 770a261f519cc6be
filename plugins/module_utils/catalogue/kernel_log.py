# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel's log that tell of a fault, in the words of the drivers that write them; what each makes of a node.

A pattern begins where the kernel's message begins. A program can begin one with its own name, of 15 bytes, as in "NAME[PID]: segfault": a
pattern therefore needs more than 15 characters, of which none fits the text behind such a name.
Sources: NVIDIA (Xid catalogue, Fabric Manager User Guide: SXid); the kernel's drivers/pci/pcie/aer.c, arch/x86/kernel/cpu/mce/core.c,
mm/memory-failure.c, mm/oom_kill.c, drivers/edac/edac_mc.c, drivers/acpi/apei/ghes.c, kernel/hung_task.c, kernel/watchdog.c,
fs/ext4/super.c, fs/xfs/xfs_fsops.c, fs/btrfs/messages.c, block/blk-core.c, drivers/nvme/host, net/sunrpc/clnt.c,
net/sched/sch_generic.c; mlx5's health.c, events.c and en_main.c; bnxt.c.
"""

import re
from typing import NamedTuple, Pattern, Tuple

_PCI = r"(?P<device>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_GPU = r"(?P<device>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_MLX5 = r"mlx5_core " + _PCI + r": (?:[a-z0-9_]{1,60}:[0-9]{1,6}:\(pid [0-9]{1,10}\): )?"
_AER = r"[A-Za-z0-9_-]{1,40} " + _PCI + r": (?:AER: )?PCIe Bus Error: severity="
_DISK = r"(?P<device>(?!loop|zram)[A-Za-z0-9_!-]{1,40})"  # an image that somebody mounted is no disk of the node


# What says that a fault is over -> the fault; without one it says nothing.
ENDS = {"mounted": "read_only", "nfs_back": "nfs_lost", "nic_back": "nic_failed"}


class LogRule(NamedTuple):
    """``event``: its name in the facts. ``status``: of a verdict of ``check``; '' where code decides. ``needle``: in each such line.
    ``todo``: where it is other than that of the check."""

    event: str
    check: str
    status: str
    needle: str
    pattern: Pattern[str]
    meaning: str
    todo: str


def _rule(event: str, check: str, status: str, needle: str, pattern: str, meaning: str = "", todo: str = "") -> LogRule:
    return LogRule(event, check, status, needle, re.compile(pattern), meaning, todo)


RULES: Tuple[LogRule, ...] = (
    _rule("xid", "gpu.xid", "", "NVRM: Xid (", r"NVRM: Xid \((?:PCI:)?" + _GPU + r"(?: GPU-I:[0-9]{1,3})?\): (?P<number>[0-9]{1,5})\b"),
    _rule("gpu_lost", "gpu.xid", "", "fallen off the bus", "NVRM: GPU " + _GPU + ": GPU has fallen off the bus"),
    _rule("gpu_init", "gpu.answers", "fail", "RmInitAdapter failed", "NVRM: GPU " + _GPU + ": RmInitAdapter failed",
          "the driver could not initialise the GPU", "drain the node and reboot it; where it fails again, return the GPU"),
    _rule("sxid_fatal", "gpu.sxid", "fail", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU
          + r"\): (?P<number>[0-9]{1,6}), Fatal", "fatal error of an NVSwitch"),
    _rule("sxid", "gpu.sxid", "warn", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU + r"\): (?P<number>[0-9]{1,6}), Non-fatal",
          "error of an NVSwitch that is not fatal", "follow it up if it comes again (Fabric Manager User Guide)"),
    _rule("aer_fatal", "pci.aer", "fail", "PCIe Bus Error", _AER + r"Uncorrect(?:ed|able) \(Fatal\)", "uncorrected fatal PCIe error"),
    _rule("aer_nonfatal", "pci.aer", "warn", "PCIe Bus Error", _AER + r"Uncorrect(?:ed|able) \(Non-Fatal\)",
          "uncorrected PCIe error that was not fatal"),
    _rule("aer_corrected", "pci.aer", "", "PCIe Bus Error", _AER + "Correct(?:ed|able)"),
    _rule("mce", "node.machine_check", "fail", "Machine Check Exception", r"(?:mce: )?\[Hardware Error\]: CPU [0-9]{1,5}: Machine Check"
          r" Exception: ", "uncorrected machine check"),
    _rule("mce_logged", "node.machine_check", "warn", "Machine check events logged",
          r"mce: \[Hardware Error\]: Machine check events logged", "corrected machine check", "inspect rasdaemon's or mcelog's record"),
    _rule("memory_failure", "node.memory", "fail", "emory", "Memory failure: 0x[0-9a-f]{1,16}: |mce: Uncorrected hardware memory error",
          "uncorrected error of the node's memory"),
    _rule("ghes", "node.machine_check", "fail", "event severity", r"\{[0-9]{1,10}\}\[Hardware Error\]: {1,2}event severity:"
          r" (?:fatal|recoverable)", "hardware error that the firmware could not correct"),
    _rule("edac_ue", "node.memory", "fail", "EDAC ", r"EDAC (?P<device>[A-Za-z0-9#_]{1,20}): [0-9]{1,9} UE [^\[(/]{1,200}? on ",
          "uncorrected error of the node's memory"),
    _rule("oom", "node.oom", "warn", "ut of memory", r"(?:Memory cgroup out|Out) of memory(?: \([a-z_]{1,40}\))?: Kill(?:ed)? process"
          r" [0-9]{1,10} ", "the kernel killed a process for lack of memory"),
    _rule("hung", "node.hung", "warn", "blocked for more than", "INFO: task .{1,40}:[0-9]{1,10} blocked for more than [0-9]{1,9} seconds",
          "a process hung in the kernel"),
    _rule("lockup", "node.hung", "warn", "lock", "(?:NMI )?watchdog: (?:BUG: soft lockup - CPU#[0-9]{1,5} stuck|Watchdog detected hard"
          " LOCKUP)", "a CPU was stuck in the kernel", "update kernel and drivers; the stack below that line says where"),
    _rule("read_only", "node.disk", "", "(", r"EXT4-fs \(" + _DISK + r"\): Remounting filesystem read-only|XFS"
          r" \((?P<device2>(?!loop)[A-Za-z0-9_!-]{1,40})\): Filesystem has been shut down|BTRFS"
          r" [a-z]{1,10} \(device (?P<device3>(?!loop)[A-Za-z0-9_!-]{1,40})[^)]{0,40}\): forced readonly",
          "a file system gave up writing"),
    _rule("mounted", "node.disk", "", "ount", r"(?:EXT4-fs|XFS) \(" + _DISK + r"\): (?:Mounting |(?:re-)?mounted (?!.{0,200}\bro\b))"),
    _rule("disk_lost", "node.disk", "fail", "nvme nvme", "nvme (?P<device>nvme[0-9]{1,4}): (?:Disabling device after reset"
          " failure|Removing after probe failure)", "a disk is gone", "drain the node and replace the disk"),
    _rule("io_error", "node.disk", "warn", " error, dev ", "(?:blk_update_request: |print_req_error: )?(?:critical medium|critical"
          " target|I/O) error, dev (?P<device>(?:nvme|sd|vd|md|dm-)[A-Za-z0-9]{1,20}),", "I/O errors of a disk",
          "inspect the disk: smartctl -a, nvme smart-log"),
    _rule("nfs_lost", "node.nfs", "", "nfs: server", "nfs: server (?P<device>[A-Za-z0-9._:-]{1,80}) not responding"),
    _rule("nfs_back", "node.nfs", "", "nfs: server", "nfs: server (?P<device>[A-Za-z0-9._:-]{1,80}) OK"),
    _rule("nic_failed", "hca.health", "", "mlx5_core", _MLX5 + "(?:device's health compromised|Fatal error [0-9]{1,5} detected|handling"
          " bad device)"),
    _rule("nic_back", "hca.health", "", "health recovery succeeded", _MLX5 + "health recovery succeeded"),
    _rule("module", "port.optics", "warn", "Port module event", _MLX5 + r"Port module event\[error\]: module [0-9]{1,3}, Cable error",
          "the NIC reports a fault of the cable or transceiver", "reseat or replace the cable or transceiver"),
    _rule("tx_timeout", "hca.health", "warn", "NETDEV WATCHDOG", "(?:[a-z0-9_]{1,20} " + _PCI
          + ":? [A-Za-z0-9_.@-]{1,16}: )?NETDEV WATCHDOG: ", "the NIC did not send for seconds",
          "update driver and firmware of the NIC; inspect the PCIe link"),
    _rule("link_down", "port.flaps", "", "ink ", "[a-z0-9_]{1,20} " + _PCI + r"(?::? [A-Za-z0-9_.@-]{1,16})?: (?:Port: [0-9]{1,3} |NIC"
          r" )?Link (?:is )?(?:[Dd]own|DOWN)\b"),
)
