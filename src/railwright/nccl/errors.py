# SPDX-License-Identifier: GPL-3.0-or-later
"""The error lines of a job's log: which is the cause, on which node and rank, and whether the log has its end. Pure.

A log is read once, line by line, in memory that does not grow with it. Every value is a text of a node: it is bounded, it is printed, and
nothing is opened or contacted because of it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from railwright.nccl.line_table import BENIGN, CAUSE, CONSEQUENCE, LEAD, UNKNOWN, UNLISTED, Line, look_up

KEPT, NAMES, LENGTH = 200, 4096, 2000  # distinct errors; ranks, hosts and addresses; characters of a line that are read
SHOWN = 160  # characters of a line in the answer
NODE = "NODE"
DESTROYED, ABORTED = "destroyed", "aborted"
NOT_SEEN = ("end not seen: no rank closes its communicator and no table is complete; the job runs, was killed, or the log is cut (NCCL "
            "2.30 and later write the end with NCCL_DEBUG_SUBSYS=INIT,NET,ENV,DESTROY)")
_NCCL = re.compile(r"NCCL (WARN|ERROR|ATTN) ?")
_ORIGIN = re.compile(r"(?<![\w.-])(\w[\w.-]{0,62}):(\d{1,9}):\d{1,9} (?:\[-?\d{1,5}\] )?(?:\S{1,120}:\d{1,6} (?:\(\w{1,64}\) )?)?\Z")
_INFO_ORIGIN = re.compile(r"(\w[\w.-]{0,62}):(\d{1,9}):\d{1,9} \[-?\d{1,5}\] NCCL INFO ")
_TIME = re.compile(r"\[\d{4}-(\d\d-\d\d) (\d\d:\d\d:\d\d)|\b[EWIF](\d\d)(\d\d) (\d\d:\d\d:\d\d)|\d{4}-(\d\d-\d\d)T(\d\d:\d\d:\d\d)")
_SETUP = re.compile(r"\brank (\d{1,7}) nranks (\d{1,7}) ")
_ADDRESS = re.compile(r"(?:eth|Using |[\w.-]{1,32}:)(?P<address>(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f:]{3,39})<\d{1,5}>")
_RANK = re.compile(r"\[rank(\d{1,7})\]|\[Rank (\d{1,7})\]|^\[\d{1,9},(\d{1,7})\]<|^(\d{1,7}): ")
_OF_RANK = re.compile(r"^\[rank\d{1,7}\]: ?")
_STAMP = re.compile(r"^\[[EWIF]\d{4} [\d:.]{8,24} \S{1,64}\] |^[EWIF]\d{4} [\d:.]{8,24} \d{1,9} ")
_ENQUEUED = re.compile(r"\bRank (\d{1,7})\].{0,300}[Ll]ast enqueued (?:NCCL )?work: (\d{1,18})")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
# A line without one of these words is none of ``of: text``: a test of words costs a tenth of the patterns.
WORDS = ("rror", "Traceback", "ProcessGroupNCCL", "Xid", "illed", "oom", "CANCELLED", "exited on", "lost communication", "Test NCCL",
         "Test CUDA", "exitcode", "closing signal", "TCPStore", "OutOfMemory", "xception", "Interrupt", "srun: ", "eartbeat", "enqueued")


@dataclass
class Error:
    """One distinct error. ``ranks`` and ``nodes``: who reported it, bounded; ``order``: file and line of the first."""

    line: Line
    text: str
    time: str
    order: tuple[int, int]
    node: str
    rank: int | None
    count: int = 1
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)


class ErrorReader:
    """Read lines of the files of a job in turn; ``begin`` before each file."""

    def __init__(self) -> None:
        self.errors: dict[tuple[str, str], Error] = {}
        self.destroyed: dict[int, set[int]] = {}  # size of a communicator -> ranks that closed it
        self.aborted: dict[int, set[int]] = {}
        self.rank_of: dict[tuple[str, str], tuple[int, int]] = {}  # host and process -> size of the largest communicator, rank
        self.by_rank: dict[int, set[str]] = {}
        self.hosts: dict[str, set[str]] = {}  # address -> hosts
        self.enqueued: dict[int, int] = {}
        self.dropped = self.file = self.number = 0
        self.time = ""
        self.last_error = False
        self.tracebacks: set[str] = set()

    def begin(self) -> None:
        self.file, self.number, self.time, self.last_error = self.file + 1, 0, "", False
        self.tracebacks.clear()

    def feed(self, line: str) -> None:
        self.number += 1
        if "NCCL INFO " in line and "NCCL WARN" not in line:
            if " nranks " in line:
                self._of_communicator(line)
            elif "<0>" in line and "Using " in line:
                self._address(line)
            return
        line = line[:LENGTH]
        level = _NCCL.search(line) if "NCCL " in line else None
        if level is not None:
            self._nccl(line, level)
        elif self.last_error and line.strip():
            self.last_error = False
            self._add(line, look_up(_OF_RANK.sub("", line), nccl=True))
        elif any(word in line for word in WORDS):
            self._text(line)
        if "Last error:" in line:
            self.last_error = True

    def _of_communicator(self, line: str) -> None:
        setup = _SETUP.search(line)
        if setup is None or int(setup.group(1)) >= int(setup.group(2)):
            return
        rank, size = int(setup.group(1)), int(setup.group(2))
        origin = _INFO_ORIGIN.search(line, max(0, line.find("NCCL INFO ") - 100))
        if line.rstrip().endswith("COMPLETE"):
            closed = self.destroyed if "Destroy C" in line else self.aborted if "Abort C" in line else {}
            closed.setdefault(size, set()).add(rank)
        if origin is not None and len(self.rank_of) < NAMES * 16:
            key = (origin.group(1), origin.group(2))
            self.rank_of[key] = max(self.rank_of.get(key, (0, 0)), (size, rank))
            self.by_rank.clear()

    def _address(self, line: str) -> None:
        origin = _INFO_ORIGIN.search(line)
        for found in _ADDRESS.finditer(line[:LENGTH]) if origin is not None and len(self.hosts) < NAMES else ():
            self.hosts.setdefault(found.group("address"), set()).add(origin.group(1) if origin is not None else "")

    def _nccl(self, line: str, level: re.Match[str]) -> None:
        text = line[level.end():]
        found = look_up(text, nccl=True)
        if found is None and text.strip():
            found = Line("", UNKNOWN, UNLISTED, "", shutdown=False, fields={})
        self._add(line, found, before=line[:level.start()], text=text)

    def _text(self, line: str) -> None:
        behind = _ENQUEUED.search(line) if "nqueued" in line else None
        if behind is not None and len(self.enqueued) < NAMES * 16:
            self.enqueued.setdefault(int(behind.group(1)), int(behind.group(2)))
        prefix = _OF_RANK.match(line)
        who = prefix.group(0) if prefix is not None else ""
        text = line[len(who):]
        if "Traceback (most recent call last)" in text:
            if len(self.tracebacks) < NAMES:
                self.tracebacks.add(who)
            return
        found = look_up(text, nccl=False)
        if found is not None and found.row == "exception":
            if who not in self.tracebacks:
                return
            if not who:  # only torch's own hook puts the rank before it, and only of an exception that nobody caught
                found = found._replace(kind=UNKNOWN, means="an exception that the program may have caught")
            self.tracebacks.discard(who)
        elif found is None and "ProcessGroupNCCL" in line and re.search(r"\[E\d{4} ", line):
            found = Line("", UNKNOWN, UNLISTED, "", shutdown=False, fields={})
        self._add(line, found, text=text)

    def _add(self, line: str, found: Line | None, *, before: str = "", text: str = "") -> None:
        if found is None:
            return
        stamp = _TIME.search(line)
        if stamp is not None:
            month_day = stamp.group(1) or stamp.group(6) or f"{stamp.group(3)}-{stamp.group(4)}"
            self.time = f"{month_day} {stamp.group(2) or stamp.group(5) or stamp.group(7)}"
        node, rank = self._who(line, before, found)
        shown = one_line(_STAMP.sub("", text or line), SHOWN)
        key = (found.row, _NUMBERS.sub("N", shown) if found.kind == UNKNOWN or found.row == "exception" else found.means)
        error = self.errors.get(key)
        order = (self.file, self.number)
        if error is None:
            if len(self.errors) >= KEPT:
                self.dropped += 1
                return
            error = self.errors[key] = Error(found, shown, self.time, order, node, rank, 0)
        elif (self.time, order) < (error.time, error.order):
            error.line, error.text, error.time, error.order, error.node, error.rank = found, shown, self.time, order, node, rank
        error.count += 1
        if node and len(error.nodes) < NAMES:
            error.nodes.add(node)
        if rank is not None and len(error.ranks) < NAMES * 16:
            error.ranks.add(rank)

    def _who(self, line: str, before: str, found: Line) -> tuple[str, int | None]:
        origin = _ORIGIN.search(before[-400:]) if before else None
        node = origin.group(1) if origin is not None else found.fields.get("node", "")
        given = _RANK.search(line[:LENGTH])
        rank = next((int(text) for text in given.groups() if text), None) if given is not None else None
        if rank is None and origin is not None:
            rank = self.rank_of.get((origin.group(1), origin.group(2)), (0, None))[1]
        if rank is None and "rank" in found.fields:
            rank = int(found.fields["rank"])
        if not node and rank is not None:
            node = self._host_of(rank)
        return node, rank

    def _host_of(self, rank: int) -> str:
        """The host of a rank of the largest communicator, where exactly one host has it."""
        if not self.by_rank:
            largest = self.size()
            for (host, _process), (size, own) in self.rank_of.items():
                if size == largest:
                    self.by_rank.setdefault(own, set()).add(host)
        hosts = self.by_rank.get(rank, set())
        return next(iter(hosts)) if len(hosts) == 1 else ""

    def size(self) -> int:
        """Ranks of the largest communicator; 0: unknown."""
        return max((size for size, _rank in self.rank_of.values()), default=0)

    def end(self, ranks: int) -> str:
        """How the largest communicator ended: DESTROYED or ABORTED by every rank, or "". ``ranks``: its size where known, else 0."""
        size = max([ranks, *self.destroyed, *self.aborted], default=0)
        destroyed, aborted = self.destroyed.get(size, set()), self.aborted.get(size, set())
        if size == 0 or len(destroyed | aborted) < size:
            return ""
        return DESTROYED if len(destroyed) == size else ABORTED

    def result(self, end: str) -> list[Error]:
        """The errors, earliest first; those of a shutdown are benign."""
        closing = any(error.line.row == "proxy-close" for error in self.errors.values())
        hosts = {host for host, _process in self.rank_of}
        for error in self.errors.values():
            if not error.node and len(hosts) == 1:
                error.node = next(iter(hosts))
            if error.line.shutdown and error.line.kind != BENIGN and (end == DESTROYED or (closing and error.line.row == "proxy")):
                error.line = error.line._replace(kind=BENIGN, means=f"{error.line.means}; the job was closing down")
        return sorted(self.errors.values(), key=lambda error: (error.time, error.order))

    def suspects(self, errors: Iterable[Error]) -> tuple[list[int], str]:
        """The ranks that are behind in the collectives, else the few that report nothing while others do, and why they are named."""
        if len(set(self.enqueued.values())) > 1:
            least = min(self.enqueued.values())
            behind = sorted(rank for rank, number in self.enqueued.items() if number == least)
            return behind, f"called {least} collectives, others up to {max(self.enqueued.values())}"
        size = self.size()
        reported = {rank for error in errors if error.line.kind != BENIGN for rank in error.ranks}
        behind = sorted(set(range(min(size, NAMES * 16))) - reported) if reported else []
        return ([], "") if len(behind) > max(1, size // 8) else (behind, "reported no error while others did")

    def named(self, ranks: list[int]) -> str:
        """``rank 3 on gpu-a02, rank 4 …``."""
        shown = [f"rank {rank}{f' on {host}' if host else ''}" for rank in ranks[:4] for host in (self._host_of(rank),)]
        return ", ".join(shown) + (" …" if len(ranks) > 4 else "")

    def next_step(self, error: Error, suspects: list[int]) -> str:
        suspect = self._host_of(suspects[0]) if suspects else ""
        return error.line.next.replace("{node}", error.node or NODE).replace("{suspect}", suspect or NODE)


def as_rows(reader: ErrorReader, errors: list[Error]) -> list[dict[str, Any]]:
    """The ``errors`` of the JSON document."""
    suspects, _why = reader.suspects(errors)
    return [{
        "kind": error.line.kind, "time": error.time or None, "node": error.node or None, "rank": error.rank,
        "peer": error.line.fields.get("peer"), "peer_node": _peer(error, reader.hosts), "hca": error.line.fields.get("hca"),
        "status": error.line.fields.get("status"), "means": error.line.means, "next": reader.next_step(error, suspects) or None,
        "text": error.text, "count": error.count, "nodes": len(error.nodes), "ranks": len(error.ranks),
    } for error in errors]


def judge_errors(reader: ErrorReader, subject: VerdictSubject, errors: list[Error], end: str) -> Verdict:
    """``nccl.error``: the cause of a dead job; unknown where the log has no end, or a line that nobody knows."""
    wanted = "no error, and the end of the job"
    causes = _of(errors, CAUSE) or _of(errors, LEAD)
    if causes:
        return verdict("nccl.error", subject, "warn" if end == DESTROYED else "fail", wanted, causes[0].text,
                       _cause(reader, errors, causes, ended=end == DESTROYED))
    strange, following = _of(errors, UNKNOWN), _of(errors, CONSEQUENCE)
    if strange:
        found = strange[0]
        message = f"{_where(found, reader.hosts)}{found.line.means}: {found.text}"
        return verdict("nccl.error", subject, "unknown", wanted, found.text, message)
    if following and end != DESTROYED:
        found = following[0]
        message = f"{_where(found, reader.hosts)}{found.line.means}; the cause is not in this log: add the logs of the other ranks"
        return verdict("nccl.error", subject, "unknown", wanted, found.text, message)
    if not end:
        return verdict("nccl.error", subject, "unknown", wanted, None, NOT_SEEN)
    listed = f"no error, {len(errors)} benign" if errors else "no error"
    return verdict("nccl.error", subject, "pass", wanted, listed, f"{listed}; the job ended")


def _cause(reader: ErrorReader, errors: list[Error], causes: list[Error], *, ended: bool) -> str:
    first = causes[0]
    suspects, why = reader.suspects(errors) if first.line.kind == LEAD else ([], "")
    named = f"{reader.named(suspects)} {why}; " if suspects else ""
    more = f"; {len(causes) - 1} more listed" if len(causes) > 1 else ""
    after = "; the job ended well all the same" if ended else ""
    return f"{named}{_where(first, reader.hosts)}{first.line.means}{more}{after}; next: {reader.next_step(first, suspects)}"


def _of(errors: list[Error], kind: str) -> list[Error]:
    return [error for error in errors if error.line.kind == kind]


def _where(error: Error, hosts: dict[str, set[str]]) -> str:
    """``gpu-a01 rank 0, mlx5_0, peer 10.0.0.2 (gpu-a02): ``."""
    fields, peer = error.line.fields, _peer(error, hosts)
    parts = [" ".join(part for part in (error.node, f"rank {error.rank}" if error.rank is not None else "") if part), fields.get("hca", ""),
             f"peer {fields['peer']}{f' ({peer})' if peer else ''}" if "peer" in fields else ""]
    found = ", ".join(part for part in parts if part)
    return f"{found}: " if found else ""


def _peer(error: Error, hosts: dict[str, set[str]]) -> str | None:
    """The host of the peer's address, where exactly one host announced it."""
    own = hosts.get(error.line.fields.get("peer", ""), set())
    return next(iter(own)) if len(own) == 1 else None
