# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters while traffic ran as rows of text: one row for each rail of each node and the node it measured with.

What the driver does not tell is ``-``, never 0. Documents may come from an older or newer release, or be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.measure.counter_verdicts import SEQUENCE
from ansible_collections.railwright.rdma.plugins.module_utils.measure.qos_counter_verdicts import (
    CNP_HANDLED,
    CNP_IGNORED,
    CNP_SENT,
    DISCARDED,
    DISCARDS,
    MARKED,
    RETRANSMITTED,
    SOFT_SEQUENCE,
)
from railwright.report.text import markdown_cell, markdown_table

Object = dict[str, Any]

HEADER = ("Node", "Rail", "HCA", "With", "Seconds", "Lost", "Discarded", "Pauses sent", "Pauses received", "ECN marks",
          "CNPs sent / handled / ignored", "Ran backwards")  # fmt: skip
LOSS = tuple(dict.fromkeys(SEQUENCE + RETRANSMITTED + SOFT_SEQUENCE))
DROPS = (DISCARDED, *(form % priority for form in DISCARDS for priority in range(8)))
PLACES = {**{f"prio{priority}": f"priority {priority}" for priority in range(8)}, "global": "all priorities"}


def rows(traffic: Iterable[Object]) -> list[tuple[str, ...]]:
    return [_row(item) for item in sorted(traffic, key=lambda item: (str(item.get("node")), str(item.get("rail")), str(item.get("peer"))))]


def _row(item: Object) -> tuple[str, ...]:
    counters, interfaces = _counts(item.get("counters")), _interfaces(item.get("interfaces"))
    seconds = item.get("seconds")
    return (
        str(item.get("node") or "-"),
        str(item.get("rail") or "-"),
        f"{item.get('hca')}/{item.get('port')}",
        str(item.get("peer") or "-"),
        str(seconds) if isinstance(seconds, int | float) else "-",
        _grown(counters, LOSS),
        _each(interfaces, lambda counts: _grown(counts, DROPS)),
        _each(interfaces, lambda counts: _pauses(counts, "tx", seconds)),
        _each(interfaces, lambda counts: _pauses(counts, "rx", seconds)),
        _figure(counters, MARKED),
        " / ".join(_figure(counters, name) for name in (CNP_SENT, CNP_HANDLED, CNP_IGNORED)),
        ", ".join(str(name) for name in item.get("backwards") or []) or "none",
    )


def _counts(value: Any) -> dict[str, int]:
    return {str(name): many for name, many in value.items() if isinstance(many, int)} if isinstance(value, dict) else {}


def _interfaces(value: Any) -> dict[str, dict[str, int]]:
    return {str(name): _counts(counts) for name, counts in value.items()} if isinstance(value, dict) else {}


def _each(interfaces: dict[str, dict[str, int]], text: Callable[[dict[str, int]], str]) -> str:
    """The interfaces of a bond are named; a single one is the rail's."""
    if len(interfaces) == 1:
        return text(next(iter(interfaces.values())))
    return "; ".join(f"{name}: {text(counts)}" for name, counts in sorted(interfaces.items())) or "-"


def _grown(counts: dict[str, int], names: Iterable[str]) -> str:
    """What grew by name; 0 only where something could be read."""
    known = [name for name in names if name in counts]
    return ", ".join(f"{name} +{counts[name]}" for name in known if counts[name]) or ("0" if known else "-")


def _pauses(counts: dict[str, int], way: str, seconds: Any) -> str:
    known = [place for place in PLACES if f"{way}_{place}_pause" in counts]
    return ", ".join(_pause(counts, way, place, seconds) for place in known if counts[f"{way}_{place}_pause"]) or ("0" if known else "-")


def _pause(counts: dict[str, int], way: str, place: str, seconds: Any) -> str:
    """``priority 3: 12 (0.40 % of the time)``: how many frames, and how long nothing was sent."""
    name = f"{way}_{place}_pause"
    duration = counts.get(f"{name}_duration")
    measurable = duration is not None and isinstance(seconds, int | float) and seconds > 0
    share = f" ({duration / seconds / 1e4:.2f} % of the time)" if measurable and duration is not None else ""
    return f"{PLACES[place]}: {counts[name]}{share}"


def _figure(counts: dict[str, int], name: str) -> str:
    return str(counts[name]) if name in counts else "-"


def markdown(traffic: Iterable[Object]) -> list[str]:
    """The section of report.md; [] without figures."""
    table = rows(traffic)
    if not table:
        return []
    cells = [tuple(markdown_cell(cell) for cell in row) for row in table]
    return ["", "## Counters while traffic ran", "", *markdown_table(HEADER, cells)]
