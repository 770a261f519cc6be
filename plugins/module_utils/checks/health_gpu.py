# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of a GPU's bad health in what it says of itself (observe/gpu_health.py). Pure.

A GPU is held against its own limits and against the node's other GPUs of its kind, never against a figure of ours. Its own
``gpu_recovery_action`` comes first: where it says None, an error that it got over only warns.
"""

from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence

from ..catalogue.xids import ASKS_NOTHING
from ..formats.text import grouped

TIMED_OUT, NOT_THERE = 124, 127
SLOWED = {"hw_power_brake_slowdown": "the power brake is on", "hw_slowdown": "hardware slowdown is on"}


class Sign(NamedTuple):
    """Of bad health. ``found``: in a word or two. ``todo``: where it is other than what the catalogue says of the check."""

    check: str
    subject: str
    hca: Optional[str]
    status: str
    found: str
    text: str
    todo: str = ""


def gpu_subject(pci: str) -> str:
    return "GPU %s" % pci


def gpu_signs(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[Sign]:
    gpu = health.get("gpu")
    if not gpu:
        return []
    if not gpu["answered"]:
        return [_silent(facts, gpu)]
    known = [row["pci"] for row in gpu["gpus"]]
    found = [_sign("gpu.answers", pci, "fail", "no answer", "the driver has it and nvidia-smi does not know it")
             for pci in gpu["driven"] if pci not in known]
    for row in gpu["gpus"]:
        like = [other for other in gpu["gpus"] if other["name"] == row["name"]]
        found += [sign for judge in JUDGES for sign in judge(row, like)]
    return found + _nvlink_signs(facts) + _dcgm_signs(gpu)


# What every GPU must have told, so that a check can pass.
TOLD = {"gpu.recovery": "recovery", "gpu.ecc": "volatile_uncorrected", "gpu.remap": "remap_pending", "gpu.thermal": "held_back",
        "gpu.clocks": "held_back", "gpu.power": "limit_watts", "gpu.fabric": "fabric_bandwidth", "gpu.mig": "mig"}


def gpu_looked(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[str]:
    gpu = health.get("gpu") or {}
    found = [check for check, name in TOLD.items() if all(row[name] is not None for row in gpu["gpus"])] if gpu.get("answered") else []
    found += [check for check, name in (("gpu.answers", "answered"), ("gpu.dcgm", "dcgm")) if gpu.get(name)]
    return found + (["gpu.nvlink"] if all(row.get("nvlinks") for row in facts.get("gpus") or [{}]) else [])


def _sign(check: str, pci: str, status: str, found: str, text: str) -> Sign:
    return Sign(check, gpu_subject(pci), None, status, found, text)


def _silent(facts: Mapping[str, Any], gpu: Mapping[str, Any]) -> Sign:
    modes = ((facts.get("gpu_driver") or {}).get("persistence") or {}).get("mode")
    waking = gpu["rc"] == TIMED_OUT and modes is not None and any(mode != "Enabled" for mode in modes.values())
    unknown = gpu["rc"] == NOT_THERE or gpu["denied"] or waking
    hint = "; without persistence mode every call initialises the GPUs first" if waking else ""
    text = "nvidia-smi does not answer: %s%s" % (gpu["why"], hint)
    return Sign("gpu.answers", "GPUs", None, "unknown" if unknown else "fail", "no answer", text)


def _recovery(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    action = row.get("recovery")
    if action not in (None, ASKS_NOTHING):
        return [_sign("gpu.recovery", row["pci"], "fail", action, "the GPU asks for: %s" % action)]
    if row.get("reset_required") == "Yes":
        return [_sign("gpu.recovery", row["pci"], "fail", "reset required", "the GPU asks for a reset")]
    return []


def _ecc(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    found, bad = [], row.get("volatile_uncorrected")
    if bad:
        status = "warn" if row.get("recovery") == ASKS_NOTHING else "fail"
        text = "%d errors that ECC could not correct since the driver was loaded, %s in its life" % (bad, row.get("aggregate_uncorrected"))
        found.append(_sign("gpu.ecc", row["pci"], status, str(bad), text))
    if row.get("sram_threshold"):
        text = "uncorrectable SRAM errors are beyond NVIDIA's threshold: return the GPU"
        found.append(_sign("gpu.ecc", row["pci"], "fail", "SRAM threshold", text))
    if row.get("ecc") == "Disabled" and any(other.get("ecc") == "Enabled" for other in like):
        found.append(_sign("gpu.ecc", row["pci"], "warn", "ECC off", "ECC is off, and on for others of its kind"))
    return found


def _remap(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    rows = (("remap_failed", "fail", "a row of memory could not be remapped, or memory cannot be repaired"),
            ("remap_pending", "warn", "a remapped row or a repair waits for a reset of the GPU"),
            ("retire_pending", "warn", "a page of memory waits for a reboot to be retired"))
    return [_sign("gpu.remap", row["pci"], status, name, text) for name, status, text in rows if row.get(name)]


def _thermal(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    reasons, pci, warm = row.get("held_back") or [], row["pci"], "%s C" % row.get("celsius")
    for reason, status, who in (("hw_thermal_slowdown", "fail", "hardware"), ("sw_thermal_slowdown", "warn", "the driver")):
        if reason in reasons:
            return [_sign("gpu.thermal", pci, status, warm, "%s holds its clocks back for heat at %s" % (who, warm))]
    margin = row.get("margin_celsius")
    limits = (("celsius", "slow_celsius"), ("memory_celsius", "memory_limit_celsius"))
    hot = any(row.get(value) is not None and row.get(limit) is not None and row[value] >= row[limit] > 0 for value, limit in limits)
    hot = hot or (margin is not None and margin <= 0)
    return [_sign("gpu.thermal", pci, "warn", warm, "it is at its limit with %s" % warm)] if hot else []


def _clocks(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """hw_slowdown is on with heat and power brake too, so it counts alone only where neither is."""
    reasons = row.get("held_back") or []
    named = [name for name in SLOWED if name in reasons and not (name == "hw_slowdown" and len({"hw_thermal_slowdown",
             "hw_power_brake_slowdown"} & set(reasons)))]
    return [_sign("gpu.clocks", row["pci"], "fail", name, SLOWED[name]) for name in named]


def _odd(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]], name: str) -> Optional[Any]:
    """What more than half of its kind say where this one says something else; None where it agrees or there are no two."""
    known = [other[name] for other in like if other.get(name) is not None]
    usual = max(known, key=known.count) if known else None
    return usual if row.get(name) not in (None, usual) and 2 * known.count(usual) > len(known) else None


def _power(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    usual = _odd(row, like, "limit_watts")
    if usual is None:
        return []
    text = "its power limit is %g W, that of its like %g W" % (row["limit_watts"], usual)
    return [_sign("gpu.power", row["pci"], "warn", "%g W" % row["limit_watts"], text)]


def _mig(row: Mapping[str, Any], like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    usual = _odd(row, like, "mig")
    if usual is not None:
        return [_sign("gpu.mig", row["pci"], "warn", row["mig"], "MIG is %s, on its like %s" % (row["mig"], usual))]
    if row.get("mig") and row.get("mig_pending") not in (None, row["mig"]):
        text = "MIG is %s and becomes %s with the next reset" % (row["mig"], row["mig_pending"])
        return [_sign("gpu.mig", row["pci"], "warn", "pending", text)]
    return []


def _fabric(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    bad = [text for text in (
        "health %s" % row["fabric_health"] if row.get("fabric_health") in ("Unhealthy", "Limited Capacity") else "",
        "bandwidth degraded" if row.get("fabric_bandwidth") == "Degraded" else "",
        "route unhealthy" if row.get("fabric_route") in ("True", "Yes") else "") if text]
    return [_sign("gpu.fabric", row["pci"], "fail", bad[0], "it says of the NVLink fabric: %s" % ", ".join(bad))] if bad else []


def _errors(row: Mapping[str, Any], _like: Sequence[Mapping[str, Any]]) -> List[Sign]:
    counted = {kind: count for kind, count in (row.get("nvlink_errors") or {}).items() if count}
    text = ", ".join("%s %d" % item for item in sorted(counted.items()))
    said = "errors of its NVLinks since the driver was loaded: %s" % text
    return [_sign("gpu.nvlink", row["pci"], "warn", text, said)] if counted else []


JUDGES: Sequence[Callable[..., List[Sign]]] = (_recovery, _ecc, _remap, _thermal, _clocks, _power, _mig, _fabric, _errors)


def _nvlink_signs(facts: Mapping[str, Any]) -> List[Sign]:
    """Fewer links than most of its kind. A card without any beside bridged ones may be meant so; behind an NVSwitch it is not."""
    kinds = grouped((str(gpu.get("device_id")), gpu) for gpu in facts.get("gpus") or [] if gpu.get("nvlinks") is not None)
    switched = "Completed" in (((facts.get("gpu_driver") or {}).get("fabricmanager") or {}).get("states") or [])
    kept = [(max(len(gpu["nvlinks"]) for gpu in gpus), gpus) for gpus in kinds.values()]
    rows = [(gpu["pci"], len(gpu["nvlinks"]), best) for best, gpus in kept for gpu in gpus]
    return [_sign("gpu.nvlink", pci, "fail", "%d links" % up, "%d NVLinks are up, %d on others of its kind" % (up, best))
            for pci, up, best in rows if up < best and (up or switched)]


def _dcgm_signs(gpu: Mapping[str, Any]) -> List[Sign]:
    """Where every GPU says itself that it needs nothing, DCGM's failure only warns."""
    dcgm = gpu.get("dcgm") or {"overall": "Healthy"}
    if dcgm["overall"] == "Healthy":
        return []
    well = dcgm["overall"] == "Warning" or all(row.get("recovery") == ASKS_NOTHING for row in gpu["gpus"])
    text = "DCGM says %s of %s" % (dcgm["overall"], ", ".join(dcgm["incidents"][:3]) or "the node's GPUs")
    return [Sign("gpu.dcgm", "GPUs", None, "warn" if well else "fail", dcgm["overall"], text)]
