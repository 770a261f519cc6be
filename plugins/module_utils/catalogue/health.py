# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check of health, as much as a node needs to judge itself: what it is, what to do, and whether the node may take jobs.

The rest of each row, which only pages show, is in the table of all checks (plugin_utils/tables/checks.yml): every module carries this
file. A check that fails is critical, one that only ever warns is minor: as drift says it of any verdict (plan/areas.py).
"""

from typing import NamedTuple, Tuple

from ..types import CRITICAL, MINOR

FLAPS, FLAP_HOURS, QUIET_HOURS = 3, 12, 0.5  # downs of one port that drain, in how long; after boot links may come and go
CORRECTED_AN_HOUR = 8 * 60  # PCIe errors: DCGM warns of a GPU that replays more often than 8 times a minute
MEMORY_A_DAY = 100  # corrected errors of a memory controller: mcelog.conf, mem-ce-error-threshold of a socket


class HealthCheck(NamedTuple):
    """``subject``: what a pass is said of. ``what``: holds where it passes. One that is critical takes the node its jobs."""

    check: str
    subject: str
    what: str
    todo: str
    severity: str = CRITICAL


CHECKS: Tuple[HealthCheck, ...] = (
    HealthCheck("node.kernel_log", "kernel log", "the kernel's log since boot can be read", "ask as root", MINOR),
    HealthCheck("gpu.xid", "GPUs", "no Xid since boot", "what NVIDIA's catalogue says of the number; the verdict names it"),
    HealthCheck("gpu.sxid", "NVSwitches", "no SXid since boot", "drain, reset all GPUs and NVSwitches together or reboot"),
    HealthCheck("gpu.answers", "GPUs", "nvidia-smi answers in 5 s, and knows all that the driver has", "look for Xid 79 in the kernel's "
                "log, then reboot"),
    HealthCheck("gpu.recovery", "GPUs", "the GPU asks for no recovery", "drain, then what it says: reset, reboot, drain P2P"),
    HealthCheck("gpu.ecc", "GPUs", "no uncorrectable error of memory since the driver was loaded", "drain, reset it, dcgmi diag -r 3"),
    HealthCheck("gpu.remap", "GPUs", "no row remapping, retirement or repair waits or failed", "pending: reset it after its jobs; "
                "failed: return it"),
    HealthCheck("gpu.thermal", "GPUs", "clocks are not lowered for heat", "inspect fans, air flow, inlet temperature, heat sink"),
    HealthCheck("gpu.clocks", "GPUs", "hardware does not hold clocks back", "inspect power supplies, cables and the BMC's log"),
    HealthCheck("gpu.power", "GPUs", "the power limit is the board's default", "nvidia-smi -pl with the board's default limit", MINOR),
    HealthCheck("gpu.nvlink", "GPUs", "all NVLinks of the board are up at their rate; no recoveries", "reset all GPUs of the fabric; else "
                "inspect the NVSwitches, return it"),
    HealthCheck("gpu.domain", "GPUs", "all GPUs are in one NVLink domain", "inspect fabric manager, nvlsm and the rack's NVLink "
                "controller; then reset all its GPUs"),
    HealthCheck("gpu.fabric", "GPUs", "the NVLink fabric says that it is healthy", "inspect fabric manager and nvlsm, reset all its GPUs"),
    HealthCheck("gpu.dcgm", "GPUs", "DCGM's watches found nothing; `dcgmi diag -r 3` of a burn-in passes", "drain; do what DCGM says"),
    HealthCheck("gpu.peermem", "GPUs", "nvidia-peermem met no error since boot", "update GPU driver and RDMA stack, reboot after its jobs",
                MINOR),
    HealthCheck("gpu.jobless", "GPUs", "no process of a login holds a GPU of a scheduler's node", "ask its owner, or end it", MINOR),
    HealthCheck("gpu.mig", "GPUs", "MIG is as on its like, and no change waits", "nvidia-smi -mig, then reset the GPU", MINOR),
    HealthCheck("accelerator.judged", "accelerators", "every accelerator on the PCI bus is judged", "run the maker's diagnostics", MINOR),
    HealthCheck("accelerator.answers", "accelerators", "each answers on the PCI bus and has its driver", "read the driver's lines in the "
                "kernel's log, reset the accelerator or power the node off and on"),
    HealthCheck("accelerator.ras", "accelerators", "no uncorrectable error; bad memory is out of use", "drain, reset it, run the maker's "
                "diagnostics, then return it"),
    HealthCheck("accelerator.xgmi", "accelerators", "all xGMI links are up", "reset all GPUs of the node together; else return it", MINOR),
    HealthCheck("pci.aer", "PCIe", "no uncorrected PCIe error of GPUs, HCAs and bridges above them", "reseat card, riser, cable"),
    HealthCheck("pci.dma", "PCIe", "the IOMMU refused no access of GPUs and HCAs", "update its driver; iommu=pt where DMA need not be "
                "translated", MINOR),
    HealthCheck("hca.health", "HCAs", "no NIC's firmware failed since boot, none stopped sending", "update its firmware, reset it"),
    HealthCheck("port.flaps", "ports", "links stay up", "clean or replace cable and transceiver, inspect the switch's port"),
    HealthCheck("port.optics", "transceivers", "temperature, voltage, bias and power are within its own limits", "clean the fibre; cool "
                "or replace the module"),
    HealthCheck("port.ber", "ports", "less than one bit in 10^12 is wrong after FEC; few recoveries", "clean the fibre, replace it", MINOR),
    HealthCheck("port.pkey", "ports", "each InfiniBand port is a full member of its fabric's partitions", "add the port's GUID to the "
                "partition as full (partitions.conf, UFM), then restart the subnet manager"),
    HealthCheck("port.efa", "ports", "few lost packets and lost peers of EFA since boot", "compare the instances of the job; stop and "
                "start the one that stands out", MINOR),
    HealthCheck("qos.storm", "ports", "the NIC never gave up pausing; no pause of 200 ms when measured", "inspect PCIe and memory", MINOR),
    HealthCheck("port.bond", "bonds", "all members of a bond with an RDMA device carry traffic", "turn on LACP for both ports of the "
                "switch (active, one MLAG); inspect the member without a link"),
    HealthCheck("port.cable", "ports", "ports of one speed have one kind of cable", "compare it with the cabling plan", MINOR),
    HealthCheck("port.growth", "ports", "few errors of the link in an hour (the agent's)", "clean or replace cable and transceiver", MINOR),
    HealthCheck("port.fec", "ports", "ports of one speed have one FEC", "ethtool --set-fec auto on both ends", MINOR),
    HealthCheck("node.machine_check", "CPUs", "no machine check since boot", "the BMC's log and rasdaemon name the part"),
    HealthCheck("node.memory", "memory", "no uncorrected error of memory", "replace the DIMM that EDAC names"),
    HealthCheck("node.oom", "memory", "the kernel killed nothing for lack of memory", "look for the job that needs more memory", MINOR),
    HealthCheck("node.hung", "processes", "nothing hung in the kernel since boot", "the stack in the kernel's log says in what", MINOR),
    HealthCheck("node.oops", "kernel", "the kernel met no fault of its own since boot", "reboot after its jobs; update kernel and drivers",
                MINOR),
    HealthCheck("node.stuck", "processes", "no process waits on a GPU, an HCA or NFS without an end", "reboot where it stays", MINOR),
    HealthCheck("node.disk", "disks", "/, /var and /tmp take writes; no file system gave up", "drain, smartctl, free room"),
    HealthCheck("node.nfs", "NFS", "every NFS server answers", "inspect the server and the way to it"),
    HealthCheck("node.lustre", "Lustre", "LNet over RDMA loses nothing, no client was evicted", "lctl ping the servers; inspect the fabric",
                MINOR),
    HealthCheck("node.clock", "clock", "synchronised", "inspect chrony or systemd-timesyncd", MINOR),
    HealthCheck("node.clocksource", "clock source", "the kernel reads its time from the CPU, not from a device", "find in the kernel's log "
                "why the TSC is unstable; update the BIOS, reboot", MINOR),
    HealthCheck("node.rdma_limit", "cgroups", "no cgroup of services, pods or users is denied RDMA", "write max to its rdma.max, and to "
                "what sets it", MINOR),
)
BY_CHECK = {row.check: row for row in CHECKS}
