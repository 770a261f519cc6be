# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of the training benchmark: from step times to throughput and percentiles. Pure; needs no torch. Python 3.8."""

from __future__ import annotations

import math
from typing import Any, Sequence

PERCENTILES = (50, 75, 90, 95)


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between the two nearest values, as numpy.percentile does by default."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100.0
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def figures(step_seconds: Sequence[float], elapsed: float, world_size: int, batch: int) -> dict[str, Any]:
    """``step_seconds``: of the slowest rank in each step; ``elapsed``: from the barrier before the steps to the one after them.

    Throughput is that of the whole job and comes from the elapsed time; a percentile's own rate is what the job would do if every
    step took that long.
    """
    samples = world_size * batch
    found = {f"p{percent}": percentile(step_seconds, percent) for percent in PERCENTILES}
    return {
        "seconds": elapsed,
        "samples_per_s": samples * len(step_seconds) / elapsed,
        "step_ms": {name: seconds * 1000.0 for name, seconds in found.items()},
        "step_samples_per_s": {name: samples / seconds for name, seconds in found.items()},
    }


def line(found: dict[str, Any], label: str) -> str:
    """One line for people: percentile, step time, samples per second at that step time."""
    parts = [
        f"{name}: {milliseconds / 1000.0:.4f}s {found['step_samples_per_s'][name]:.0f}/s" for name, milliseconds in found["step_ms"].items()
    ]
    return f"{label}:  {'  '.join(parts)}"
