# SPDX-License-Identifier: GPL-3.0-or-later
"""Who hangs: what was seen of all ranks of a job in the same seconds, judged. Pure.

A rank is named where something of its own says why nobody can go on without it, or where all others wait and it does not. A rank that
waits is in a call for all of the time, without sending or receiving more than a heartbeat; one of MPI waits by asking the kernel again
and again. Where that does not part them, nobody is named.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, rows, whole
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped

Row = Mapping[str, Any]

# Bytes over one connection in one inspection that are no progress: PyTorch asks its store every second, beside NCCL (ProcessGroupNCCL.hpp,
# TORCH_NCCL_COORD_CHECK_MILSEC). Who runs without NCCL has no such thread.
HEARTBEAT = 64 * 1024
WORD = 4  # bytes, which these count (IBTA, and Ethernet's drivers after it)
DATA = ("port_xmit_data", "port_rcv_data")
IDLE, BUSY = 0.05, 0.5  # shares of a core
IDLE_GPU, BUSY_GPU = 5, 95  # percent of a second with a kernel; NCCL's wait on the GPU, so that two H100 in a collective show 100
ASKING = 0.1  # of its CPU time in the kernel: a loop of user code has a hundredth, Open MPI's poll(2) four fifths (molecule/diagnose)
XID_PID = re.compile(r"NVRM: Xid \([^()]{1,40}\): [0-9]{1,5}, pid='?([0-9]{1,10})\b")  # the process's name, behind it, may hold another
SHOWN = 8  # of those that are named in a line
MOST = 100_000  # ranks of a job
STOPPED, ENDED, STUCK = "stopped", "ended", "stuck"
WAITS, POLLS, COMPUTES, SLEEPS, WORKS, UNCLEAR = "waits", "polls", "computes", "sleeps", "works", "unclear"
WAITING = (WAITS, POLLS)
WHY = {
    STOPPED: "is stopped (state T: SIGSTOP, a debugger, or the scheduler's suspend)",
    ENDED: "has ended", STUCK: "is stuck in the kernel (state D)",
    COMPUTES: "computes outside of the collective, without a call to the kernel", SLEEPS: "sleeps in its own code",
    WORKS: "is at something else: neither in the collective nor still", UNCLEAR: "could not be read",
}


class Rank(NamedTuple):
    """One rank as it was seen."""

    node: str
    row: Row
    kind: str
    moves: bool  # data came or went

    @property
    def name(self) -> str:
        number = "a process" if self.row["rank"] is None else f"rank {self.row['rank']}"
        return f"{number} on {self.node} (pid {self.row['pid']}, {self.row['name']})"


class Judgement(NamedTuple):
    """``status``: hangs (``awaited`` says who), moves or unknown. ``awaited``: rank, node, pid and why."""

    status: str
    awaited: list[dict[str, Any]]
    waiting: list[str]
    collective: str | None
    message: str
    would_tell: list[str]


def kind_of(row: Row, *, moves: bool, much: bool) -> str:
    """What a rank did all of the time. ``much``: more than heartbeats went to it or from it."""
    states = set(row["states"])
    if states & set("XZx"):
        return ENDED
    if states <= set("Tt"):
        return STOPPED
    if states == {"D"} or row["stack"]:
        return STUCK
    if row["moved"] is None:  # its sockets were not to be read
        return UNCLEAR
    if row["switches"] > 1:  # it came out of a call, and went into another one
        return WORKS
    if min(row["busy"], default=0) >= BUSY:
        return WORKS if moves else COMPUTES if row["system"] < ASKING else POLLS
    if states != {"S"} or row["cpu"] >= IDLE or much:
        return WORKS
    return SLEEPS if row["waits"] and all("nanosleep" in wait for wait in row["waits"]) else WAITS


def seen_ranks(nodes: Mapping[str, Row], step: str | None = None) -> list[Rank]:
    """Of all nodes that answered."""
    found = []
    for node, seen in nodes.items():
        rdma = max((each["growth"].get(name, 0) * WORD for each in seen["counters"] for name in DATA), default=0)
        for row in seen["ranks"]:
            much = max(row["moved"] or 0, rdma) > HEARTBEAT
            moves = much or (not row["nccl"] and bool(row["moved"]))
            if step in (None, row["step"]):
                found.append(Rank(node, row, kind_of(row, moves=moves, much=much), moves))
    return sorted(found, key=lambda rank: (rank.row["rank"] is None, rank.row["rank"] or 0, rank.node, rank.row["pid"]))


def judged(
    nodes: Mapping[str, Row], gone: Mapping[str, str], unread: Mapping[str, str], seconds: int, step: str | None = None, ras: Any = None
) -> Judgement:
    """``gone``: nodes that are away, each with why. ``unread``: nodes that could not be inspected. ``ras``: what ncclras said."""
    ranks = seen_ranks(nodes, step)
    kinds = {rank.kind for rank in ranks}
    steps = sorted({str(rank.row["step"]) for rank in ranks})
    named = _without_process(nodes, gone, ranks, exact=not unread)
    named += [_named(rank, why) for rank in ranks if (why := _own_reason(rank, nodes[rank.node]["xids"]))]
    if len(steps) > 1:
        return _unknown(ranks, f"the job has the steps {', '.join(steps)}", ["one of them: JOB.STEP"])
    if kinds == {ENDED} or not (named or ranks):
        return _unknown(ranks, "no process of the job is left, or none was found, on any node that answered", ["its id, or --process NAME"])
    if named:
        return _hangs(ranks, named, [])
    if unread:
        why = "; ".join(f"{node}: {said}" for node, said in sorted(unread.items()))
        return _unknown(ranks, f"not read: {why}", ["an answer of these nodes"])
    if all(rank.moves for rank in ranks) and not kinds & {*WAITING, UNCLEAR}:
        return Judgement("moves", [], [], None, f"nobody waits for all of {seconds} s, and every rank sends or receives: no rank hangs", [])
    return _judged_still(ranks, kinds, f"a longer inspection, of more than one step: --seconds {min(600, seconds * 6)}", ras)


def _judged_still(ranks: Sequence[Rank], kinds: set[str], longer: str, ras: Any) -> Judgement:
    """Somebody waits, or nothing moves; nobody is away, stopped or stuck."""
    if named := _behind(ranks) or _by_ras(ranks, ras):
        return _hangs(ranks, named, [])
    if named := _idle_gpus(ranks):
        return _hangs(ranks, named, [f"whether it hangs or is slow: {longer}"])
    if UNCLEAR in kinds:
        return _unknown(ranks, "sockets of its processes could not be read", ["root with CAP_SYS_PTRACE, and ss (iproute2), there"])
    if named := _left_over(ranks):
        return _hangs(ranks, named, [f"whether it hangs or is slow: {longer}"])
    what = f"every rank {' or '.join(sorted(kinds))}" if kinds <= set(WAITING) or len(kinds) == 1 else "some ranks wait, others do not"
    return _unknown(ranks, f"{what}, and nothing parts them", [
        longer, "a dump of PyTorch's flight recorder (TORCH_FR_BUFFER_SIZE, TORCH_NCCL_DUMP_ON_TIMEOUT)",
        "of NCCL 2.29.2 or later, once all communicators are made: ncclras -f json, with --ras FILE",
        "a stack of one of the ranks, by whoever may stop it"])


def _unknown(ranks: Sequence[Rank], why: str, would_tell: list[str]) -> Judgement:
    return Judgement("unknown", [], [rank.name for rank in ranks if rank.kind in WAITING], None, f"cannot tell: {why}", would_tell)


def _hangs(ranks: Sequence[Rank], named: list[dict[str, Any]], would_tell: list[str]) -> Judgement:
    own = {(each["node"], each["pid"]) for each in named}
    others = [rank for rank in ranks if (rank.node, rank.row["pid"]) not in own]
    entries = [entry for rank in others for entry in rank.row["recorded"] or () if entry["state"] != "completed"]
    what = "all others wait for" if all(rank.kind in WAITING for rank in others) else "the job waits for"
    text = "; ".join(each["text"] for each in named[:SHOWN]) + (f" and {len(named) - SHOWN} more" if len(named) > SHOWN else "")
    return Judgement("hangs", named, [rank.name for rank in others if rank.kind in WAITING], next(map(_collective, entries), None),
                     f"{what} {text}", would_tell)


def _collective(entry: Row) -> str:
    return f"{entry['op']} number {entry['seq']} of group {entry['group']}"


def _named(rank: Rank, why: str) -> dict[str, Any]:
    return {"rank": rank.row["rank"], "node": rank.node, "pid": rank.row["pid"], "why": why, "text": f"{rank.name}: {why}"}


def _without_process(nodes: Mapping[str, Row], gone: Mapping[str, str], ranks: Sequence[Rank], *, exact: bool) -> list[dict[str, Any]]:
    """Ranks of nodes that are away, and those whose process is nowhere. ``exact``: all other nodes were read."""
    size = min(max((rank.row["size"] or 0 for rank in ranks), default=0), MOST)
    missing = [str(number) for number in sorted(set(range(size)) - {rank.row["rank"] for rank in ranks})]
    which = f"rank {', '.join(missing[:SHOWN])}{' …' if len(missing) > SHOWN else ''}" if missing else "its ranks"
    number = int(missing[0]) if len(missing) == 1 else None
    places = {node: f"{node} is gone: {why}" for node, why in sorted(gone.items())}
    if not places and missing and exact:
        empty = [node for node in sorted(nodes) if not nodes[node]["ranks"]]
        places = {", ".join(empty): "no process of it is left" + (f" on {', '.join(empty)}" if empty else "")}
    return [{"rank": number, "node": node, "pid": None, "why": why, "text": f"{which}: {why}"} for node, why in places.items()]


def _own_reason(rank: Rank, xids: Iterable[str]) -> str:
    """What of a rank's own says that it cannot go on."""
    if rank.kind == STUCK:
        return f"{WHY[STUCK]}: {' '.join(rank.row['stack'][:4]) or ', '.join(rank.row['waits']) or 'its stack was not to be read'}"
    if rank.kind in (STOPPED, ENDED):
        return WHY[rank.kind]
    return next((f"its GPU failed: {line}" for line in xids if str(rank.row["pid"]) in XID_PID.findall(line)), "")


def _behind(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """By the dumps of flight recorders: who has not come to the collective that others are in, or whose GPU has not."""
    for entries in grouped((str(entry["group"]), (rank, entry)) for rank in ranks for entry in rank.row["recorded"] or ()).values():
        first = max((entry for _rank, entry in entries), key=lambda entry: (entry["seq"], entry["state"] == "started"))
        late = [(rank, entry) for rank, entry in entries if entry["seq"] < first["seq"]]
        if not late and first["state"] == "started":
            late = [(rank, entry) for rank, entry in entries if entry["state"] == "scheduled"]
        if late:
            return [_named(rank, f"its last is {_collective(entry)} ({entry['state']}), others are in {_collective(first)}")
                    for rank, entry in late]
    return []


def _idle_gpus(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """Who has launched nothing while a kernel runs on the GPUs of all others: a collective, which waits for it. All processes may spin."""
    idle = [rank for rank in ranks if rank.row["gpus"] and max(rank.row["gpus"]) <= IDLE_GPU]
    busy = [rank for rank in ranks if rank.row["gpus"] and min(rank.row["gpus"]) >= BUSY_GPU]
    if not idle or len(idle) > len(busy) or len(idle) + len(busy) < len(ranks):
        return []
    why = "its GPU is idle, and a kernel runs on those of all others"
    return [_named(rank, f"{WHY[rank.kind]}; {why}" if rank.kind in (COMPUTES, SLEEPS) else why) for rank in idle]


def _by_ras(ranks: Sequence[Rank], document: Any) -> list[dict[str, Any]]:
    """By what NCCL's RAS said (``ncclras -f json``): who is away, or has launched fewer collectives. Nothing of an initialisation."""
    found = []
    for communicator in rows(mapping(document).get("communicators")):
        members, missing = rows(communicator.get("ranks")), rows(communicator.get("missing_ranks"))
        if any(mapping(row.get("status")).get("init_state") != 0 for row in members):
            continue
        found += [(row, "NCCL's RAS gets no answer of it") for row in missing if mapping(row.get("status")).get("unresponsive") is True]
        for op in sorted({op for row in members for op in mapping(row.get("collective_counts"))}) if not missing else ():
            counts = [whole(mapping(row.get("collective_counts")).get(op), 0) or 0 for row in members]
            found += [(row, f"NCCL's RAS: it has launched {count} times {op}, others {max(counts)}")
                      for row, count in zip(members, counts, strict=True) if count < max(counts)]
    return [_by_pid(ranks, row, why) for row, why in found]


def _by_pid(ranks: Sequence[Rank], row: Row, why: str) -> dict[str, Any]:
    """Its node as we call it, where no other node has the same pid."""
    number, pid, host = whole(row.get("rank"), 0), whole(row.get("pid"), 1), str(row.get("host"))[:64]
    same = [rank for rank in ranks if rank.row["pid"] == pid]
    place = {"rank": number, "node": host, "pid": pid, "why": why, "text": f"rank {number} on {host} (pid {pid}): {why}"}
    return _named(same[0], why) if len(same) == 1 else place


def _left_over(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """By what they did: all wait but these; or nobody but these leaves unread what came."""
    waiting = [rank for rank in ranks if rank.kind in WAITING]
    others = [rank for rank in ranks if rank.kind not in WAITING]
    works = any(rank.kind == WORKS for rank in others)
    if waiting and others and (len(others) <= len(waiting) or not works):
        return [_named(rank, WHY[rank.kind] + _left_unread(rank)) for rank in others]
    deaf = [rank for rank in ranks if rank.row["unread"]]
    if len(deaf) < len(ranks) and not works:
        return [_named(rank, f"does not read what came{_left_unread(rank)}") for rank in deaf]
    return []


def _left_unread(rank: Rank) -> str:
    return f"; {rank.row['unread']} bytes lie unread at its sockets" if rank.row["unread"] else ""

