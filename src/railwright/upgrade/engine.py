# SPDX-License-Identifier: GPL-3.0-or-later
"""The roll-out: which step on which nodes next, written down before and after.

It knows no Ansible: an ``Executor`` carries a step out on some nodes and says what became of each. Every step may be run again and then
does what is left, so a controller that was killed at any moment goes on from its journal: nodes that were under way first, at the step
they were at, or at the change where only its proof was left; then the queue. A node that is done is never touched again. The first batch
with a failed node is the last one that begins.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import CommandError
from railwright.journal import Record
from railwright.upgrade.journal import Journal, Node, of_kind
from railwright.upgrade.judge import ending, unavailable
from railwright.upgrade.order import Rules, batches, next_batch
from railwright.upgrade.report import left_text, seconds_left

Tell = Callable[[str], None]
# Which gate runs which steps; `validate` is a step of its own, for nodes that stay drained after a roll-back too.
GATES = {"none": (), "validate": ("validate",), "nccl_tests": ("validate", "gate")}
LEASED = "drain"  # who takes a node from its jobs holds a lease on it
ALONE = "perftest between nodes is unproven: it was validated alone"
# Thirty seconds, ten times: slurmd registers when its node is up, a kubelet after at most its lease's forty seconds.
PAUSE_SECONDS = 30.0
PATIENCE = 10


class Executor(Protocol):
    """Steps: those of the journal, and preflight, lease, hold, look, release; rollback and revalidate, which know nothing of the pins."""

    def execute(self, step: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> RunOutcome: ...


class Engine:
    def __init__(
        self, executor: Executor, journal: Journal, rules: Rules, gate: str, tell: Tell, *, scheduled: bool = True,
        reboot_s: float = 1200.0, clock: Callable[[], float] = time.time, pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._executor, self._journal, self._state = executor, journal, journal.state
        self._rules, self._gate, self._tell = rules, gate, tell
        self._scheduled = scheduled  # somebody can be asked which nodes are away
        self._first = journal.state.canary
        self._steps = journal.state.steps
        self._failed: list[str] = []  # of this run of the controller; a resumed one takes them again
        self._reboot_s = reboot_s  # how long a node may take to come back from a reboot
        self._clock, self._pause = clock, pause

    def roll_out(self, *, resumed: bool = False) -> bool:
        """Until every node is done (True), or a batch fails, or too many nodes are away. Raises what the executor raises."""
        if resumed:
            self._journal.add({"kind": "resume"})
            if not self._inspect() or not self._again():
                return False
        while self._waiting():
            batch = self._next()
            if not batch:
                return self._stop(self._no_room())
            if not self._batch(batch, self._state.batches + 1):
                return False
            if self._waiting() and not self._inspect():
                return False
        return self._finish()

    def roll_back_failed(self) -> bool:
        """Bring the failed nodes back to how they were before this run. They stay drained. True when all came back and validate.

        One that is another upgrade's by now, or that jobs may come to, is not touched.
        """
        changed = self._steps[self._steps.index("change") :]
        nodes = self._state.nodes.values()
        failed = [node.name for node in nodes if node.state == "failed" and (node.undone or node.step in changed)]
        if not failed:
            return True
        self._tell(f"rolling back: {', '.join(failed)}")
        first = {name: self._state.nodes[name].message for name in failed}  # why it was rolled back is what a person needs to know
        held = self._run("hold", failed)
        ends = {name: after_rollback(ending("hold", name, held), first[name], "not rolled back") for name in failed}
        ours = [name for name in failed if ends[name]["status"] == "ok"]
        if ours:
            batch = max(self._state.nodes[name].batch for name in ours)
            self._journal.add(*of_kind("begin", ours, step="rollback", batch=batch))
            outcome = self._run("rollback", ours, {"rdma_rollback_to": self._state.run, "rdma_run_id": f"{self._state.run}-rollback"})
            ends |= {name: after_rollback(ending("rollback", name, outcome), first[name], "the roll-back failed") for name in ours}
        back = [name for name in ours if ends[name]["status"] == "ok"]
        if back and self._gate != "none":
            judged = self._run("revalidate", back)
            ends |= {
                name: after_rollback(ending("validate", name, judged), first[name], "rolled back, it does not validate") for name in back
            }
        self._ended(ends, "rollback")
        return all(ends[name]["status"] == "ok" for name in failed)

    def _again(self) -> bool:
        """Finish what was under way. A node that was only about to be drained, and is not, waits its turn again."""
        lost = self._lease(self._waiting())
        begun = [node for node in self._state.nodes.values() if node.under_way]
        nodes = [node for node in begun if node.step != self._steps[0] or node.name in self._state.away]
        gone = [node.name for node in nodes if node.name in lost]
        self._ended({name: lost[name] for name in gone})
        if nodes and not self._batch([node.name for node in nodes], max(node.batch for node in nodes), without=gone):
            return False
        if lost:
            return self._stop("nothing begins: " + "; ".join(f"{name}: {end['message']}" for name, end in lost.items()))
        return not nodes or not self._waiting() or self._inspect()

    def _ended(self, ends: Mapping[str, dict[str, Any]], step: str = "") -> None:
        """Write down how nodes ended, by default at the step that they are at, and say it."""
        at = {name: step or self._state.nodes[name].step for name in ends}
        self._journal.add(*({"kind": "end", "node": name, "step": at[name], **end} for name, end in ends.items()))
        for name in ends:
            self._say(self._state.nodes[name])

    def _lease(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Hold the leases; the nodes that are not ours, and how they answered. One that was cut off in its reboot gets the time of one."""
        lost = self._leased(names) if names and LEASED in self._steps else {}
        for _attempt in range(int(self._reboot_s / PAUSE_SECONDS)):
            away = [name for name, end in lost.items() if end["status"] == "unreachable" and self._state.nodes[name].step == "change"]
            if not away:
                break
            self._tell(f"waiting for {', '.join(away)} to come back: {lost[away[0]]['message']}")
            self._pause(PAUSE_SECONDS)
            lost = {name: end for name, end in lost.items() if name not in away} | self._leased(away)
        return lost

    def _leased(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        outcome = self._run("lease", names)
        return {name: end for name in names if (end := ending("lease", name, outcome))["status"] != "ok"}

    def _waiting(self) -> list[str]:
        return [node.name for node in self._state.nodes.values() if node.state != "done" and node.name not in self._failed]

    def _next(self) -> list[str]:
        """The next batch. A node that has only just come back may need a moment until its scheduler believes it."""
        for attempt in range(PATIENCE):
            batch = next_batch(self._waiting(), self._first, self._rules, {*self._state.away, *self._failed})
            if batch or not self._scheduled:
                return batch
            if attempt == 0:
                self._tell(f"waiting: {self._no_room()}")
            self._pause(PAUSE_SECONDS)
            if not self._inspect():
                return []
        return []

    def _batch(self, batch: Sequence[str], number: int, without: Sequence[str] = ()) -> bool:
        """Every step on the nodes that are at it: one that fails stays at its step, the others go on. False when the roll-out stops."""
        live = [name for name in batch if name not in without]
        for step in self._steps:
            names = [name for name in live if self._state.nodes[name].step == step and self._state.nodes[name].state != "done"]
            if names:
                self._step(step, names, number)
        self._failed += [name for name in batch if self._state.nodes[name].state != "done"]
        enough = len(self._failed) > self._rules.failures
        return not enough or self._stop(f"{', '.join(self._failed)} did not come through; no further node is taken")

    def _step(self, step: str, names: Sequence[str], number: int) -> None:
        """Announce, do, and write down what came of it."""
        if step in ("validate", "gate") and step not in GATES[self._gate]:
            self._journal.add(*of_kind("end", names, step=step, status="ok"))
            return
        self._journal.add(*of_kind("begin", names, step=step, batch=number))
        for name in names:
            self._say(self._state.nodes[name])
        outcome = self._run(step, names)
        ends = {name: ending(step, name, outcome) for name in names}
        if step == "validate" and len(names) == 1 and ends[names[0]]["status"] == "ok":
            ends[names[0]]["notes"].append(ALONE)
        self._journal.add(*({"kind": "end", "node": name, "step": step, **ends[name]} for name in names))
        for name in names:
            node = self._state.nodes[name]
            if node.state in ("done", "failed", "drained"):
                self._say(node)

    def _run(self, step: str, names: Sequence[str], variables: Mapping[str, Any] | None = None) -> RunOutcome:
        """A playbook that cannot be run at all is a failure of all its nodes: what is under way must be written down."""
        try:
            return self._executor.execute(step, names, variables or {})
        except CommandError as error:
            return RunOutcome({name: HostOutcome(name, "failed", message=str(error)) for name in names})

    def _inspect(self) -> bool:
        """Ask the schedulers which nodes take no work. False when they do not say: then nobody may be drained."""
        if not self._scheduled:
            return True
        names = list(self._state.nodes)
        outcome = self._run("inspect", names)
        silent = [name for name in names if name not in outcome.hosts or outcome.hosts[name].drain is None]
        if silent:
            host = outcome.hosts.get(silent[0])
            why = host.message if host is not None and host.message else "no answer came"
            return self._stop(f"the scheduler did not say whether {silent[0]} takes work: {why}")
        self._journal.add(away_record(outcome))
        return True

    def _no_room(self) -> str:
        away = ", ".join(f"{name} {why}" for name, why in self._state.away.items()) or "none"
        rules = self._rules
        return f"{len(self._waiting())} nodes wait, and none may go: {rules.limit} allows {rules.most} away, and away already: {away}"

    def _stop(self, why: str) -> bool:
        self._journal.add({"kind": "stop", "why": why})
        self._tell(f"stopped: {why}")
        return False

    def _finish(self) -> bool:
        """The leases go last. One that cannot be given back is no failure of the upgrade: the next run takes it over by its name."""
        if self._failed:
            return self._stop(f"{', '.join(self._failed)} did not come through; all others are done")
        if LEASED not in self._steps:
            self._journal.add({"kind": "finish"})
            return True
        outcome = self._run("release", list(self._state.nodes))
        kept = [name for name in self._state.nodes if name not in outcome.hosts or outcome.hosts[name].status != "ok"]
        if kept:
            self._tell(f"the lease could not be given back on {', '.join(kept)}")
        self._journal.add({"kind": "finish"})
        return True

    def _say(self, node: Node) -> None:
        """One line for every change of a node's state."""
        nodes = self._state.nodes.values()
        done = sum(other.state == "done" for other in nodes)
        what = f"{node.state} at {node.step}: {node.message}" if node.state == "failed" else node.state.replace("_", " ")
        waiting = [other.name for other in nodes if other.state == "waiting"]
        left = seconds_left(self._state, len(batches(waiting, self._first, self._rules, self._state.away)), self._clock())
        self._tell(f"{node.name}: {what} ({done} of {len(nodes)} done, {left_text(left)})")


def away_record(outcome: RunOutcome) -> Record:
    """Every node that takes no work at this moment, and its scheduler's reason."""
    reasons = {name: unavailable(host.drain) for name, host in outcome.hosts.items()}
    return {"kind": "away", "nodes": {name: reason for name, reason in reasons.items() if reason}}


def after_rollback(end: dict[str, Any], first: str, what: str) -> dict[str, Any]:
    """The message of a node that failed, and of its roll-back where that failed too."""
    return {**end, "message": first if end["status"] == "ok" else f"{first}; {what}: {end['message']}"}
