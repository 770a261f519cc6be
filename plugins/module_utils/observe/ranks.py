# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a job on a node, looked at several times: what each does, waits in, sends and leaves unread.

All of it is read: /proc, one ``ss`` a look, the kernel's log. No process is stopped, traced or signalled, and nothing is judged here.
Of an environment only the names below are taken: the rest of it may be secret.
"""

import re
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import is_digits
from ..host.host import Host
from .devices import CLASS_INFINIBAND
from .flight_recorder import VARIABLES, recorded
from .processes import boot_time
from .traffic_counters import hca_counters

LOOKS = 6  # with five pauses between them
MOST = 512  # ranks of a node that are told
THREADS = 256  # of a process
NETWORKS = 16  # network namespaces of a node that are asked for sockets
ENVIRON = 1024 * 1024  # bytes
SS_LIMIT = 32 * 1024 * 1024
FRAMES, XIDS = 12, 20
TICKS = 100  # a second: USER_HZ, the same on every architecture that we know (proc_pid_stat(5))
# Who numbers the ranks, the innermost launcher first: torchrun, Open MPI, PMIx, MPICH, Slurm. With each, what names their number.
NUMBERED = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
            ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
TAKEN = frozenset(name for pair in NUMBERED for name in pair) | {"SLURM_JOB_ID", "SLURM_STEP_ID"}
NCCL = ("libnccl", "librccl", "libtorch_cuda", "libtorch_hip")
COUNTERS = ("port_xmit_data", "port_rcv_data", "port_xmit_wait", "symbol_error", "link_downed", "port_rcv_errors", "out_of_sequence",
            "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err")
_INODE = re.compile(r"socket:\[([0-9]{1,20})\]")
_INO = re.compile(r" ino:([0-9]{1,18})\b")
_BYTES = re.compile(r" bytes_(?:acked|received):([0-9]{1,18})\b")
_XID = re.compile(r"^\[ *([0-9]{1,12})\.[0-9]{1,9}\] (NVRM: Xid \([^()]{1,40}\): [0-9]{1,4}.{0,200})")


class Wanted(NamedTuple):
    """Whose processes: a Slurm job's, those of pods, or by name. ``uid``: the job's owner; anybody can write a job's id into an environment."""

    job: Optional[str]
    uid: Optional[int]
    pods: Sequence[str]
    process: Optional[str]


class Process(NamedTuple):
    pid: int
    parent: int
    start: int  # ticks since boot
    name: str
    env: Dict[str, str]


def observe_ranks(host: Host, wanted: Wanted, seconds: float, sleep: Callable[[float], None] = time.sleep) -> Dict[str, Any]:
    """What was seen of each rank in so many seconds."""
    found = job_processes(host, wanted)
    workers = choose_workers(host, found)[:MOST]
    pids = [worker.pid for worker, _numbering in workers]
    sockets = {pid: _socket_inodes(host, pid) for pid in pids}
    ports = [(hca, int(port)) for hca in host.listdir(CLASS_INFINIBAND) for port in host.listdir("%s/%s/ports" % (CLASS_INFINIBAND, hca))]
    before = {port: hca_counters(host, port[0], port[1], COUNTERS) for port in ports}
    looks: List[Dict[int, Dict[str, Any]]] = []
    for turn in range(LOOKS if workers else 0):
        if turn:
            sleep(seconds / (LOOKS - 1))
        table = socket_tables(host, pids)
        looks.append({worker.pid: look(host, worker, table, sockets[worker.pid]) for worker, _numbering in workers})
    growth = {port: _growth(before[port], hca_counters(host, port[0], port[1], COUNTERS)) for port in ports}
    booted = boot_time(host)
    since = min([worker.start for worker, _numbering in workers], default=0) // TICKS
    return {
        "processes": len(found),
        "ranks": [told(host, worker, numbering, [each[worker.pid] for each in looks], booted) for worker, numbering in workers],
        "counters": [{"hca": hca, "port": port, "growth": rows} for (hca, port), rows in sorted(growth.items()) if rows],
        "xids": xids(host.run(("dmesg",)).out, since) if workers else [],
    }


def job_processes(host: Host, wanted: Wanted) -> List[Process]:
    found = []
    for pid in [int(name) for name in host.listdir("/proc") if is_digits(name)]:
        if pid == host.process():
            continue
        status = host.status("/proc/%d" % pid)
        if status is None or (wanted.uid is not None and status.st_uid != wanted.uid):
            continue
        fields = _stat(host, pid)
        if fields is None:
            continue
        env = _environment(host, pid)
        if _is_wanted(host, pid, fields[0], env, wanted):
            found.append(Process(pid, int(fields[2]), int(fields[20]), fields[0], env))
    return found


def _is_wanted(host: Host, pid: int, name: str, env: Dict[str, str], wanted: Wanted) -> bool:
    if wanted.job is not None:
        return env.get("SLURM_JOB_ID") == wanted.job
    if wanted.pods:
        groups = (host.read("/proc/%d/cgroup" % pid, 65536) or "").replace("_", "-")
        return any("pod" + pod in groups for pod in wanted.pods)
    words = (host.read("/proc/%d/cmdline" % pid, 65536) or "").split("\0")
    return wanted.process in [name] + [word.rpartition("/")[2] for word in words[:16]]


def _environment(host: Host, pid: int) -> Dict[str, str]:
    rows = (row.partition("=") for row in (host.read("/proc/%d/environ" % pid, ENVIRON) or "").split("\0"))
    return {name: value for name, _sign, value in rows if name in TAKEN or name in VARIABLES}


def _stat(host: Host, pid: int) -> Optional[List[str]]:
    """The name, then the fields of /proc/PID/stat behind it: state, parent …"""
    head, _bracket, rest = (host.read("/proc/%d/stat" % pid, 4096) or "").rpartition(")")
    fields = [head.partition("(")[2]] + rest.split()
    return fields if len(fields) > 21 and all(is_digits(fields[at]) for at in (2, 12, 13, 20)) else None


def rank_of(env: Dict[str, str], numbering: Sequence[str]) -> Optional[int]:
    return int(env[numbering[0]]) if is_digits(env.get(numbering[0], "")) else None


def choose_workers(host: Host, found: Sequence[Process]) -> List[Tuple[Process, Sequence[str]]]:
    """One process a rank: below its launchers, the one that does not just wait for a child. What was started in no step of a job that has
    steps, its batch script and srun, has the number 0 and is no rank. Without numbers each family of processes is one."""
    numbering = next((pair for pair in NUMBERED if any(pair[0] in each.env for each in found)), ("", ""))
    if numbering[0] == "SLURM_PROCID":
        found = [each for each in found if "SLURM_STEP_ID" in each.env]
    numbered = [each for each in found if not numbering[0] or numbering[0] in each.env]
    by_pid = {each.pid: each for each in numbered}
    tops = [each for each in numbered if each.parent not in by_pid or _place(by_pid[each.parent], numbering) != _place(each, numbering)]
    chosen: Dict[Tuple[Any, ...], Process] = {}
    for top in tops:
        place = _place(top, numbering) if numbering[0] else (top.pid,)
        chosen.setdefault(place, _below(host, top, numbered))
    return [(each, numbering) for _place_of, each in sorted(chosen.items(), key=lambda item: str(item[0]))]


def _place(each: Process, numbering: Sequence[str]) -> Tuple[Optional[str], Optional[int]]:
    return each.env.get("SLURM_STEP_ID"), rank_of(each.env, numbering)


def _below(host: Host, top: Process, found: Sequence[Process]) -> Process:
    for _level in range(16):
        children = [each for each in found if each.parent == top.pid]
        if not children or (host.line("/proc/%d/wchan" % top.pid) or "") != "do_wait":
            break
        top = children[0]
    return top


def look(host: Host, worker: Process, table: Optional[Dict[int, Tuple[int, int, int]]], inodes: Optional[List[int]]) -> Dict[str, Any]:
    """A moment of one process. ``ran``: nanoseconds in which its threads ran or were ready to: on a busy node those are no less."""
    base = "/proc/%d" % worker.pid
    fields = _stat(host, worker.pid)
    if fields is None or int(fields[20]) != worker.start:
        return {"state": "X"}
    threads = ["%s/task/%s" % (base, name) for name in host.listdir(base + "/task")[:THREADS]]
    ran = [word for thread in threads for word in (host.line(thread + "/schedstat") or "").split()[:2] if is_digits(word)]
    status = dict(line.split(":", 1) for line in (host.read(base + "/status", 65536) or "").splitlines() if ":" in line)
    switches = status.get("voluntary_ctxt_switches", "").strip()
    mine = None if table is None or inodes is None else {inode: table[inode] for inode in inodes if inode in table}
    return {
        "at": time.monotonic(), "state": fields[1], "wchan": host.line(base + "/wchan") or "", "user": int(fields[12]),
        "system": int(fields[13]), "ran": sum(map(int, ran)), "switches": int(switches) if is_digits(switches) else 0,
        "sockets": mine,
        "stuck": [thread for thread in threads if (host.read(thread + "/stat", 4096) or "").rpartition(")")[2].split()[:1] == ["D"]],
    }


def told(host: Host, worker: Process, numbering: Sequence[str], looks: Sequence[Dict[str, Any]], booted: Optional[int]) -> Dict[str, Any]:
    """What was seen of one rank, in numbers; what it means is the controller's to say."""
    rank = rank_of(worker.env, numbering)
    size = worker.env.get(numbering[1], "")
    found: Dict[str, Any] = {
        "rank": rank, "size": int(size) if is_digits(size) else None, "step": worker.env.get("SLURM_STEP_ID"), "pid": worker.pid,
        "name": worker.name, "states": "".join(str(each["state"]) for each in looks), "waits": [], "busy": [], "cpu": 0.0, "system": 0.0,
        "switches": 0, "moved": None, "unread": 0, "stack": [], "recorded": None,
        "nccl": any(name in (host.read("/proc/%d/maps" % worker.pid) or "") for name in NCCL),
    }
    if "X" in found["states"]:
        return found
    first, last = looks[0], looks[-1]
    spans = [(before, after, max(after["at"] - before["at"], 0.001)) for before, after in zip(looks, looks[1:])]
    user, system = last["user"] - first["user"], last["system"] - first["system"]
    stuck = sorted(set(first["stuck"]).intersection(*(each["stuck"] for each in looks[1:])))
    sockets = [each["sockets"] for each in looks]
    if None not in sockets:
        kept = set(sockets[0]).intersection(*sockets[1:])
        found.update(moved=max([sockets[-1][inode][2] - sockets[0][inode][2] for inode in kept], default=0),
                     unread=sum(min(table[inode][0] for table in sockets) for inode in kept))
    found.update(
        waits=sorted({str(each["wchan"])[:64] for each in looks}), switches=last["switches"] - first["switches"],
        busy=[round((after["ran"] - before["ran"]) / 1e9 / span, 3) for before, after, span in spans],
        cpu=round((user + system) / TICKS / sum(span for _before, _after, span in spans), 3),
        system=round(system / (user + system), 3) if user + system else 0.0,
        stack=[line[:100] for thread in stuck[:4] for line in (host.read(thread + "/stack", 8192) or "").splitlines()[:FRAMES]],
        recorded=recorded(host, worker.pid, rank, worker.env, (booted or 0) + worker.start / TICKS))
    return found


def _socket_inodes(host: Host, pid: int) -> Optional[List[int]]:
    """None where its descriptors cannot be read: that takes CAP_SYS_PTRACE, which root lacks in a container."""
    links = [host.readlink("/proc/%d/fd/%s" % (pid, name)) for name in host.listdir("/proc/%d/fd" % pid)]
    found = [int(match.group(1)) for match in (_INODE.fullmatch(link) for link in links if link) if match is not None]
    return found if any(links) else None


def socket_tables(host: Host, pids: Sequence[int]) -> Optional[Dict[int, Tuple[int, int, int]]]:
    """By inode: bytes that its process has not read, that the other side has not, that went over it both ways. None without ss."""
    own = host.readlink("/proc/self/ns/net")
    spaces: Dict[str, int] = {}
    for pid in pids:
        spaces.setdefault(host.readlink("/proc/%d/ns/net" % pid) or "", pid)
    found: Dict[int, Tuple[int, int, int]] = {}
    for space, pid in sorted(spaces.items())[:NETWORKS]:
        inside = () if space in ("", own) else ("nsenter", "--target=%d" % pid, "--net")
        answer = host.run(inside + ("ss", "-tinHe", "state", "established"), limit=SS_LIMIT)
        if not answer.ok:
            return None
        found.update(parse_sockets(answer.out))
    return found


def parse_sockets(text: str) -> Dict[int, Tuple[int, int, int]]:
    """``ss -tinHe state established``: a line of queues and addresses, then an indented one of counters."""
    found: Dict[int, Tuple[int, int, int]] = {}
    inode = None
    for line in text.splitlines():
        fields, match = line.split(), _INO.search(line)
        if not line[:1].isspace() and len(fields) > 3 and all(map(is_digits, fields[:2])):
            inode = int(match.group(1)) if match is not None else None
            if inode is not None:
                found[inode] = (int(fields[0]), int(fields[1]), 0)
        if inode is not None:
            unread, unsent, moved = found[inode]
            found[inode] = (unread, unsent, moved + sum(map(int, _BYTES.findall(line))))
    return found


def xids(text: str, since: int) -> List[str]:
    """What the NVIDIA driver reported since so many seconds after boot: the last of it."""
    found = [match for match in map(_XID.match, text.splitlines()) if match is not None and int(match.group(1)) >= since]
    return [match.group(2) for match in found[-XIDS:]]


def _growth(before: Dict[str, Optional[int]], after: Dict[str, Optional[int]]) -> Dict[str, int]:
    pairs = ((name, before.get(name), after.get(name)) for name in COUNTERS)
    return {name: new - old for name, old, new in pairs if old is not None and new is not None and new != old}
