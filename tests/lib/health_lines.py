# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of the kernel and what each means for the captured node ib8: constructed from the sources that catalogue/kernel_log.py names.

Also what only looks like a fault: the words of a healthy boot, of hot-plug by design, of an operator's reset, of a NIC without jobs.
"""

from __future__ import annotations

from typing import NamedTuple

GPU, NIC, BRIDGE = "0000:27:00.0", "0000:18:00.0", "0000:16:01.0"  # of ib8
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:04:00.0): "
MLX5 = f"mlx5_core {NIC}: "
AMD = f"amdgpu {GPU}: amdgpu: "
PROBE = f"NVRM: The NVIDIA GPU {GPU}"
NFS = "rpcrdma: connection to 10.0.0.1:20049 closed"
LNET = "LNet: 2347:0:(o2iblnd_cb.c:3528:kiblnd_check_txs_locked()) Timed out tx: active_txs, 5 seconds"


class Row(NamedTuple):
    """``lines`` alone give ``check`` with ``status`` and ``says`` in its message; no check: neither a failure nor a warning."""

    title: str
    lines: tuple[str, ...]
    check: str = ""
    status: str = ""
    says: str = ""


def row(title: str, check: str, status: str, says: str, *lines: str) -> Row:
    return Row(title, lines, check, status, says)


FAULTS: tuple[Row, ...] = (
    row(
        "GPU lost at probe, three lines of one message",
        "gpu.xid",
        "fail",
        "Xid 79",
        PROBE + "\\x0aNVRM: (PCI ID: 10de:2330) installed in this "
        "system has\\x0aNVRM: fallen off the bus and is not responding to commands.",
    ),
    row(
        "GPU lost at probe, three messages",
        "gpu.xid",
        "fail",
        "Xid 79",
        PROBE,
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ),
    row("SXid without a severity: the switch's processor halted", "gpu.sxid", "fail", "26006", SWITCH + "26006, SOE HALTED"),
    row("SXid without a severity: external error of the processor", "gpu.sxid", "fail", "26007", SWITCH + "26007, SOE EXTERR"),
    row("SXid without a severity: watchdog", "gpu.sxid", "fail", "26008", SWITCH + "26008, SOE Watchdog error"),
    row(
        "SXid without a severity: heat", "gpu.sxid", "warn", "10004", SWITCH + "10004, NVSWITCH Temperature 95C | TSENSE WARN Threshold 92C"
    ),
    row(
        "nvidia-peermem lost a context",
        "gpu.peermem",
        "warn",
        "could not tell the NIC",
        "nvidia-peermem nv_get_p2p_free_callback:139 ERROR detected invalid context, skipping further processing",
    ),
    row("AMD GPU lost", "gpu.answers", "fail", "lost", AMD + "device lost from bus!"),
    row("AMD GPU that could not be reset", "gpu.answers", "fail", "could not reset", AMD + "GPU reset end with ret = -19"),
    row("AMD GPU that could not be reset, older driver", "gpu.answers", "fail", "could not reset", AMD + "GPU Recovery Failed: -110"),
    row("AMD GPU that was reset", "gpu.answers", "warn", "reset the GPU", AMD + "GPU reset begin!", AMD + "GPU reset(2) succeeded!"),
    row(
        "AMD GPU with uncorrectable errors",
        "gpu.ecc",
        "warn",
        "uncorrectable",
        AMD + "socket: 0, die: 0, 1 new uncorrectable hardware errors detected in umc block",
    ),
    row(
        "a port cut off what is below it (DPC)",
        "pci.aer",
        "warn",
        "DPC",
        f"pcieport {BRIDGE}: DPC: containment event, status:0x1f01 source:0x0000",
    ),
    row(
        "a port cut off what is below it (DPC), Linux 6.16",
        "pci.aer",
        "warn",
        "DPC",
        f"pcieport {BRIDGE}: DPC: containment event, status:0x000d, ERR_FATAL received from 0000:02:00.0",
    ),
    row("no recovery from a PCIe error", "pci.aer", "warn", "could not be recovered", f"pcieport {BRIDGE}: AER: device recovery failed"),
    row("the link of a slot went down", "pci.aer", "warn", "left the bus", f"pcieport {BRIDGE}: pciehp: Slot(4): Link Down"),
    row("the link of a slot went down, older kernel", "pci.aer", "warn", "left the bus", f"pciehp {BRIDGE}:pcie004: Slot(4): Link Down"),
    row("the card of a slot is gone", "pci.aer", "warn", "left the bus", f"pcieport {BRIDGE}: pciehp: Slot(4): Card not present"),
    row(
        "the card above GPUs and NICs came back",
        "pci.aer",
        "warn",
        "it is back",
        f"pcieport {BRIDGE}: pciehp: Slot(4): Link Down",
        f"pcieport {BRIDGE}: pciehp: Slot(4): Card present",
    ),
    row(
        "DMAR refused a NIC",
        "pci.dma",
        "warn",
        "refused",
        "DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xfe000000 [fault reason 0x05] PTE Write access is not set",
    ),
    row(
        "DMAR refused a GPU, older kernel",
        "pci.dma",
        "warn",
        "refused",
        "DMAR: [DMA Read] Request device [27:00.0] PASID ffffffff fault addr fe000000 [fault reason 06] PTE Read access is not set",
    ),
    row(
        "AMD-Vi refused a NIC",
        "pci.dma",
        "warn",
        "refused",
        MLX5 + "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 address=0xfe000000 flags=0x0020]",
    ),
    row(
        "AMD-Vi refused a GPU, older form",
        "pci.dma",
        "warn",
        "refused",
        "AMD-Vi: Event logged [IO_PAGE_FAULT device=27:00.0 domain=0x0012 address=0xfe000000 flags=0x0020]",
    ),
    row(
        "a command of the NIC timed out",
        "hca.health",
        "fail",
        "did not answer a command",
        MLX5 + "wait_func:1061:(pid 8): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
    ),
    row(
        "a command of the NIC timed out, newer kernel",
        "hca.health",
        "fail",
        "did not answer a command",
        MLX5 + "cb_timeout_handler:875:(pid 8): cmd[3]: CREATE_MKEY(0x200) Async, timeout. Will cause a leak of a command resource",
    ),
    row(
        "a command of the NIC timed out, and the driver began anew",
        "hca.health",
        "warn",
        "brought back",
        MLX5 + "wait_func:1061:(pid 8): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
        MLX5 + "firmware version: 28.39.1002",
    ),
    row(
        "unrecoverable hardware error of the NIC",
        "hca.health",
        "fail",
        "return the NIC",
        MLX5 + "print_health_info:431:(pid 0): synd 0x8: unrecoverable hardware error",
    ),
    row(
        "unrecoverable hardware error of the NIC, newer kernel",
        "hca.health",
        "fail",
        "return the NIC",
        MLX5 + "print_health_info:431:(pid 0): Health issue observed, unrecoverable hardware error, severity(2) CRITICAL:",
    ),
    row(
        "the NIC's recovery was aborted",
        "hca.health",
        "fail",
        "firmware failed",
        MLX5 + "mlx5_health_try_recover:338:(pid 7): health recovery flow aborted, PCI reads still not working",
    ),
    row(
        "the driver could not start the NIC, and could later",
        "hca.health",
        "warn",
        "could not start",
        MLX5 + "probe_one:1770:(pid 9): mlx5_init_one failed with error code -110",
    ),
    row(
        "the NIC's probe failed, older kernel", "hca.health", "warn", "could not start", f"mlx5_core: probe of {NIC} failed with error -110"
    ),
    row(
        "the NIC's probe failed, newer kernel",
        "hca.health",
        "warn",
        "could not start",
        MLX5 + "probe with driver mlx5_core failed with error -110",
    ),
    row(
        "the NIC's firmware did not start",
        "hca.health",
        "warn",
        "could not start",
        MLX5 + "mlx5_function_setup:1130:(pid 9): Firmware over 120000 MS in pre-initializing state, aborting",
    ),
    row(
        "the NIC's firmware is slow to start",
        "hca.health",
        "warn",
        "not ready for 20 s",
        MLX5 + "wait_fw_init:199:(pid 17): Waiting for FW initialization, timeout abort in 100s (0xffffffff)",
    ),
    row(
        "the NIC is too hot", "hca.health", "warn", "too hot", MLX5 + "temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1"
    ),
    row(
        "the NIC is too hot, by its syndrome",
        "hca.health",
        "warn",
        "too hot",
        MLX5 + "print_health_info:520:(pid 0): synd 0x10: High temprature",
    ),
    row(
        "a hot transceiver",
        "port.optics",
        "warn",
        "cable or transceiver",
        MLX5 + "port_module:263:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
    ),
    row(
        "NIC did not send, Linux up to 6.4",
        "hca.health",
        "warn",
        "did not send",
        "NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 3 timed out",
    ),
    row("NIC did not send, in mlx5's words", "hca.health", "warn", "did not send", f"mlx5_core {NIC} ib0: TX timeout detected"),
    row(
        "NIC did not receive",
        "hca.health",
        "warn",
        "did not receive",
        f"mlx5_core {NIC} ib0: RX timeout on channel: 3, ICOSQ: 0x11 RQ: 0x12, CQ: 0x13",
    ),
    row(
        "Broadcom: did not send", "hca.health", "warn", "did not send", f"bnxt_en {NIC} ens1np0: TX timeout detected, starting reset task!"
    ),
    row(
        "Broadcom: a command timed out",
        "hca.health",
        "warn",
        "did not answer",
        f"bnxt_en {NIC} ens1np0: Error (timeout: 500015) msg {{0x23 0x5a}} len:0",
    ),
    row(
        "Broadcom: an RDMA command timed out",
        "hca.health",
        "warn",
        "did not answer",
        f"bnxt_en {NIC}: QPLIB: cmdq[0x1f]=0x3 timedout (20000)msec",
    ),
    row("Broadcom: firmware reset", "hca.health", "warn", "began anew", f"bnxt_en {NIC} ens1np0: Firmware fatal reset event received"),
    row("Pensando: firmware stalled", "hca.health", "fail", "firmware failed", f"ionic {NIC}: FW heartbeat stalled at 1193046"),
    row(
        "Pensando: firmware stalled and came back",
        "hca.health",
        "warn",
        "brought back",
        f"ionic {NIC}: FW heartbeat stalled at 1193046",
        f"ionic {NIC}: FW heartbeat restored at 1193047",
    ),
    row(
        "EFA: a command was not answered",
        "hca.health",
        "warn",
        "did not answer",
        f"efa {NIC} efa_0: The device didn't send any completion for admin cmd CREATE_QP(1) status 0 (id: 3, sq producer: 9)",
    ),
    row("RCU stall", "node.hung", "warn", "stuck", "rcu: INFO: rcu_sched self-detected stall on CPU"),
    row("RCU stall, seen by another CPU", "node.hung", "warn", "stuck", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"),
    row("hard lockup, newer kernel", "node.hung", "warn", "stuck", "watchdog: CPU5: Watchdog detected hard LOCKUP on cpu 5"),
    row("Oops", "node.oops", "warn", "fault of its own", "Oops: 0002 [#1] PREEMPT SMP NOPTI"),
    row("Oops, newer kernel", "node.oops", "warn", "fault of its own", "Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI"),
    row(
        "general protection fault",
        "node.oops",
        "warn",
        "fault of its own",
        "general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] PREEMPT SMP NOPTI",
    ),
    row("Oops of arm64", "node.oops", "warn", "fault of its own", "Internal error: Oops: 0000000096000004 [#1] SMP"),
    row("BUG", "node.oops", "warn", "fault of its own", "kernel BUG at mm/slub.c:448!"),
    row(
        "ext4 error",
        "node.disk",
        "warn",
        "error in itself",
        "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: inode #2: comm systemd: reading directory lblock 0",
    ),
    row(
        "XFS error", "node.disk", "warn", "error in itself", "XFS (dm-0): Metadata corruption detected at xfs_agf_read_verify+0x1/0x2 [xfs]"
    ),
    row(
        "nvme reset", "node.disk", "warn", "did not answer", "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"
    ),
    row("nvme timeout", "node.disk", "warn", "did not answer", "nvme nvme0: I/O 22 QID 5 timeout, reset controller"),
    row(
        "nvme timeout, newer kernel",
        "node.disk",
        "warn",
        "did not answer",
        "nvme nvme0: I/O tag 22 (1016) opcode 0x2 (I/O Cmd) QID 5 timeout, aborting req_op:READ(0) size:4096",
    ),
    row("LNet over RDMA timed out", "node.lustre", "warn", "LNet lost", LNET),
    row(
        "LNet over RDMA failed",
        "node.lustre",
        "warn",
        "LNet lost",
        "LNetError: 2347:0:(o2iblnd_cb.c:3613:kiblnd_check_conns()) Timed out RDMA with 10.0.0.1@o2ib (5): c: 0, oc: 0, rc: 8",
    ),
    row(
        "Lustre evicted the client",
        "node.lustre",
        "warn",
        "LNet lost",
        "LustreError: 167-0: lustre-OST0001-osc-ffff8: This client was evicted by lustre-OST0001; in progress operations will fail.",
    ),
    row("NFS over RDMA lost its server", "node.nfs", "warn", "NFS over RDMA", NFS + " (-110)"),
)

HARMLESS: tuple[Row, ...] = (
    Row(
        "a GPU that the driver does not support, then another message",
        (
            f"{PROBE} (PCI ID: 10de:1db6)\\x0aNVRM: installed in this system is not supported by open\\x0aNVRM: nvidia.ko",
            "NVRM: loading NVIDIA UNIX Open Kernel Module",
        ),
    ),
    Row(
        "corrected SXid, its data, the end of heat",
        (
            SWITCH + "20001, Correctable, Link 30 x",
            SWITCH + "20001, Severity 0 Engine instance 30 Sub-engine instance 00",
            SWITCH + "20001, Data {0x00000001}",
            SWITCH + "10005, Thermal slowdown Disengaged",
        ),
    ),
    Row("NIC firmware that loads at boot", (MLX5 + "firmware version: 28.39.1002",)),
    Row(
        "cables that a boot finds",
        (MLX5 + "Port module event: module 0, Cable plugged", MLX5 + "Port module event: module 1, Cable unplugged"),
    ),
    Row("the note about the slot's power", (MLX5 + "mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W).",)),
    Row(
        "a request to power a slot off",
        (
            f"pcieport {BRIDGE}: pciehp: Slot(4): Attention button pressed",
            f"pcieport {BRIDGE}: pciehp: Slot(4): Powering off due to button press",
        ),
    ),
    Row("the watchdog of a NIC without RDMA", ("NETDEV WATCHDOG: eno1 (igb): transmit queue 0 timed out",)),
    Row(
        "DMAR and a device that is neither GPU nor NIC",
        ("DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x0 [fault reason 0x06]",),
    ),
    Row(
        "an idle connection of NFS over RDMA",
        (NFS + " (-103)", "rpcrdma: connection to 10.0.0.1:20049 on mlx5_0, memreg 'frwr', 128 credits"),
    ),
    Row(
        "AMD errors: none",
        (AMD + "0 uncorrectable hardware errors detected in umc block", AMD + "no uncorrectable hardware errors detected"),
    ),
    Row(
        "words of a program",
        (
            "traps: python3[4711] general protection fault ip:55 sp:7f error:0 in libc.so.6[55+1000]",
            "Oops: 0 [#1][4711]: segfault at 0 ip 000055 sp 00007f error 6",
            "nvme nvme0: 8/0/0 default/read/poll queues",
        ),
    ),
    Row(
        "ext4 of an image, a clean mount",
        ("EXT4-fs error (device loop3): ext4_lookup:1855: inode #2: comm ls", "XFS (dm-0): Ending clean mount"),
    ),
    Row(
        "Lustre that reconnects",
        (
            "Lustre: lustre-OST0001-osc-ffff8: Connection restored to 10.0.0.1@o2ib (at 10.0.0.1@o2ib)",
            "LNet: Added LNI 10.0.0.2@o2ib [8/256/0/180]",
        ),
    ),
)
