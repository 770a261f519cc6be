# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a node's health, injected into captured trees: kernel messages in the drivers' words, changed answers, changed counters.

docs/health.md shows this list as a table (``python -m tests.fixtures.health_page``). The words of drivers and tools are documented ones;
only the answers of nvidia-smi and the log of a healthy boot were recorded on a machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.fixtures.node_accelerators import ADDRESSES, DOWN, UP, gpu_metrics
from tests.fixtures.node_tree import kmsg

import health_lines
from health_lines import BRIDGE, GPU, NIC
from profile_trees import Tree

PORT = "ens10np0"  # of doca8
UP_SECONDS = 86400.0
XID = "NVRM: Xid (PCI:0000:27:00): "


class Fault(NamedTuple):
    """``inject`` changes a copy of the tree ``node``; ``check`` then gives ``status`` with ``says`` in its message."""

    title: str
    check: str
    status: str
    says: str
    inject: Callable[[Tree], None]
    node: str = "ib8"


def log(*lines: str, at: float = 40000.0, step: float = 1.0) -> Callable[[Tree], None]:
    def inject(tree: Tree) -> None:
        before = (tree.root / "dev/kmsg").read_text()
        text = "".join(f"[{at + step * place:12.6f}] {line}\n" for place, line in enumerate(lines))
        tree.put("/dev/kmsg", before + kmsg(text, first=before.count("\n")))

    return inject


def bond(*members: tuple[str, str], partner: str = "94:6d:ae:aa:00:01", down: bool = False) -> Callable[[Tree], None]:
    """/proc/net/bonding of a bond with LACP (bond_procfs.c): aggregator and churn state of each member; ``down``: the last has no link."""
    text = (f"Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\n\n802.3ad info\nActive Aggregator Info:\n"
            f"\tAggregator ID: 1\n\tPartner Mac Address: {partner}\n\n")
    for place, (aggregator, churn) in enumerate(members):
        link = "down" if down and place == len(members) - 1 else "up"
        text += (f"Slave Interface: ens20f{place}np{place}\nMII Status: {link}\nAggregator ID: {aggregator}\nActor Churn State: none\n"
                 f"Partner Churn State: {churn}\n\n")
    return lambda tree: tree.put("/proc/net/bonding/bond0", text)


def smi(before: str, after: str) -> Callable[[Tree], None]:
    """Of the second GPU."""

    def inject(tree: Tree) -> None:
        text = (tree.root / "cmd/nvidia-smi_-q_-x").read_text()
        start = text.index(f'<gpu id="0000{GPU.upper()}">')
        assert before in text[start:]
        tree.put("/cmd/nvidia-smi_-q_-x", text[:start] + text[start:].replace(before, after, 1))

    return inject


def tag(name: str, before: str, after: str) -> Callable[[Tree], None]:
    return smi(f"<{name}>{before}</{name}>", f"<{name}>{after}</{name}>")


def function(tree: Tree, address: str) -> Path:
    """The directory of a PCI function, also of a bridge that the tree has only as a directory."""
    found = [path for path in (tree.root / "sys/devices").rglob(address) if path.is_dir()]
    return found[0]


def counted(address: str, name: str, text: str) -> Callable[[Tree], None]:
    def inject(tree: Tree) -> None:
        (function(tree, address) / name).write_text(text)
        if not (tree.root / "sys/bus/pci/devices" / address).exists():
            (tree.root / "sys/bus/pci/devices" / address).symlink_to(function(tree, address))

    return inject


def put(path: str, text: str) -> Callable[[Tree], None]:
    return lambda tree: tree.put(path, text)


MODULE = Path(__file__).with_name("ethtool_module.txt")


def module(before: str, after: str) -> Callable[[Tree], None]:
    def inject(tree: Tree) -> None:
        text = MODULE.read_text().partition("\n")[2]
        assert before in text
        tree.put(f"/cmd/ethtool_-m_{PORT}", text.replace(before, after, 1))

    return inject


def fec(odd: str) -> Callable[[Tree], None]:
    def inject(tree: Tree) -> None:
        for rail, netdev in enumerate(rails(tree)):
            active = odd if rail == 0 else "RS"
            tree.put(
                f"/cmd/ethtool_-I_--show-fec_{netdev}",
                f"FEC parameters for {netdev}:\nSupported/Configured FEC encodings: Auto RS LLRS\n"
                f"Active FEC encoding: {active}\nStatistics:\n  corrected_blocks: 256\n  uncorrectable_blocks: 0\n",
            )

    return inject


def rails(tree: Tree) -> list[str]:
    return sorted(path.name for path in (tree.root / "sys/class/net").iterdir() if path.name.startswith("ens"))


def fec_errors(blocks: int) -> Callable[[Tree], None]:
    return put(f"/cmd/ethtool_-I_--show-fec_{PORT}", f"Active FEC encoding: RS\nStatistics:\n  uncorrectable_blocks: {blocks}\n")


def cables(tree: Tree) -> None:
    """Optics, but for one port: a copper cable, in the words of ethtool's sff-common.c."""
    text = MODULE.read_text().partition("\n")[2]
    for netdev in rails(tree):
        tree.put(f"/cmd/ethtool_-m_{netdev}", text)
    copper = text.replace("0x00 (850 nm VCSEL)", "0x0a (Copper cable, unequalized)").replace(
        "cable)           : 0m", "cable)           : 2m"
    )
    tree.put(f"/cmd/ethtool_-m_{PORT}", copper)


PS = "pid=,stat=,wchan:32=,comm="


def processes(*rows: str) -> Callable[[Tree], None]:
    """All of them, and those in state D again; each ran as often before as between."""

    def inject(tree: Tree) -> None:
        tree.put(f"/cmd/ps_-eo_{PS}", "".join(f"{row}\n" for row in ("      1 Ss   ep_poll                          systemd", *rows)))
        asleep = [row for row in rows if row.split()[1].startswith("D")]
        pids = [row.split()[0] for row in asleep]
        tree.put(f"/cmd/ps_-o_{PS}_-p_{','.join(pids)}", "".join(f"{row}\n" for row in asleep))
        for pid in pids:
            for place in (f"/proc/{pid}/status", f"/proc/{pid}/task/{pid}/status"):
                tree.put(place, "Name:\tpython3\nvoluntary_ctxt_switches:\t93\nnonvoluntary_ctxt_switches:\t4\n")

    return inject


def holder(group: str, daemon: str = "slurmd", kind: str = "C") -> Callable[[Tree], None]:
    """A process on the second GPU, as nvidia-smi's DTD has it."""

    def inject(tree: Tree) -> None:
        processes(f"   4711 Rl   -                                python3\n    900 Ssl  futex_wait_queue                 {daemon}")(tree)
        told = f"<process_info><pid>4711</pid><type>{kind}</type><process_name>python3</process_name></process_info>"
        smi("<processes>", f"<processes>{told}")(tree)
        tree.put("/proc/4711/cgroup", f"0::{group}\n")

    return inject


def dcgm(overall: str) -> Callable[[Tree], None]:
    """In the form of dcgmi's Health.cpp and DcgmiOutput.cpp."""
    systems = {"Memory system": {"value": overall, "overflow": ["A pending page retirement has been", "detected in GPU 1."]}}
    part = {"GPU": {"children": {"1": {"value": overall, "children": {"Errors": {"children": systems}}}}}}
    document = {"body": {"Overall Health": {"value": overall}, **part}, "header": ["Health Monitor Report"]}
    return put("/cmd/dcgmi_health_-g_0_-c_-j", json.dumps(document, indent=1))


def flaps(*hours: float) -> Callable[[Tree], None]:
    def inject(tree: Tree) -> None:
        for hour in hours:
            log(f"mlx5_core {NIC}: Port: 1 Link DOWN", f"mlx5_core {NIC}: Port: 1 Link ACTIVE", at=hour * 3600)(tree)

    return inject


def xid(number: int, text: str, check_status: str, says: str) -> Fault:
    return Fault(f"Xid {number}: {text[:40]}", "gpu.xid", check_status, says, log(f"{XID}{number}, {text}"))


SESSION, NVIDIA = "/user.slice/user-1000.slice/session-3.scope", f"{'os_acquire_rwlock_write':32}"


def port_counter(name: str, value: int) -> Callable[[Tree], None]:
    return put(f"/sys/class/infiniband/mlx5_0/ports/1/counters/{name}", f"{value}\n")


PKEY = "/sys/class/infiniband/%s/ports/1/pkeys/0"


def amd(name: str, content: bytes) -> Callable[[Tree], None]:
    """A file of the second of eight MI300X."""
    return lambda tree: tree.put(f"/sys/bus/pci/devices/{ADDRESSES[1]}/{name}", content)


def without_driver(tree: Tree) -> None:
    (tree.root / "sys/bus/pci/devices" / ADDRESSES[1] / "driver").unlink()


def efa(name: str, count: int) -> Callable[[Tree], None]:
    return put(f"/sys/class/infiniband/rdmap1s0/ports/1/hw_counters/{name}", f"{count}\n")


OLD = tag("gpu_recovery_action", "None", "N/A")  # a driver that does not tell


def older(fault: Fault) -> Fault:
    """On a driver that has no gpu_recovery_action."""

    def inject(tree: Tree) -> None:
        OLD(tree)
        fault.inject(tree)

    return fault._replace(inject=inject)


FAULTS: tuple[Fault, ...] = (
    xid(
        13, "pid=1234, name=python3, Graphics SM Warp Exception on (GPC 1, TPC 4, SM 1): Illegal Address", "warn", "restart the application"
    ),
    xid(31, "pid=1234, name=python3, channel 0x7, intr 0. MMU Fault: ENGINE GRAPHICS faulted", "warn", "page fault"),
    xid(43, "pid=1234, name=python3, Ch 00000008", "warn", "application's fault"),
    xid(45, "pid=1234, name=python3, Ch 00000008", "warn", "preemptive cleanup"),
    older(
        xid(48, "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU", "fail", "double bit")
    ),
    xid(63, "pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.", "warn", "remapping"),
    older(xid(64, "pid='<unknown>', name=<unknown>, Row Remapper: Failed to persist row", "fail", "reset the GPU")),
    older(
        xid(
            74,
            "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 5(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            "fail",
            "nvlink --status",
        )
    ),
    xid(79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "fail", "has fallen off the bus"),
    xid(92, "pid='<unknown>', name=<unknown>, High single-bit ECC error rate", "warn", "single bit"),
    xid(94, "pid=1234, name=python3, Contained: SM (0x1). RST: No, D-RST: No", "warn", "contained memory error"),
    older(xid(95, "pid=1234, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", "fail", "uncontained memory error")),
    older(xid(119, "pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!", "fail", "GSP")),
    older(xid(120, "pid='<unknown>', name=<unknown>, GSP task exception: stack corruption (cause:0x2)", "fail", "GSP")),
    older(xid(140, "pid='<unknown>', name=<unknown>, Unrecovered ECC error", "fail", "unrecovered ECC")),
    older(xid(143, "pid='<unknown>', name=<unknown>, GPU Initialization Error", "fail", "initialization")),
    xid(145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 0x00000000 0x00000000)", "warn", "RLW"),
    older(xid(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000 0x00000000)", "fail", "NETIR")),
    older(xid(154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "fail", "Drain and Reset")),
    xid(106, "SMBPBI Test Message", "warn", "no action"),
    older(xid(151, "pid=1234, name=python3, Key rotation Error", "fail", "restart the VM")),
    xid(151, "Key rotation Error, and nothing asked now", "warn", "asks for no action now"),
    older(xid(159, "pid=1234, name=python3, CHI Non-Data Error", "fail", "nvidia_uvm")),
    xid(166, "NVLE error", "warn", "confidential computing"),
    xid(170, "Secure error", "warn", "confidential computing"),
    xid(173, "pid='<unknown>', name=<unknown>, C2C Fatal Link Failure", "fail", "between GPU and CPU"),
    xid(174, "pid=1234, name=python3", "warn", "its process ended"),
    older(xid(175, "pid=2024380, name=nvidia-smi, Memory subsystem error", "fail", "stopped the GSP")),
    xid(176, "PCIe correctable errors", "warn", "corrected PCIe errors"),
    xid(9999, "a number to come", "warn", "does not know the number"),
    Fault("GPU lost, without an Xid", "gpu.xid", "fail", "Xid 79", log(f"NVRM: GPU {GPU}: GPU has fallen off the bus.")),
    Fault(
        "driver cannot initialise a GPU",
        "gpu.answers",
        "fail",
        "could not initialise",
        log(f"NVRM: GPU {GPU}: RmInitAdapter failed! (0x62:0x40:2477)"),
    ),
    Fault(
        "SXid, fatal", "gpu.sxid", "fail", "20034", log("nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")
    ),
    Fault(
        "SXid, not fatal",
        "gpu.sxid",
        "warn",
        "12028",
        log("nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"),
    ),
    Fault(
        "nvidia-smi cannot reach a GPU",
        "gpu.answers",
        "fail",
        "does not know it",
        smi(f'<gpu id="0000{GPU.upper()}">', '<gpu id="00000000:99:00.0">'),
    ),
    Fault("the GPU asks for a reset", "gpu.recovery", "fail", "Drain and Reset", tag("gpu_recovery_action", "None", "Drain and Reset")),
    Fault(
        "uncorrectable ECC error, recovery unknown",
        "gpu.ecc",
        "fail",
        "1 errors",
        lambda tree: (OLD(tree), tag("dram_uncorrectable", "0", "1")(tree))[0],
    ),
    Fault("uncorrectable ECC error that the GPU got over", "gpu.ecc", "warn", "1 errors", tag("dram_uncorrectable", "0", "1")),
    Fault("SRAM errors beyond the threshold", "gpu.ecc", "fail", "threshold", tag("sram_threshold_exceeded", "No", "Yes")),
    Fault("ECC is off on one GPU", "gpu.ecc", "warn", "ECC is off", tag("current_ecc", "Enabled", "Disabled")),
    Fault("row remapping failed", "gpu.remap", "fail", "could not be remapped", tag("remapped_row_failure", "No", "Yes")),
    Fault("row remapping waits", "gpu.remap", "warn", "waits for a reset", tag("remapped_row_pending", "No", "Yes")),
    Fault("page retirement waits", "gpu.remap", "warn", "retired", tag("pending_retirement", "N/A", "Yes")),
    Fault(
        "clocks held back for heat",
        "gpu.thermal",
        "fail",
        "for heat",
        tag("clocks_event_reason_hw_thermal_slowdown", "Not Active", "Active"),
    ),
    Fault(
        "clocks held back for heat by the driver",
        "gpu.thermal",
        "warn",
        "driver",
        tag("clocks_event_reason_sw_thermal_slowdown", "Not Active", "Active"),
    ),
    Fault("no degree left to the limit", "gpu.thermal", "warn", "at its limit", tag("gpu_temp_tlimit", "49 C", "-1 C")),
    Fault("power brake", "gpu.clocks", "fail", "power brake", tag("clocks_event_reason_hw_power_brake_slowdown", "Not Active", "Active")),
    Fault("a lower power limit than its like", "gpu.power", "warn", "500 W", tag("current_power_limit", "700.00 W", "500.00 W")),
    Fault(
        "NVLinks down",
        "gpu.nvlink",
        "fail",
        "16 of the board's 18 NVLinks",
        lambda tree: tree.put(
            "/cmd/nvidia-smi_nvlink_--status",
            (tree.root / "cmd/nvidia-smi_nvlink_--status")
            .read_text()
            .replace("Link 3: 26.562 GB/s", "Link 3: <inactive>", 1)
            .replace("Link 4: 26.562 GB/s", "Link 4: <inactive>", 1),
        ),
    ),
    Fault(
        "NVLink recovery errors",
        "gpu.nvlink",
        "warn",
        "recovery 2",
        put(
            "/cmd/nvidia-smi_nvlink_-e",
            "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-4000-8000-000000000001)\n"
            "\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 2\n\t Link 0: CRC Errors: 0\n",
        ),
    ),
    Fault(
        "fabric bandwidth degraded",
        "gpu.fabric",
        "fail",
        "bandwidth degraded",
        smi("<bandwidth>N/A</bandwidth>", "<bandwidth>Degraded</bandwidth>"),
    ),
    Fault("a GPU in another NVLink clique", "gpu.domain", "fail", "clique 7", tag("cliqueId", "0", "7")),
    Fault("the NVLink fabric without resources for a GPU", "gpu.domain", "fail", "Insufficient Resources", smi(
        "<state>Completed</state>\n\t\t\t<status>Success</status>",
        "<state>Completed</state>\n\t\t\t<status>Insufficient Resources</status>")),
    Fault("an AMD GPU off the bus", "accelerator.answers", "fail", "fell off the bus", amd("config", b"\xff" * 64), "mi300x8"),
    Fault("an AMD GPU without its driver", "accelerator.answers", "fail", "no driver", without_driver, "mi300x8"),
    Fault("uncorrectable memory errors of an AMD GPU", "accelerator.ras", "fail", "umc 2", amd("ras/umc_err_count", b"ue: 2\nce: 9\n"),
          "mi300x8"),
    Fault("an AMD GPU's bad page in use", "accelerator.ras", "fail", "could not be taken", amd(
        "ras/gpu_vram_bad_pages", b"0x00000001 : 0x00001000 : F\n"), "mi300x8"),
    Fault("an xGMI link down", "accelerator.xgmi", "warn", "6 of 7", amd("gpu_metrics", gpu_metrics(0xFFFF, DOWN, *[UP] * 6)), "mi300x8"),
    Fault("PCIe errors of an AMD GPU", "pci.aer", "fail", "fatal", amd("aer_dev_fatal", b"DLP 1\nTOTAL_ERR_FATAL 1\n"), "mi300x8"),
    Fault("a GPU that often sends PCIe packets again", "pci.aer", "warn", "90000 packets", tag("replay_counter", "1", "90000")),
    *(Fault(title, check, "warn", says, put("/proc/sys/kernel/tainted", f"{12288 | 1 << bit}\n")) for title, check, says, bit in (
        ("a machine check that only the taint tells", "node.machine_check", "reported a machine check", 4),
        ("a bad page that only the taint tells", "node.oops", "bad page", 5),
        ("an oops that only the taint tells", "node.oops", "oops", 7),
        ("a soft lockup that only the taint tells", "node.hung", "soft lockup", 14))),
    Fault("a limited member of its partition", "port.pkey", "fail", "limited member", put(PKEY % "mlx5_0", "0x7fff\n")),
    Fault("a port in another partition than its peers", "port.pkey", "warn", "0x8001", put(PKEY % "mlx5_0", "0x8001\n")),
    Fault("EFA peers that do not respond", "port.efa", "warn", "unresponsive_remote_events: 14", efa("unresponsive_remote_events", 14),
          "efa-p5"),
    Fault("packets that EFA dropped", "port.efa", "warn", "rx_drops: 48123", efa("rx_drops", 48123), "efa-p5"),
    Fault("MIG on one GPU only", "gpu.mig", "warn", "MIG is Enabled", tag("current_mig", "Disabled", "Enabled")),
    Fault(
        "AER, fatal",
        "pci.aer",
        "fail",
        "uncorrected fatal",
        log(f"mlx5_core {NIC}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"),
    ),
    Fault(
        "AER, not fatal, of a newer kernel",
        "pci.aer",
        "warn",
        "not fatal",
        log(f"mlx5_core {NIC}: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)"),
    ),
    Fault(
        "AER, counted fatal on a GPU",
        "pci.aer",
        "fail",
        "fatal",
        counted(GPU, "aer_dev_fatal", "Undefined 0\nDLP 1\nSDES 0\nTOTAL_ERR_FATAL 1\n"),
    ),
    Fault(
        "AER, a flood of corrected errors above a NIC",
        "pci.aer",
        "warn",
        "corrected PCIe errors",
        counted(BRIDGE, "aer_dev_correctable", "RxErr 0\nBadTLP 20000\nBadDLLP 0\nTOTAL_ERR_COR 20000\n"),
    ),
    Fault(
        "NIC firmware failed",
        "hca.health",
        "fail",
        "firmware failed",
        log(f"mlx5_core {NIC}: poll_health:964:(pid 0): device's health compromised - reached miss count"),
    ),
    Fault(
        "NIC firmware failed and came back",
        "hca.health",
        "warn",
        "brought back",
        log(
            f"mlx5_core {NIC}: poll_health:949:(pid 0): Fatal error 1 detected",
            f"mlx5_core {NIC}: mlx5_health_try_recover:336:(pid 7): health recovery succeeded",
        ),
    ),
    Fault(
        "NIC did not send",
        "hca.health",
        "warn",
        "did not send",
        log(f"mlx5_core {NIC} ib0: NETDEV WATCHDOG: CPU: 7: transmit queue 3 timed out 5632 ms"),
    ),
    Fault("one flap", "port.flaps", "warn", "1 times", flaps(20)),
    Fault("three flaps in 12 hours", "port.flaps", "fail", "3 times", flaps(15, 17, 20)),
    Fault(
        "carrier lost often",
        "port.flaps",
        "warn",
        "carrier was lost 9 times",
        put(f"/sys/class/net/{PORT}/carrier_down_count", "9\n"),
        "doca8",
    ),
    Fault("transceiver too hot", "port.optics", "fail", "temperature is 81", module(": 44.21 degrees C", ": 81.20 degrees C"), "doca8"),
    Fault(
        "too little light",
        "port.optics",
        "warn",
        "rx power of lane 2",
        module("(Channel 2)     : 0.9103 mW", "(Channel 2)     : 0.0800 mW"),
        "doca8",
    ),
    Fault(
        "cable error",
        "port.optics",
        "warn",
        "cable or transceiver",
        log(f"mlx5_core {NIC}: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)"),
    ),
    Fault(
        "the NIC gave up pausing",
        "qos.storm",
        "warn",
        "2 times",
        put(f"/cmd/ethtool_-S_{PORT}", "NIC statistics:\n     tx_pause_storm_warning_events: 7\n     tx_pause_storm_error_events: 2\n"),
        "doca8",
    ),
    Fault("a link of InfiniBand that was down often", "port.flaps", "warn", "link_downed is 57", port_counter("link_downed", 57)),
    Fault("symbol errors beyond 1 in 10^12 bits", "port.ber", "warn", "60000 since boot", port_counter("symbol_error", 60000)),
    Fault("FEC blocks lost beyond 1 in 10^12 bits", "port.ber", "warn", "90000 since boot", fec_errors(90000), "doca8"),
    Fault("a link that often recovers", "port.ber", "warn", "link_error_recovery: 25", port_counter("link_error_recovery", 25)),
    Fault("a copper cable among optics", "port.cable", "warn", "copper cable and 2m long", cables, "doca8"),
    Fault("a login's process on a GPU of a Slurm node", "gpu.jobless", "warn", "4711 (python3)", holder(SESSION)),
    Fault("a login's process on a GPU of a pods' node", "gpu.jobless", "warn", "in no job", holder(SESSION, "kubelet")),
    Fault("DCGM warns, in its documented form", "gpu.dcgm", "warn", "GPU 1: A pending page retirement has been detected", dcgm("Warning")),
    Fault(
        "DCGM fails a GPU in its documented form, recovery unknown",
        "gpu.dcgm",
        "fail",
        "Failure",
        lambda tree: (OLD(tree), dcgm("Failure")(tree))[0],
    ),
    Fault(
        "a process hangs in the GPU's driver",
        "node.stuck",
        "warn",
        "python3 does not come back",
        processes(f"   4711 Dl   {NVIDIA} python3"),
    ),
    Fault("a process hangs in NFS", "node.stuck", "warn", "rpc_wait_bit", processes(f"   4712 D+   {'rpc_wait_bit_killable':32} ls")),
    Fault("FEC other than on its like", "port.fec", "warn", "its FEC is None", fec("None"), "doca8"),
    Fault(
        "machine check, uncorrected",
        "node.machine_check",
        "fail",
        "machine check",
        log("mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400"),
    ),
    Fault(
        "machine check, corrected",
        "node.machine_check",
        "warn",
        "corrected machine check",
        log("mce: [Hardware Error]: Machine check events logged"),
    ),
    Fault(
        "hardware error by the firmware", "node.machine_check", "fail", "firmware", log("{1}[Hardware Error]: event severity: recoverable")
    ),
    Fault(
        "uncorrected memory error",
        "node.memory",
        "fail",
        "memory",
        log("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"),
    ),
    Fault(
        "uncorrected memory error, counted",
        "node.memory",
        "fail",
        "could not correct",
        put("/sys/devices/system/edac/mc/mc0/ue_count", "1\n"),
    ),
    Fault(
        "many corrected memory errors", "node.memory", "warn", "5000 corrected", put("/sys/devices/system/edac/mc/mc0/ce_count", "5000\n")
    ),
    Fault(
        "OOM kill",
        "node.oom",
        "warn",
        "lack of memory",
        log("Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0"),
    ),
    Fault("hung task", "node.hung", "warn", "hung in the kernel", log("INFO: task python3:4711 blocked for more than 122 seconds.")),
    Fault("soft lockup", "node.hung", "warn", "stuck", log("watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:4711]")),
    Fault("file system read-only", "node.disk", "fail", "gave up", log("EXT4-fs (nvme0n1p2): Remounting filesystem read-only")),
    Fault("XFS shut down", "node.disk", "fail", "gave up", log("XFS (dm-0): Filesystem has been shut down due to log error (0x2).")),
    Fault("disk gone", "node.disk", "fail", "gone", log("nvme nvme1: Disabling device after reset failure: -19")),
    Fault("I/O errors", "node.disk", "warn", "I/O errors", log("I/O error, dev nvme0n1, sector 2048 op 0x0:(READ) flags 0x80700")),
    Fault("NFS server silent", "node.nfs", "fail", "does not respond", log("nfs: server storage1 not responding, still trying")),
    Fault(
        "clock not synchronised", "node.clock", "warn", "not synchronised", put("/cmd/timedatectl_show_-p_NTPSynchronized_--value", "no\n")
    ),
    Fault("time read from the HPET", "node.clocksource", "warn", "hpet", put(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")),
    Fault("a cgroup without RDMA", "node.rdma_limit", "warn", "system.slice", put(
        "/sys/fs/cgroup/system.slice/rdma.max", "mlx5_0 hca_handle=max hca_object=0\nmlx5_1 hca_handle=max hca_object=max\n")),
    Fault("a bond without a LACP partner", "port.bond", "fail", "does not answer LACP", bond(
        ("1", "churned"), ("2", "churned"), partner="00:00:00:00:00:00"), "roce8-bond"),
    Fault("a bond in two aggregators", "port.bond", "warn", "in 2 aggregators", bond(("1", "none"), ("2", "none")), "roce8-bond"),
    Fault("a bond's member without a link", "port.bond", "warn", "ens20f1np1 has no link", bond(
        ("1", "none"), ("1", "none"), down=True), "roce8-bond"),
    *(Fault(row.title, row.check, row.status, row.says, log(*row.lines)) for row in health_lines.FAULTS),
)
