# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVIDIA driver's Xid numbers mean, and what NVIDIA says is to be done at once (its "resolution bucket").

Source: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html and its Xid-Catalog.xlsx (October 2025; Ampere and newer).
Numbers that it calls unused are left out: an unknown number only warns. 173 to 176, which it does not have yet, are those of nverror.h in
NVIDIA's open kernel modules 595.45.04 (March 2026), where 175 takes the place of 119 for a GSP that a memory error stopped (kernel_gsp.c).
An application's own fault never costs a node its jobs.
"""

from typing import Dict, NamedTuple, Optional, Tuple

SOURCE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
IGNORE, APP, SUPPORT, RESET, REBOOT, UPDATE = "IGNORE", "RESTART_APP", "CONTACT_SUPPORT", "RESET_GPU", "RESTART_BM", "UPDATE_SWFW"
RESTART_VM, CHECK_UVM, FATAL = "RESTART_VM", "CHECK_UVM", "FATAL"
ECC, NVLINK, NVLINK5, SOLO = "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_XID_45"
CABLES, RECOVERY, NONE = "CHECK_MECHANICALS", "XID_154", ""
GPU_RESET = "drain the node, reset the GPU (nvidia-smi --gpu-reset) or reboot; if it comes again, dcgmi diag -r 3, and return the GPU"
# Action -> the verdict that it makes, and what to do in words.
ACTIONS: Dict[str, Tuple[str, str]] = {
    IGNORE: ("warn", "NVIDIA asks for no action; follow it up if it comes again"),
    APP: ("warn", "restart the application; where others meet it on this GPU too, run dcgmi diag -r 3"),
    SOLO: ("warn", "follow the other Xids; alone it is the end of an application"),
    SUPPORT: ("warn", "ask NVIDIA if it comes again"),
    UPDATE: ("warn", "update driver and firmware"),
    NONE: ("warn", "NVIDIA's catalogue names no action"),
    CHECK_UVM: ("fail", "it follows another error: do what that one asks for; alone, reset the GPU if nvidia_uvm is in use"),
    RESTART_VM: ("fail", "drain the node and restart the VM that owns the GPU; without a VM reboot the node"),
    FATAL: ("fail", "NVIDIA's catalogue has no action for it yet; drain the node and reboot it; where it comes again, return the GPU"),
    RESET: ("fail", GPU_RESET),
    ECC: ("fail", GPU_RESET),
    NVLINK: ("fail", "drain the node, inspect nvidia-smi nvlink --status, reset all GPUs of the fabric; where it fails again return it"),
    NVLINK5: ("fail", "drain the node, inspect nvidia-smi nvlink --status and the fabric manager, then reset all GPUs of the fabric"),
    REBOOT: ("fail", "drain the node, power it off and on, reseat the GPU if it comes again; else return it"),
    CABLES: ("fail", "drain the node and connect the GPU's auxiliary power"),
    RECOVERY: ("fail", "do what the GPU asks for"),
}


class Xid(NamedTuple):
    """``action``: a key of ACTIONS."""

    name: str
    action: str


_ROWS: Tuple[Tuple[str, str, Tuple[int, ...]], ...] = (
    ("GPU stopped processing", APP, (8,)),
    ("invalid or corrupted push buffer stream", APP, (11, 32)),
    ("graphics engine exception, mostly an application's", APP, (13,)),
    ("invalid or illegal push buffer stream", APP, (25,)),
    ("GPU memory page fault, mostly an application's", APP, (31,)),
    ("driver firmware error", IGNORE, (37, 38)),
    ("copy engine exception", APP, (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))),
    ("GPU stopped processing, mostly an application's fault", IGNORE, (43,)),
    ("graphics engine fault during context switch", IGNORE, (44,)),
    ("preemptive cleanup after earlier errors", SOLO, (45,)),
    ("GPU stopped processing", RESET, (46,)),
    ("double bit ECC error", ECC, (48,)),
    ("auxiliary power is not connected to the GPU board", CABLES, (54,)),
    ("video processor exception", APP, (60,)),
    ("internal micro-controller halt", RESET, (62,)),
    ("row of memory is marked for remapping, or a page retired", IGNORE, (63,)),
    ("remapping of a row, or retirement of a page, failed", RESET, (64,)),
    ("illegal access by driver", IGNORE, (66, 67)),
    ("NVDEC exception", APP, (68, 83, 84, 88, 89, 96, 97, 98)),
    ("graphics engine class error", APP, (69,)),
    ("NVLink error", NVLINK, (74,)),
    ("vGPU start error", UPDATE, (78,)),
    ("GPU has fallen off the bus", REBOOT, (79,)),
    ("corrupted data sent to GPU", APP, (80,)),
    ("NVJPG exception", APP, (82, *range(99, 106))),
    ("OFA exception", APP, (86, 139)),
    ("high rate of single bit ECC errors", IGNORE, (92,)),
    ("test message of the GPU's management bus", IGNORE, (106, 107)),
    ("wear limit of the InfoROM exceeded", IGNORE, (93,)),
    ("contained memory error: only the application that met it ended", APP, (94,)),
    ("uncontained memory error", RESET, (95,)),
    ("context switch timeout", RESET, (109,)),
    ("security fault", RESET, (110,)),
    ("timeout of a call to the GPU's system processor (GSP)", RESET, (119,)),
    ("error of the GPU's system processor (GSP)", RESET, (120,)),
    ("C2C error", IGNORE, (121,)),
    ("link training failed", RESET, (136,)),
    ("NVLink privilege error, mostly an application's", IGNORE, (137,)),
    ("unrecovered ECC error", RESET, (140,)),
    ("CUDA fast path error", IGNORE, (141,)),
    ("NVENC3 error", SUPPORT, (142,)),
    ("GPU initialization error", RESET, (143,)),
    ("key rotation error", RESTART_VM, (151,)),
    ("DLA SMMU error", IGNORE, (152,)),
    ("DLA timeout", IGNORE, (153,)),
    ("GPU recovery action changed", RECOVERY, (154,)),
    ("NVLink: software defined error", RESET, (155,)),
    ("resource retirement event", RESET, (156,)),
    ("resource retirement failure", IGNORE, (157,)),
    ("GPU fatal timeout", RESET, (158,)),
    ("CHI non-data error", CHECK_UVM, (159,)),
    ("channel retirement event", IGNORE, (160,)),
    ("channel retirement failure", IGNORE, (161,)),
    ("power smoothing reengaged", NONE, (162,)),
    ("power smoothing disengaged", NONE, (163,)),
    ("power smoothing has little lifetime left", NONE, (164,)),
    ("power smoothing has no lifetime left", NONE, (165,)),
    ("NVLink: traffic before the link was set up for confidential computing", NONE, (166,)),
    ("PCIe fatal timeout", NONE, (167,)),
    ("errors in write protected memory", NONE, (168,)),
    ("internal micro-controller halt", NONE, (169,)),
    ("NVLink: interrupt in confidential computing mode", NONE, (170,)),
    ("details of an uncorrectable DRAM error (Xid 48)", NONE, (171,)),
    ("details of an uncorrectable SRAM error (Xid 48)", NONE, (172,)),
    ("C2C link between GPU and CPU failed", FATAL, (173,)),
    ("channel reset, and its process ended", NONE, (174,)),
    ("error of the memory subsystem, which stopped the GSP", RESET, (175,)),
    ("corrected PCIe errors beyond the limit", NONE, (176,)),
)
XIDS: Dict[int, Xid] = {number: Xid(name, action) for name, action, numbers in _ROWS for number in numbers}
XIDS.update((_number, Xid("NVLink: %s error" % _unit, NVLINK5)) for _number, _unit in (
    (144, "SAW"), (145, "RLW"), (146, "TLW"), (147, "TREX"), (148, "NVLPW_CTRL"), (149, "NETIR"), (150, "MSE")))

ASKS_NOTHING = "None"  # of gpu_recovery_action, and of Xid 154


def judged_xid(number: int, word: str, recovery: Optional[str]) -> Tuple[str, str]:
    """(status, what to do). ``word``: Fatal or Nonfatal of NVLink 5, the new action of Xid 154; ``recovery``: what the GPU itself asks for.

    A GPU that says that it needs nothing has been reset since, or got over it: only what takes a restart of the machine still counts.
    """
    known = XIDS.get(number)
    if known is None:
        return "warn", "this release does not know the number: look it up in NVIDIA's catalogue"
    status, todo = ACTIONS[known.action]
    if known.action == NVLINK5 and word == "Nonfatal":
        return "warn", "follow it up if it comes again"
    if known.action == RECOVERY and ASKS_NOTHING in (word, recovery):
        return "pass", ""
    if known.action == RECOVERY:
        return status, "it asks for: %s" % (recovery or word or "an action")
    if status == "fail" and recovery == ASKS_NOTHING and known.action not in (REBOOT, CABLES, FATAL):
        return "warn", "the GPU itself asks for no action now (gpu_recovery_action None)"
    return status, todo
