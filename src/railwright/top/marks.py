# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands out in a document: marks of nodes, rails and GPUs, each beside its like, and the order in which they are shown. Pure."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from statistics import median
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.sysfs_values import natural_key
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped

IDLE = 0.02  # of the busiest of its like: who moves less takes no part, and is held against nobody
BUSY = 0.005  # of what they could move: the median of those that take part
BEHIND = 0.8  # of that median
USED = 50  # per cent: a GPU whose clock says something
# The worst first: its place decides the order of rows.
MARKS = ("lost", "down", "held_back", "behind", "lossy", "paused", "congested", "reordered")
GROWS = {"lossy": ("retransmissions",), "paused": ("pauses_out", "pauses_in", "waits"), "congested": ("cnp_out", "cnp_in"),
         "reordered": ("out_of_sequence",)}
HARMLESS = "sw_power_cap"  # a GPU at full load
Row = tuple[Any, float | None, float | None]  # its like; what it moves; what it could


def behind(rows: Iterable[Row]) -> list[float | None]:
    """For each the median of its like, where it falls behind that."""
    given = list(rows)
    likes = grouped((like, (moved, most)) for like, moved, most in given if moved is not None and most)
    middles: dict[Any, tuple[float, float]] = {}
    for like, each in likes.items():
        least = IDLE * max(each)[0]
        taking = [moved for moved, _most in each if moved >= least]
        if len(taking) > 1 and median(taking) >= BUSY * each[0][1]:
            middles[like] = least, median(taking)
    found: list[float | None] = []
    for like, moved, _most in given:
        least, middle = middles.get(like, (0.0, 0.0))
        found.append(middle if moved is not None and least <= moved < BEHIND * middle else None)
    return found


def moved_by(rail: Mapping[str, Any]) -> float | None:
    """The busier way."""
    known = [way for way in (rail["out_gbps"], rail["in_gbps"]) if way is not None]
    return max(known, default=None)


def mark(document: dict[str, Any]) -> None:
    """Write the marks of a document into it."""
    nodes = document["nodes"].values()
    for node in nodes:
        node["marks"] = []
    rails = [rail for node in nodes for rail in node["rails"]]
    for rail, middle in zip(rails, behind((rail["rate_gbps"], moved_by(rail), rail["rate_gbps"]) for rail in rails), strict=True):
        found = {"down": rail["state"] not in ("ACTIVE", None), "behind": middle is not None}
        found |= {name: any(rail[key] for key in keys) for name, keys in GROWS.items()}
        rail["marks"] = [name for name in MARKS if found.get(name)]
    gpus = [gpu for node in nodes for gpu in node["gpus"]]
    clocks = ((gpu["max_mhz"], gpu["mhz"] if (gpu["use"] or 0) >= USED else None, gpu["max_mhz"]) for gpu in gpus)
    for gpu, middle in zip(gpus, behind(clocks), strict=True):
        reasons = [reason for reason in gpu["held_back"] or [] if reason != HARMLESS]
        found = {"lost": gpu["lost"], "behind": middle is not None, "held_back": bool(reasons)}
        gpu["marks"] = [name for name in MARKS if found.get(name)]
    totals = [_total(node["rails"]) for node in nodes]
    for node, middle in zip(nodes, behind(totals), strict=True):
        node["behind"] = middle
        node["marks"] = [] if middle is None else ["behind"]


def _total(rails: list[dict[str, Any]]) -> Row:
    """A node as a whole. Its like: those with the same rates."""
    rates = sorted(rail["rate_gbps"] or 0 for rail in rails)
    moved = [moved_by(rail) for rail in rails]
    known = [each for each in moved if each is not None]
    return tuple(rates), sum(known) if known else None, sum(rates)


def weight(row: Mapping[str, Any]) -> int:
    """Less is worse."""
    return min((MARKS.index(each) for each in row["marks"] if each in MARKS), default=len(MARKS))


@lru_cache(maxsize=16384)
def by_name(name: str) -> tuple[tuple[int, int, str], ...]:
    return tuple(natural_key(name))
