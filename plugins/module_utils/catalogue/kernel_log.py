# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel's log that tell of a fault, in the words of the drivers that write them, and what each means for a node.

A pattern begins where the kernel's message begins. A program can begin one with its own name, of 15 bytes, as in "NAME[PID]: segfault": a
pattern therefore needs more than 15 characters, of which none fits the text behind such a name.
Sources stand in the rows. Versions are those in which the text was read (2026-11); where two forms are in one row, both are in use on the
supported systems (Linux). A rule fails a node only for what neither a boot nor an operator's reset makes; the rest warns.
"""

import re
from typing import Dict, NamedTuple, Pattern, Tuple

_PCI = r"(?P<device>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_GPU = r"(?P<device>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_MLX5 = r"mlx5_core " + _PCI + r": (?:[a-z0-9_]{1,60}:[0-9]{1,6}:\(pid [0-9]{1,10}\): )?"
_NETDEV = r"(?:mlx5_core|mlx4_en|bnxt_en|ionic|ice|i40e|efa) " + _PCI + r":? [A-Za-z0-9_.@-]{1,16}(?: \(uninitialized\))?: "
_AER = r"[A-Za-z0-9_-]{1,40} " + _PCI + r": (?:AER: )?PCIe Bus Error: severity="
_BRIDGE = r"(?:pcieport|pciehp|dpc) " + _PCI + r"(?::pcie[0-9]{3})?: "
_AMD = r"amdgpu " + _PCI + r": (?:amdgpu: )?"
_DISK = r"(?P<device>(?!loop|zram)[A-Za-z0-9_!-]{1,40})"  # an image that somebody mounted is no disk of the node
_LINE_END = r"(?: |\\x0a)(?:NVRM: )?"  # one printk of several lines: /dev/kmsg escapes the line break
_NICS = "(?:mlx5_core|mlx4_core|bnxt_en|ionic|efa|irdma|ice|erdma)"


class LogRule(NamedTuple):
    """``event``: its name in the facts; rows of one event differ in the pattern only. ``status``: of a verdict of ``check``; '' where code
    decides. ``ended``: the status after the event's end (ENDS); '' for none. ``needle``: in each such line. ``todo``: where it is other
    than that of the check. ``source``: where the text is from."""

    event: str
    check: str
    status: str
    needle: str
    pattern: Pattern[str]
    source: str
    meaning: str
    todo: str
    ended: str


def _rule(event: str, check: str, status: str, needle: str, pattern: str, source: str, meaning: str = "", todo: str = "",
          ended: str = "") -> LogRule:
    return LogRule(event, check, status, needle, re.compile(pattern), source, meaning, todo, ended)


# The end of a fault -> the faults; believed only from the driver that reported the fault.
ENDS: Dict[str, Tuple[str, ...]] = {
    "mounted": ("read_only",), "nfs_back": ("nfs_lost",), "nic_back": ("nic_failed", "nic_stuck", "nic_probe", "nic_waits"),
    "module_in": ("module_out",), "slot_back": ("slot_lost",), "amd_back": ("amd_failed",),
}
EVIDENCE = ("module_in",)  # counts without a fault before it: the cable was there
# Faults that drain only a NIC that carries jobs: one with an RDMA device, of the kind of those that have one, or of the inventory.
OF_RAILS = ("nic_failed", "nic_dead", "nic_stuck", "nic_probe")

_MLX5_HEALTH = "mlx5/core/health.c, Linux"
RULES: Tuple[LogRule, ...] = (
    # GPUs and NVSwitches.
    _rule("xid", "gpu.xid", "", "NVRM: Xid (", r"NVRM: Xid \((?:PCI:)?" + _GPU + r"(?: GPU-I:[0-9]{1,3})?\): (?P<number>[0-9]{1,5})\b",
          "NVIDIA, Xid catalogue"),
    _rule("gpu_lost", "gpu.xid", "", "fallen off the bus", "NVRM: GPU " + _GPU + ": GPU has fallen off the bus", "osinit.c, 515 to 595"),
    _rule("gpu_lost", "gpu.xid", "", "fallen off the bus",
          "NVRM: The NVIDIA GPU " + _GPU + _LINE_END + r"\(PCI ID: [0-9a-f]{4}:[0-9a-f]{4}\)"
          + _LINE_END + "installed in this system has" + _LINE_END + "fallen off the bus", "osapi.c, 515 to 595: at probe"),
    _rule("gpu_init", "gpu.answers", "fail", "RmInitAdapter failed", "NVRM: GPU " + _GPU + ": RmInitAdapter failed", "osinit.c, 515 to 595",
          "the driver could not initialise the GPU", "drain the node and reboot it; where it fails again, return the GPU"),
    _rule("sxid_fatal", "gpu.sxid", "fail", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU
          + r"\): (?P<number>[0-9]{1,6}), Fatal", "Fabric Manager User Guide", "fatal error of an NVSwitch"),
    _rule("sxid_benign", "gpu.sxid", "pass", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU
          + r"\): (?P<number>22013), Non-fatal", "Fabric Manager User Guide: can be ignored", "note: NVIDIA calls it safe to ignore"),
    _rule("sxid", "gpu.sxid", "warn", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU + r"\): (?P<number>[0-9]{1,6}), Non-fatal",
          "Fabric Manager User Guide", "error of an NVSwitch that is not fatal",
          "follow it up if it comes again (Fabric Manager User Guide)"),
    # Without a word for the severity: the switch's processor (26001 to 26008) and heat that shuts it down. 26004 is one slow command.
    _rule("sxid_stopped", "gpu.sxid", "fail", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU
          + r"\): (?P<number>2600[1-35-8]|10006|2800[35]), (?!Correctable|Severity |Data \{|SOE HALT data)",
          "soe_ls10.c, therm_ls10.c, heartbeat_ls10.c, 595.45.04", "an NVSwitch or its processor stopped"),
    _rule("sxid", "gpu.sxid", "warn", "SXid (", r"nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:" + _GPU
          + r"\): (?P<number>(?!10005|2800[24])[0-9]{1,6}), (?!Correctable|Severity |Data \{|SOE HALT data)",
          "common_nvswitch.h, 595.45.04"),
    _rule("peermem", "gpu.peermem", "warn", "nvidia-peermem", r"nvidia-peermem [a-z0-9_]{1,60}:[0-9]{1,6} ERROR detected invalid context",
          "nvidia-peermem.c, 515 to 595", "memory of a GPU that a NIC had registered was freed, and nvidia-peermem could not tell the NIC"),
    _rule("amd_lost", "gpu.answers", "fail", "device lost from bus", _AMD + "device lost from bus", "amdgpu_device.c, Linux 6.7 and newer",
          "the GPU is lost", "drain the node and power it off and on; where it comes again, return the GPU"),
    _rule("amd_failed", "gpu.answers", "fail", "amdgpu",
          _AMD + r"GPU (?:reset end with ret = -|[Rr]ecovery [Ff]ailed: -|reset(?:\([0-9]{1,9}\))?"
          r" failed)", "amdgpu_device.c, Linux", "the driver could not reset the GPU", "drain the node and reboot it", "warn"),
    _rule("amd_back", "gpu.answers", "", "GPU reset", _AMD + r"GPU reset(?:\([0-9]{1,9}\))? succeeded", "amdgpu_device.c, Linux",
          "the driver has reset it since"),
    _rule("amd_reset", "gpu.answers", "warn", "GPU reset begin", _AMD + "GPU reset begin", "amdgpu_device.c, Linux",
          "the driver reset the GPU", "inspect the kernel's log before it; run rvs or agfhc if it comes again"),
    _rule("amd_ue", "gpu.ecc", "warn", " uncorrectable hardware errors",
          _AMD + r"(?:\{[0-9]{1,20}\})?[a-z0-9:, ]{0,60}?\b[1-9][0-9]{0,9} (?:new )?"
          r"uncorrectable hardware errors detected", "amdgpu_ras.c, Linux", "uncorrectable errors of the GPU's memory or logic"),
    # PCIe, and what the IOMMU refused.
    _rule("aer_fatal", "pci.aer", "fail", "PCIe Bus Error", _AER + r"Uncorrect(?:ed|able) \(Fatal\)", "pcie/aer.c, Linux",
          "uncorrected fatal PCIe error"),
    _rule("aer_nonfatal", "pci.aer", "warn", "PCIe Bus Error", _AER + r"Uncorrect(?:ed|able) \(Non-Fatal\)", "pcie/aer.c, Linux",
          "uncorrected PCIe error that was not fatal"),
    _rule("aer_corrected", "pci.aer", "", "PCIe Bus Error", _AER + "Correct(?:ed|able)", "pcie/aer.c, Linux"),
    _rule("aer_recovery", "pci.aer", "warn", "AER: device recovery failed", _BRIDGE + "AER: device recovery failed",
          "pcie/err.c, Linux", "a device below could not be recovered from a PCIe error"),
    _rule("dpc", "pci.aer", "warn", "ontainment event", _BRIDGE + "DPC:? containment event, status:0x", "pcie/dpc.c, Linux",
          "the port cut off the devices below it after an error (DPC)"),
    _rule("slot_lost", "pci.aer", "warn", "Slot(", _BRIDGE + r"(?:pciehp: )?Slot\([^()]{1,30}\): (?:Link Down|Card not present)",
          "hotplug/pciehp_ctrl.c, Linux 4.19 and newer: not after a request to power off", "the card below left the bus", "", "warn"),
    _rule("slot_back", "pci.aer", "", "Slot(", _BRIDGE + r"(?:pciehp: )?Slot\([^()]{1,30}\): (?:Link Up|Card present)",
          "hotplug/pciehp_ctrl.c, Linux 4.19 and newer", "it is back"),
    _rule("dmar", "pci.dma", "warn", "Request device [",
          r"DMAR: \[(?:DMA (?:Read|Write)|INTR-REMAP)(?: NO_PASID)?\] Request device \[" + _GPU
          + r"\]", "intel/dmar.c, Linux", "the IOMMU refused an access of the device"),
    _rule("amd_vi", "pci.dma", "warn", "AMD-Vi: Event logged [",
          r"[A-Za-z0-9_-]{1,40} " + _PCI + r": AMD-Vi: Event logged \[IO_PAGE_FAULT ",
          "amd/iommu.c, Linux", "the IOMMU refused an access of the device"),
    _rule("amd_vi", "pci.dma", "warn", "AMD-Vi: Event logged [", r"AMD-Vi: Event logged \[IO_PAGE_FAULT device=" + _GPU + " ",
          "amd/iommu.c, Linux: a device without a driver"),
    # NICs.
    _rule("nic_dead", "hca.health", "fail", "unrecoverable hardware error",
          _MLX5 + "(?:synd 0x8: |Health issue observed, )unrecoverable hardware"
          " error", _MLX5_HEALTH, "the NIC reports a hardware error that it cannot recover from", "drain the node and return the NIC"),
    _rule("nic_hot", "hca.health", "warn", "mlx5_core", _MLX5 + "(?:High temperature on sensors with bit set|(?:synd 0x10: |Health issue"
          " observed, )High temp)", "mlx5/core/events.c and health.c, Linux", "the NIC is too hot",
          "inspect fans, air flow and inlet temperature"),
    _rule("nic_failed", "hca.health", "fail", "mlx5_core", _MLX5 + "(?:device's health compromised|Fatal error [0-9]{1,5} detected|handling"
          " bad device|health recovery flow aborted|health recovery failed)", _MLX5_HEALTH, "the NIC's firmware failed", "", "warn"),
    _rule("nic_failed", "hca.health", "fail", "FW heartbeat stalled", "ionic " + _PCI + ": FW heartbeat stalled at ",
          "pensando/ionic/ionic_dev.c, Linux 5.5 and newer"),
    _rule("nic_back", "hca.health", "", "health recovery succeeded",
          _MLX5 + "health recovery succeeded", _MLX5_HEALTH, "it was brought back"),
    _rule("nic_back", "hca.health", "", "firmware version: ", _MLX5 + "firmware version: [0-9]", "mlx5/core/main.c, Linux: the"
          " driver begins anew"),
    _rule("nic_back", "hca.health", "", "FW heartbeat restored", "ionic " + _PCI + ": FW heartbeat restored at ",
          "pensando/ionic/ionic_dev.c, Linux 5.5 and newer"),
    _rule("nic_stuck", "hca.health", "fail", "leak of a command resource",
          _MLX5 + r"[^.]{1,160}timeout\. Will cause a leak of a command resource", "mlx5/core/cmd.c, Linux",
          "the NIC's firmware did not answer a command", "", "warn"),
    _rule("nic_probe", "hca.health", "fail", "failed with error code",
          _MLX5 + "(?:mlx5_init_one|mlx5_load_one|init_one) failed with error code"
          " -[0-9]{1,5}", "mlx5/core/main.c, Linux", "the driver could not start the NIC", "", "warn"),
    _rule("nic_probe", "hca.health", "fail", "state, aborting", _MLX5 + "Firmware over [0-9]{1,20} MS in [a-z-]{1,40} state, aborting",
          "mlx5/core/main.c, Linux"),
    _rule("nic_probe", "hca.health", "fail", " failed with error -", _NICS + ": probe of " + _PCI + " failed with error -[0-9]{1,5}",
          "base/dd.c, Linux up to 6.8"),
    _rule("nic_probe", "hca.health", "fail", " failed with error -",
          _NICS + " " + _PCI + ": probe with driver [a-z0-9_]{1,20} failed with error"
          " -[0-9]{1,5}", "base/dd.c, Linux 6.9 and newer"),
    _rule("nic_waits", "hca.health", "", "Waiting for FW ",
          _MLX5 + "Waiting for FW [a-z-]{1,40}, timeout abort in ", "mlx5/core/main.c, Linux 5.4 and newer",
          "the NIC's firmware was not ready for 20 s and more"),
    _rule("nic_power", "hca.health", "pass", "insufficient power on the PCIe slot", _MLX5 + "Detected insufficient power on the PCIe slot",
          "mlx5/core/events.c, Linux 5.1 and newer; NVIDIA calls it benign",
          "note: the slot does not advertise the power that the NIC asks for"),
    _rule("module", "port.optics", "warn", "Port module event", _MLX5 + r"Port module event\[error\]: module [0-9]{1,3}, Cable error",
          "mlx5/core/events.c, Linux", "the NIC reports a fault of the cable or transceiver",
          "reseat or replace the cable or transceiver"),
    _rule("module_out", "port.optics", "", "Cable unplugged", _MLX5 + "Port module event: module [0-9]{1,3}, Cable unplugged",
          "mlx5/core/events.c, Linux", "the cable or transceiver was taken out, and did not come back",
          "plug in the cable or transceiver"),
    _rule("module_in", "port.optics", "", "Cable plugged", _MLX5 + "Port module event: module [0-9]{1,3}, Cable plugged",
          "mlx5/core/events.c, Linux"),
    _rule("tx_timeout", "hca.health", "warn", "NETDEV WATCHDOG",
          _NETDEV + "NETDEV WATCHDOG: ", "net/sched/sch_generic.c, Linux 6.5 and newer",
          "the NIC did not send for seconds", "update driver and firmware of the NIC; inspect the PCIe link"),
    _rule("tx_timeout", "hca.health", "warn", "NETDEV WATCHDOG",
          r"NETDEV WATCHDOG: (?P<device>[A-Za-z0-9_.@-]{1,15}) \((?:mlx5_core|mlx4_core"
          r"|mlx4_en|bnxt_en|ionic|ice|i40e|efa)\): transmit queue ", "net/sched/sch_generic.c, Linux up to 6.4"),
    _rule("tx_timeout", "hca.health", "warn", "TX timeout detected", _NETDEV + "TX timeout detected", "mlx5/core/en_main.c, bnxt.c, Linux"),
    _rule("rx_timeout", "hca.health", "warn", "RX timeout on channel",
          _NETDEV + "RX timeout on channel: ", "mlx5/core/en/reporter_rx.c, Linux 5.4 and newer", "the NIC did not receive for seconds",
          "update driver and firmware of the NIC"),
    _rule("nic_command", "hca.health", "warn", "Error (timeout: ",
          _NETDEV + r"Error \(timeout: [0-9]{1,9}\) msg \{0x", "bnxt.c, bnxt_hwrm.c,"
          " Linux", "the NIC's firmware did not answer a command", "update its firmware; inspect the PCIe link"),
    _rule("nic_command", "hca.health", "warn", " timedout (",
          "bnxt_en " + _PCI + r": (?:QPLIB: )?cmdq\[0x[0-9a-f]{1,8}\]=0x[0-9a-f]{1,8} timedout"
          r" \(", "bnxt_re/qplib_rcfw.c, Linux"),
    _rule("nic_command", "hca.health", "warn", "efa ",
          "efa " + _PCI + r":? (?:[A-Za-z0-9_-]{1,20}: )?(?:The device didn't send any completion for"
          r" admin cmd|The device sent a completion but the driver didn't receive|Wait for completion \(polling\) timeout|Reading register"
          " timed out|Admin queue is closed)", "efa_com.c, EFA 3.1.0 and Linux 5.2 and newer"),
    _rule("nic_reset", "hca.health", "warn", "Firmware ", _NETDEV + "Firmware (?:non-)?fatal reset event", "bnxt.c, Linux 5.5 and newer",
          "the NIC's firmware began anew", "update its firmware; ask the vendor if it comes again"),
    _rule("link_down", "port.flaps", "", "ink ", "[a-z0-9_]{1,20} " + _PCI + r"(?::? [A-Za-z0-9_.@-]{1,16})?: (?:Port: [0-9]{1,3} |NIC"
          r" )?Link (?:is )?(?:[Dd]own|DOWN)\b", "mlx5/core/en_main.c, mlx5_ib/main.c, bnxt.c, ice_main.c, Linux"),
    # CPUs, memory and processes.
    _rule("mce", "node.machine_check", "fail", "Machine Check Exception", r"(?:mce: )?\[Hardware Error\]: CPU [0-9]{1,5}: Machine Check"
          r" Exception: ", "x86/kernel/cpu/mce/core.c, Linux", "uncorrected machine check"),
    _rule("mce_logged", "node.machine_check", "warn", "Machine check events logged",
          r"mce: \[Hardware Error\]: Machine check events logged",
          "x86/kernel/cpu/mce/core.c, Linux", "corrected machine check", "inspect rasdaemon's or mcelog's record"),
    _rule("memory_failure", "node.memory", "fail", "emory", "Memory failure: 0x[0-9a-f]{1,16}: |mce: Uncorrected hardware memory error",
          "mm/memory-failure.c, Linux", "uncorrected error of the node's memory"),
    _rule("ghes", "node.machine_check", "fail", "event severity", r"\{[0-9]{1,10}\}\[Hardware Error\]: {1,2}event severity:"
          r" (?:fatal|recoverable)", "acpi/apei/ghes.c, Linux", "hardware error that the firmware could not correct"),
    _rule("edac_ue", "node.memory", "fail", "EDAC ", r"EDAC (?P<device>[A-Za-z0-9#_]{1,20}): [0-9]{1,9} UE [^\[(/]{1,200}? on ",
          "edac/edac_mc.c, Linux", "uncorrected error of the node's memory"),
    _rule("oom_cgroup", "node.oom", "pass", "Memory cgroup out of memory", r"Memory cgroup out of memory(?: \([a-z_]{1,40}\))?: Kill(?:ed)?"
          r" process [0-9]{1,10} ", "mm/oom_kill.c, Linux", "note: a job, pod or service met its own limit of memory, and was killed"),
    _rule("oom", "node.oom", "warn", "ut of memory", r"Out of memory(?: \([a-z_]{1,40}\))?: Kill(?:ed)? process"
          r" [0-9]{1,10} ", "mm/oom_kill.c, Linux", "the kernel killed a process for lack of memory"),
    _rule("hung", "node.hung", "warn", "blocked for more than", "INFO: task .{1,40}:[0-9]{1,10} blocked for more than [0-9]{1,9} seconds",
          "kernel/hung_task.c, Linux", "a process hung in the kernel"),
    _rule("lockup", "node.hung", "warn", "watchdog: ",
          "(?:NMI )?watchdog: (?:BUG: soft lockup - CPU#[0-9]{1,5} stuck|(?:CPU[0-9]{1,5}: )?Watchdog"
          " detected hard LOCKUP)", "kernel/watchdog.c, Linux", "a CPU was stuck in the kernel",
          "update kernel and drivers; the stack below that line says where"),
    _rule("rcu_stall", "node.hung", "warn", "stall", "(?:rcu: )?INFO: rcu_[a-z_]{1,20} (?:self-detected stall on CPU|detected (?:expedited"
          " )?stalls on CPUs/tasks)", "kernel/rcu/tree_stall.h, Linux", "a CPU was stuck in the kernel",
          "update kernel and drivers; the stack below that line says where"),
    _rule("oops", "node.oops", "warn", "[#",
          r"(?:Oops: [0-9a-f]{4} \[#[0-9]{1,6}\] [A-Z]|(?:Oops: Oops|(?:Oops: )?(?:general protection fault|invalid opcode|divide error|"
          r"stack segment)(?:, [^\[]{1,160})?): [0-9a-f]{4} \[#[0-9]{1,6}\]|Internal error: [^\[]{4,80}\[#[0-9]{1,6}\])",
          "x86/kernel/dumpstack.c and arm64/kernel/traps.c, Linux", "the kernel met a fault of its own"),
    _rule("oops", "node.oops", "warn", "kernel BUG at ", "kernel BUG at [^ ]{1,200}:[0-9]{1,6}!", "lib/bug.c, Linux"),
    # Disks and file systems.
    _rule("read_only", "node.disk", "fail", "(", r"EXT4-fs \(" + _DISK + r"\): Remounting filesystem read-only|XFS"
          r" \((?P<device2>(?!loop)[A-Za-z0-9_!-]{1,40})\): Filesystem has been shut down|BTRFS"
          r" [a-z]{1,10} \(device (?P<device3>(?!loop)[A-Za-z0-9_!-]{1,40})[^)]{0,40}\): forced readonly",
          "ext4/super.c, xfs/xfs_fsops.c, btrfs/messages.c, Linux", "a file system gave up writing", "", "warn"),
    _rule("mounted", "node.disk", "", "ount", r"(?:EXT4-fs|XFS) \(" + _DISK + r"\): (?:Mounting |(?:re-)?mounted (?!.{0,200}\bro\b))",
          "ext4/super.c, xfs/xfs_super.c, Linux", "it was mounted again since"),
    _rule("fs_error", "node.disk", "warn", "EXT4-fs error (device ",
          r"EXT4-fs error \(device " + _DISK + r"\): ", "ext4/super.c, Linux", "a file system found an error in itself",
          "fsck it; inspect the disk: smartctl -a, nvme smart-log"),
    _rule("fs_error", "node.disk", "warn", "XFS (",
          r"XFS \(" + _DISK + r"\): (?:Metadata (?:corruption|CRC error) detected|metadata I/O error|log I/O"
          " error|Corruption |Internal error )", "xfs/xfs_error.c, xfs_buf.c, Linux"),
    _rule("disk_lost", "node.disk", "fail", "nvme nvme", "nvme (?P<device>nvme[0-9]{1,4}): (?:Disabling device after reset"
          " failure|Removing after probe failure)", "nvme/host/pci.c, Linux", "a disk is gone",
          "drain the node and replace the disk"),
    _rule("disk_reset", "node.disk", "warn", "nvme nvme",
          r"nvme (?P<device>nvme[0-9]{1,4}): (?:controller is down; will reset|I/O (?:tag )?[0-9]{1,6}"
          r" [^,]{1,60}timeout, (?:reset controller|aborting|disable controller|completion polled))", "nvme/host/pci.c, Linux",
          "a disk did not answer", "inspect the disk: nvme smart-log, nvme error-log; update its firmware"),
    _rule("io_error", "node.disk", "warn", " error, dev ", "(?:blk_update_request: |print_req_error: )?(?:critical medium|critical"
          " target|I/O) error, dev (?P<device>(?:nvme|sd|vd|md|dm-)[A-Za-z0-9]{1,20}),", "block/blk-core.c, Linux",
          "I/O errors of a disk", "inspect the disk: smartctl -a, nvme smart-log"),
    _rule("nfs_lost", "node.nfs", "fail", "nfs: server", "nfs: server (?P<device>[A-Za-z0-9._:-]{1,80}) not responding",
          "net/sunrpc/clnt.c, Linux", "the NFS server does not respond"),
    _rule("nfs_back", "node.nfs", "", "nfs: server", "nfs: server (?P<device>[A-Za-z0-9._:-]{1,80}) OK", "net/sunrpc/clnt.c, Linux"),
    # -103 is how an idle connection ends, and no fault.
    _rule("nfs_rdma", "node.nfs", "warn", "rpcrdma: connection to", r"rpcrdma: connection to (?P<device>[A-Za-z0-9._:\[\]-]{1,80}) closed"
          r" \(-(?!103\))[0-9]{1,4}\)", "sunrpc/xprtrdma/verbs.c, Linux 4.18 to 5.7", "the connection for NFS over RDMA failed",
          "inspect the server and the fabric between"),
    _rule("lustre", "node.lustre", "warn", "(o2iblnd",
          r"(?:(?:LNetError|LustreError): [0-9]{1,10}:[0-9]{1,10}:(?:[0-9]{1,10}:)?\(o2iblnd|LNet: [0-9]{1,10}:"
          r"[0-9]{1,10}:\(o2iblnd[a-z_]{0,20}\.c:[0-9]{1,6}:[a-z0-9_]{1,60}\(\)\) Timed out )", "lnet/klnds/o2iblnd, Lustre 2.12 to 2.17",
          "LNet lost a message or a connection over RDMA"),
    _rule("lustre", "node.lustre", "warn", "This client was evicted by",
          r"LustreError: (?:[0-9a-f]{1,5}-[0-9a-f]{1,8}: )?[^ ]{1,120}: This client was"
          " evicted by ", "lustre/ptlrpc/import.c, Lustre 2.12 to 2.17"),
)
# The first row of an event has its meaning.
BY_EVENT: Dict[str, LogRule] = {rule.event: rule for rule in reversed(RULES)}
