# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run left on a node, bounded, before its directory goes: outputs of the jobs, NCCL's logs, the topology that NCCL saw.

The JSON file of nccl-tests holds the job's whole environment; only what ``stripped`` leaves of it goes anywhere. Of NCCL's
log the lines that say something about transport, rank and failure are kept; where there are more of those than fit,
one of each connection, whatever the channel's number.
"""

import json
import re
from typing import Any, Dict, List, Optional, Sequence

from ...formats.outside import lines_in
from ...formats.program_output import clean, tail
from ...host.host import Host
from . import processes
from .dumps import collected
from .inspector import time_spent
from .job import ended_before, log_of
from .json_report import stripped
from .run_directory import directory_of, remove

TEXT_LIMIT = 256 * 1024
LOG_LIMIT = 512 * 1024  # of one job on one node
FILE_LIMIT = 16 * 1024 * 1024  # of one log file; a rank at INFO writes some 100 kB
FILES = 256  # log files of one job: a rank each
TOPOLOGY, GRAPH = "nccl_topo.xml", "nccl_graph.xml"
_KEPT = re.compile(
    r"NCCL WARN|NCCL version|Using network|NET/|COLLNET/|via (?:P2P|SHM|NET|COLLNET)|Init COMPLETE|Init timings|GPU Direct|"
    r"comm 0x[0-9a-f]+ rank|set by environment|Connected all|NCCL_[A-Z_]{1,64} set")
_VARYING = re.compile(r":\d+:\d+ (?=\[|NCCL)|(?:Channel|CollNet) \d+(?:/[\d-]+)?")


def collect(host: Host, run: str, user: str, names: Sequence[str]) -> Dict[str, Any]:
    """``names``: the collectives, in order. Jobs that were never started here have no output, and logs all the same."""
    path = directory_of(run)
    with processes.rights_of(host, user):
        files = host.listdir(path)
        found: Dict[str, Any] = {"jobs": [_job(host, run, user, name, files) for name in names], "ended": ended_before(host, run),
                                 "spent": [row for row in time_spent(host, path, files) if row["collective"] in names]}
    who = processes.account(user)
    found.update(collected(host, "%s/%s" % (path, TOPOLOGY), "%s/%s" % (path, GRAPH), (who.name, who.uid, who.gid)))
    found["left"] = remove(host, run)
    return found


def debug_file(directory: str, name: str) -> str:
    """NCCL puts host and process in place of %h and %p."""
    return "%s/nccl.%s.%%h.%%p.log" % (directory, name)


def _job(host: Host, run: str, user: str, name: str, files: Sequence[str]) -> Dict[str, Any]:
    log = log_of(run, name)
    text, more = processes.output(host, log, user, FILE_LIMIT)
    return {
        "name": name,
        "started": log.rpartition("/")[2] in files,
        "rc": processes.ended_with(host, log, user),
        "seconds": processes.took(host, log, user),
        "text": clean(text)[:TEXT_LIMIT],
        "tail": tail(text),
        "too_much": more,
        "json": _json(host, "%s/%s.json" % (directory_of(run), name)),
        "log": nccl_log(host, directory_of(run), name, files),
    }


def _json(host: Host, path: str) -> Optional[str]:
    document = stripped(host.read(path, FILE_LIMIT) or "")
    text = json.dumps(document) if document else ""
    return text if 0 < len(text) <= TEXT_LIMIT else None


def nccl_log(host: Host, path: str, name: str, files: Sequence[str]) -> str:
    """What NCCL wrote by ``debug_file``, the lines that are judged."""
    mine = re.compile(r"nccl\.%s\..+\.log\Z" % re.escape(name))
    lines: List[str] = []
    room = FILE_LIMIT
    for file in [item for item in files if mine.match(item)][:FILES]:
        text = clean(host.read("%s/%s" % (path, file), min(FILE_LIMIT, room)) or "")
        found = [line[:1000] for line in lines_in(text) if _KEPT.search(line)]
        room -= sum(len(line) + 1 for line in found)  # the files of all ranks together may be gigabytes
        lines += found
    return fitting(lines, LOG_LIMIT)


def fitting(lines: Sequence[str], limit: int) -> str:
    """The lines, or one of each kind where all of them are too many."""
    if sum(len(line) + 1 for line in lines) > limit:
        seen: Dict[str, str] = {}
        for line in lines:
            seen.setdefault(_VARYING.sub(" ", line), line)
        lines = list(seen.values())
    text = "".join(line + "\n" for line in lines)
    return text if len(text) <= limit else text[:text.rfind("\n", 0, limit) + 1]
