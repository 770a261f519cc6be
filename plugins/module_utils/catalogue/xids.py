# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVIDIA driver's Xid numbers mean, and what NVIDIA says is to be done at once (its "resolution bucket").

Source: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (October 2025; Ampere and newer). Numbers that it calls unused
are left out: one that is not here is said to be unknown, and only warns. What is an application's own fault never costs a node its jobs.
"""

from typing import Dict, NamedTuple, Optional, Tuple

SOURCE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
IGNORE, APP, SUPPORT, RESET, REBOOT, UPDATE = "IGNORE", "RESTART_APP", "CONTACT_SUPPORT", "RESET_GPU", "RESTART_BM", "UPDATE_SWFW"
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


XIDS: Dict[int, Xid] = {
    8: Xid("GPU stopped processing", APP),
    11: Xid("invalid or corrupted push buffer stream", APP),
    13: Xid("graphics engine exception, mostly an application's", APP),
    25: Xid("invalid or illegal push buffer stream", APP),
    31: Xid("GPU memory page fault, mostly an application's", APP),
    32: Xid("invalid or corrupted push buffer stream", APP),
    37: Xid("driver firmware error", IGNORE),
    38: Xid("driver firmware error", IGNORE),
    43: Xid("GPU stopped processing, mostly an application's fault", IGNORE),
    44: Xid("graphics engine fault during context switch", IGNORE),
    45: Xid("preemptive cleanup after earlier errors", SOLO),
    46: Xid("GPU stopped processing", RESET),
    48: Xid("double bit ECC error", ECC),
    54: Xid("auxiliary power is not connected to the GPU board", CABLES),
    60: Xid("video processor exception", APP),
    62: Xid("internal micro-controller halt", RESET),
    63: Xid("row of memory is marked for remapping, or a page retired", IGNORE),
    64: Xid("remapping of a row, or retirement of a page, failed", RESET),
    66: Xid("illegal access by driver", IGNORE),
    67: Xid("illegal access by driver", IGNORE),
    69: Xid("graphics engine class error", APP),
    74: Xid("NVLink error", NVLINK),
    78: Xid("vGPU start error", UPDATE),
    79: Xid("GPU has fallen off the bus", REBOOT),
    80: Xid("corrupted data sent to GPU", APP),
    92: Xid("high rate of single bit ECC errors", IGNORE),
    93: Xid("wear limit of the InfoROM exceeded", IGNORE),
    94: Xid("contained memory error: only the application that met it ended", APP),
    95: Xid("uncontained memory error", RESET),
    109: Xid("context switch timeout", RESET),
    110: Xid("security fault", RESET),
    119: Xid("timeout of a call to the GPU's system processor (GSP)", RESET),
    120: Xid("error of the GPU's system processor (GSP)", RESET),
    121: Xid("C2C error", IGNORE),
    136: Xid("link training failed", RESET),
    137: Xid("NVLink privilege error, mostly an application's", IGNORE),
    140: Xid("unrecovered ECC error", RESET),
    141: Xid("CUDA fast path error", IGNORE),
    142: Xid("NVENC3 error", SUPPORT),
    143: Xid("GPU initialization error", RESET),
    144: Xid("NVLink: SAW error", NVLINK5),
    145: Xid("NVLink: RLW error", NVLINK5),
    146: Xid("NVLink: TLW error", NVLINK5),
    147: Xid("NVLink: TREX error", NVLINK5),
    148: Xid("NVLink: NVLPW_CTRL error", NVLINK5),
    149: Xid("NVLink: NETIR error", NVLINK5),
    150: Xid("NVLink: MSE error", NVLINK5),
    151: Xid("key rotation error", RESET),
    152: Xid("DLA SMMU error", IGNORE),
    153: Xid("DLA timeout", IGNORE),
    154: Xid("GPU recovery action changed", RECOVERY),
    155: Xid("NVLink: software defined error", RESET),
    156: Xid("resource retirement event", RESET),
    157: Xid("resource retirement failure", IGNORE),
    158: Xid("GPU fatal timeout", RESET),
    159: Xid("CHI non-data error", APP),
    160: Xid("channel retirement event", IGNORE),
    161: Xid("channel retirement failure", IGNORE),
    162: Xid("power smoothing reengaged", NONE),
    163: Xid("power smoothing disengaged", NONE),
    164: Xid("power smoothing has little lifetime left", NONE),
    165: Xid("power smoothing has no lifetime left", NONE),
    167: Xid("PCIe fatal timeout", NONE),
    168: Xid("errors in write protected memory", NONE),
    169: Xid("internal micro-controller halt", NONE),
    171: Xid("details of an uncorrectable DRAM error (Xid 48)", NONE),
    172: Xid("details of an uncorrectable SRAM error (Xid 48)", NONE),
}
for _name, _numbers in (
    ("copy engine exception", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85) + tuple(range(126, 136))),
    ("NVDEC exception", (68, 83, 84, 88, 89, 96, 97, 98)), ("NVJPG exception", (82,) + tuple(range(99, 106))),
    ("OFA exception", (86, 139)),
):
    XIDS.update((_number, Xid(_name, APP)) for _number in _numbers)

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
    if status == "fail" and recovery == ASKS_NOTHING and known.action not in (REBOOT, CABLES):
        return "warn", "the GPU itself asks for no action now (gpu_recovery_action None)"
    return status, todo
