# SPDX-License-Identifier: GPL-3.0-or-later
"""The last collective of each process group that a rank has recorded, out of a dump of PyTorch's flight recorder that lies there.

Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp (names of the fields, states), FlightRecorder.cpp
(``<prefix><rank>``). A dump is a pickle, which is a program: nothing in it is looked up or called, whatever it names. No dump is asked
for either: that goes by a pipe of the process, or by a signal.
"""

import io
import pickle
import resource
import stat
from typing import Any, Dict, List, NoReturn, Optional

from ..formats.outside import mapping, rows, whole
from ..host.host import Host

PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
VARIABLES = PREFIXES + ("XDG_CACHE_HOME", "HOME")
LIMIT = 64 * 1024 * 1024  # bytes: 2,000 entries with their stacks are some megabytes
GROUPS = 32
DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError, RecursionError)
MEMORY = 2 << 30  # bytes of this process meanwhile: one opcode can ask for a memo of 16 GB, and a node out of memory kills its ranks
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
    cache = env.get("XDG_CACHE_HOME") or env.get("HOME", "/root") + "/.cache"
    prefixes = [env[name] for name in PREFIXES if env.get(name)] or [cache + "/torch/comm_lib_trace_rank_"]
    with host.acting_as(*owner):  # the path is the job's own choice: it may lead where only root gets
        for path in ["/proc/%d/root%s%d" % (pid, prefix, rank) for prefix in prefixes if prefix.startswith("/")]:
            status = host.status(path)
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_mtime >= since:
                return last_collectives(host.read_bytes(path, LIMIT) or b"")
    return None


def _loaded(dump: bytes) -> Any:
    """What is in it. Raises DAMAGED, MemoryError among them."""
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
