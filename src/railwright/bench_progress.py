# SPDX-License-Identifier: GPL-3.0-or-later
"""One line on how far a benchmark has come, out of the result of a poll; also the words for sizes and times."""

from __future__ import annotations

from typing import Any

from railwright.documents import integer, number, text

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size: int) -> str:
    """``16 GiB``; what is no whole multiple of a unit keeps two digits."""
    for power, unit in _UNITS:
        if size >= power:
            return f"{size / power:.4g} {unit}"
    return f"{size} B"


def progress_text(result: dict[str, Any]) -> str:
    """``all_reduce: 256 MiB after 12 s, 198.2 GB/s busbw``; what a poll did not say is left out."""
    found = result.get("progress")
    progress = found if isinstance(found, dict) else {}
    name = text(64)(progress.get("collective"))
    size, seconds = integer(progress.get("size")), number(progress.get("seconds"))
    steps, of = integer(progress.get("step")), integer(progress.get("steps"))
    reached = size_text(size) if size is not None and size > 0 else f"step {steps} of {of}" if steps is not None and of is not None else ""
    after = f"{seconds:.0f} s" if seconds is not None else ""
    told = " after ".join(part for part in (reached, after) if part)
    busbw = number(progress.get("busbw"))
    told += f", {busbw:.1f} GB/s busbw" if told and busbw is not None else ""
    return ": ".join(part for part in (name, told) if part)
