# SPDX-License-Identifier: GPL-3.0-or-later
"""From the runner's events to one outcome a host.

ansible-playbook's own exit status mixes a failed task, an unreachable host and a broken
playbook; only the per-host events tell them apart, so only those are judged here. Events
are large (whole plans and facts) and many: each is reduced at once and then forgotten.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in, mapping, rows
from railwright import documents
from railwright.documents import Form

Object = dict[str, Any]

# The documents that rdma_bench's judgement of all nodes comes with, and their forms. What its earlier steps say comes from nodes.
JUDGES: dict[str, Form] = {
    "bench": documents.bench_document,
    "ddp": documents.ddp_document,
}
# Actions whose answer about a node is a document, the field of HostOutcome that keeps it, and its form.
DOCUMENTS: dict[str, tuple[str, Form]] = {
    "rdma_check": ("drift", documents.drift_document),
    "rdma_consent": ("remediation", documents.remediation_document),
    "rdma_rollback": ("rollback", documents.rollback_document),
    "rdma_upgrade": ("upgrade", documents.upgrade_document),
    "rdma_drain": ("drain", documents.drain_document),
}
# Objects that a node says of itself once: the key of the result, and the field of HostOutcome that keeps it.
OBJECTS = {
    "rdma": "facts", "explanation": "explanation", "container": "container", "seen": "readiness", "job": "job", "ranks": "ranks",
    "health": "health", "overview": "overview", "bundle": "bundle", "agent": "agent", "erdma": "wire",
    "cabling": "cabling",
}
# How many lines of Ansible's own output are kept, to explain a run that produced no per-host result.
OUTPUT_LINES = 40


@dataclass
class HostOutcome:
    name: str
    status: str = "ok"  # ok, failed, unreachable
    task: str = ""  # where it failed
    action: str = ""  # what that task ran
    message: str = ""
    out_of_service: str = ""  # why the inventory counts on it no more
    planned: bool = False  # a plan arrived; an empty one is a statement too
    wire: Object | None = None  # which way of eRDMA it would talk by this plan
    changes: list[Object] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)  # keys of changes that an apply reported done
    problems: list[Object] = field(default_factory=list)
    drivers: dict[str, str] = field(default_factory=dict)  # kernel, stack, firmware … of the node, one line each
    notes: list[str] = field(default_factory=list)  # what was left out on this node and why
    refused: list[Object] = field(default_factory=list)
    remaining: list[Object] = field(default_factory=list)  # came to light only through the apply; the next plan has them
    facts: Object | None = None
    drift: Object | None = None  # findings, what was judged, what could not be
    remediation: Object | None = None  # the last choice of what to fix, or what became of it
    rollback: Object | None = None  # its restore points, and what a rollback undoes
    upgrade: Object | None = None  # what an upgrade means for the node
    drain: Object | None = None  # what its scheduler says of it
    explanation: Object | None = None  # of a choice: what it fell on, why, and from what
    container: Object | None = None  # what a container on the node may be given
    readiness: Object | None = None  # what it brings to a run of nccl-tests
    job: Object | None = None  # what the scheduler says of a job
    ranks: Object | None = None  # what a job's processes on the node do
    health: Object | None = None  # its parts between two rounds of a burn-in
    overview: Object | None = None  # the node in a few lines, of a check without an inventory
    agent: Object | None = None  # what its agent says
    cabling: Object | None = None  # its rails, and what is at the other end of each cable
    bundle: Object | None = None  # what such a check reads, as the parts of a captured tree
    reboot_needed: list[str] = field(default_factory=list)  # keys of changes that the last apply left waiting for a reboot
    reverted: list[str] = field(default_factory=list)  # keys of changes that the node reverted by itself, unconfirmed
    restore_point: str = ""
    judged: bool = False  # verdicts arrived from this node
    seen: bool = False  # at least one task ended on it


@dataclass
class RunOutcome:
    hosts: dict[str, HostOutcome] = field(default_factory=dict)
    verdicts: list[Object] = field(default_factory=list)
    bench: Object | None = None  # nccl-tests: documents.py has the form
    ddp: Object | None = None  # the training benchmark
    traffic: list[Object] = field(default_factory=list)  # growth of counters while traffic ran, a node, rail and peer each
    reachability: Object | None = None  # who reached whom on which rail
    no_hosts: bool = False
    finished: bool = False  # the statistics event came: the playbook ran to its end
    canceled: bool = False
    output: list[str] = field(default_factory=list)

    def add(self, other: "RunOutcome") -> None:
        """What another run found: on other nodes, or another playbook, whose word on a node replaces what was said of it."""
        self.hosts.update(other.hosts)
        self.verdicts += other.verdicts
        self.traffic += other.traffic
        self.reachability = documents.both_reached(self.reachability, other.reachability)
        self.bench, self.ddp = other.bench or self.bench, other.ddp or self.ddp


class Update(NamedTuple):
    """One step of the run, for whoever shows progress."""

    kind: str  # play, task, start, retry, ok, failed, unreachable, skipped, end
    host: str = ""
    task: str = ""
    message: str = ""


Listener = Callable[[Update], None]
Echo = Callable[[str], None]


class _Failure(NamedTuple):
    task: str
    action: str
    message: str


class Collector:
    """Feed it every runner event; it keeps what the outcome needs."""

    def __init__(self, listener: Listener | None = None, echo: Echo | None = None) -> None:
        self.outcome = RunOutcome()
        self._echo = echo
        self._listener = listener
        self._output: deque[str] = deque(maxlen=OUTPUT_LINES)
        self._verdicts: dict[tuple[Any, ...], Object] = {}
        self._joint: dict[str, list[tuple[Any, ...]]] = {}  # keys of the verdicts of rdma_bench, by the document of JUDGES
        self._failed: dict[str, _Failure] = {}
        self._odd_hosts: dict[str, _Failure] = {}  # whatever Ansible counts: their results were not taken
        self._handlers: dict[str, Callable[[Object], None]] = {
            "playbook_on_play_start": lambda data: self._tell(Update("play", task=str(data.get("name") or ""))),
            "playbook_on_task_start": lambda data: self._tell(Update("task", task=_task_name(data))),
            "playbook_on_no_hosts_matched": lambda _data: setattr(self.outcome, "no_hosts", True),
            "playbook_on_stats": self._stats,
            "runner_on_start": lambda data: self._tell(Update("start", str(data.get("host") or ""), _task_name(data))),
            "runner_retry": self._retry,
            "runner_on_ok": self._ok,
            "runner_on_failed": self._on_failed,
            "runner_on_unreachable": self._unreachable,
            "runner_on_skipped": lambda data: self._tell(Update("skipped", self._of(data).name, _task_name(data))),
        }

    def handle(self, event: Mapping[str, Any]) -> bool:
        """Take one event; False tells the runner not to keep it on disk. No event ends the run: an odd one is its host's failure."""
        try:
            self._take(event)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            self._odd(event, error)
        return False

    def _odd(self, event: Mapping[str, Any], error: Exception) -> None:
        data: Object = event["event_data"]  # an event without any takes no part in this
        name = str(data.get("host") or "")
        if name:
            message = f"the node's answer cannot be read ({type(error).__name__}); the node is broken, or somebody lies there"
            self._odd_hosts.setdefault(name, _Failure(_task_name(data), _action(data), message))

    def _take(self, event: Mapping[str, Any]) -> None:
        data = event.get("event_data")
        if self._echo is not None and event.get("stdout"):
            self._echo(str(event["stdout"]))
        handler = self._handlers.get(str(event.get("event")))
        if handler is not None and isinstance(data, dict):
            handler(data)
        elif handler is None:
            self._output.extend(line for line in lines_in(str(event.get("stdout") or "").replace("\r\n", "\n")) if line.strip())

    def finish(self) -> RunOutcome:
        self.outcome.output = list(self._output)
        self.outcome.verdicts = list(self._verdicts.values())
        for name, failure in (self._odd_hosts | self._failed).items():
            host = self._host(name)
            if host.status == "ok":
                host.status = "failed"
                host.task, host.action, host.message = failure
        self._tell(Update("end"))
        return self.outcome

    # What follows is one method an event; each takes the event's data.

    def _retry(self, data: Object) -> None:
        """A task with `until` comes here after every try but the last, each time with the module's whole result."""
        message = documents.progress_text(_result(data)) if is_ours(data) else ""
        self._tell(Update("retry", str(data.get("host") or ""), _task_name(data), message))

    def _ok(self, data: Object) -> None:
        host = self._of(data)
        if is_ours(data) and _result(data).get("rebooted") is True:
            host.reboot_needed.clear()
        self._collect(host, data, failed=False)
        self._tell(Update("ok", host.name, _task_name(data)))

    def _on_failed(self, data: Object) -> None:
        host = self._of(data)
        self._collect(host, data, failed=True)
        message = failure_message(_result(data))
        if data.get("ignore_errors"):
            self._tell(Update("ok", host.name, _task_name(data)))
            return
        # The first failure is the cause; `always` sections may fail after it for its sake. A `rescue` that explains it says it better.
        first = self._failed.setdefault(host.name, _Failure(_task_name(data), _action(data), message))
        if is_ours(data) and _result(data).get("explains") is True:
            self._failed[host.name] = first._replace(message=message)
        self._tell(Update("failed", host.name, _task_name(data), message))

    def _unreachable(self, data: Object) -> None:
        host = self._of(data)
        result = _result(data)
        message = failure_message(result)
        if not result.get("ignore_unreachable"):
            host.status, host.task, host.message = "unreachable", _task_name(data), message
        self._tell(Update("unreachable", host.name, _task_name(data), message))

    def _stats(self, data: Object) -> None:
        """Ansible's own count knows which failures a `rescue` reverted, and who was lost to a task only (ignore_unreachable)."""
        self.outcome.finished = True
        for host in self.outcome.hosts.values():
            if host.status == "unreachable" and "dark" in data and not (data["dark"] or {}).get(host.name):
                host.status, host.task, host.message = "ok", "", ""
        failures = data.get("failures") or {}
        rescued = data.get("rescued") or {}
        for name in list(self._failed):
            if not failures.get(name) and rescued.get(name):
                del self._failed[name]
        for name in failures:
            if failures[name]:
                self._failed.setdefault(str(name), _Failure("", "", "a task failed"))
        for name in data.get("processed") or {}:
            self._host(str(name))

    def _of(self, data: Object) -> HostOutcome:
        host = self._host(str(data.get("host") or ""))
        host.seen = True
        return host

    def _host(self, name: str) -> HostOutcome:
        return self.outcome.hosts.setdefault(name, HostOutcome(name))

    def _tell(self, update: Update) -> None:
        if self._listener is not None:
            self._listener(update)

    def _collect(self, host: HostOutcome, data: Object, *, failed: bool) -> None:
        """Take our own results out of a task's; other modules' keys of the same name are not ours.

        Whether the task failed is the event's to say: newer releases drop ``failed`` from the result.
        """
        if not is_ours(data):
            return
        result = _result(data)
        changes = rows(result.get("plan"))
        if isinstance(result.get("plan"), list):
            host.planned = True
            _merge(host.changes, changes, "key")
        if result.get("changed") and not failed:
            _applied(host, result, [str(change.get("key")) for change in changes])
        _merge(host.problems, rows(result.get("problems")), "area", "subject", "message")
        _merge(host.remaining, rows(result.get("remaining")), "key")
        drivers = result.get("drivers")
        if isinstance(drivers, dict):
            host.drivers = {str(key): text for key, text in drivers.items() if isinstance(text, str)} or host.drivers
        notes = result.get("notes")
        if isinstance(notes, list):
            host.notes = list(dict.fromkeys([*host.notes, *(str(note) for note in notes)]))
        if failed:
            _merge(host.refused, rows(result.get("refused")), "key")
        _keep(host, result)
        action = _action(data).rpartition(".")[2]
        if action in ("rdma_measure", "rdma_bench"):
            self.outcome.traffic += documents.traffic_document(result.get("traffic"), host.name)
        if action in DOCUMENTS:
            name, form = DOCUMENTS[action]
            setattr(host, name, form(result) or getattr(host, name))
        if action == "rdma_cluster" and "reachability" in result:  # that one runs here
            self.outcome.reachability = documents.reachability_document(result["reachability"])
        self._judgement(host, action, result)

    def _judgement(self, host: HostOutcome, action: str, result: Object) -> None:
        """Verdicts, and the document that comes with those on all nodes."""
        joint = next((name for name in JUDGES if name in result), "") if action == "rdma_bench" else ""
        if joint:
            setattr(self.outcome, joint, JUDGES[joint](result[joint]))
        if not isinstance(result.get("verdicts"), list):
            return
        host.judged = True
        verdicts = rows(result["verdicts"])
        if joint:  # the last one holds, whole: a node cannot leave a verdict on another one beside it
            for key in (*self._joint.pop(joint, ()), *self._joint.pop("", ())):
                self._verdicts.pop(key, None)
        elif action != "rdma_cluster":  # that one runs here; what a node says is about itself, whatever it says
            verdicts = [{**verdict, "node": host.name} for verdict in verdicts]
        # The same judgement may be made twice in a run (before and after a repair): the last one holds.
        judged = {tuple(str(verdict.get(part)) for part in ("check", "node", "hca", "port", "subject")): verdict for verdict in verdicts}
        self._verdicts |= judged
        if action == "rdma_bench":
            self._joint.setdefault(joint, []).extend(judged)


def _keep(host: HostOutcome, result: Object) -> None:
    """What a node says of itself, once."""
    for key, name in OBJECTS.items():
        if isinstance(result.get(key), dict):
            setattr(host, name, result[key])
    if isinstance(result.get("reverted"), list):
        host.reverted = [str(key) for key in result["reverted"]]
    if isinstance(result.get("restore_point"), str) and result["restore_point"]:
        host.restore_point = result["restore_point"]


def _applied(host: HostOutcome, result: Object, done: list[str]) -> None:
    """An apply has succeeded. What one brought to light another one may do, after a reboot in between."""
    host.applied.extend(done)
    host.remaining = [change for change in host.remaining if change.get("key") not in done]
    waiting = result.get("reboot_needed")
    if isinstance(waiting, list):
        host.reboot_needed = list(dict.fromkeys([*host.reboot_needed, *(str(key) for key in waiting)]))


def _action(data: Object) -> str:
    return str(data.get("resolved_action") or data.get("task_action") or "")


def is_ours(data: Object) -> bool:
    """Whether the task ran a module of ours; 2.16 and 2.19 name it by its full name, an alias may be short."""
    return _action(data).startswith(("railwright.rdma.", "rdma_"))


def _result(data: Object) -> Object:
    return mapping(data.get("res"))


def _merge(into: list[Object], items: list[Object], *keys: str) -> None:
    """Add what is not there yet: slices of one plan come with several tasks."""
    known = {tuple(str(item.get(key)) for key in keys) for item in into}
    for item in items:
        identity = tuple(str(item.get(key)) for key in keys)
        if identity not in known:
            known.add(identity)
            into.append(item)


def _task_name(data: Object) -> str:
    name = str(data.get("task") or data.get("name") or "")
    # A role's task is named "role : task" in some events and "task" in others.
    return name.rpartition(" : ")[2]


# Messages that say no more than that the reason is in what was printed.
SILENT = ("non-zero return code", "MODULE FAILURE", "Module result deserialization failed")


def telling_line(lines: list[str]) -> str:
    """The last one, as of a traceback; a wrapper that does not find its program (pyenv) has good advice after that."""
    return next((line for line in lines if "command not found" in line), lines[-1])


def item_failed(item: Object) -> bool:
    """Return whether an item of a loop failed. Since ansible-core 2.21 callbacks get no ``failed``; a failed item has an ``exception``."""
    return bool(item.get("failed", "exception" in item))


def failure_message(result: Object) -> str:
    """The one text a person needs out of a failed result: a loop keeps it in its items."""
    failed_items = [item for item in rows(result.get("results")) if item_failed(item)]
    if failed_items:
        return "; ".join(dict.fromkeys(failure_message(item) for item in failed_items))
    # ansible-core 2.19 puts this before every message of a failed task.
    said = str(result.get("msg") or "").strip().removeprefix("Task failed: ")
    text = "; ".join(filter(None, map(str.strip, said.split("\r\n"))))  # ssh ends its lines so
    if result.get("censored"):
        return "the task failed; its output is hidden (no_log)"
    for stream in ("stderr", "module_stderr", "stdout", "module_stdout"):
        extra = str(result.get(stream) or "").replace("\r\n", "\n").strip()
        if extra and (not text or text.startswith(SILENT)):
            return (lines_in(text)[0] + ": " if text else "") + telling_line(lines_in(extra))
    failures = result.get("failures")  # ansible.builtin.dnf: which package it could not find stands only there
    if text and isinstance(failures, list) and failures:
        return text + ": " + "; ".join(str(item).strip() for item in failures)
    return text or "the task failed and gave no reason"
