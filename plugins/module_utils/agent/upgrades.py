# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that a node's checks depend on, and when each changed last. Pure.

A check that begins to fail on many nodes just after one of them changed is more likely wrong than right.
"""

from typing import Any, Dict, List, Mapping, Optional

from ..formats.outside import mapping
from .history import Moment, is_stamped

DRIVER, FIRMWARE, OURS = "driver", "firmware", "railwright"
TEXT = 120  # characters of a version


def versions(facts: Mapping[str, Any], release: str) -> Dict[str, str]:
    """Return the versions that were read; one that was not read is left out, so it never counts as a change."""
    driver = mapping(facts.get("gpu_driver")).get("version")
    firmware = sorted({str(hca["fw_ver"]) for hca in facts.get("hcas") or [] if hca.get("fw_ver")})
    found = {OURS: release, DRIVER: driver, FIRMWARE: " ".join(firmware)}
    return {name: str(value)[:TEXT] for name, value in found.items() if value}


def model(facts: Mapping[str, Any]) -> str:
    """Return what the node is by its GPUs and HCAs, such as ``NVIDIA H200, MT4129``."""
    names = sorted({str(gpu.get("name") or gpu.get("device_id") or "") for gpu in facts.get("gpus") or []})
    types = sorted({str(hca["hca_type"]) for hca in facts.get("hcas") or [] if hca.get("hca_type")})
    return ", ".join(name for name in names + types if name)[:TEXT]


def remembered(kept: Any) -> Dict[str, Dict[str, Any]]:
    """Return what ``state.json`` holds of them; anything malformed is left out."""
    return {name: row for name, row in mapping(kept).items()
            if isinstance(row, dict) and isinstance(row.get("value"), str) and (row.get("at") is None or is_stamped(row["at"]))}


def renewed(kept: Mapping[str, Dict[str, Any]], now: Mapping[str, str], moment: Moment) -> Dict[str, Dict[str, Any]]:
    """Return each version with ``at``, the moment at which it came in the place of another; None for the first that was seen.

    Firmware versions that are only fewer than before are no upgrade: an HCA is gone.
    """
    found = dict(kept)
    for name, value in now.items():
        before = kept.get(name)
        if before is None:
            found[name] = {"value": value, "at": None}
        elif before["value"] != value:
            came = set(value.split()) - set(before["value"].split())
            found[name] = {"value": value, "at": dict(moment._asdict()) if came else before["at"]}
    return found


def last_upgrade(kept: Mapping[str, Dict[str, Any]], moment: Moment, seconds: float) -> Optional[float]:
    """Return when the last change was, in seconds since the epoch, if it was within so many seconds."""
    recent: List[float] = [float(row["at"]["t"]) for row in kept.values() if row["at"] is not None and moment.since(row["at"]) < seconds]
    return max(recent) if recent else None


def told(kept: Mapping[str, Dict[str, Any]], moment: Moment) -> List[Dict[str, Any]]:
    """Return them for the controller: name, value, and seconds since the change or None."""
    return [{"name": name, "value": row["value"], "ago": None if row["at"] is None else moment.since(row["at"])}
            for name, row in sorted(kept.items())]
