# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a job on a node, looked at several times: what each does, waits in, sends and leaves unread.

All of it is read: /proc, one ``ss`` a look, the kernel's log. No process is stopped, traced or signalled, and nothing is judged here.
Of an environment only the names below are taken: the rest of it may be secret.
"""

import io
import pickle
import re
import resource
import stat
import time
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Set, Tuple

from ..catalogue.counters import COUNTERS as ALL_COUNTERS
from ..formats.outside import is_digits, lines_in, mapping, rows, whole
from ..host.host import Host
from .devices import CLASS_INFINIBAND
from .kernel_log import TEXT, TRUSTED, Log, read_log
from .processes import SWITCHES, boot_time
from .program_names import executes
from .traffic_counters import hca_counters

LOOKS = 6  # with five pauses between them
MOST = 512  # ranks of a node that are told
THREADS = 256  # of a process
NETWORKS = 16  # network namespaces of a node that are asked for sockets
ENVIRON = 1024 * 1024  # bytes
VALUE = 8192  # characters of a variable
SS_LIMIT = 32 * 1024 * 1024
FRAMES, XIDS, LEVELS = 12, 20, 16
SMI_SECONDS = 10.0
TICKS = 100  # a second: USER_HZ, the same on every architecture that we know (proc_pid_stat(5))
# Who numbers the ranks, the innermost launcher first: torchrun, Open MPI, PMIx, MPICH, Slurm. With each, what names their number.
NUMBERED = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
            ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
TAKEN = frozenset(name for pair in NUMBERED for name in pair) | {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_JOB_NODELIST"}
NCCL = ("libnccl", "librccl", "libtorch_cuda", "libtorch_hip")
COUNTERS = tuple(row.name for row in ALL_COUNTERS if row.diagnosed)
_INODE = re.compile(r"socket:\[([0-9]{1,20})\]")
_INO = re.compile(r" ino:([0-9]{1,18})\b")
_BYTES = re.compile(r" bytes_(?:acked|received):([0-9]{1,18})\b")
_XID = re.compile(r"NVRM: Xid \([^()]{1,40}\): [0-9]{1,4}")


Table = Dict[int, Tuple[int, int]]  # sockets by inode: bytes that their process has not read; bytes that went over them, both ways


class Wanted(NamedTuple):
    """Whose processes: a Slurm job's, those of pods, or by name. ``uid``: the job's owner, as anybody can write an id."""

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
    workers, numbering = choose_workers(host, found)
    pids = [worker.pid for worker in workers]
    sockets = {pid: _socket_inodes(host, pid) for pid in pids}
    ports = [(hca, int(port)) for hca in host.listdir(CLASS_INFINIBAND) for port in host.listdir("%s/%s/ports" % (CLASS_INFINIBAND, hca))]
    before = [hca_counters(host, hca, port, COUNTERS) for hca, port in ports]
    looks: List[Dict[int, Dict[str, Any]]] = []
    gpus = [gpu_use(host)] if workers else []
    for turn in range(LOOKS if workers else 0):
        sleep(seconds / (LOOKS - 1) if turn else 0)
        table = socket_tables(host, pids)
        looks.append({worker.pid: look(host, worker, table, sockets[worker.pid]) for worker in workers})
    gpus += [gpu_use(host)] if gpus and gpus[0] else []  # one that hangs is not waited for twice
    counters = [{"hca": hca, "port": port, "growth": _growth(old, hca_counters(host, hca, port, COUNTERS))}
                for (hca, port), old in zip(ports, before)]
    return {
        "ranks": [dict(told(host, worker, numbering, [each[worker.pid] for each in looks]),
                       gpus=[each[worker.pid] for each in gpus if worker.pid in each]) for worker in workers],
        "counters": counters,
        "xids": xids(read_log(host), min(worker.start for worker in workers) // TICKS) if workers else [],
    }


def job_processes(host: Host, wanted: Wanted) -> List[Process]:
    found, own = [], _own_family(host)
    for pid in [int(name) for name in host.listdir("/proc") if is_digits(name) and int(name) not in own]:
        status, fields = host.status("/proc/%d" % pid), _stat(host, pid)
        if status is None or fields is None or wanted.uid not in (None, status.st_uid):
            continue
        words = (row.partition("=") for row in (host.read("/proc/%d/environ" % pid, ENVIRON) or "").split("\0"))
        env = {name: value[:VALUE] for name, _sign, value in words if name in TAKEN or name in VARIABLES}
        if _is_wanted(host, pid, fields[0], env, wanted):
            found.append(Process(pid, int(fields[2]), int(fields[20]), fields[0], env))
    return found


def _own_family(host: Host) -> Set[int]:
    """This process and those that it was started by, up to the node's first: with a local connection railwright itself among them."""
    found, pid = {host.process()}, host.process()
    for _level in range(LEVELS):
        fields = _stat(host, pid)
        pid = int(fields[2]) if fields is not None else 0
        if pid in (0, 1):
            break
        found.add(pid)
    return found


def _is_wanted(host: Host, pid: int, name: str, env: Dict[str, str], wanted: Wanted) -> bool:
    if wanted.job is not None:
        return env.get("SLURM_JOB_ID") == wanted.job
    if wanted.pods:
        groups = (host.read("/proc/%d/cgroup" % pid, 65536) or "").replace("_", "-")
        return name != "pause" and any("pod" + pod in groups for pod in wanted.pods)
    words = (host.read("/proc/%d/cmdline" % pid, 65536) or "").split("\0")
    return wanted.process is not None and executes(wanted.process, name, words)


def _stat(host: Host, pid: int) -> Optional[List[str]]:
    """The name, then the fields of /proc/PID/stat behind it: state, parent …"""
    head, _bracket, rest = (host.read("/proc/%d/stat" % pid, 4096) or "").rpartition(")")
    fields = [head.partition("(")[2]] + rest.split()
    return fields if len(fields) > 21 and all(is_digits(fields[at]) for at in (2, 12, 13, 20)) else None


def choose_workers(host: Host, found: Sequence[Process]) -> Tuple[List[Process], Sequence[str]]:
    """One process a rank, and who numbers them: below its launchers, the one that does not just wait for a child. What was started in no
    step of a job that has steps, its batch script and srun, has the number 0 and is no rank. Without numbers each family is one."""
    numbering = next((pair for pair in NUMBERED if any(pair[0] in each.env for each in found)), ("", ""))
    needed = [name for name in (numbering[0], "SLURM_STEP_ID" if numbering[0] == "SLURM_PROCID" else "") if name]
    found = [each for each in found if all(name in each.env for name in needed)]
    place = {each.pid: (each.env.get("SLURM_STEP_ID", ""), each.env.get(numbering[0], "")) for each in found}
    first_child: Dict[int, Process] = {}
    for each in found:
        first_child.setdefault(each.parent, each)
    chosen: Dict[Tuple[Any, ...], Process] = {}
    for top in [each for each in found if place.get(each.parent) != place[each.pid]]:
        worker = top
        for _level in range(LEVELS):
            child = first_child.get(worker.pid)
            if child is None or not (host.line("/proc/%d/wchan" % worker.pid) or "").startswith("do_wait"):
                break
            worker = child
        chosen.setdefault(place[top.pid] if numbering[0] else (top.pid,), worker)
    return list(chosen.values())[:MOST], numbering


def look(host: Host, worker: Process, table: Optional[Table], inodes: Optional[List[int]]) -> Dict[str, Any]:
    """A moment of one process. ``ran``: nanoseconds in which its threads ran or were ready to: on a busy node those are no less."""
    base = "/proc/%d" % worker.pid
    fields = _stat(host, worker.pid)
    if fields is None or int(fields[20]) != worker.start:
        return {"state": "X"}
    threads = ["%s/task/%s" % (base, name) for name in host.listdir(base + "/task")[:THREADS]]
    ran = [word for thread in threads for word in (host.line(thread + "/schedstat") or "").split()[:2] if is_digits(word)]
    switches = SWITCHES.search(host.read(base + "/status", 65536) or "")
    return {
        "at": time.monotonic(), "state": fields[1], "wchan": host.line(base + "/wchan") or "", "user": int(fields[12]),
        "system": int(fields[13]), "ran": sum(map(int, ran)), "switches": int(switches.group(1)) if switches is not None else 0,
        "sockets": None if table is None or inodes is None else {inode: table[inode] for inode in inodes if inode in table},
        "stuck": {thread for thread in threads if (host.read(thread + "/stat", 4096) or "").rpartition(")")[2].split()[:1] == ["D"]},
    }


def gpu_use(host: Host) -> Dict[int, int]:
    """pid -> the share of the last second in which a kernel ran on its GPU, in percent: NCCL's own kernels wait there for the others."""
    if host.which("nvidia-smi") is None:
        return {}
    use: Dict[str, int] = {}
    found: Dict[int, int] = {}
    for query, field in (("gpu", "uuid,utilization.gpu"), ("compute-apps", "pid,gpu_uuid")):
        answer = host.run(("nvidia-smi", "--query-%s=%s" % (query, field), "--format=csv,noheader,nounits"), SMI_SECONDS)
        for line in lines_in(answer.out) if answer.ok else ():
            first, _comma, second = [part.strip() for part in line.partition(",")]
            if query == "gpu" and is_digits(second):
                use[first] = min(int(second), 100)
            elif is_digits(first) and second in use:
                found[int(first)] = max(use[second], found.get(int(first), 0))
    return found


def told(host: Host, worker: Process, numbering: Sequence[str], looks: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """What was seen of one rank, in numbers; what it means is the controller's to say."""
    rank, size = (int(worker.env[name]) if is_digits(worker.env.get(name, "")) else None for name in numbering)
    found: Dict[str, Any] = {
        "rank": rank, "size": size, "step": worker.env.get("SLURM_STEP_ID"), "pid": worker.pid, "name": worker.name,
        "began_on": worker.env.get("SLURM_JOB_NODELIST"),
        "states": "".join(str(each["state"]) for each in looks), "waits": [], "busy": [], "cpu": 0.0, "system": 0.0, "switches": 0,
        "moved": None, "unread": 0, "stack": [], "recorded": None,
        "nccl": any(name in (host.read("/proc/%d/maps" % worker.pid) or "") for name in NCCL),
    }
    if "X" in found["states"]:
        return found
    first, last = looks[0], looks[-1]
    spans = [(old["ran"], new["ran"], max(new["at"] - old["at"], 0.001)) for old, new in zip(looks, looks[1:])]
    user, system = last["user"] - first["user"], last["system"] - first["system"]
    stuck = sorted(first["stuck"].intersection(*(each["stuck"] for each in looks[1:])))
    sockets = [each["sockets"] for each in looks]
    if None not in sockets:
        kept = set(sockets[0]).intersection(*sockets[1:])
        found.update(moved=max([sockets[-1][inode][1] - sockets[0][inode][1] for inode in kept], default=0),
                     unread=sum(min(table[inode][0] for table in sockets) for inode in kept))
    found.update(
        waits=sorted({each["wchan"][:64] for each in looks}), switches=last["switches"] - first["switches"],
        busy=[round((new - old) / 1e9 / span, 3) for old, new, span in spans],
        cpu=round((user + system) / TICKS / sum(span for _old, _new, span in spans), 3),
        system=round(system / (user + system), 3) if user + system else 0.0,
        stack=[line[:100] for thread in stuck[:4] for line in lines_in(host.read(thread + "/stack", 8192) or thread)[:FRAMES]],
        recorded=recorded(host, worker.pid, rank, worker.env, (boot_time(host) or 0) + worker.start / TICKS))
    return found


def _socket_inodes(host: Host, pid: int) -> Optional[List[int]]:
    """None where its descriptors cannot be read: that takes CAP_SYS_PTRACE, which root lacks in a container."""
    links = [host.readlink("/proc/%d/fd/%s" % (pid, name)) for name in host.listdir("/proc/%d/fd" % pid)]
    found = [int(match.group(1)) for match in (_INODE.fullmatch(link) for link in links if link) if match is not None]
    return found if any(links) else None


def socket_tables(host: Host, pids: Sequence[int]) -> Optional[Table]:
    """Of each network namespace that these are in. None where one of them cannot be asked."""
    own = host.readlink("/proc/self/ns/net")
    spaces = {host.readlink("/proc/%d/ns/net" % pid) or "": pid for pid in pids}
    found: Table = {}
    for space, pid in sorted(spaces.items())[:NETWORKS]:
        inside = () if space in ("", own) else ("nsenter", "--target=%d" % pid, "--net")
        answer = host.run(inside + ("ss", "-tinHe", "state", "established"), limit=SS_LIMIT)
        if not answer.ok:
            return None
        found.update(parse_sockets(answer.out))
    return found


def parse_sockets(text: str) -> Table:
    """``ss -tinHe state established``: a line of queues and addresses, then an indented one of counters."""
    found: Table = {}
    inode = 0
    for line in lines_in(text):
        fields, match = line.split(), _INO.search(line)
        if not line[:1].isspace():
            inode = int(match.group(1)) if match is not None and is_digits(fields[0]) else 0
            found[inode] = (int(fields[0]) if inode else 0, 0)
        elif inode:  # the line above ends with the name of a cgroup, which is the user's
            found[inode] = (found[inode][0], found[inode][1] + sum(map(int, _BYTES.findall(line))))
    return found


def xids(log: Log, since: int) -> List[str]:
    """Return the last messages of the NVIDIA driver since so many seconds after boot; none from text, in which the job can write them."""
    found = [record.text for record in log.records if log.source in TRUSTED and record.at >= since and _XID.match(record.text)]
    return [text[:TEXT] for text in found[-XIDS:]]


def _growth(before: Dict[str, Optional[int]], after: Dict[str, Optional[int]]) -> Dict[str, int]:
    pairs = ((name, before.get(name), after.get(name)) for name in COUNTERS)
    return {name: new - old for name, old, new in pairs if old is not None and new is not None and new != old}


# The last collective of each process group that a rank has recorded, out of a dump of PyTorch's flight recorder that lies there.
#
# Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp (names of the fields, states), FlightRecorder.cpp
# (``<prefix><rank>``). A dump is a pickle, which is a program: nothing in it is looked up or called, whatever it names. No dump is asked
# for either: that goes by a pipe of the process, or by a signal.

PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
VARIABLES = PREFIXES + ("XDG_CACHE_HOME", "HOME")
LIMIT = 64 * 1024 * 1024  # bytes: 2,000 entries with their stacks are some megabytes
GROUPS = 32
DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError, RecursionError)
MEMORY = 1 << 30  # bytes of this process meanwhile: a node out of memory kills its ranks
# The opcodes of numbers, texts, lists and objects (pickletools.py), each with the bytes behind it. The memo is an array that grows to the
# largest number that is asked for: 2^20 places at most. The opcodes in _SIZED have a size of so many bytes, and as many bytes behind it.
_FIXED = re.compile(rb"(?:[()\]}Nadelstu\x85-\x89\x94]|[Khq\x80].|M..|J.{4}|[jr]..[\x00-\x0f]\x00|[G\x95].{8}){1,1000}", re.DOTALL)
_SIZED = {b"X": 4, b"\x8a": 1, b"\x8c": 1}
STATES = ("scheduled", "started", "completed")


class _Data(pickle.Unpickler):
    """Numbers, texts, lists and objects; everything else of the format is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError("%s.%s" % (module, name))

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("a persistent object")


def recorded(host: Host, pid: int, rank: Optional[int], env: Dict[str, str], since: float) -> Optional[List[Dict[str, Any]]]:
    """By process group: ``group``, ``seq``, ``op`` and ``state`` of its last collective. None without a dump as new as the process."""
    owner = host.owner("/proc/%d" % pid)
    if rank is None or owner is None:
        return None
    # A program with a set-user-ID bit has the rights of another user than the one who chose its environment.
    rights = "\nUid:" + "\t%d" % owner[1] * 4 + "\nGid:" + "\t%d" % owner[2] * 4 + "\n"
    if rights not in (host.read("/proc/%d/status" % pid, 65536) or ""):
        return None
    cache = env.get("XDG_CACHE_HOME") or env.get("HOME", "/root") + "/.cache"
    prefixes = [env[name] for name in PREFIXES if env.get(name)] or [cache + "/torch/comm_lib_trace_rank_"]
    with host.acting_as(*owner):  # the path is the job's own choice: it may lead where only root gets
        for path in ["/proc/%d/root%s%d" % (pid, prefix, rank) for prefix in prefixes if prefix.startswith("/")]:
            status = host.status(path)
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_mtime >= since:
                return last_collectives(host.read_bytes(path, LIMIT) or b"")
    return None


def _is_plain(dump: bytes) -> bool:
    """Whether a dump has no other opcodes, up to its end: no byte of it asks for more memory than there are bytes."""
    at = 0
    while True:
        run = _FIXED.match(dump, at)
        at = run.end() if run is not None else at
        size = _SIZED.get(dump[at:at + 1])
        if size is not None:
            begin = at + 1 + size
            at = begin + int.from_bytes(dump[at + 1:begin], "little")
        elif run is None:
            return dump[at:at + 1] == b"."


def _loaded(dump: bytes) -> Any:
    """The objects in a dump. Raises DAMAGED, MemoryError among them."""
    if not _is_plain(dump):
        raise pickle.UnpicklingError("more than data")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [bound for bound in (soft, hard, MEMORY) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
    try:
        return _Data(io.BytesIO(dump)).load()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def last_collectives(dump: bytes) -> Optional[List[Dict[str, Any]]]:
    """None for what is no dump."""
    try:
        entries = mapping(_loaded(dump)).get("entries")
    except DAMAGED:
        return None
    last: Dict[str, Dict[str, Any]] = {}
    for entry in rows(entries):
        name, op, seq = entry.get("process_group"), entry.get("profiling_name"), whole(entry.get("collective_seq_id"), 0)
        if not isinstance(name, (list, tuple)) or not isinstance(op, str) or seq is None or entry.get("state") not in STATES:
            continue
        group = " ".join(text for text in name[:2] if isinstance(text, str) and text)[:100]
        if not entry.get("is_p2p") and seq >= last.get(group, {"seq": 0})["seq"] and (group in last or len(last) < GROUPS):
            last[group] = {"group": group, "seq": seq, "op": op[:100], "state": entry["state"]}
    return [last[group] for group in sorted(last)] if isinstance(entries, list) else None
