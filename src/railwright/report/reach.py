# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reached whom between the nodes, in the report: counts a rail, then pairs of nodes.

A pair has a row for each rail of the one node and a column for each rail of the other. Documents may come from an older or
newer release, or be cut.
"""

from __future__ import annotations

from typing import Any

from railwright.report.bench import figure, members, objects
from railwright.report.text import markdown_cell, markdown_table

COUNTS = ("Rail", "Pings", "Full MTU", "Only small", "No answer", "Unknown")
KEYS = ("rail", "asked", "full", "small", "none", "unknown")
WORDS = {"full": "full MTU", "small": "only small", "none": "no answer", "unknown": "unknown", "heard": "heard (ARP, ND)"}


def markdown(document: dict[str, Any] | None) -> list[str]:
    """The section of report.md; [] where nothing was pinged."""
    counts = objects(members(document).get("rails"))
    if not counts:
        return []
    table = [tuple(markdown_cell(figure(row.get(key))) for key in KEYS) for row in counts]
    lines = ["", "## Rails between nodes", "", *markdown_table(COUNTS, table)]
    names = [str(row.get("rail")) for row in counts]
    rows = [row for pair in objects(members(document).get("pairs")) for row in _pair(pair, names)]
    if rows:
        header = ("From", "To", "Rail", *(f"its {name}" for name in names))
        cells = [tuple(markdown_cell(cell) for cell in row) for row in rows]
        lines += ["", *markdown_table([markdown_cell(cell) for cell in header], cells)]
    left = members(document).get("pairs_left_out")
    return lines + (["", f"{left} more pairs of nodes are not shown; those with a failure come first."] if left else [])


def _pair(pair: dict[str, Any], names: list[str]) -> list[tuple[str, ...]]:
    """What was not asked is empty: the other rails are, where the ping of this one failed."""
    seen = {(cell.get("rail"), cell.get("peer_rail")): cell.get("seen") for cell in objects(pair.get("cells"))}
    rails = [name for name in names if any(rail == name for rail, _peer in seen)]
    ends = (str(pair.get("node")), str(pair.get("peer")))
    return [(*ends, rail, *(WORDS.get(str(seen.get((rail, name))), "") for name in names)) for rail in rails]
