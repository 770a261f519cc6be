# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the machine around GPUs and NICs: memory, disks, the kernel, PCIe, and ports with their modules and counters."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.node_pci import config_space, resource
from tests.fixtures.node_tree import kmsg

from .edits import DOWN, Difference, Edit, Fault, Healthy, all_of, function, nothing, off_the_bus, port, put, remove, together, unbound
from .rows_gpu import tag
from .rows_health import hours, said
from .rows_ports import EIGHT, gids, mtu, rate
from .trees import GPUS, LIMITS, NICS

MODULE = (Path(__file__).parents[1] / "lib/ethtool_module.txt").read_text().partition("\n")[2]
PS = "pid=,stat=,wchan:32=,comm="
BOND = "sys/devices/pci0000:40/0000:40:01.0/0000:41:00.1/net/ens20f1np1"
MCE = "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400"


def pci(address: str, **files: str) -> Edit:
    return together(*(put(f"sys/bus/pci/devices/{address}/{name}", text + "\n") for name, text in files.items()))


def above(address: str, name: str, text: str | bytes, levels: int = 1) -> Edit:
    """A file of a bridge above a PCI function."""

    def edit(root: Path) -> None:
        own = function(root, address)
        for _level in range(levels):
            own = own.parent
        (own / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return edit


def asleep(wait: str, command: str) -> Edit:
    """A process in state D, twice, that did not run between."""
    row = f"   4711 D    {wait:32} {command}\n"
    status = "Name:\tpython3\nvoluntary_ctxt_switches:\t93\nnonvoluntary_ctxt_switches:\t4\n"
    return together(put(f"cmd/ps_-eo_{PS}", "      1 Ss   ep_poll                          systemd\n" + row),
    put(f"cmd/ps_-o_{PS}_-p_4711", row),
                    put("proc/4711/status", status), put("proc/4711/task/4711/status", status))


def edac(**counts: int) -> Edit:
    return together(*(put(f"sys/devices/system/edac/mc/mc0/{name}", f"{count}\n") for name, count in counts.items()))


def clock(answer: str) -> Edit:
    return put("cmd/timedatectl_show_-p_NTPSynchronized_--value", answer + "\n")


def counter(hca: str, **counts: int) -> Edit:
    return together(*(put(f"sys/class/infiniband/{hca}/ports/1/counters/{name}", f"{count}\n") for name, count in counts.items()))


def transceiver(netdev: str, before: str = "", after: str = "") -> Edit:
    assert before in MODULE
    return put(f"cmd/ethtool_-m_{netdev}", MODULE.replace(before, after, 1) if before else MODULE)


def fec(odd: str, *netdevs: str) -> Edit:
    return together(*(put(f"cmd/ethtool_-I_--show-fec_ens{rail + 10}np0", (
        f"FEC parameters for ens{rail + 10}np0:\nSupported/Configured FEC encodings: Auto RS LLRS\nActive FEC encoding: "
        f"{odd if f'ens{rail + 10}np0' in netdevs else 'RS'}\nStatistics:\n  corrected_blocks: 256\n  uncorrectable_blocks: 0\n"))
        for rail in range(8)))


def flaps(nic: str, *at: float) -> Edit:
    """Each a line of mlx5_core and the link's return, hours after boot."""

    def edit(root: Path) -> None:
        before = (root / "dev/kmsg").read_text()
        lines = "".join(f"[{hour * 3600 + place:12.6f}] mlx5_core {nic}: Port: 1 Link {word}\n" for hour in at for place,
        word in enumerate((
            "DOWN", "ACTIVE")))
        put("dev/kmsg", before + kmsg(lines, first=before.count("\n")))(root)
        hours(24)(root)

    return edit


def disk_lines(tree: str, what: str, line: str, status: str, word: str) -> Fault:
    return Fault(tree, what, said(line), "node.disk", status, word)


HOST = (
    Fault("b200-roce", "a machine check", said(MCE), "node.machine_check", "fail", "machine check"),
    Fault("erdma", "a machine check that the host passed on", said(MCE), "node.machine_check", "fail", "machine check"),
    Fault("gb200-roce", "a hardware error by the firmware", said("{1}[Hardware Error]: event severity: recoverable"), "node.machine_check",
          "fail", "firmware"),
    Fault("a100-roce", "corrected machine checks", said("mce: [Hardware Error]: Machine check events logged"), "node.machine_check", "warn",
          "corrected machine check"),
    Fault("h100-ib", "an uncorrected memory error", said("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"),
          "node.memory", "fail", "memory"),
    Fault("l40s-roce", "an uncorrected memory error, counted", edac(ue_count=1, ce_count=0), "node.memory", "fail", "could not correct"),
    Fault("mi300x8", "many corrected memory errors", edac(ue_count=0, ce_count=5000), "node.memory", "warn", "5000 corrected", 4),
    Fault("efa-p5", "an OOM kill", said("Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB"), "node.oom", "warn",
          "lack of memory"),
    Fault("bond", "an OOM kill of slurmd", said("Out of memory: Killed process 1203 (slurmd) total-vm:1kB"), "node.oom", "warn",
          "lack of memory"),
    Fault("h100-ib", "a hung task", said("INFO: task python3:4711 blocked for more than 122 seconds."), "node.hung", "warn", "hung in"),
    Fault("vm", "a soft lockup", said("watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:4711]"), "node.hung", "warn", "stuck"),
    Fault("b200-roce", "an RCU stall", said("rcu: INFO: rcu_sched self-detected stall on CPU"), "node.hung", "warn", "stall"),
    Fault("a100-roce", "a general protection fault",
          said("general protection fault, probably for non-canonical address 0xdead000000000108: "
                                                        "0000 [#1] PREEMPT SMP NOPTI"), "node.oops", "warn", "fault of its own"),
    Fault("erdma", "a kernel BUG", said("kernel BUG at mm/slub.c:379!"), "node.oops", "warn", "fault of its own"),
    Fault("b200-roce", "a process hangs in the GPU's driver", asleep("os_acquire_rwlock_write", "python3"), "node.stuck", "warn",
          "does not come back"),
    Fault("h100-ib", "a process hangs in NFS", asleep("rpc_wait_bit_killable", "ls"), "node.stuck", "warn", "rpc_wait_bit"),
    disk_lines("b200-roce", "a file system read-only", "EXT4-fs (nvme0n1p2): Remounting filesystem read-only", "fail", "gave up"),
    disk_lines("gb200-roce", "XFS shut down", "XFS (dm-0): Filesystem has been shut down due to log error (0x2).", "fail", "gave up"),
    disk_lines("efa-p5", "a disk gone", "nvme nvme1: Disabling device after reset failure: -19", "fail", "gone"),
    disk_lines("erdma", "I/O errors", "I/O error, dev vda, sector 2048 op 0x0:(READ) flags 0x80700", "warn", "I/O errors"),
    Fault("h100-ib", "an NFS server that is silent", said("nfs: server storage1 not responding, still trying"), "node.nfs", "fail",
          "does not respond"),
    Fault("vm", "an NFS server that timed out", said("nfs: server storage1 not responding, timed out"), "node.nfs", "fail",
          "does not respond"),
    Fault("h100-ib", "a client that Lustre evicted", said(
        "LustreError: 167-0: scratch-OST0003-osc-ffff: This client was evicted by scratch-OST0003; in progress operations using this "
        "service will fail."), "node.lustre", "warn", "evicted"),
    Fault("l40s-roce", "a clock that nothing sets", clock("no"), "node.clock", "warn", "not synchronised"),
    Fault("bond", "a clock that nothing sets", clock("no"), "node.clock", "warn", "not synchronised"),
    Fault("h100-ib", "the kernel's log may not be read", remove("dev/kmsg"), "node.kernel_log", "unknown", "kernel's log", 0),
    Fault("efa-p5", "the kernel's log may not be read", remove("dev/kmsg"), "node.kernel_log", "unknown", "kernel's log", 0),
    Fault("b200-roce", "services may lock 8 MiB", put(LIMITS, "DefaultLimitMEMLOCK=8388608\n"), "node.memlock", "fail", "8388608"),
    Fault("bond", "services may lock 64 KiB", put(LIMITS, "DefaultLimitMEMLOCK=65536\n"), "node.memlock", "fail", "65536"),
)
PCIE = (
    Fault("h100-ib", "an HCA at Gen4", pci(NICS[2], current_link_speed="16.0 GT/s PCIe"), "pci.link_speed", "fail", "16 GT/s"),
    Fault("b200-roce", "an HCA at Gen1", pci(NICS[2], current_link_speed="2.5 GT/s PCIe"), "pci.link_speed", "fail", "2.5 GT/s"),
    Fault("a100-roce", "a GPU at Gen1 while its peers are awake", pci(GPUS[2], current_link_speed="2.5 GT/s PCIe"), "pci.link_speed",
          "warn", "2.5 GT/s"),
    Fault("l40s-roce", "a busy GPU at Gen1", together(pci(GPUS[2], current_link_speed="2.5 GT/s PCIe"), tag(
        "clocks_event_reason_gpu_idle", "Not Active")), "pci.link_speed", "warn", "2.5 GT/s"),
    Fault("h100-ib", "an HCA with eight lanes", pci(NICS[3], current_link_width="8"), "pci.link_width", "fail", "x8"),
    Fault("l40s-roce", "a GPU with one lane", pci(GPUS[3], current_link_width="1"), "pci.link_width", "fail", "x1"),
    Fault("b200-roce", "a PCIe switch with eight lanes to the CPU", above(NICS[1], "current_link_width", "8\n", 2), "pci.link_width",
          "fail", "x8"),
    Fault("bond", "an HCA with eight lanes", pci("0000:33:00.0", current_link_width="8"), "pci.link_width", "fail", "x8"),
    Fault("efa-p5", "a GPU with eight lanes in a virtual machine", pci(GPUS[3], current_link_width="8"), "pci.link_width", "warn", "x8"),
    Fault("a100-roce", "a GPU's memory below 4 GiB", pci(GPUS[4], resource=resource(((0, 0x9000_0000, 16 << 20), (2, 0xA000_0000,
          256 << 20))
                                                                               )), "pci.above_4g", "fail", "below 4 GiB"),
    Fault("l40s-roce", "a GPU's memory found no room", pci(GPUS[4], resource=resource(((2, 0, 64 << 30),))), "pci.above_4g", "fail",
          "no room"),
    Fault("b200-roce", "ACS on above GPUs and HCAs", above(GPUS[1], "config", config_space(0x1000, 0xC030, 6, acs=0x1D)), "pci.acs", "warn",
          "on for", None, ("pci.acs", "fail", "on for")),
    Fault("a100-roce", "ACS redirects requests at one port", above(NICS[6], "config", config_space(0x1000, 0xC030, 6, acs=0x04)), "pci.acs",
          "warn", "on for", None, ("pci.acs", "fail", "on for")),
    Fault("h100-ib", "the IOMMU translates", put("sys/kernel/iommu_groups/43/type", "DMA-FQ\n"), "pci.iommu", "warn", "translated"),
    Fault("gb200-roce", "the IOMMU translates", all_of(lambda group: put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n"), [
        str(group) for group in range(40, 48)]), "pci.iommu", "warn", "translated"),
    Fault("b200-roce", "a GPU without NUMA node", pci(GPUS[5], numa_node="-1"), "pci.numa", "warn", "NUMA"),
    Fault("bond", "an HCA without NUMA node", pci("0000:32:00.0", numa_node="-1"), "pci.numa", "warn", "NUMA"),
    Fault("h100-ib", "a fatal PCIe error of a GPU, counted", pci(GPUS[2], aer_dev_fatal="DLP 1\nTOTAL_ERR_FATAL 1"), "pci.aer", "fail",
          "fatal"),
    Fault("l40s-roce", "a fatal PCIe error, in the log", said(
        f"mlx5_core {NICS[1]}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"), "pci.aer", "fail",
          "uncorrected fatal"),
    Fault("a100-roce", "a PCIe error that was not fatal, newer kernel", said(
        f"mlx5_core {NICS[1]}: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)"), "pci.aer",
          "warn", "not fatal"),
    Fault("b200-roce", "a flood of corrected errors above a NIC", together(hours(24), above(
        NICS[2], "aer_dev_correctable", "RxErr 0\nBadTLP 20000\nTOTAL_ERR_COR 20000\n")), "pci.aer", "warn", "corrected PCIe errors"),
    Fault("gb200-roce", "the card of a slot left", said("pcieport 0000:11:00.0: pciehp: Slot(4): Card not present"), "pci.aer", "warn",
          "left the bus"),
    Fault("h100-ib", "AMD's IOMMU refused a NIC", said(f"mlx5_core {NICS[0]}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 "
                                                    "address=0xfe000000 flags=0x0020]"), "pci.dma", "warn", "refused"),
    Fault("efa-p5", "an EFA device gone from the bus", off_the_bus(NICS[3]), "pci.switch", "fail", "no HCA"),
    Fault("ipv6-only", "an HCA gone from the bus", off_the_bus(NICS[3]), "pci.switch", "fail", "no HCA"),
)
LINKS = (
    Fault("h100-ib", "no subnet manager", together(*(port(hca, state="2: INIT", sm_lid="0x0", lid="0x0") for hca in EIGHT)), "port.state",
          "fail", "no subnet manager"),
    Fault("h100-ib", "a port that is armed", port("mlx5_4", state="3: ARMED"), "port.state", "fail", "ARMED"),
    Fault("h100-ib", "a link that trains", port("mlx5_4", state="1: DOWN", phys_state="4: PortConfigurationTraining"), "port.state", "fail",
          "PortConfigurationTraining", None, "DOWN"),
    Fault("b200-roce", "a link in error recovery", port("mlx5_4", state="5: ACTIVE_DEFER", phys_state="6: LinkErrorRecovery"),
          "port.state", "fail", "LinkErrorRecovery", None, ("port.phys_state", "fail", "LinkErrorRecovery")),
    Fault("h100-ib", "a port in a test pattern", port("mlx5_2", phys_state="7: Phy Test"), "port.phys_state", "fail", "Phy Test"),
    Fault("two-fabrics", "a RoCE port in a test pattern", port("mlx5_6", phys_state="7: Phy Test"), "port.phys_state", "fail", "Phy Test"),
    Fault("h100-ib", "a port that was set to Ethernet", port("mlx5_6", link_layer="Ethernet"), "port.link_layer", "warn", "LINK_TYPE_P1",
          None,
          ("port.link_layer", "fail", "Ethernet, not InfiniBand")),
    Fault("b200-roce", "a port that was set to InfiniBand", port("mlx5_6", link_layer="InfiniBand"), "port.link_layer", "warn",
          "LINK_TYPE_P1",
          None, ("port.link_layer", "fail", "InfiniBand, not Ethernet")),
    Fault("bond", "a member of the bond without a link", put(f"{BOND}/operstate", "down\n"), "port.bond", "warn", "member ens20f1np1"),
    Fault("bond", "a member of the bond whose module is out", put(f"{BOND}/operstate", "lowerlayerdown\n"), "port.bond", "warn",
          "bond0 runs on 1 of its 2 members"),
    Fault("h200-roce", "an HCA in flash recovery", together(unbound(NICS[4]), pci(NICS[4], device="0x0218", **{"class": "0x058000"})),
          "hca.device", "fail", "flash recovery"),
    Fault("h100-ib", "an HCA in flash recovery", together(unbound(NICS[1]), pci(NICS[1], device="0x0218")), "hca.device", "fail",
          "flash recovery"),
    Fault("efa-p5", "the driver of EFA is not loaded", all_of(unbound, NICS), "hca.device", "fail", "1d0f:efa2"),
    Fault("efa-p5", "an EFA device without its driver", unbound(NICS[2]), "hca.device", "fail", NICS[2]),
    Fault("erdma", "the driver of eRDMA is not loaded", all_of(unbound, ["0000:00:08.0", "0000:00:09.0"]), "hca.device", "fail",
          "1ded:107f"),
    Fault("l40s-roce", "RoCE v1 alone on all ports", together(*(put(
        f"sys/class/infiniband/{hca}/ports/1/gid_attrs/types/{index}", "IB/RoCE v1\n") for hca in EIGHT for index in range(4))), "rail.gid",
          "warn", "NCCL finds none", None, ("rail.gid", "fail", "only as")),
    Fault("erdma", "an MTU that eRDMA corrupts data with", put("sys/class/net/eth1/mtu", "1500\n"), "rail.mtu", "warn", "disagree", None,
          ("rail.mtu", "fail", "corrupt")),
    Fault("l40s-roce", "a NIC that is too hot", said(
        f"mlx5_core {NICS[0]}: temp_warn:192:(pid 0): High temperature on sensors with bit set 0x0 0x1"), "hca.health", "warn", "too hot"),
    Fault("a100-roce", "programs do not fit the loaded driver", together(
        put("cmd/nvidia-smi_-q_-x", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105\n"),
        put("cmd/nvidia-smi_-q_-x.rc", "18\n")), "gpu.answers", "fail", "580.105"),
    Fault("gb200-roce", "a rail without a link", port("mlx5_0", **DOWN), "port.state", "fail", "no link", None, "DOWN"),
    Fault("vm", "a rail without a link", port("mlx5_5", **DOWN), "port.state", "fail", "no link", None, "DOWN"),
    Fault("ipv6-only", "a rail without a link", port("mlx5_5", **DOWN), "port.state", "fail", "no link", None, "DOWN"),
    Fault("efa-p5", "an EFA device without a link", port("rdmap5s0", **DOWN), "port.state", "fail", "no link"),
    Fault("bond", "a rail without a link", port("mlx5_3", **DOWN), "port.state", "warn", "no link", None, ("port.state", "fail", "DOWN")),
    Fault("ipv6-only", "one MTU of 1500", mtu(2, 1500, 1024), "rail.mtu", "fail", "1500"),
    Fault("vm", "one path MTU of 1024", mtu(2, 1500, 1024), "port.active_mtu", "fail", "1024"),
    Fault("gb200-roce", "a rail without IPv4 GIDs", gids(2, 2, 3), "rail.gid", "fail", "IPv4 address", None, "is it on"),
    Fault("a100-roce", "a GID table with RoCE v1 alone", together(*(put(
        f"sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/{index}", "IB/RoCE v1\n") for index in range(4))), "rail.gid", "fail",
          "no RoCE v2", None, "only as"),
    Fault("h100-ib", "one firmware among eight", put("sys/class/infiniband/mlx5_5/fw_ver", "28.39.1002\n"), "hca.fw_ver", "warn", "28.39",
          None, ("hca.fw_ver", "fail", "28.39.1002, not")),
    Fault("bond", "a rail at half of the rate", rate("mlx5_3", "200 Gb/sec (4X HDR)"), "port.rate", "fail", "200 Gb/s", None, "200, below"),
    Fault("ipv6-only", "three flaps in 12 hours", flaps(NICS[1], 15, 17, 20), "port.flaps", "fail", "3 times"),
    Fault("h100-ib", "three flaps in 12 hours", flaps(NICS[1], 13, 17, 20), "port.flaps", "fail", "3 times"),
    Fault("b200-roce", "one flap", flaps(NICS[1], 20), "port.flaps", "warn", "1 times"),
    Fault("vm", "an interface that lost its carrier often", together(hours(24), put(
        "sys/class/net/ens11np0/carrier_down_count", "9\n")), "port.flaps", "warn", "carrier was lost 9 times"),
    Fault("h100-ib", "symbol errors beyond 1 in 10^12 bits", together(hours(24), counter("mlx5_3", symbol_error=60000)), "port.ber", "warn",
          "60000 since boot"),
    Fault("a100-roce", "a link that often recovers", together(hours(24), counter("mlx5_3", link_error_recovery=25)), "port.ber", "warn",
          "link_error_recovery: 25"),
    Fault("b200-roce", "a transceiver too hot", transceiver("ens12np0", ": 44.21 degrees C", ": 81.20 degrees C"), "port.optics", "fail",
          "temperature is 81"),
    Fault("ipv6-only", "too little light", transceiver("ens12np0", "(Channel 2)     : 0.9103 mW", "(Channel 2)     : 0.0800 mW"),
          "port.optics", "warn", "rx power of lane 2"),
    Fault("gb200-roce", "a cable error",
          said(f"mlx5_core {NICS[2]}: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data "
                                            "shorted)"), "port.optics", "warn", "cable or transceiver"),
    Fault("a100-roce", "a module beyond its power budget", said(
        f"mlx5_core {NICS[2]}: Port module event[error]: module 0, Cable error, Power budget exceeded"), "port.optics", "warn",
          "cable or transceiver"),
    Fault("b200-roce", "a copper cable among optics", together(*(transceiver(f"ens{rail + 10}np0") for rail in range(1, 8)), transceiver(
        "ens10np0", "0x00 (850 nm VCSEL)", "0x0a (Copper cable, unequalized)")), "port.cable", "warn", "copper"),
    Fault("b200-roce", "another FEC than its peers", fec("None", "ens13np0"), "port.fec", "warn", "its FEC is None"),
    Fault("ipv6-only", "a NIC gave up pausing", put("cmd/ethtool_-S_ens10np0", (
        "NIC statistics:\n     tx_pause_storm_warning_events: 7\n     tx_pause_storm_error_events: 2\n")), "qos.storm", "warn", "2 times"),
    Fault("b200-roce", "a NIC gave up pausing", put("cmd/ethtool_-S_ens13np0", (
        "NIC statistics:\n     tx_pause_storm_error_events: 1\n")), "qos.storm", "warn", "1 times"),
    Fault("l40s-roce", "a NIC's firmware failed", said(
        f"mlx5_core {NICS[2]}: poll_health:964:(pid 0): device's health compromised - reached miss count"), "hca.health", "fail",
          "firmware failed"),
    Fault("h100-ib", "a NIC's firmware failed and came back", said(
        f"mlx5_core {NICS[2]}: poll_health:949:(pid 0): Fatal error 1 detected",
        f"mlx5_core {NICS[2]}: mlx5_health_try_recover:336:(pid 7): health recovery succeeded"), "hca.health", "warn", "brought back"),
    Fault("efa-p5", "an EFA device that does not answer", said(
        f"efa {NICS[2]}: Wait for completion (polling) timeout"), "hca.health", "warn", "did not answer a command"),
    Fault("b200-roce", "nvidia-peermem lost a context", said(
        "nvidia-peermem nv_get_p2p_free_callback:139 ERROR detected invalid context, skipping further processing"), "gpu.peermem", "warn",
          "could not tell the NIC"),
    Fault("two-fabrics", "an InfiniBand rail without a link", port("mlx5_2", **DOWN), "port.state", "fail", "no link"),
    Fault("two-fabrics", "a limited member of its partition", put("sys/class/infiniband/mlx5_1/ports/1/pkeys/0", "0x7fff\n"), "port.pkey",
          "fail", "limited member"),
)
FAULTS = (*HOST, *PCIE, *LINKS)
DIFFERENCES = (
    Difference("h200-roce", "small read requests of an HCA", put(f"sys/bus/pci/devices/{NICS[1]}/config", config_space(
        0x15B3, 0x1021, read_request=512)), "pci.max_read_request", "fail", "512 bytes"),
    Difference("b200-roce", "small read requests of an HCA", put(f"sys/bus/pci/devices/{NICS[7]}/config", config_space(
        0x15B3, 0x1021, read_request=128)), "pci.max_read_request", "fail", "128 bytes"),
    Difference("h200-roce", "the IOMMU translates where it must not", put("sys/kernel/iommu_groups/43/type", "DMA\n"), "pci.iommu", "fail",
               "translated", {"pci_tuning_iommu": "passthrough"}),
    Difference("a100-roce", "no SR-IOV where virtual functions are wanted", all_of(
        lambda nic: remove(f"sys/bus/pci/devices/{nic}/sriov_totalvfs"), NICS), "pci.sriov", "fail", "no SR-IOV capability",
               {"nic_firmware_config": {"SRIOV_EN": True}}),
    Difference("b200-roce", "no SR-IOV of one NIC", remove(f"sys/bus/pci/devices/{NICS[0]}/sriov_totalvfs"), "pci.sriov", "fail",
               "no SR-IOV capability", {"nic_firmware_config": {"NUM_OF_VFS": 8}}),
    Difference("h200-roce", "CPUs that the kernel does not isolate", together(put("sys/devices/system/cpu/present", "0-111\n"), put(
        "sys/devices/system/cpu/isolated", "\n"), put("sys/devices/system/cpu/nohz_full", "\n")), "cpu.isolated", "fail", "isolated",
               {"pci_tuning_isolated_cpus": "8-11"}),
    Difference("b200-roce", "CPUs to isolate that are not there", put("sys/devices/system/cpu/present", "0-7\n"), "cpu.isolated", "fail",
               "no CPU", {"pci_tuning_isolated_cpus": "8-11"}),
)
HEALTHY = (
    Healthy("b200-roce", "rails whose addresses are those of pods", together(*(gids(rail, 2, 3) for rail in range(8)))),
    Healthy("l40s-roce", "idle GPUs at 2.5 GT/s", all_of(lambda gpu: pci(gpu, current_link_speed="2.5 GT/s PCIe"), GPUS)),
    Healthy("l40s-roce", "seven idle GPUs at 2.5 GT/s beside a busy one", together(*(
        pci(gpu, current_link_speed="2.5 GT/s PCIe") for gpu in GPUS[1:]), tag("clocks_event_reason_gpu_idle", "Not Active", [0]))),
    Healthy("bond", "the IOMMU translates on a node without GPUs", put("sys/kernel/iommu_groups/5/type", "DMA\n"), ("port.state",)),
    Healthy("erdma", "a clock that chrony sets", clock("yes"), ("erdma.port",)),
    Healthy("ipv6-only", "transceivers of healthy ports", all_of(transceiver, [f"ens{rail + 10}np0" for rail in range(8)]),
            ("port.optics",)),
    Healthy("b200-roce", "corrected errors of a link in its first seconds", above(
        NICS[2], "aer_dev_correctable", "RxErr 3\nTOTAL_ERR_COR 3\n"), ("pci.aer",)),
    Healthy("a100-roce", "a NIC that paused for a moment", put("cmd/ethtool_-S_ens13np0", (
        "NIC statistics:\n     tx_pause_storm_warning_events: 3\n     tx_pause_storm_error_events: 0\n"))),
    Healthy("h100-ib", "a NIC's firmware trace", said(f"mlx5_core {NICS[0]}: Rx: Reached max number of PCI errors: 0"), ("hca.health",)),
    Healthy("soft-roce", "a lab's node", nothing, ("port.state",)),
    Healthy("efa-p5", "an instance with eight H100", nothing, ("port.efa", "gpu.nvlink", "gpu.domain", "pci.switch")),
)
