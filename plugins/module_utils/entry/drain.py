# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_drain module: the scheduler is asked or told, and every node has its own answer."""

import time
from typing import Any, Callable, Dict, List, Tuple, TypeVar

from ..errors import RailwrightError
from ..host.host import Host
from ..scheduler import command, kubernetes, slurm
from ..scheduler.model import ISOLATED, LONGEST_REASON, OURS, WATCHED, NodeState, SchedulerAway, as_dict

STEP_S = 5.0
Answer = TypeVar("Answer")


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    check(params)
    seen, changed = patiently(lambda: act(host, "inspect" if dry else params["mode"], params), params["patience_s"])
    return {"changed": changed, "drains": [as_dict(item) for item in seen]}


def check(params: Dict[str, Any]) -> None:
    """What a name or a reason may not hold, whatever the scheduler. Raises RailwrightError."""
    if params["mode"] in ("inspect", "isolate") and params["reason"] is None:
        params["reason"] = OURS + "inspect"
    each = params.get("node_reasons") or []
    for text in list(params["nodes"]) + [params["reason"] or ""] + each:
        if not text or text != text.strip() or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
            raise RailwrightError("rdma_drain: %r is no name and no reason: nothing in it, blanks around it, or control characters" % text)
    if params["reason"] != WATCHED and (not params["reason"].startswith(OURS) or len(params["reason"]) <= len(OURS)):
        raise RailwrightError("rdma_drain: reason: %r; allowed: %sRUN, by which a drain of ours is known" % (params["reason"], OURS))
    for text in each:
        if not text.startswith((ISOLATED, WATCHED)) or len(text.encode("utf-8")) > LONGEST_REASON:
            raise RailwrightError("rdma_drain: reason: %r; allowed: %sRUN: TEXT, at most %d characters" % (text, ISOLATED, LONGEST_REASON))


def patiently(
    ask: Callable[[], Answer], seconds: float, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> Answer:
    """Ask again while the scheduler is away, for so long: it restarts, or its backup takes over."""
    end = clock() + seconds
    while True:
        try:
            return ask()
        except SchedulerAway:
            if clock() + STEP_S > end:
                raise
        sleep(STEP_S)


def act(host: Host, mode: str, params: Dict[str, Any]) -> Tuple[List[NodeState], bool]:
    names, reason = params["nodes"], params["reason"]
    if params["scheduler"] == "command":
        return _by_command(host, mode, params)
    scheduler: Any = slurm if params["scheduler"] == "slurm" else kubernetes
    if mode == "inspect":
        return scheduler.inspect_nodes(host, names), False
    if mode == "isolate":
        closed: Tuple[List[NodeState], bool] = scheduler.close(host, dict(zip(names, params["node_reasons"])))
        return closed
    found: Tuple[List[NodeState], bool] = (scheduler.undrain if mode == "undrain" else scheduler.drain)(host, names, reason)
    return found


def _by_command(host: Host, mode: str, params: Dict[str, Any]) -> Tuple[List[NodeState], bool]:
    names, reason, given = params["nodes"], params["reason"], params["commands"] or {}
    commands = command.Commands(*(tuple(given.get(name) or ()) for name in command.Commands._fields))
    if not all(commands):
        raise RailwrightError("upgrade_scheduler: command needs upgrade_drain_command, upgrade_drained_command and upgrade_undrain_command")
    if mode == "isolate":
        return command.close(host, commands, dict(zip(names, params["node_reasons"])))
    if mode == "undrain":
        return command.undrain(host, commands, names, reason)
    if mode == "inspect" or params["begun"]:
        return command.inspect_nodes(host, commands, names, reason, params["begun"]), False
    return command.drain(host, commands, names, reason)
