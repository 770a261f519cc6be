# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scheduler says of a node, in words that all schedulers share, and whose a drain is.

A job on a node is never ended by us: a drain keeps new work away and waits. Whose a drain is stands at the scheduler, in the reason
that it keeps for the node, so that a resumed upgrade knows it, and an operator sees it. What somebody else has drained stays drained.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Pattern, Sequence, Tuple

from ..errors import RailwrightError
from ..formats.text import first_of, last_line
from ..host.host import Host

# available: new work may start. draining: none may, and some still runs. drained: none may, and none runs.
STATES = ("available", "draining", "drained", "down", "unknown")
OURS = "railwright upgrade "  # how the reason of every drain of an upgrade begins; the id of the run follows
ISOLATED = "railwright isolate "  # the same of what a search found slow: no upgrade takes that over or gives it back
WATCHED = "railwright watch:"  # of what nodes' agents found: `agent drain` gives it back, an upgrade does not
# Characters of such a reason, all of them ASCII. slurmdbd keeps a node's events with it in a tinytext, which holds 255 bytes
# (Slurm, accounting_storage_mysql.c, event_table_fields).
LONGEST_REASON = 200
SECONDS = 60.0  # for one command: slurmctld answers within MessageTimeout (10 s), or scontrol tries the next controller
ANSWER_LIMIT = 256 * 1024 * 1024  # bytes: the nodes of a large cluster, with their images, are some 40 kB each
KEPT = 50  # jobs of a node that are named: what a person reads
# Where sites put what is in no directory of the system; inspected after those.
TOOL_DIRECTORIES = (
    "/opt/slurm/bin", "/opt/slurm/current/bin", "/usr/local/slurm/bin", "/usr/lib64/slurm/bin", "/cm/shared/apps/slurm/current/bin",
    "/snap/bin", "/var/lib/rancher/rke2/bin",
)


class SchedulerError(RailwrightError):
    """The scheduler as a whole gave no answer."""


class SchedulerAway(SchedulerError):
    """It may be back in a moment: it restarts, or its backup takes over."""


class NodeState(NamedTuple):
    """One node as its scheduler has it."""

    scheduler: str
    node: str  # its name there
    state: str  # one of STATES
    jobs: Tuple[str, ...] = ()  # what holds the node: ids of jobs, or NAMESPACE/NAME of pods
    holders: Tuple[str, ...] = ()  # the same for people, with whose they are
    reason: Optional[str] = None  # what the scheduler keeps with a node that takes no new work
    by: Optional[str] = None  # us or other: who keeps new work away; None where nobody does
    message: Optional[str] = None  # why the step that was asked for was not made
    raw: str = ""  # the scheduler's own word for the state
    closed: bool = False  # no new work may start on it
    empty: bool = False  # no work runs on it

    @property
    def done(self) -> bool:
        """Nothing runs on it and nothing will: it may be changed. A node that is down can be that too."""
        return self.closed and self.empty


def as_dict(seen: NodeState) -> Dict[str, Any]:
    return dict(seen._asdict(), jobs=list(seen.jobs[:KEPT]), holders=list(seen.holders[:KEPT]), done=seen.done)


def state_of(*, down: bool, closed: bool, empty: bool) -> str:
    if down or not closed:
        return "down" if down else "available"
    return "drained" if empty else "draining"


def whose(reason: Optional[str]) -> str:
    """Who drained a node for this reason. The drain of an earlier upgrade is ours too: the node then still waits for one.

    What a search drained is not: it stays until an operator has repaired the node and opens it.
    """
    return "us" if (reason or "").startswith(OURS) else "other"


def is_of_run(reason: Optional[str], wanted: str) -> bool:
    """Whether a reason is that of exactly this run: what another run has drained, another run gives back."""
    return reason == wanted or (reason or "").startswith(wanted + " ")


def tool(host: Host, name: str, scheduler: str) -> str:
    """The path of a scheduler's program. Raises SchedulerError where there is none."""
    found = host.which(name)
    if found is not None:
        return found
    for directory in TOOL_DIRECTORIES:
        if host.exists(directory + "/" + name):
            return directory + "/" + name
    raise SchedulerError(
        "%s is not on this host, neither in a directory of the system nor in %s; set upgrade_scheduler_host to one that has it, or another "
        "upgrade_scheduler than %s" % (name, ", ".join(TOOL_DIRECTORIES), scheduler))


def ask(host: Host, scheduler: str, argv: Sequence[str], what: str, away: Pattern[str]) -> str:
    """What a program of the scheduler's answers. Raises SchedulerAway where nobody gave an answer at all, else SchedulerError."""
    answer = host.run((tool(host, argv[0], scheduler),) + tuple(argv[1:]), SECONDS, limit=ANSWER_LIMIT)
    if answer.ok:
        return answer.out
    is_away = answer.rc == 124 or away.search(answer.err + answer.out) is not None
    raise (SchedulerAway if is_away else SchedulerError)("%s failed: %s" % (what, last_line(answer.err.strip() or answer.out)))


def not_there(scheduler: str, name: str, nodes: Mapping[str, Any]) -> NodeState:
    message = "%s has no node %s; it has %s. Set upgrade_node_name to the node's name there, or upgrade_scheduler: none" % (
        scheduler.capitalize(), name, first_of(sorted(nodes), 5) or "none at all")
    return NodeState(scheduler, name, "unknown", message=message)


def carry_out(
    orders: Mapping[str, Callable[[], Optional[str]]], inspect: Callable[[], Sequence[NodeState]]
) -> Tuple[List[NodeState], bool]:
    """One order a node, each with its own answer (None, or why it was refused); then what has come of it, and whether one was taken."""
    refused = {name: orders[name]() for name in sorted(orders)}
    changed = any(said is None for said in refused.values())
    return [item._replace(message=refused.get(item.node) or item.message) for item in inspect()], changed
