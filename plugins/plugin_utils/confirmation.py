# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of a change of networking: come back over a fresh connection and confirm it, or say what the node did without us.

The node decides: it has a timer of its own, and one state of the run. Here is only asked, again and again, for a bounded time.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line

Result = dict[str, Any]

# Beyond the node's own time: it may have to wait for a network manager while it reverts, and a machine that reboots has to come up.
RETURN_SECONDS = 300.0
# An apply that goes on without us is given as long as it needs, as long as the node answers.
BUSY = ("applying", "unconfirmed")
BUSY_SECONDS = 4 * 3600.0
# A module that was cut off while it was starting has not taken its lock yet.
STARTING_SECONDS = 15.0
PAUSES = (1.0, 2.0, 4.0, 5.0)


class Clock(NamedTuple):
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Unreachable(Exception):
    """The connection failed; the text is the plugin's own."""


class Lost(Exception):
    """The node did not come back in time. The text is for the operator."""


class Answer(NamedTuple):
    """The node's last word on the run, and why we were not heard before, if so."""

    confirm: Result
    trouble: str

    @property
    def state(self) -> str:
        return str(self.confirm.get("state"))


def ask(question: Callable[[], Result], seconds: float, clock: Clock) -> Answer:
    """Put the question over a fresh connection until the run has ended on the node. Raises Lost when the node stays away."""
    began = last_heard = clock.now()
    trouble, attempt = "", 0
    while True:
        try:
            answer = Answer(question(), trouble)
            last_heard = clock.now()
            if ended(answer.state, last_heard - began):
                return answer
        except Unreachable as error:
            trouble = str(error)
        if clock.now() - last_heard > seconds + RETURN_SECONDS:
            raise Lost(trouble)
        if clock.now() - began > BUSY_SECONDS:
            raise Lost(f"its apply has not ended after {BUSY_SECONDS:.0f} s")
        clock.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
        attempt += 1


def ended(state: str, seconds: float) -> bool:
    return state not in BUSY and (state != "none" or seconds >= STARTING_SECONDS)


def verdict(answer: Answer, seconds: int, *, lost: str = "") -> Result:
    """What is added to the result of the task. ``lost``: why the connection broke while the apply itself ran."""
    confirm = answer.confirm
    if answer.state == "applied" and not lost:
        return {"confirm": confirm}
    keys = [str(key) for key in confirm.get("changes") or []]
    why = f"the connection was lost while the change was made ({one_line(lost)})"
    if not lost:
        trouble = f" ({one_line(answer.trouble)})" if answer.trouble else ""
        why = f"the change was not confirmed over a fresh connection within {seconds} s{trouble}"
    return {
        "failed": True,
        "changed": False,
        "confirm": confirm,
        "reverted": keys if answer.state == "reverted" else [],
        "restore_point": confirm.get("restore_point") or "",
        "msg": f"{why}; {ending(answer, keys)}",
    }


def ending(answer: Answer, keys: list[str]) -> str:
    run = answer.confirm.get("run")
    listed = "; ".join(keys)
    troubles = "; ".join(str(item) for item in answer.confirm.get("troubles") or [])
    return {
        "applied": f"the node went on with run {run}, which changed no networking, and ended it: {listed}. Apply again for its result",
        "reverted": f"the node rolled itself back and is as it was before run {run}. Reverted: {listed}",
        "rolled back": f"the apply (run {run}) failed on the node and was rolled back; the node is as it was",
        "rollback incomplete": f"the node could revert run {run} only in part: {troubles}. "
        f"Restore point: {answer.confirm.get('restore_point')}",
        "none": "nothing had been changed yet",
    }.get(answer.state, f"run {run} is {answer.state} on the node: {listed}. Plan again and inspect it")


def gone(run: str, seconds: int, reason: str) -> str:
    """For a node that did not come back at all."""
    return (
        f"unreachable after the change of its networking ({one_line(reason)}). The node's own timer reverts run {run} {seconds} s after "
        "the change, also after a reboot, and needs nobody for that; if it stays away, something else has cut it off"
    )
