# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL's inspector plugin wrote (NCCL 2.28 and later, plugins/profiler/inspector): how long each rank was in each collective.

A file a process, a line of JSON a collective. Times are of the GPU's own clock, from the kernel's start to its end: they hold the wait for
the other ranks. A line that has the host's clock instead tells when a thread looked, and is left out.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...formats.outside import json_object, mapping, whole
from ...host.host import Host

# Only those of which no rank leaves before the last one has come; the plugin's name: nccl-tests'.
NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}
INTERVAL_US = 500  # between two looks of the plugin's writer, as its README has it; its default is to write nothing
WATCHED = 64  # collectives of a rank, the last of the largest size
FILES, FILE_LIMIT, ROOM = 256, 16 * 1024 * 1024, 64 * 1024 * 1024  # a collective is a line of some 450 bytes
LINES = 4096  # of a file, from its end: the largest messages come last
RANKS = 192  # of all collectives: a node has no more than 64
_FILE = re.compile(r"[^/]{1,255}-pid[0-9]{1,10}\.log\Z")
_COMM = re.compile(r"0x[0-9a-f]{1,16}\Z")


class Spent(NamedTuple):
    """One rank in one collective; ``number``: of the collective in its communicator, the same on every rank."""

    name: str
    comm: str
    rank: int
    size: int
    number: int
    us: int


def variables(library: Optional[str], directory: str) -> Dict[str, str]:
    """Of the ranks, where the site has the plugin. The directory must be there: of two ranks that make it the plugin stops one."""
    return {} if library is None else {
        "NCCL_PROFILER_PLUGIN": library, "NCCL_INSPECTOR_ENABLE": "1", "NCCL_INSPECTOR_DUMP_DIR": directory,
        "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": str(INTERVAL_US)}


def inspector_problems(host: Host, library: Optional[str], user: str) -> List[str]:
    """Asked with the job user's rights: NCCL passes over a plugin that it cannot load."""
    if library is None or host.read_bytes(library, 4) == b"\x7fELF":
        return []
    return ["nccl_tests_inspector: %s is no library that %s can read" % (library, user)]


def read_line(text: str) -> Optional[Spent]:
    """None for what is no whole line about a collective that is judged."""
    document = json_object(text) or {}
    header, found = mapping(document.get("header")), mapping(document.get("coll_perf"))
    name, comm = NAMES.get(str(found.get("coll"))), header.get("id")
    figures = [whole(header.get("rank"), 0, 1 << 20)] + [
        whole(found.get(key), 0, 1 << 53) for key in ("coll_msg_size_bytes", "coll_sn", "coll_exec_time_us")]
    known = [item for item in figures if item is not None]
    if name is None or not _COMM.match(str(comm)) or found.get("coll_timing_source") != "kernel_gpu" or len(known) < len(figures):
        return None
    return Spent(name, str(comm), *known)


def time_spent(host: Host, path: str, files: Sequence[str]) -> List[Dict[str, Any]]:
    """``[{"collective", "comm", "rank", "bytes", "times": [[number, microseconds]]}]`` from the files of a run's directory."""
    found: Dict[Tuple[str, str, int], Tuple[int, Dict[int, int]]] = {}
    room = ROOM
    for file in [item for item in files if _FILE.match(item)][:FILES]:
        limit = min(FILE_LIMIT, room)
        text = host.read("%s/%s" % (path, file), limit) or ""
        room -= len(text)
        for item in map(read_line, text.split("\n")[-LINES:] if len(text) < limit else ()):  # else the largest messages are beyond it
            if item is not None:
                size, times = found.setdefault(item[:3], (item.size, {}))
                if item.size > size:
                    size, times = found[item[:3]] = (item.size, {})
                if item.size == size:
                    times[item.number] = item.us
    return [{"collective": key[0], "comm": key[1], "rank": key[2], "bytes": size, "times": list(map(list, sorted(us.items())[-WATCHED:]))}
            for key, (size, us) in sorted(found.items())[:RANKS]]
