# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade out of its journal and nothing else: the document that terminal, JSON and record show, and how long it still takes. Pure."""

import shlex
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from railwright.exitcodes import BY_STATUS, ExitCode, combine
from railwright.inventories import quoted
from railwright.progress import elapsed_text
from railwright.upgrade.journal import STATES, Node, State
from railwright.upgrade.order import Leftover


def upgrade_document(state: State, undrain: Mapping[str, str], leftovers: Iterable[Leftover] = ()) -> dict[str, Any]:
    """``undrain``: node -> how it is given back to its jobs by hand."""
    head = state.head
    nodes = {name: _node(node, state, undrain.get(name, "")) for name, node in state.nodes.items()}
    counted = [node.state for node in state.nodes.values()]
    release = {"name": head["release"], "file": head["file"], "sha256": head["sha256"], "pins": head["pins"]}
    begun = [[node.name for node in state.nodes.values() if node.batch == number] for number in range(1, state.batches + 1)]
    states = {name: counted.count(name) for name in STATES if name in counted}
    return {
        "run": state.run, "inventory": head["inventory"], "release": release, "nodes": nodes, "batches": begun, "away": state.away,
        "stopped": state.stopped or None, "finished": state.finished,
        "inventory_changes": [row._asdict() | {"nodes": list(row.nodes)} for row in leftovers],
        "summary": {"nodes": len(nodes), "states": states, "exit_code": int(code_of(state))},
    }  # fmt: skip


def code_of(state: State) -> ExitCode:
    """0 only when every node is done."""
    codes = [BY_STATUS.get(node.status, ExitCode.FAILED) for node in state.nodes.values()]
    if not all(node.state == "done" for node in state.nodes.values()):
        codes.append(ExitCode.FAILED)
    return combine(codes)


def _node(node: Node, state: State, undrain: str) -> dict[str, Any]:
    seconds = round(node.ended - node.began, 1) if node.began and node.ended else None
    found = {
        "status": node.status if node.state not in ("failed", "rolled_back") or node.status != "ok" else "failed", "state": node.state,
        "step": node.step if node.state not in ("done", "waiting") else None, "batch": node.batch or None,
        "message": node.message or node.why, "task": node.task, "before": node.before, "after": node.after, "disruptions": node.classes,
        "restore_points": node.restore_points, "notes": node.notes, "seconds": seconds,
    }  # fmt: skip
    return found | {"help": _help(node, state, undrain) if node.state in ("failed", "rolled_back") else []}


def _help(node: Node, state: State, undrain: str) -> list[str]:
    inventory = quoted(state.head["inventory"])
    found = [f"railwright upgrade -i {inventory} --resume"]
    if node.state == "failed" and node.step != "drain":
        found.append(f"railwright rollback -i {inventory} --to {state.run} --limit {shlex.quote(node.name)}")
    return found + ([undrain] if undrain else [])


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
