# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining by Slurm: ``scontrol`` and ``squeue`` read and called; what their answers mean is decided here, purely.

One call each for all nodes. No name of an inventory goes to scontrol before slurmctld itself has listed a node of exactly this name:
scontrol would take ``gpu[1-8]`` for eight nodes. Slurm's JSON is not in every build, so the text forms are read.
"""

import re
from functools import partial
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import lines_in, whole
from ..formats.text import last_line
from ..host.host import Host
from .model import SECONDS, NodeState, SchedulerError, ask, carry_out, is_of_run, not_there, state_of, tool, whose

LIMIT = 65536  # names; Slurm's own MAX_SLURM_NODES is of this order, and a range of a damaged line must not fill memory
SHOWN = 200  # letters of a bad line in a message
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?\Z")


def expand(text: str) -> List[str]:
    """Every name, in order. Raises ValueError for what is no host list."""
    if set(re.sub(r"\[[^\[\]]*\]", "", text)) & set("[]"):
        raise ValueError("brackets of %r do not match" % text[:SHOWN])
    names: List[str] = []
    for part in re.findall(r"(?:[^\[\],]|\[[^\[\]]*\])+", text):  # at the commas that stand outside of brackets
        names += _expand_part(part)
        if len(names) > LIMIT:
            raise ValueError("a host list of more than %d names" % LIMIT)
    return names


def _expand_part(part: str) -> List[str]:
    """``rack[1-2]n[01-02]``: the last bracket runs fastest."""
    names = [""]
    for piece in re.split(r"(\[[^\[\]]*\])", part):
        ends = _numbers(piece[1:-1]) if piece.startswith("[") else [piece]
        if len(names) * len(ends) > LIMIT:
            raise ValueError("a host list of more than %d names" % LIMIT)
        names = [name + end for name in names for end in ends]
    return names


def _numbers(ranges: str) -> List[str]:
    """``001-003,7``: leading zeros are kept."""
    found: List[str] = []
    for item in ranges.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise ValueError("%r is no range of numbers" % item[:SHOWN])
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) - int(first) + len(found) >= LIMIT:
            raise ValueError("a host list of more than %d names" % LIMIT)
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


# Whatever squeue knows but what has ended or has no nodes yet. One state name that an older squeue does not know would be an error,
# so all are asked for and these are left out.
_OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "REVOKED",
         "TIMEOUT", "REQUEUED", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUE_FED")
_QUEUE = ("squeue", "--all", "--noheader", "--states=all", "--format=%i|%T|%N|%u")
_NAME = re.compile(r"^NodeName=(\S+) ")
_STATE = re.compile(r" State=(\S+) ThreadsPerCore=")  # the two stand side by side; a reason, which anybody may write, comes after them
_REASON = re.compile(r" Reason=(.*)$")
_STAMP = re.compile(r" \[[^\s\[\]@]+@[^\s\[\]]+\]")  # who and when, which slurmctld sets behind the text
_AWAY = re.compile(
    r"unable to contact slurm controller|slurm controller.{0,80}(?:not responding|in standby mode)|connection (?:refused|timed out)"
    r"|socket timed out|zero bytes were transmitted|communication (?:shutdown|failure|connection)", re.IGNORECASE)
_DOWN = ("DOWN", "ERROR", "FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "NOT_RESPONDING", "DYNAMIC_NORM_DOWN")
_BUSY = ("ALLOCATED", "MIXED", "COMPLETING", "REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT")
_CLOSED = ("DRAIN", "FAIL")  # FAIL: by an administrator, no new jobs either
_RESERVED = re.compile(r"^ReservationName=\S+ StartTime=\S+ EndTime=\S+ Duration=\S+ +Nodes=(\S*) NodeCnt=")  # no user's text before it
SELECTION = re.compile(r"job=[0-9]{1,10}(_[0-9]{1,10})?|reservation=[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}|state=[A-Za-z_]{1,32}")


class Node(NamedTuple):
    """What scontrol says of one node, reduced to what decides."""

    name: str
    words: Tuple[str, ...]  # IDLE, DRAIN …: the base state first, then its flags
    responds: bool
    reason: Optional[str]

    @property
    def raw(self) -> str:
        return "+".join(self.words) + ("" if self.responds else " (not responding)")


class Job(NamedTuple):
    """One job that holds nodes."""

    id: str
    state: str
    user: str
    nodes: Tuple[str, ...]


def parse_nodes(text: str) -> Dict[str, Node]:
    """``scontrol --all --oneliner show nodes`` by node name; lines that are none are left out."""
    found: Dict[str, Node] = {}
    for line in lines_in(text):
        name, state = _NAME.match(line), _STATE.search(line)
        if name is None or state is None:
            continue
        words = [word for word in state.group(1).split("+") if word]
        bare = tuple(word.rstrip("*~#!%$@^-") for word in words)
        responds = "*" not in state.group(1) and "NOT_RESPONDING" not in bare
        found[name.group(1)] = Node(name.group(1), bare, responds, _reason(line[state.end():]))
    return found


def _reason(rest: str) -> Optional[str]:
    match = _REASON.search(rest)
    if match is None:
        return None
    stamps = list(_STAMP.finditer(match.group(1)))
    text = match.group(1)[:stamps[-1].start()] if stamps else match.group(1)
    return text.strip() or None


def parse_jobs(text: str) -> List[Job]:
    """``squeue --format=%i|%T|%N|%u``: what holds nodes now. Raises SchedulerError for a line that cannot be read: it may be a job."""
    jobs: List[Job] = []
    for line in lines_in(text):
        if not line.strip():
            continue
        parts = line.strip().split("|", 3)
        if len(parts) != 4:
            raise SchedulerError("squeue answered with a line that cannot be read: %r" % line[:200])
        number, state, nodes, user = parts
        if state in _OVER or not nodes or nodes == "(null)":
            continue
        try:
            jobs.append(Job(number, state, user, tuple(expand(nodes))))
        except ValueError as error:
            raise SchedulerError("squeue says that job %s is on %r, which cannot be read: %s" % (number, nodes[:200], error)) from None
    return jobs


def judge(node: Node, jobs: Sequence[Job]) -> NodeState:
    """The node in words that all schedulers share. Empty only where both say so, the node's state and the queue.

    A suspended job leaves its node IDLE, and a queue may hide the jobs of others (PrivateData).
    """
    held = [job for job in jobs if node.name in job.nodes]
    empty = not held and not any(word in _BUSY for word in node.words)
    closed = any(word in _CLOSED for word in node.words)
    down = not node.responds or any(word in _DOWN for word in node.words)
    state = "unknown" if node.words[:1] == ("UNKNOWN",) else state_of(down=down, closed=closed, empty=empty)
    return NodeState(
        "slurm", node.name, state, tuple(job.id for job in held),
        tuple("job %s of %s (%s)" % (job.id, job.user, job.state) for job in held),
        node.reason if closed or state == "down" else None, whose(node.reason) if closed else "other" if state == "down" else None,
        None, node.raw, closed, empty)


def inspect_nodes(host: Host, names: Sequence[str]) -> List[NodeState]:
    """Every node, in the order of ``names``; one that Slurm does not have is unknown, with a message."""
    nodes, jobs = _ask(host)
    return [judge(nodes[name], jobs) if name in nodes else not_there("slurm", name, nodes) for name in names]


def drain(host: Host, names: Sequence[str], reason: str) -> Tuple[List[NodeState], bool]:
    return close(host, dict.fromkeys(names, reason))


def close(host: Host, reasons: Mapping[str, str]) -> Tuple[List[NodeState], bool]:
    """Keep new jobs from the nodes; with it, whether anything was changed. What others have drained keeps their reason.

    A node that is down is drained as well, or a job could start as soon as it comes back; the reason that it has stays, so that nobody
    takes the drain for ours.
    """
    nodes, jobs = _ask(host)
    wanted = {name: _drain_reason(nodes[name], jobs, reason) for name, reason in reasons.items() if name in nodes}
    orders = {name: partial(_update, host, name, "State=DRAIN", "Reason=" + text) for name, text in wanted.items() if text is not None}
    return carry_out(orders, lambda: inspect_nodes(host, list(reasons)))


def _drain_reason(node: Node, jobs: Sequence[Job], reason: str) -> Optional[str]:
    """The reason to drain the node with; None where it is drained already. An earlier upgrade's drain becomes this run's."""
    seen = judge(node, jobs)
    if seen.closed:
        return reason if seen.by == whose(reason) == "us" and not is_of_run(node.reason, reason) else None
    if seen.state == "down":  # the reason of a search brings nobody to give the node back
        return node.reason or ("down before " + reason if whose(reason) == "us" else reason)
    return reason


def undrain(host: Host, names: Sequence[str], reason: str) -> Tuple[List[NodeState], bool]:
    """Let jobs come again to what this very run has drained; a node that does not answer is not touched: it would be down at once."""
    nodes, _jobs = _ask(host)
    ours = [name for name in names if name in nodes and "DRAIN" in nodes[name].words and is_of_run(nodes[name].reason, reason)]
    orders = {name: partial(_update, host, name, "State=RESUME") for name in ours if nodes[name].responds}
    return carry_out(orders, lambda: inspect_nodes(host, names))


def _update(host: Host, name: str, *settings: str) -> Optional[str]:
    """None, or why Slurm refused. ``name`` is one that slurmctld has listed."""
    answer = host.run((tool(host, "scontrol", "slurm"), "update", "NodeName=" + name) + settings, SECONDS)
    if answer.ok:
        return None
    said = last_line(answer.err.strip() or answer.out)
    if re.search(r"[Pp]ermission|[Ii]nvalid user", said):
        said += "; it ran as the user that Ansible comes as: let that be an operator of Slurm, or set ansible_become on the scheduler host"
    return "Slurm refused %s for %s: %s" % (settings[0], name, said)


def _ask_nodes(host: Host) -> Dict[str, Node]:
    return parse_nodes(ask(host, "slurm", ("scontrol", "--all", "--oneliner", "show", "nodes"), "scontrol", _AWAY))


def _ask(host: Host) -> Tuple[Dict[str, Node], List[Job]]:
    """Nodes and jobs. The queue is read last, so that no job can have begun between it and the state that closes the node."""
    nodes = _ask_nodes(host)
    jobs = parse_jobs(ask(host, "slurm", _QUEUE, "squeue", _AWAY))
    return nodes, jobs


def inspect_job(host: Host, job: str) -> Dict[str, Any]:
    """A job's nodes as Slurm has them. ``id``: what its processes bear as SLURM_JOB_ID, also that of an array's task. No text of a user's
    is among what is asked for. Raises SchedulerError."""
    argv = ("squeue", "--noheader", "--states=all", "--jobs=" + job, "--format=%A|%T|%U|%N")
    lines = [line.strip().split("|") for line in lines_in(ask(host, "slurm", argv, "squeue", _AWAY)) if line.strip()]
    if len(lines) != 1 or len(lines[0]) != 4:
        raise SchedulerError("Slurm has %s of job %s; allowed: the id of one job that runs" % (len(lines) or "nothing", job))
    number, state, uid, names = lines[0]
    try:
        wanted = expand(names) if state not in _OVER else []
    except ValueError as error:
        raise SchedulerError("squeue says that job %s is on %r, which cannot be read: %s" % (job, names[:SHOWN], error)) from None
    nodes = {name: judge(node, []) for name, node in _ask_nodes(host).items()} if wanted else {}
    return {"id": number, "state": state, "uid": whole(uid, 0), "pods": [], "nodes": [
        {"name": name, "down": name not in nodes or nodes[name].state == "down", "raw": nodes[name].raw if name in nodes else "unknown"}
        for name in wanted]}


def selected_nodes(host: Host, select: str) -> List[str]:
    """The names of the nodes of ``job=4711``, ``reservation=maint`` or ``state=drain``. What a state's word means is sinfo's to say.
    Raises SchedulerError."""
    kind, _is, value = select.partition("=")
    if SELECTION.fullmatch(select) is None:
        raise SchedulerError("%r; allowed: job=ID, reservation=NAME, state=STATE" % select[:SHOWN])
    if kind == "job":
        queued = ask(host, "slurm", _QUEUE + ("--jobs=" + value,), "squeue", _AWAY)
        return sorted({name for job in parse_jobs(queued) for name in job.nodes})
    if kind == "state":
        argv: Tuple[str, ...] = ("sinfo", "--all", "--noheader", "--Node", "--states=" + value, "--format=%N")
        return parse_names(ask(host, "slurm", argv, "sinfo", _AWAY).split())
    return parse_reservation(ask(host, "slurm", ("scontrol", "--all", "--oneliner", "show", "reservation", value), "scontrol", _AWAY))


def parse_reservation(text: str) -> List[str]:
    """``scontrol --oneliner show reservation NAME``: its nodes. Raises SchedulerError."""
    lists = [found.group(1) for found in map(_RESERVED.match, lines_in(text)) if found is not None]
    if not lists:
        raise SchedulerError("scontrol answered with a reservation that cannot be read: %r" % text[:SHOWN])
    return parse_names(lists)


def parse_names(lists: Sequence[str]) -> List[str]:
    """Every name of these host lists, once. Raises SchedulerError."""
    try:
        return sorted({name for item in lists if item != "(null)" for name in expand(item)})
    except ValueError as error:
        raise SchedulerError("Slurm's answer cannot be read: %s" % error) from None
