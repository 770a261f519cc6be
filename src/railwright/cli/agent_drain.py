# SPDX-License-Identifier: GPL-3.0-or-later
"""The acting half of ``railwright agent drain``: the breaker that is kept between runs, drains, gates, and what is given back."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import json_object
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import open_own
from railwright.agent.decide import Decision, Node
from railwright.cli import console
from railwright.cli.session import Judged, Session
from railwright.exitcodes import CommandError, InputError
from railwright.given import given
from railwright.journal import directory
from railwright.runs import site_name
from railwright.writing import json_text, make_directories, write_atomic

GATE_REST_S = 3600.0  # between two gates of one node


def breaker_state(session: Session) -> dict[str, Any]:
    """Return what is kept between two drains of this inventory: ``tripped``, and when each node's gate ran."""
    return kept_object(state_file(session)) or {}


def kept_object(file: Path) -> dict[str, Any] | None:
    """Return the object of a state file; None where there is no such file, or it is damaged."""
    return json_object(file.read_bytes().decode("utf-8", "replace")) if file.exists() else None


def state_file(session: Session, kind: str = "") -> Path:
    """``kind``: '' of the breaker, hold, trial, outages."""
    return directory("agent") / f"{site_name(session.inventory)}{kind and '-' + kind}.json"


@contextmanager
def locked(file: Path, busy: str = "") -> Iterator[dict[str, Any]]:
    """Yield the object of a state file to change, and store it after. ``busy``: the error while another process has the lock; '': wait."""
    make_directories(file.parent, 0o700)
    with os.fdopen(open_own(str(file.with_suffix(".lock")), os.O_RDWR), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise InputError(busy) from error
        kept = kept_object(file) or {}
        yield kept
        write_atomic(file, json_text(kept), 0o600)


def breaker(session: Session) -> AbstractContextManager[dict[str, Any]]:
    """Open the state of the drain. One drain of an inventory at a time."""
    return locked(state_file(session), "another agent drain of this inventory is at work; allowed: one at a time")


def kept_holds(session: Session) -> dict[str, Any]:
    """Return ``hold`` (codes, why, by, at) and ``fleet`` (code -> model, text): what nothing may act by."""
    return kept_object(state_file(session, "hold")) or {}


def holds(session: Session) -> AbstractContextManager[dict[str, Any]]:
    """Open the holds. The lock is not the breaker's, because a drain at work must not delay a hold."""
    return locked(state_file(session, "hold"))


def act(session: Session, judged: Judged, found: Decision, nodes: Mapping[str, Node], kept: dict[str, Any]) -> list[str]:
    """Drain, and give back what is cured and passes its gate, one gate a run. What came of it, a line each."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import plain_reason
    from railwright.isolate.drain import drain

    reasons = {name: plain_reason(reason) for name, reason in found.drain.items() if judged.specs[name]["upgrade_scheduler"] != "none"}
    lines = [f"{name} has no scheduler: upgrade_scheduler is none" for name in found.drain if name not in reasons]
    lines += [row.text for row in drain(session, reasons)]
    ready, gates, ran = [], kept.setdefault("gates", {}), False
    for name in found.cured:
        gate, since = judged.specs[name]["drain_gate"], time.time() - float(gates.get(name, 0.0))
        if gate == "person":
            lines.append(f"{name} is cured and stays drained: rdma_drain_gate is person")
        elif gate == "none":
            ready.append(name)
        elif not (nodes[name].drain or {}).get("empty"):
            lines.append(f"{name} is cured; its gate waits for the jobs on it")
        elif ran or since < GATE_REST_S:
            lines.append(f"{name} is cured; its gate waits its turn")
        elif ran := passes(session, gate, name):
            ready.append(name)
        else:
            ran, gates[name] = True, time.time()
            lines.append(f"{name} stays drained: {gate} did not pass")
    if ready:
        try:
            hosts = session.run("agent_open", {}, ready).hosts
        except CommandError as error:
            return [*lines, f"{', '.join(ready)}: not given back: {error}"]
        lines += [f"{name} takes jobs again" if hosts[name].status == "ok" else f"{name}: {hosts[name].message}"
                  for name in ready]  # fmt: skip
    return lines


def passes(session: Session, gate: str, node: str) -> bool:
    """A run of its own, stored like any: its verdicts are kept apart from ours."""
    inventories = [word for path in session.inventory for word in ("-i", str(path))]
    argv = [sys.executable, "-m", "railwright", gate, *inventories, *given.for_ourselves(), "--limit", node]
    console.note(f"gate of {node}: railwright {gate} --limit {node}")
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode == 0
