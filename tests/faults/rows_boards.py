# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of GPU boards of each kind: Xids, what nvidia-smi and DCGM say, the driver and its services."""

from __future__ import annotations

import json
from pathlib import Path

from .edits import Edit, Fault, Healthy, nothing, off_the_bus, put, remove, replace, together
from .rows_gpu import DETAILS, PERSISTENCE, fabric, nvlinks, smi_without, tag
from .rows_health import said
from .trees import FABRIC, GPUS

ALL = {"h200-roce": 8, "h100-ib": 8, "b200-roce": 8, "gb200-roce": 4, "a100-roce": 8, "l40s-roce": 8, "efa-p5": 8, "vm": 8}
IN_VM = "0000:00:05.0"  # the third GPU of the virtual machine


def answer(name: str, after: str, *gpus: int) -> Edit:
    return tag(name, after, gpus or (1,))


def silent(tree: str) -> Edit:
    """A driver that has no gpu_recovery_action."""
    return tag("gpu_recovery_action", "N/A", range(ALL[tree]))


def xid(tree: str, number: int, text: str, status: str, word: str, address: str = GPUS[2]) -> Fault:
    """What the driver's log alone says, on a driver that cannot say whether the GPU needs recovery."""
    edit = said(f"NVRM: Xid (PCI:{address[:-2]}): {number}, {text}")
    return Fault(tree, f"Xid {number}", together(silent(tree), edit), "gpu.xid", status, word)


def dcgm(overall: str, system: str, text: str) -> Edit:
    """In the form of dcgmi's Health.cpp and DcgmiOutput.cpp."""
    part = {"GPU": {"children": {"1": {"value": overall, "children": {"Errors": {"children": {system: {"value": overall, "overflow": [
        text]}}}}}}}}
    document = {"body": {"Overall Health": {"value": overall}, **part}, "header": ["Health Monitor Report"]}
    return put("cmd/dcgmi_health_-g_0_-c_-j", json.dumps(document, indent=1))


def holder(group: str, daemon: str) -> Edit:
    """A process on a GPU in this control group, on a node of a scheduler."""

    def edit(root: Path) -> None:
        put("cmd/ps_-eo_pid=,stat=,wchan:32=,comm=", f"   4711 Rl   -   python3\n    900 Ssl  futex_wait_queue   {daemon}\n")(root)
        told = "<process_info><pid>4711</pid><type>C</type><process_name>python3</process_name></process_info>"
        head, mark, rest = (root / DETAILS).read_text().partition("<processes>")
        (root / DETAILS).write_text(f"{head}{mark}{told}{rest}")
        put("proc/4711/cgroup", f"0::{group}\n")(root)

    return edit


def persistence_off(*gpus: int) -> Edit:
    def edit(root: Path) -> None:
        rows = (root / PERSISTENCE).read_text().splitlines(keepends=True)
        (root / PERSISTENCE).write_text("".join(row.replace("Enabled", "Disabled") if number in gpus else row
                                                for number, row in enumerate(rows)))

    return edit


def fabric_says(text: str, count: int) -> Edit:
    return put(FABRIC, f"{text}\n" * count)


def daemon(unit: str, state: str) -> Edit:
    return put(f"cmd/systemctl_is-active_{unit}.service", state + "\n")


def package(name: str, before: str, after: str) -> Edit:
    """Another version in dpkg's database."""
    head = f"Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: net\nArchitecture: amd64\nVersion: "
    return replace("var/lib/dpkg/status", head + before, head + after)


def driverless(address: str) -> Edit:
    return remove(f"sys/bus/pci/devices/{address}/driver")


def loaded(module: str) -> Edit:
    return lambda root: put("proc/modules", (root / "proc/modules").read_text() + f"{module} 4096 0 - Live 0x0\n")(root)


SESSION = "/user.slice/user-1000.slice/session-3.scope"
SXID = "nvidia-nvswitch0: SXid (PCI:0000:d1:00.0): "
XIDS = (
    xid("b200-roce", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "fail", "fallen off the bus"),
    xid("b200-roce", 149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0)", "fail", "NETIR"),
    xid("b200-roce", 145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x8 0x0 0x0)", "warn", "RLW"),
    xid("gb200-roce", 119, "pid=20, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!", "fail", "GSP"),
    xid("gb200-roce", 140, "pid='<unknown>', name=<unknown>, Unrecovered ECC error", "fail", "unrecovered ECC"),
    xid("gb200-roce", 173, "C2C Fatal Link Failure", "fail", "between GPU and CPU"),
    xid("a100-roce", 48, "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU", "fail",
        "double bit"),
    xid("a100-roce", 64, "pid='<unknown>', name=<unknown>, Row Remapper: Failed to persist row", "fail", "reset the GPU"),
    xid("a100-roce", 63, "pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.", "warn",
        "remapping"),
    xid("a100-roce", 74, "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 5(0x10000, 0x0, 0x0, 0x0)", "fail",
        "nvlink --status"),
    xid("l40s-roce", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "fail", "fallen off the bus"),
    xid("l40s-roce", 31, "pid=12, name=python3, channel 0x7, intr 0. MMU Fault: ENGINE GRAPHICS faulted", "warn", "page fault"),
    xid("h100-ib", 94, "pid=12, name=python3, Contained: SM (0x1). RST: No, D-RST: No", "warn", "contained memory error"),
    xid("h100-ib", 95, "pid=12, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", "fail", "uncontained memory error"),
    xid("h100-ib", 154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "fail", "Drain and Reset"),
    xid("efa-p5", 120, "pid='<unknown>', name=<unknown>, GSP task exception: stack corruption (cause:0x2)", "fail", "GSP"),
    xid("efa-p5", 143, "pid='<unknown>', name=<unknown>, GPU Initialization Error", "fail", "initialization"),
    xid("vm", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "fail", "fallen off the bus", IN_VM),
    xid("vm", 92, "pid='<unknown>', name=<unknown>, High single-bit ECC error rate", "warn", "single bit", IN_VM),
    Fault("h100-ib", "an SXid, fatal", said(SXID + "20034, Fatal, Link 30 LTSSM Fault Up"), "gpu.sxid", "fail", "20034"),
    Fault("h100-ib", "an SXid, not fatal", said(SXID + "12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"), "gpu.sxid",
          "warn", "12028"),
    Fault("h100-ib", "an SXid of a switch's watchdog", said(SXID + "26008, SOE Watchdog error"), "gpu.sxid", "fail", "26008"),
)
OWN = (
    Fault("b200-roce", "asks for a reset", answer("gpu_recovery_action", "GPU Reset"), "gpu.recovery", "fail", "GPU Reset"),
    Fault("gb200-roce", "asks for a reboot", answer("gpu_recovery_action", "Node Reboot"), "gpu.recovery", "fail", "Node Reboot"),
    Fault("h100-ib", "asks to drain its peers", answer("gpu_recovery_action", "Drain P2P"), "gpu.recovery", "fail", "Drain P2P"),
    Fault("vm", "asks for a reset", tag("gpu_recovery_action", "Drain and Reset", [2]), "gpu.recovery", "fail", "Drain and Reset"),
    Fault("a100-roce", "an uncorrectable error, recovery unknown", together(silent("a100-roce"), answer("dram_uncorrectable", "1")),
          "gpu.ecc", "fail", "1 errors"),
    Fault("h100-ib", "an uncorrectable error that the GPU got over", answer("dram_uncorrectable", "1"), "gpu.ecc", "warn", "1 errors"),
    Fault("b200-roce", "SRAM errors beyond the threshold", answer("sram_threshold_exceeded", "Yes"), "gpu.ecc", "fail", "threshold"),
    Fault("l40s-roce", "ECC off on one GPU", answer("current_ecc", "Disabled"), "gpu.ecc", "warn", "ECC is off"),
    Fault("b200-roce", "row remapping failed", answer("remapped_row_failure", "Yes"), "gpu.remap", "fail", "could not be remapped"),
    Fault("efa-p5", "row remapping failed", answer("remapped_row_failure", "Yes"), "gpu.remap", "fail", "could not be remapped"),
    Fault("a100-roce", "row remapping waits", answer("remapped_row_pending", "Yes"), "gpu.remap", "warn", "waits for a reset"),
    Fault("gb200-roce", "the hardware slows down for heat", answer("clocks_event_reason_hw_thermal_slowdown", "Active"), "gpu.thermal",
          "fail", "for heat"),
    Fault("l40s-roce", "the hardware slows down for heat", answer("clocks_event_reason_hw_thermal_slowdown", "Active"), "gpu.thermal",
          "fail", "for heat"),
    Fault("b200-roce", "the driver slows down for heat", answer("clocks_event_reason_sw_thermal_slowdown", "Active"), "gpu.thermal",
          "warn", "driver"),
    Fault("a100-roce", "no degree left", answer("gpu_temp_tlimit", "-1 C"), "gpu.thermal", "warn", "at its limit"),
    Fault("h100-ib", "power brake", answer("clocks_event_reason_hw_power_brake_slowdown", "Active"), "gpu.clocks", "fail", "power brake"),
    Fault("b200-roce", "power brake on all GPUs", tag("clocks_event_reason_hw_power_brake_slowdown", "Active"), "gpu.clocks", "fail",
          "power brake"),
    Fault("a100-roce", "slowed down by hardware", answer("clocks_event_reason_hw_slowdown", "Active"), "gpu.clocks", "fail", "slow"),
    Fault("gb200-roce", "a lower power limit on one GPU", answer("current_power_limit", "500.00 W"), "gpu.power", "warn", "500 W"),
    Fault("gb200-roce", "bandwidth of the fabric degraded", answer("bandwidth", "Degraded"), "gpu.fabric", "fail", "bandwidth degraded"),
    Fault("b200-roce", "an unhealthy route of the fabric", answer("route_unhealthy", "True"), "gpu.fabric", "fail", "route"),
    Fault("b200-roce", "one GPU lost two NVLinks", nvlinks([53.125] * 18, [53.125] * 16 + [0.0] * 2), "gpu.nvlink", "fail", "16 of the"),
    Fault("gb200-roce", "one GPU without NVLinks", nvlinks([0.0] * 18, [53.125] * 18, count=4), "gpu.nvlink", "fail", "0 of the board's"),
    Fault("a100-roce", "NVLinks of half the GPUs are down", nvlinks(*[[25.0] * 12] * 4, [0.0] * 12), "gpu.nvlink", "fail", "0 of the"),
    Fault("efa-p5", "an NVLink down on all GPUs", nvlinks([26.562] * 17 + [0.0]), "gpu.nvlink", "fail", "17 of the board's 18"),
    Fault("h100-ib", "NVLinks recover from errors", put("cmd/nvidia-smi_nvlink_-e", (
        "GPU 1: NVIDIA H100 (UUID: GPU-00000000-0000-4000-8000-000000000001)\n\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 2\n"
    )), "gpu.nvlink", "warn", "recovery 2"),
    Fault("gb200-roce", "a GPU of another clique", fabric("cliqueId", "7", [2]), "gpu.domain", "fail", "clique 7"),
    Fault("gb200-roce", "a GPU outside the rack's domain", fabric("clusterUuid", "00000000-0000-0000-0000-000000000000", [1]),
          "gpu.domain", "fail", "00000000-0000"),
    Fault("b200-roce", "the fabric has no resources for a GPU", fabric("status", "Insufficient Resources", [3]), "gpu.domain", "fail",
          "Insufficient Resources"),
    Fault("h100-ib", "DCGM warns", dcgm("Warning", "Memory system", "A pending page retirement has been detected in GPU 1."), "gpu.dcgm",
          "warn", "pending page retirement"),
    Fault("b200-roce", "DCGM fails a GPU", together(silent("b200-roce"), dcgm("Failure", "NVLink system", "GPU 1's NvLink link 3 is down"
                                                                               )), "gpu.dcgm", "fail", "link 3 is down"),
    Fault("gb200-roce", "DCGM fails a GPU", together(silent("gb200-roce"), dcgm("Failure", "PCIe system", "PCIe replay rate is too high"
                                                                                 )), "gpu.dcgm", "fail", "replay rate"),
    Fault("h100-ib", "a login's process on a GPU of a Slurm node", holder(SESSION, "slurmd"), "gpu.jobless", "warn", "4711 (python3)"),
    Fault("l40s-roce", "a login's process on a GPU of a pods' node", holder(SESSION, "kubelet"), "gpu.jobless", "warn", "in no job"),
    Fault("a100-roce", "MIG on one GPU", answer("current_mig", "Enabled"), "gpu.mig", "warn", "MIG is Enabled"),
    Fault("h100-ib", "MIG waits for a reset", answer("pending_mig", "Enabled"), "gpu.mig", "warn", "becomes Enabled"),
    Fault("b200-roce", "nvidia-smi hangs", together(put(DETAILS, ""), put(DETAILS + ".rc", "124\n")), "gpu.answers", "fail",
          "does not answer"),
    Fault("a100-roce", "nvidia-smi misses a GPU", smi_without(3), "gpu.answers", "fail", "does not know it"),
    Fault("l40s-roce", "the driver cannot start a GPU", said(f"NVRM: GPU {GPUS[1]}: RmInitAdapter failed! (0x62:0x40:2477)"),
          "gpu.answers", "fail", "could not initialise"),
    Fault("efa-p5", "the driver cannot start a GPU", said(f"NVRM: GPU {GPUS[1]}: RmInitAdapter failed! (0x26:0x56:1499)"),
          "gpu.answers", "fail", "could not initialise"),
)
SERVICES = (
    Fault("h100-ib", "the fabric manager failed", daemon("nvidia-fabricmanager", "failed"), "gpu.fabricmanager", "fail", "does not run"),
    Fault("h100-ib", "the fabric manager is of another version", package("nvidia-fabricmanager-580", "580.95.05-1", "580.82.07-1"),
          "gpu.fabricmanager", "fail", "580.82.07"),
    Fault("h100-ib", "the fabric manager is not installed", together(
        remove("usr/lib/systemd/system/nvidia-fabricmanager.service"), remove("cmd/systemctl_is-active_nvidia-fabricmanager.service"),
        replace("var/lib/dpkg/status", "Package: nvidia-fabricmanager-580", "Package: other")), "gpu.fabricmanager", "fail",
          "not installed"),
    Fault("b200-roce", "the fabric is in progress for ever", fabric_says("In Progress, N/A", 8), "gpu.fabricmanager", "fail",
          "In Progress"),
    Fault("efa-p5", "the hypervisor's fabric manager gave up", fabric_says("Completed, System Not Ready", 8), "gpu.fabricmanager", "fail",
          "System Not Ready"),
    Fault("gb200-roce", "IMEX does not run", daemon("nvidia-imex", "failed"), "gpu.imex", "fail", "does not run"),
    Fault("gb200-roce", "IMEX is of another version", package("nvidia-imex", "580.95.05-1", "580.82.07-1"), "gpu.imex", "fail",
          "580.82.07"),
    Fault("gb200-roce", "no channel of IMEX", remove("dev/nvidia-caps-imex-channels/channel0"), "gpu.imex", "fail", "no channel"),
    Fault("l40s-roce", "persistence mode off on one GPU", persistence_off(4), "gpu.persistence", "warn", GPUS[4]),
    Fault("a100-roce", "persistence mode off on all", persistence_off(*range(8)), "gpu.persistence", "warn", "off on"),
    Fault("h100-ib", "a GPU that no driver has", driverless(GPUS[3]), "gpu.driver_loaded", "fail", GPUS[3]),
    Fault("b200-roce", "the driver was upgraded under the loaded one", replace(
        "cmd/modinfo_-k_6.8.0-85-generic_-F_version_nvidia", "580.95.05", "580.105.08"), "gpu.driver_loaded", "fail", "mismatch"),
    Fault("efa-p5", "the driver is not loaded", together(
        replace("proc/modules", "nvidia", "other"), remove("proc/driver/nvidia/version"), remove("sys/module/nvidia")),
          "gpu.driver_loaded", "fail", "no NVIDIA driver is loaded"),
    Fault("a100-roce", "nouveau is loaded", loaded("nouveau"), "gpu.nouveau", "fail", "nouveau is loaded"),
    Fault("vm", "nouveau is loaded", loaded("nouveau"), "gpu.nouveau", "fail", "nouveau is loaded"),
)
GONE = (
    Fault("efa-p5", "a GPU gone from the bus", off_the_bus(GPUS[5]), "pci.switch", "fail", "no GPU"),
    Fault("two-fabrics", "a GPU gone from the bus", off_the_bus(GPUS[2]), "pci.switch", "fail", "no GPU"),
    Fault("gb200-roce", "a GPU gone from the bus", off_the_bus(GPUS[2]), "pci.switch", "fail", "no GPU"),
)
FAULTS = (*XIDS, *OWN, *SERVICES, *GONE)


HEALTHY = (
    Healthy("b200-roce", "a job whose power is capped", tag("clocks_event_reason_sw_power_cap", "Active"), ("gpu.clocks", "gpu.thermal")),
    Healthy("h100-ib", "a driver that was loaded again", said("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64"), ("gpu.xid",)),
    Healthy("a100-roce", "MIG on all GPUs", together(tag("current_mig", "Enabled"), tag("pending_mig", "Enabled"), nvlinks([0.0] * 12))),
    Healthy("l40s-roce", "a job of Slurm on a GPU", holder("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "slurmd")),
    Healthy("b200-roce", "DCGM is content", dcgm("Healthy", "Memory system", ""), ("gpu.dcgm",)),
    Healthy("a100-roce", "rows were remapped and none waits", answer("remapped_row_unc", "2", 1, 3), ("gpu.remap",)),
    Healthy("gb200-roce", "one tray of a rack", nothing, ("gpu.domain", "gpu.imex", "gpu.nvlink", "gpu.fabricmanager")),
    Healthy("vm", "no NVSwitch is shown", nothing, ("gpu.xid",)),
)
