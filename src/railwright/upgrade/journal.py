# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of an upgrade, or of an apply in batches: one JSON object a line, on the disk before what it announces happens.

Whoever reads it knows where every node is, whenever the controller was killed: a step that began and has no end is done again, and
every step does only what is left of it. The last line may be torn by a power cut: it was being written, so what it announces has
not begun. A damaged line before the last one is no torn one, and is refused.

One upgrade of an inventory at a time on this controller: a lock of the kernel, which a killed process gives back by itself. Another
controller is kept out by the leases on the nodes.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import open_own
from railwright.exitcodes import CommandError
from railwright.inventories import Given, inventories
from railwright.journal import SCHEMA, Lines, Record, begin, go_on
from railwright.ownership import state_directory
from railwright.runs import site_name, site_path
from railwright.writing import make_directories

TRIES, TRY_SECONDS = 3, 0.05


class Busy(CommandError):
    """Another process has it."""


def upgrades_directory() -> Path:
    return state_directory("upgrades")


def lock_path(inventory: Given) -> Path:
    return upgrades_directory() / f"{site_name(inventory)}.lock"


def holder(inventory: Given) -> str | None:
    """``process 4711, run …``: who upgrades this inventory at this moment; None where nobody does."""
    try:
        descriptor = os.open(lock_path(inventory), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(descriptor)
    finally:
        os.close(descriptor)
    return None


@contextmanager
def locked(inventory: Given, run: str) -> Iterator[None]:
    """Hold the lock while the block runs. Raises Busy in one line that names who has it."""
    make_directories(upgrades_directory(), 0o700)
    # Not inherited: an ssh that ansible-playbook leaves behind must not keep the lock of a controller that was killed.
    descriptor = open_own(str(lock_path(inventory)), os.O_RDWR)
    try:
        if not _got(descriptor):
            raise Busy(f"{inventories(inventory)} is being changed on this controller already, by {_said(descriptor)}")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, run {run}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _got(descriptor: int) -> bool:
    """Who only inspects (``holder``) has it for a moment, too."""
    for _attempt in range(TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TRY_SECONDS)
        else:
            return True
    return False


def _said(descriptor: int) -> str:
    """What the holder wrote; the file is ours alone, but it may be read before that is written."""
    return os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"


STEPS = ("drain", "change", "validate", "gate", "undrain")
BUSY = {"drain": "draining", "change": "changing", "validate": "validating", "gate": "gating", "undrain": "undraining"}
STATES = ("waiting", "draining", "drained", "changing", "validating", "gating", "undraining", "done", "failed", "rolled_back")

Clock = Callable[[], float]


@dataclass
class Node:
    name: str
    state: str = "waiting"
    step: str = STEPS[0]  # the one that it is at, or that comes next
    status: str = "ok"  # ok, failed, unreachable: how its last step ended
    message: str = ""
    task: str = ""
    batch: int = 0  # 0: in none yet
    why: str = ""  # why it is done without an upgrade, or cannot be upgraded
    notes: list[str] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)  # kernel, stack, firmware …, a line each
    after: dict[str, str] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    restore_points: list[str] = field(default_factory=list)
    undone: bool = False  # a roll-back has begun, and nothing of what came before it holds any more
    began: float | None = None
    ended: float | None = None

    @property
    def under_way(self) -> bool:
        """It has left its place in the queue and has not come back to its jobs."""
        return self.state not in ("waiting", "done")


@dataclass
class State:
    run: str
    head: Record  # the first line
    nodes: dict[str, Node]  # in the order of the upgrade
    away: dict[str, str] = field(default_factory=dict)  # nodes that take no work for another reason, and which
    canary: list[str] = field(default_factory=list)
    ready: bool = False  # every node was inspected and may be upgraded
    batches: int = 0
    stopped: str = ""
    finished: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """That each node goes through, in this order."""
        return tuple(self.head.get("steps", STEPS))


class Damaged(CommandError):
    """The journal cannot be trusted."""


class Journal(Lines):
    """An open journal of an upgrade: every line is in the state, too."""

    def __init__(self, path: Path, descriptor: int, state: State, clock: Clock = time.time) -> None:
        super().__init__(path, descriptor, "upgrade")
        self.state, self._clock = state, clock

    def add(self, *records: Record) -> None:
        """Append, sync, and take into the state, in this order. Raises CommandError when that cannot be; then nothing is announced."""
        now = round(self._clock(), 3)
        stamped = [{"time": now, **record} for record in records]
        super().add(*stamped)
        for record in stamped:
            fold(self.state, record)


def create(run: str, head: Mapping[str, Any], clock: Clock = time.time) -> Journal:
    """A new journal. Raises FileExistsError when the run has one."""
    path = upgrades_directory() / run / "journal.jsonl"
    record = {"time": round(clock(), 3), "run": run, **head}
    descriptor = begin(path, record, "upgrade")
    return Journal(path, descriptor, _begin({"kind": "start", "schema": SCHEMA, **record}), clock)


def reopen(path: Path, clock: Clock = time.time) -> Journal:
    """Go on with a journal; a torn last line is cut off, or the next one would be glued to it."""
    state, good = _read(path)
    return Journal(path, go_on(path, good), state, clock)


def read_state(path: Path) -> State:
    """What a journal says; it is not touched."""
    return _read(path)[0]


def newest(inventory: Given, verb: str = "upgrade") -> Path | None:
    """The journal of the last such run on this inventory, by whatever path it was reached. Ids of one second do not say which came last."""
    wanted, directory = site_path(inventory), upgrades_directory()
    found = []
    for path in directory.glob("*/journal.jsonl"):
        state_directory("upgrades", path.parent.name)
        head = _head(path)
        if head and head.get("verb", "upgrade") == verb and site_path(Path(str(head.get("inventory")))) == wanted:
            found.append((path.parent.name[:16], float(head.get("time", 0)), path))
    return max(found)[2] if found else None


def _head(path: Path) -> Record:
    """A journal whose first line is torn announces nothing: it is as if it were not there."""
    with path.open("rb") as stream:
        first = stream.readline()
    try:
        head = read_json(first.decode("utf-8"))
    except ValueError:
        return {}
    return head if isinstance(head, dict) and first.endswith(b"\n") else {}


def _read(path: Path) -> tuple[State, int]:
    """The state, and how many bytes of the file are whole lines."""
    data = path.read_bytes()
    good = data.rfind(b"\n") + 1
    state: State | None = None
    for number, line in enumerate(data[:good].split(b"\n")[:-1], start=1):
        try:
            record = read_json(line.decode("utf-8"))
            state = _begin(record) if state is None else fold(state, record)
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{path}:{number}: is damaged ({error!r}); the upgrade cannot be resumed from it") from error
    if state is None:
        raise Damaged(f"{path}: is empty; nothing of this upgrade had begun")
    return state, good


def _begin(record: Record) -> State:
    if record["kind"] != "start" or record["schema"] != SCHEMA:
        raise ValueError("not the first line of a journal of this version")
    state = State(record["run"], record, {})
    state.nodes = {name: Node(name, step=state.steps[0]) for name in record["nodes"]}
    return state


def fold(state: State, record: Record) -> State:
    """What one more line says."""
    kind = record["kind"]
    if kind in ("stop", "resume", "finish"):
        state.stopped = record.get("why", "")
        state.finished = kind == "finish"
        for node in state.nodes.values() if kind == "resume" else ():
            _resumed(node, state.steps)
        return state
    if kind == "away":
        state.away = dict(record["nodes"])
        return state
    if kind == "ready":
        state.ready, state.canary = True, list(record["canary"])
        return state
    node = state.nodes[record["node"]]
    if kind == "inspect":
        node.before, node.classes = dict(record["before"]), list(record["classes"])
    elif kind == "done":
        node.state, node.why = "done", record["why"]
    elif kind == "refused":
        node.why, node.status, node.task = record["why"], record["status"], record["task"]
    elif kind == "begin":
        _begun(state, node, record)
    elif kind == "end":
        _ended(node, record, state.steps)
    return state


def _resumed(node: Node, steps: Sequence[str]) -> None:
    """Between two controllers anything may have become of a node: somebody has rolled it back, or given it back to its jobs. What is left
    of the change is little where nobody did, and it looks first whether the node is still ours and drained."""
    if node.state == "done":
        return
    node.began = None  # how long it lay is no time that a node takes
    if node.undone:
        node.step = steps[0]
    elif node.step in ("validate", "gate"):
        node.step = "change"


def _begun(state: State, node: Node, record: Record) -> None:
    step = record["step"]
    node.batch = record["batch"]
    state.batches = max(state.batches, node.batch)
    if step in BUSY:  # a roll-back is no place in the order: of a node that it was cut off on, it is still to be read what had failed
        node.step, node.state = step, BUSY[step]
        node.status, node.message, node.task = "ok", "", ""
    else:
        node.undone = True
    if node.began is None:
        node.began = record["time"]


def _ended(node: Node, record: Record, steps: Sequence[str]) -> None:
    step, status = record["step"], record["status"]
    node.status, node.message, node.task = status, record.get("message", ""), record.get("task", "")
    node.after = dict(record.get("after") or node.after)
    node.notes += [note for note in record.get("notes") or [] if note not in node.notes]
    point = record.get("restore_point")
    if point and point not in node.restore_points:
        node.restore_points.append(point)
    node.ended = record["time"]
    if step == "rollback":
        if status == "ok":
            # Resumed, it begins anew: it is still drained, and nothing of the release is on it any more.
            node.state, node.step, node.undone = "rolled_back", steps[0], False
    elif status != "ok":
        node.state = "failed"
    elif step == steps[-1]:
        node.state = "done"
    else:
        node.undone = node.undone and step != "change"
        node.step = steps[steps.index(step) + 1]
        node.state = "drained" if step == "drain" else BUSY[node.step]


def of_kind(kind: str, names: Iterable[str], **fields: Any) -> list[Record]:
    """The same record for several nodes."""
    return [{"kind": kind, "node": name, **fields} for name in names]
