# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a drift hurts: as its area's row says, but what is only for the next boot (a file, an enabled unit) is never critical."""

from ..types import AT_BOOT, CRITICAL, MAJOR, MINOR, Change
from .areas import BY_NAME


def of_change(change: Change) -> str:
    severity = BY_NAME[change.area].severity if change.area in BY_NAME else MAJOR
    return MAJOR if change.when == AT_BOOT and severity == CRITICAL else severity


def of_verdict(area: str, status: str) -> str:
    """A verdict that warns is minor whatever it is about; what no area sets (a cable, a dead HCA) is critical."""
    if status == "warn":
        return MINOR
    return BY_NAME[area].severity if area in BY_NAME else CRITICAL
