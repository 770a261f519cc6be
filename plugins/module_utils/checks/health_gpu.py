# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of a GPU's bad health in what it says of itself (observe/gpu_health.py). Pure.

A GPU is held against its own limits, then against the table of boards, and against the node's other GPUs of its kind only where neither
has a figure. Its own ``gpu_recovery_action`` comes first: where it says None, an error that it got over only warns.
"""

from typing import Any, Callable, List, Mapping, Optional, Sequence

from ..catalogue.boards import WITH_HBM, linked_board
from ..catalogue.xids import ASKS_NOTHING
from .health_nvlink import domain_signs, domains_judged, nvlink_signs, nvlinks_judged
from .signs import Sign, gpu_sign, majority

TIMED_OUT, NOT_THERE, VERSION_MISMATCH = 124, 127, 18  # the last: NVML_ERROR_LIB_RM_VERSION_MISMATCH, nvml.h
# A device filter of systemd or of a container (DeviceAllow=, cgroup v2): opening /dev/nvidia0 is refused, to root too.
HIDDEN = "hidden from this session: the driver has %s, and a device filter (sshd's DeviceAllow=, a job's cgroup) refuses /dev/nvidia*"
UNHIDE = "look from outside the session: systemd-run --pipe --wait railwright check, or the agent's findings"
RELOAD = "the driver was upgraded under a running node: unload and load its modules, or reboot"
SLOWED = {"hw_power_brake_slowdown": "the power brake is on", "hw_slowdown": "hardware slowdown is on"}


def gpu_signs(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[Sign]:
    gpu = health.get("gpu")
    if not gpu:
        return []
    if not gpu["answered"]:
        return [_silent(facts, gpu)]
    known = [row["pci"] for row in gpu["gpus"]]
    found = [_missing(facts, gpu, pci) for pci in gpu["driven"] if pci not in known]
    for row in gpu["gpus"]:
        like = [other for other in gpu["gpus"] if other["name"] == row["name"]]
        found += [sign for judge in JUDGES for sign in judge(row, like)]
    return found + nvlink_signs(facts, health) + domain_signs(facts, health) + _dcgm_signs(gpu)


# What every GPU must have told, so that a check can pass; and what it may lack, but must not leave without a value (``unread``).
TOLD = {
    "gpu.recovery": ("recovery",), "gpu.ecc": ("volatile_uncorrected", "ecc", "sram_threshold"),
    "gpu.remap": ("remap_pending", "remap_failed"), "gpu.thermal": ("held_back", "hw_thermal_slowdown", "sw_thermal_slowdown"),
    "gpu.clocks": ("held_back", "hw_slowdown", "hw_power_brake_slowdown"), "gpu.power": ("limit_watts", "default_watts"),
    "gpu.fabric": ("fabric_bandwidth", "fabric_health", "fabric_route"), "gpu.mig": ("mig", "mig_pending"),
}


def gpu_looked(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[str]:
    gpu = health.get("gpu") or {}
    found = [check for check in TOLD if all(_told(check, row) for row in gpu["gpus"])] if gpu.get("answered") else []
    found += [check for check, name in (("gpu.answers", "answered"), ("gpu.dcgm", "dcgm")) if gpu.get(name)]
    judged = (("gpu.nvlink", nvlinks_judged(facts, health)), ("gpu.domain", domains_judged(health)))
    return found + [check for check, complete in judged if complete]


def _told(check: str, row: Mapping[str, Any]) -> bool:
    """Boards before Hopper have a temperature at which they slow down, later ones the degrees that are left (nvidia-smi(1))."""
    unread = row.get("unread") or ()
    limited = row.get("margin_celsius") is not None or None not in (row.get("celsius"), row.get("slow_celsius"))
    cool = limited or not {"margin_celsius", "slow_celsius"} & set(unread)  # NVML may name none of them
    return row[TOLD[check][0]] is not None and not any(name in unread for name in TOLD[check]) and (cool or check != "gpu.thermal")


def _missing(facts: Mapping[str, Any], gpu: Mapping[str, Any], pci: str) -> Sign:
    """A GPU that the driver has and nvidia-smi does not show. One that a container was not given is another's affair."""
    if pci in (gpu.get("hidden") or []):
        if facts.get("virtual") == "container":
            return gpu_sign("gpu.answers", pci, "skipped", "hidden", "this container was not given the GPU")
        return gpu_sign("gpu.answers", pci, "unknown", "hidden", HIDDEN % "it")._replace(todo=UNHIDE)
    return gpu_sign("gpu.answers", pci, "fail", "no answer", "the driver has it and nvidia-smi does not know it")


def _silent(facts: Mapping[str, Any], gpu: Mapping[str, Any]) -> Sign:
    modes = ((facts.get("gpu_driver") or {}).get("persistence") or {}).get("mode")
    waking = gpu["rc"] == TIMED_OUT and modes is not None and any(mode != "Enabled" for mode in modes.values())
    if set(gpu["driven"]) <= set(gpu.get("hidden") or []):
        return Sign("gpu.answers", "GPUs", None, "unknown", "hidden", HIDDEN % "the GPUs", UNHIDE)
    unknown = gpu["rc"] == NOT_THERE or gpu["denied"] or waking
    hint = "; without persistence mode every call initialises the GPUs first" if waking else ""
    text = "nvidia-smi does not answer: %s%s" % (gpu["why"], hint)
    todo = RELOAD if gpu["rc"] == VERSION_MISMATCH else ""
    return Sign("gpu.answers", "GPUs", None, "unknown" if unknown else "fail", "no answer", text, todo)


def _recovery(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    action = row.get("recovery")
    if action not in (None, ASKS_NOTHING):
        return [gpu_sign("gpu.recovery", row["pci"], "fail", action, "the GPU asks for: %s" % action)]
    if row.get("reset_required") == "Yes":
        return [gpu_sign("gpu.recovery", row["pci"], "fail", "reset required", "the GPU asks for a reset")]
    return []


def _ecc(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    found, bad = [], row.get("volatile_uncorrected")
    if bad:
        status = "warn" if row.get("recovery") == ASKS_NOTHING else "fail"
        text = "%d errors that ECC could not correct since the driver was loaded, %s in its life" % (bad, row.get("aggregate_uncorrected"))
        found.append(gpu_sign("gpu.ecc", row["pci"], status, str(bad), text))
    if row.get("sram_threshold"):
        text = "uncorrectable SRAM errors are beyond NVIDIA's threshold: return the GPU"
        found.append(gpu_sign("gpu.ecc", row["pci"], "fail", "SRAM threshold", text))
    board = linked_board(str(row.get("name")))
    delivered = board is not None and board.capability in WITH_HBM
    if row.get("ecc") == "Disabled" and (delivered or any(other.get("ecc") == "Enabled" for other in like)):
        text = "ECC is off: the board is delivered with ECC on" if delivered else "ECC is off, and on for its peer GPUs"
        found.append(gpu_sign("gpu.ecc", row["pci"], "warn", "ECC off", text))
    return found


def _remap(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    rows = (("remap_failed", "fail", "a row of memory could not be remapped, or memory cannot be repaired"),
            ("remap_pending", "warn", "a remapped row or a repair waits for a reset of the GPU"),
            ("retire_pending", "warn", "a page of memory waits for a reboot to be retired"))
    return [gpu_sign("gpu.remap", row["pci"], status, name, text) for name, status, text in rows if row.get(name)]


def _thermal(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    reasons, pci, warm = row.get("held_back") or [], row["pci"], "%s C" % row.get("celsius")
    for reason, status, who in (("hw_thermal_slowdown", "fail", "hardware"), ("sw_thermal_slowdown", "warn", "the driver")):
        if reason in reasons:
            return [gpu_sign("gpu.thermal", pci, status, warm, "%s holds its clocks back for heat at %s" % (who, warm))]
    margin = row.get("margin_celsius")
    limits = (("celsius", "slow_celsius"), ("memory_celsius", "memory_limit_celsius"))
    hot = any(row.get(value) is not None and row.get(limit) is not None and row[value] >= row[limit] > 0 for value, limit in limits)
    hot = hot or (margin is not None and margin <= 0)
    return [gpu_sign("gpu.thermal", pci, "warn", warm, "it is at its limit with %s" % warm)] if hot else []


def _clocks(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """hw_slowdown is on with heat and power brake too, so it counts alone only where neither is."""
    reasons = row.get("held_back") or []
    named = [name for name in SLOWED if name in reasons and not (name == "hw_slowdown" and len({"hw_thermal_slowdown",
             "hw_power_brake_slowdown"} & set(reasons)))]
    return [gpu_sign("gpu.clocks", row["pci"], "fail", name, SLOWED[name]) for name in named]


def _odd(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]], name: str) -> Optional[Any]:
    """Return what more than half of its peer GPUs report, where this one reports something else."""
    usual = majority([other.get(name) for other in like])
    return usual if row.get(name) not in (None, usual) else None


def _power(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """The board's own default limit first: a limit that somebody set on all GPUs shows in no comparison of peers."""
    limit, default = row.get("limit_watts"), row.get("default_watts")
    usual = default if limit is not None and default is not None and limit < default else _odd(row, like, "limit_watts")
    if limit is None or usual is None:
        return []
    whose = "the board's default" if usual == default else "that of its peer GPUs"
    return [gpu_sign("gpu.power", row["pci"], "warn", "%g W" % limit, "its power limit is %g W, %s %g W" % (limit, whose, usual))]


def _mig(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    usual = _odd(row, like, "mig")
    if usual is not None:
        return [gpu_sign("gpu.mig", row["pci"], "warn", row["mig"], "MIG is %s, on its peer GPUs %s" % (row["mig"], usual))]
    if row.get("mig") and row.get("mig_pending") not in (None, row["mig"]):
        text = "MIG is %s and becomes %s with the next reset" % (row["mig"], row["mig_pending"])
        return [gpu_sign("gpu.mig", row["pci"], "warn", "pending", text)]
    return []


def _fabric(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    bad = [text for text in (
        "health %s" % row["fabric_health"] if row.get("fabric_health") in ("Unhealthy", "Limited Capacity") else "",
        "bandwidth degraded" if row.get("fabric_bandwidth") == "Degraded" else "",
        "route unhealthy" if row.get("fabric_route") in ("True", "Yes") else "") if text]
    return [gpu_sign("gpu.fabric", row["pci"], "fail", bad[0], "it says of the NVLink fabric: %s" % ", ".join(bad))] if bad else []


def _errors(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    counted = {kind: count for kind, count in (row.get("nvlink_errors") or {}).items() if count}
    text = ", ".join("%s %d" % item for item in sorted(counted.items()))
    said = "errors of its NVLinks since the driver was loaded: %s" % text
    return [gpu_sign("gpu.nvlink", row["pci"], "warn", text, said)] if counted else []


JUDGES: Sequence[Callable[..., List[Sign]]] = (_recovery, _ecc, _remap, _thermal, _clocks, _power, _mig, _fabric, _errors)


def _dcgm_signs(gpu: Mapping[str, Any]) -> List[Sign]:
    """Where every GPU says itself that it needs nothing, DCGM's failure only warns."""
    dcgm = gpu.get("dcgm") or {"overall": "Healthy"}
    if dcgm["overall"] == "Healthy":
        return []
    well = dcgm["overall"] == "Warning" or all(row.get("recovery") == ASKS_NOTHING for row in gpu["gpus"])
    text = "DCGM says %s of %s" % (dcgm["overall"], ", ".join(dcgm["incidents"][:3]) or "the node's GPUs")
    return [Sign("gpu.dcgm", "GPUs", None, "warn" if well else "fail", dcgm["overall"], text)]
