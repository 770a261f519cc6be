# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of counters at their ceiling, of the kernel's log and of Xids. What each kind of message means: tests/lib/health_lines.py."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.node_tree import kmsg

from .edits import Edit, Fault, Healthy, put, replace, together, unbound
from .trees import GPUS, NICS

TREE = "h200-roce"
NIC, GPU, BRIDGE = NICS[2], GPUS[2], "0000:41:00.0"
MLX5 = f"mlx5_core {NIC}: "
STUCK = MLX5 + "wait_func:1061:(pid 8): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource"
PROBE = MLX5 + "probe_one:1770:(pid 9): mlx5_init_one failed with error code -110"
XID = f"NVRM: Xid (PCI:{GPU[:-2]}): "
SWITCH = put("sys/bus/pci/devices/0000:d1:00.0/vendor", "0x10de\n")
SMI = "cmd/nvidia-smi_-q_-x"
FULL = {
    "symbol_error": 65535,
    "link_error_recovery": 255,
    "link_downed": 255,
    "local_link_integrity_errors": 15,
    "excessive_buffer_overrun_errors": 15,
    "port_rcv_errors": 65535,
}


def said(*lines: str) -> Edit:
    """The kernel's messages 11 hours after boot, with those of the base tree before them."""

    def edit(root: Path) -> None:
        own = root / "dev/kmsg"
        before = own.read_text() if own.exists() else kmsg("[    0.000000] Linux version 6.8.0\n")
        text = "".join(f"[{40000 + place:12.6f}] {line}\n" for place, line in enumerate(lines))
        put("dev/kmsg", before + kmsg(text, first=before.count("\n")))(root)
        put("proc/uptime", "86460.00 1.00\n")(root)

    return edit


def hours(up: int) -> Edit:
    return put("proc/uptime", f"{up * 3600}.00 1.00\n")


def counters(**values: int) -> Edit:
    return together(*(put(f"sys/class/infiniband/mlx5_2/ports/1/counters/{name}", f"{value}\n") for name, value in values.items()))


def recovery(answer: str) -> Edit:
    return replace(SMI, "<gpu_recovery_action>None<", f"<gpu_recovery_action>{answer}<")


FAULTS = (
    # 2, 5: counters.
    Fault(TREE, "symbol_error at its ceiling after 30 days", together(hours(720), counters(symbol_error=65535)), "port.ber", "unknown",
          "symbol_error is at its ceiling of 65535", 0),
    Fault(TREE, "link_error_recovery at its ceiling after 30 days", together(hours(720), counters(link_error_recovery=255)), "port.ber",
          "unknown", "perfquery -R", 0),
    Fault(TREE, "local_link_integrity_errors at its ceiling after 36 h", together(hours(36), counters(local_link_integrity_errors=15)),
          "port.ber", "unknown", "ceiling of 15", 0),
    Fault(TREE, "all counters at their ceilings after 30 days: bits", together(hours(720), counters(**FULL)), "port.ber", "unknown",
          "mlxlink --pc", 0),
    Fault(TREE, "symbol_error at its ceiling after a day", together(hours(24), counters(symbol_error=65535)), "port.ber", "warn",
          "65535 since boot"),
    Fault(TREE, "link_downed 57 after a day", together(hours(24), counters(link_downed=57)), "port.flaps", "warn", "link_downed is 57"),
    Fault(TREE, "link_downed at its ceiling after a day", together(hours(24), counters(link_downed=255)), "port.flaps", "warn",
          "255 (its ceiling)"),
    Fault(TREE, "link_downed at its ceiling after 60 days", together(hours(1440), counters(link_downed=255)), "port.flaps", "unknown",
          "link_downed is at its ceiling of 255", 0),
    # 6: the kernel's log.
    Fault(TREE, "a GPU lost at probe",
          said(f"NVRM: The NVIDIA GPU {GPU}\\x0aNVRM: (PCI ID: 10de:2335) installed in this system has\\x0aNVRM: "
               "fallen off the bus and is not responding to commands."), "gpu.xid", "fail", "Xid 79"),
    Fault(TREE, "a command that a NIC's firmware did not answer", said(STUCK), "hca.health", "fail", "did not answer a command"),
    Fault(TREE, "a NIC's unrecoverable hardware error",
          said(MLX5 + "print_health_info:431:(pid 0): synd 0x8: unrecoverable hardware error"), "hca.health", "fail", "return the NIC"),
    Fault(TREE, "a NIC that the driver could not start", together(unbound(NIC), said(PROBE)), "hca.health", "fail", NIC),
    Fault(TREE, "a NIC that the driver core could not start, older kernel",
          together(unbound(NIC), said(f"mlx5_core: probe of {NIC} failed with error -110")), "hca.health", "fail",
          "could not start the NIC"),
    Fault(TREE, "a NIC whose recovery was aborted",
          together(unbound(NIC), said(MLX5 + "mlx5_health_try_recover:338:(pid 7): health recovery flow aborted, PCI reads still not "
                                      "working")), "hca.health", "fail", NIC),
    Fault(TREE, "a command that timed out before an operator reset the NIC", said(STUCK, MLX5 + "firmware version: 28.39.1002"),
          "hca.health", "warn", "brought back"),
    Fault(TREE, "a management NIC that does not start",
          together(put("sys/bus/pci/devices/0000:f1:00.0/vendor", "0x15b3\n"), put("sys/bus/pci/devices/0000:f1:00.0/device", "0x1015\n"),
                   said("mlx5_core 0000:f1:00.0: probe_one:1770:(pid 9): mlx5_init_one failed with error code -110")),
          "hca.health", "warn", "0000:f1:00.0"),
    Fault(TREE, "the old watchdog of the network queue", said("NETDEV WATCHDOG: ens12np0 (mlx5_core): transmit queue 3 timed out"),
          "hca.health", "warn", "did not send"),
    Fault(TREE, "DPC above a NIC", said(f"pcieport {BRIDGE}: DPC: containment event, status:0x1f01 source:0x0000"), "pci.aer", "warn",
          "DPC"),
    Fault(TREE, "the IOMMU refused a NIC", said(f"DMAR: [DMA Write NO_PASID] Request device [{NIC[5:]}] fault addr 0xfe000000"), "pci.dma",
          "warn", "refused"),
    Fault(TREE, "nvidia-peermem lost a context",
          said("nvidia-peermem nv_get_p2p_free_callback:139 ERROR detected invalid context, skipping"), "gpu.peermem", "warn",
          "could not tell the NIC"),
    Fault(TREE, "an Oops", said("Oops: 0002 [#1] PREEMPT SMP NOPTI"), "node.oops", "warn", "fault of its own"),
    Fault(TREE, "LNet over RDMA", said("LNetError: 2347:0:(o2iblnd_cb.c:3613:kiblnd_check_conns()) Timed out RDMA with 10.0.0.1@o2ib"),
          "node.lustre", "warn", "LNet lost"),
    Fault(TREE, "an SXid of the switch's processor", together(SWITCH, said("nvidia-nvswitch0: SXid (PCI:0000:d1:00.0): 26006, SOE HALTED")),
          "gpu.sxid", "fail", "26006"),
    Fault(TREE, "an SXid of a switch that the node never had", said("nvidia-nvswitch0: SXid (PCI:0000:d1:00.0): 26008, SOE Watchdog error"),
          "gpu.sxid", "unknown", "neither has nor had", 0),
    # 7: Xids.
    Fault(TREE, "Xid 173", said(XID + "173, C2C Fatal Link Failure"), "gpu.xid", "fail", "between GPU and CPU"),
    Fault(TREE, "Xid 151", together(recovery("N/A"), said(XID + "151, Key rotation Error")), "gpu.xid", "fail", "restart the VM"),
    Fault(TREE, "Xid 159", together(recovery("N/A"), said(XID + "159, CHI Non-Data Error")), "gpu.xid", "fail", "nvidia_uvm"),
    Fault(TREE, "Xid 175", together(recovery("N/A"), said(XID + "175, Memory subsystem error")), "gpu.xid", "fail", "stopped the GSP"),
    Fault(TREE, "Xid 176", said(XID + "176, PCIe correctable errors"), "gpu.xid", "warn", "corrected PCIe errors"),
)

HEALTHY = (
    # 13: flow control is no fault of the fibre.
    Healthy(TREE, "excessive_buffer_overrun_errors at its ceiling", counters(excessive_buffer_overrun_errors=15), ("port.ber",)),
    Healthy(TREE, "some downs and symbols of a month", together(hours(720), counters(link_downed=57, symbol_error=60000)),
          ("port.ber", "port.flaps")),
    Healthy(TREE, "a historic link_downed beside an interface that counts two downs",
          together(hours(1440), counters(link_downed=255), put("sys/class/net/ens12np0/carrier_down_count", "2\n")), ("port.flaps",)),
    Healthy(TREE, "a slot that does not advertise its power",
          said(MLX5 + "mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W)."), ("hca.health",)),
    Healthy(TREE, "unused ports at boot", said(*(f"mlx5_core {nic}: Port module event: module 1, Cable unplugged" for nic in NICS)),
          ("port.optics",)),
)
