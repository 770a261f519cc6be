# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of an upgrade, out of its journal and nothing else: what the terminal shows, JSON holds and the record keeps. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from railwright.exitcodes import ExitCode, combine
from railwright.upgrade.journal import STATES, Node, State
from railwright.upgrade.site import Leftover

STATUS = {"ok": ExitCode.OK, "failed": ExitCode.FAILED, "unreachable": ExitCode.UNREACHABLE}


def document(state: State, undrain: Mapping[str, str], leftovers: Iterable[Leftover] = ()) -> dict[str, Any]:
    """``undrain``: node -> how it is given back to its jobs by hand."""
    head = state.head
    nodes = {name: _node(node, state, undrain.get(name, "")) for name, node in state.nodes.items()}
    counted = [node.state for node in state.nodes.values()]
    return {
        "run": state.run,
        "inventory": head["inventory"],
        "release": {"name": head["release"], "file": head["file"], "sha256": head["sha256"], "pins": head["pins"]},
        "nodes": nodes,
        "batches": batches_of(state),
        "away": state.away,
        "stopped": state.stopped or None,
        "finished": state.finished,
        "inventory_changes": [row._asdict() | {"nodes": list(row.nodes)} for row in leftovers],
        "summary": {
            "nodes": len(nodes),
            "states": {name: counted.count(name) for name in STATES if name in counted},
            "exit_code": int(code_of(state)),
        },
    }


def batches_of(state: State) -> list[list[str]]:
    """The batches that began, in their order."""
    return [[node.name for node in state.nodes.values() if node.batch == number] for number in range(1, state.batches + 1)]


def code_of(state: State) -> ExitCode:
    """0 only when every node is done."""
    codes = [STATUS.get(node.status, ExitCode.FAILED) for node in state.nodes.values()]
    if not all(node.state == "done" for node in state.nodes.values()):
        codes.append(ExitCode.FAILED)
    return combine(codes)


def _node(node: Node, state: State, undrain: str) -> dict[str, Any]:
    seconds = round(node.ended - node.began, 1) if node.began and node.ended else None
    found = {
        "status": node.status if node.state not in ("failed", "rolled_back") or node.status != "ok" else "failed",
        "state": node.state,
        "step": node.step if node.state not in ("done", "waiting") else None,
        "batch": node.batch or None,
        "message": node.message or node.why,
        "task": node.task,
        "before": node.before,
        "after": node.after,
        "disruptions": node.classes,
        "restore_points": node.restore_points,
        "notes": node.notes,
        "seconds": seconds,
    }
    return found | {"help": _help(node, state, undrain) if node.state in ("failed", "rolled_back") else []}


def _help(node: Node, state: State, undrain: str) -> list[str]:
    """The commands that lead on from here."""
    inventory = shlex.quote(str(state.head["inventory"]))
    found = [f"railwright upgrade -i {inventory} --resume"]
    if node.state == "failed" and node.step != "drain":
        found.append(f"railwright rollback -i {inventory} --to {state.run} --limit {shlex.quote(node.name)}")
    return found + ([undrain] if undrain else [])
