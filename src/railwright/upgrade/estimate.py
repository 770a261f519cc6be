# SPDX-License-Identifier: GPL-3.0-or-later
"""How long an upgrade still takes, from the nodes that this run has finished. Nothing is known before the first. Pure."""

from __future__ import annotations

from statistics import median

from railwright.progress import elapsed_text
from railwright.upgrade.journal import State


def seconds_left(state: State, batches: int, now: float) -> float | None:
    """``batches``: that have not begun yet. The batch under way has used a part of its time."""
    took = [node.ended - node.began for node in state.nodes.values() if node.state == "done" and node.began and node.ended]
    if not took:
        return None
    usual = median(took)  # a node that waited a day for its jobs says nothing about the others
    under_way = [node.began for node in state.nodes.values() if node.under_way and node.state != "failed" and node.began]
    current = max(0.0, usual - (now - min(under_way))) if under_way else 0.0
    return usual * batches + current


def left_text(seconds: float | None) -> str:
    return "time left not known before the first node is done" if seconds is None else f"about {elapsed_text(seconds)} left"
