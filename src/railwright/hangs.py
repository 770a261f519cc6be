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

Row = Mapping[str, Any]

# Bytes over one connection in one inspection that are no progress: PyTorch asks its store every second, beside NCCL (ProcessGroupNCCL.hpp,
# TORCH_NCCL_COORD_CHECK_MILSEC). Who runs without NCCL has no such thread.
HEARTBEAT = 64 * 1024
WORD = 4  # bytes: port_xmit_data and port_rcv_data count these (IBTA, and ethernet drivers after it)
IDLE, BUSY = 0.05, 0.5  # shares of a core
ASKING = 0.1  # of its CPU time in the kernel: a loop of user code has a hundredth, Open MPI's poll(2) four fifths (molecule/diagnose)
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


def kind_of(row: Row, *, moves: bool) -> str:
    """What a rank did all of the time."""
    states = set(row["states"])
    if states & set("XZx"):
        return ENDED
    if states <= set("Tt"):
        return STOPPED
    if states == {"D"}:
        return STUCK
    if row["moved"] is None:  # its sockets were not to be read
        return UNCLEAR
    if row["switches"] > 1:  # it came out of a call, and went into another one
        return WORKS
    if min(row["busy"]) >= BUSY:
        return WORKS if moves else COMPUTES if row["system"] < ASKING else POLLS
    if states != {"S"} or row["cpu"] >= IDLE or row["moved"] > HEARTBEAT:
        return WORKS
    return SLEEPS if all("nanosleep" in wait for wait in row["waits"]) else WAITS


def seen_ranks(nodes: Mapping[str, Row], step: str | None = None) -> list[Rank]:
    """Of all nodes that answered."""
    found = []
    for node, seen in sorted(nodes.items()):
        growth = [rows_of.get(name, 0) * WORD for rows_of in (each["growth"] for each in seen["counters"])
                  for name in ("port_xmit_data", "port_rcv_data")]
        for row in seen["ranks"]:
            moves = (row["moved"] or 0) > (HEARTBEAT if row["nccl"] else 0) or max(growth, default=0) > HEARTBEAT
            if step in (None, row["step"]):
                found.append(Rank(node, row, kind_of(row, moves=moves), moves))
    return sorted(found, key=lambda rank: (rank.row["rank"] is None, rank.row["rank"] or 0, rank.node))


def judged(
    nodes: Mapping[str, Row], gone: Mapping[str, str], unread: Mapping[str, str], seconds: int, step: str | None = None,
    ras: Any = None,
) -> Judgement:  # fmt: skip
    """``gone``: nodes that are away, each with why. ``unread``: nodes that could not be inspected."""
    ranks = seen_ranks(nodes, step)
    steps = sorted({str(rank.row["step"]) for rank in ranks})
    if len(steps) > 1:
        return _unknown(ranks, f"the job has the steps {', '.join(steps)}", ["one of them: JOB.STEP"])
    missing = sorted(set(range(max((rank.row["size"] or 0 for rank in ranks), default=0))) - {rank.row["rank"] for rank in ranks})
    named = _without_process(nodes, gone, ranks, missing, any_unread=bool(unread))
    named += [_named(rank, _own_reason(rank, nodes[rank.node]["xids"])) for rank in ranks if _own_reason(rank, nodes[rank.node]["xids"])]
    if not named and not ranks:
        return _unknown(ranks, "no process of the job was found on any node that answered", ["its id, or --process NAME"])
    named = named or _behind(ranks) or _by_ras(ranks, ras) or ([] if unread else _left_over(ranks))
    if named:
        return Judgement("hangs", named, [rank.name for rank in ranks if rank.kind in WAITING], _collective(ranks, named),
                         f"everybody else waits for {'; '.join(each['text'] for each in named[:8])}", [])
    kinds = {rank.kind for rank in ranks}
    if unread:
        return _unknown(ranks, "not read: " + "; ".join(f"{node}: {why}" for node, why in sorted(unread.items())), ["an answer of these nodes"])
    if all(rank.moves for rank in ranks) and not kinds & {*WAITING, UNCLEAR}:
        return Judgement("moves", [], [], None, f"nobody waits for all of {seconds} s, and every rank sends and receives: no rank hangs", [])
    if UNCLEAR in kinds:
        return _unknown(ranks, "sockets of its processes were not to be read", ["root with CAP_SYS_PTRACE, and ss (iproute2), on their nodes"])
    what = f"every rank {' or '.join(sorted(kinds))}" if kinds <= set(WAITING) or len(kinds) == 1 else "some ranks wait, others do not"
    return _unknown(ranks, f"{what}, and nothing parts them", [
        f"a longer inspection: --seconds {min(600, seconds * 6)}",
        "a dump of PyTorch's flight recorder (TORCH_FR_BUFFER_SIZE, TORCH_NCCL_DUMP_ON_TIMEOUT)",
        "of NCCL 2.29.2 or later, once all communicators are made: ncclras -f json, with --ras FILE",
        "a stack of one of the ranks, by whoever may stop it"])


def _unknown(ranks: Sequence[Rank], why: str, would_tell: list[str]) -> Judgement:
    return Judgement("unknown", [], [rank.name for rank in ranks if rank.kind in WAITING], None, f"cannot tell: {why}", would_tell)


def _named(rank: Rank, why: str) -> dict[str, Any]:
    return {"rank": rank.row["rank"], "node": rank.node, "pid": rank.row["pid"], "why": why, "text": f"{rank.name}: {why}"}


def _without_process(
    nodes: Mapping[str, Row], gone: Mapping[str, str], ranks: Sequence[Rank], missing: Sequence[int], *, any_unread: bool
) -> list[dict[str, Any]]:  # fmt: skip
    """Ranks of nodes that are away, and those whose process is nowhere."""
    which = f"{'rank' if len(missing) == 1 else 'ranks'} {_spans(missing)}" if missing else "its ranks"
    away = [{"rank": missing[0] if len(missing) == 1 else None, "node": node, "pid": None, "why": f"{node} is gone: {why}",
             "text": f"{which}: {node} is gone: {why}"} for node, why in sorted(gone.items())]
    if away or any_unread or not missing or not ranks:
        return away
    empty = [node for node in nodes if not any(rank.node == node for rank in ranks)]
    where = f" on {', '.join(empty)}" if empty else ""
    why = f"no process of it is there{where}: it has ended"
    return [{"rank": number, "node": empty[0] if len(empty) == 1 else "", "pid": None, "why": why, "text": f"rank {number}: {why}"}
            for number in missing]


def _spans(numbers: Sequence[int]) -> str:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def _own_reason(rank: Rank, xids: Iterable[str]) -> str:
    """What of a rank's own says that it cannot go on."""
    if rank.kind == STUCK:
        return f"{WHY[STUCK]}: {' '.join(rank.row['stack'][:4]) or ', '.join(rank.row['waits']) or 'its stack was not to be read'}"
    if rank.kind in (STOPPED, ENDED):
        return WHY[rank.kind]
    return next((f"its GPU failed: {line}" for line in xids if re.search(rf"\bpid='?{rank.row['pid']}\b", line)), "")


def _behind(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """By the dumps of flight recorders: who has not come to the collective that others are in."""
    groups: dict[str, list[tuple[Rank, Row]]] = {}
    for rank in ranks:
        for entry in rank.row["recorded"] or ():
            groups.setdefault(str(entry["group"]), []).append((rank, entry))
    for group, entries in sorted(groups.items()):
        most = max(entry["seq"] for _rank, entry in entries)
        late = [(rank, entry) for rank, entry in entries if entry["seq"] < most]
        op = next(entry["op"] for _rank, entry in entries if entry["seq"] == most)
        if late:
            return [_named(rank, f"has come to number {entry['seq']} of group {group} ({entry['op']}), others to {most} ({op})")
                    for rank, entry in late]
        begun = {entry["state"] for _rank, entry in entries}
        if begun == {"scheduled", "started"}:
            return [_named(rank, f"its GPU has not begun {op} number {most} of group {group}, those of others have")
                    for rank, entry in entries if entry["state"] == "scheduled"]
    return []


def _by_ras(ranks: Sequence[Rank], document: Any) -> list[dict[str, Any]]:
    """By what NCCL's RAS said (``ncclras -f json``): who is away, or has launched fewer collectives. Nothing while one is initialised."""
    found: list[dict[str, Any]] = []
    by_pid = {rank.row["pid"]: rank for rank in ranks}

    def name(row: Row, why: str) -> dict[str, Any]:
        rank = by_pid.get(row.get("pid"))
        place = {"rank": row.get("rank"), "node": str(row.get("host"))[:64], "pid": row.get("pid"), "why": why}
        return _named(rank, why) if rank else {**place, "text": f"rank {place['rank']} on {place['node']}: {why}"}

    for communicator in rows(mapping(document).get("communicators")):
        members, missing = rows(communicator.get("ranks")), rows(communicator.get("missing_ranks"))
        if any(mapping(row.get("status")).get("init_state") != 0 for row in members):
            continue
        found += [name(row, "NCCL's RAS gets no answer of it") for row in missing if mapping(row.get("status")).get("unresponsive") is True]
        for op in sorted({op for row in members for op in mapping(row.get("collective_counts"))}) if not missing else ():
            counts = [whole(mapping(row.get("collective_counts")).get(op), 0) or 0 for row in members]
            found += [name(row, f"has launched {count} times {op}, others {max(counts)}")
                      for row, count in zip(members, counts, strict=True) if count < max(counts)]
    return found


def _left_over(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """By what they did: all wait but these; or nobody but these leaves unread what came."""
    waiting = [rank for rank in ranks if rank.kind in WAITING]
    others = [rank for rank in ranks if rank.kind not in WAITING]
    if waiting and others and UNCLEAR not in {rank.kind for rank in others} and (
            len(others) <= len(waiting) or WORKS not in {rank.kind for rank in others}):
        return [_named(rank, WHY[rank.kind] + _left_unread(rank)) for rank in others]
    deaf = [rank for rank in ranks if rank.row["unread"]]
    if deaf and len(deaf) < len(ranks) and all(rank.kind != WORKS for rank in ranks):
        return [_named(rank, f"does not read what came{_left_unread(rank)}") for rank in deaf]
    return []


def _left_unread(rank: Rank) -> str:
    return f"; {rank.row['unread']} bytes lie unread at its sockets" if rank.row["unread"] else ""


def _collective(ranks: Sequence[Rank], named: Sequence[Mapping[str, Any]]) -> str | None:
    """What those that wait are in, where they recorded it."""
    away = {(each["node"], each["pid"]) for each in named}
    entries = [entry for rank in ranks if (rank.node, rank.row["pid"]) not in away for entry in rank.row["recorded"] or ()
               if entry["state"] != "completed"]
    return next((f"{entry['op']} number {entry['seq']} of group {entry['group']}" for entry in entries), None)
