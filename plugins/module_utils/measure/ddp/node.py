# SPDX-License-Identifier: GPL-3.0-or-later
"""The training benchmark on a node: what it brings, torchrun started and watched, its files collected, everything taken away.

The operator's Python, and what it imports, runs as the job user and never as root. What lies in the run's directory is the
user's to write, so it is read with that user's rights, bounded, and taken for no more than what it claims to be.
"""

import time
from functools import partial
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

from ...errors import RailwrightError
from ...formats.outside import json_object, lines_in, whole
from ...formats.program_output import clean, one_line
from ...host import host as node
from ...host.host import Account, Host
from ...observe.nics import listening, observe_addresses
from ...observe.traffic_counters import Watched
from ...spec.match import management_interface
from ...spec.model import Spec
from ...types import Identity, as_dicts
from ..nccl_tests import processes, run_directory
from ..nccl_tests.collect import nccl_log
from ..nccl_tests.readiness import ports_of_rails
from .failure import children, failures_of
from .launch import LOG, NCCL_LOG, PREFIX, Share, command, torchrun_environment

PROBE_S = 180.0  # torch on a cold network file system takes its time
LEASE_S = 180.0
WAIT_S = 10.0  # how long one call of ``poll`` waits
FILE_LIMIT = 64 * 1024
LOG_TAIL = 128 * 1024
# Any fault of the import ends it with the error's own words on the last line.
PROBE = r"""
import json
import torch
import torch.distributed as dist
there = dist.is_available()
print(json.dumps({
    "torch": str(torch.__version__), "cuda": torch.version.cuda, "distributed": there,
    "backends": [name for name in ("nccl", "gloo") if there and getattr(dist, "is_%s_available" % name, lambda: True)()],
    "devices": torch.cuda.device_count() if torch.cuda.is_available() else 0,
}))
"""


account = partial(node.account, key="ddp_benchmark_user")
as_user = partial(processes.as_user, key="ddp_benchmark_user")


class Wanted(NamedTuple):
    """What the inventory says of this node's part."""

    node: str
    python: str
    backend: str
    processes: Optional[int]
    user: str
    port: int


def inspect_ddp_node(host: Host, wanted: Wanted, spec: Spec, identity: Identity) -> Dict[str, Any]:
    """What the plan must know; raises RailwrightError, in one line, for a node that cannot take part."""
    who = account(wanted.user)
    python = _python(host, wanted)
    said = ask_torch(host, who, python, wanted)
    count = _processes(wanted, said)
    return {
        "user": who.name, "python": python, "torch": one_line(str(said["torch"]), 64), "processes": count,
        "interface": interface(host, spec, identity), "port_taken": wanted.port in listening(host),
        "ports": as_dicts(ports_of_rails(host, spec, identity)),
    }


def _python(host: Host, wanted: Wanted) -> str:
    found = wanted.python if wanted.python.startswith("/") else host.which(wanted.python)
    if found is None or not host.exists(found):
        raise RailwrightError("ddp_benchmark_python: %s: there is no such program on %s; allowed: the name or the path of a Python that "
                              "has torch" % (wanted.python, wanted.node))
    return found


def ask_torch(host: Host, who: Account, python: str, wanted: Wanted) -> Dict[str, Any]:
    """What torch says of itself; raises RailwrightError where it cannot do what is wanted."""
    result = host.run(as_user(host, who, (python, "-c", PROBE)), PROBE_S)
    lines = [line for line in lines_in(clean(result.err)) if line.strip()]
    words = one_line(lines[-1]) if lines else "it said nothing"
    head = "ddp_benchmark_python %s on %s" % (wanted.python, wanted.node)
    if result.rc == 124:
        raise RailwrightError("%s did not import torch within %d s" % (head, PROBE_S))
    said = json_object(result.out.strip().rpartition("\n")[2]) if result.ok else None
    if said is None:
        raise RailwrightError("%s has no torch: %s" % (head, words))
    if wanted.backend not in (said.get("backends") or ()):
        raise RailwrightError("%s: torch %s was built without %s; ddp_benchmark_backend asks for it" % (
            head, one_line(str(said.get("torch")), 64), wanted.backend if said.get("distributed") else "torch.distributed"))
    if wanted.backend == "nccl" and not said.get("devices"):
        raise RailwrightError("no CUDA device on %s that torch %s can use%s; ddp_benchmark_backend: gloo needs none" % (
            wanted.node, one_line(str(said.get("torch")), 64), " (%s)" % words if lines else ""))
    return said


def _processes(wanted: Wanted, said: Mapping[str, Any]) -> int:
    if wanted.backend != "nccl":
        return wanted.processes or 1
    devices = whole(said.get("devices"), 0, 1024) or 0
    if (wanted.processes or 0) > devices:
        raise RailwrightError("ddp_benchmark_processes: %d: %s has %d CUDA device%s; allowed: a process for each at most" % (
            wanted.processes or 0, wanted.node, devices, "" if devices == 1 else "s"))
    return wanted.processes or devices


def interface(host: Host, spec: Spec, identity: Identity) -> Optional[Dict[str, Any]]:
    """Where the rendezvous goes over, as NCCL's bootstrap does: name and addresses; None when it cannot be told."""
    name = spec["bootstrap_interface"] or management_interface(spec, identity)
    return None if name is None else {
        "name": name, "addresses": [item.partition("/")[0] for item in observe_addresses(host).get(name, ())]}


def start(host: Host, share: Share, files: Mapping[str, str], ports: Sequence[Watched] = ()) -> Dict[str, Any]:
    """The run's directory with the scripts in it, and torchrun; what ``poll`` must know of it."""
    who, path = account(share.user), run_directory.directory_of(share.run)
    run_directory.make_way(host, share.run)
    host.make_directory(run_directory.ROOT, 0o755)
    host.make_directory(run_directory.BASE, 0o755)
    for name in host.listdir(run_directory.BASE):
        if name.startswith(PREFIX) and name != share.run:  # left by one whose controller died
            remove(host, name)
    run_directory.note(host, share.run, started=True)
    run_directory.keep_counters(host, share.run, ports)
    host.make_directory(path, 0o700, (who.uid, who.gid))
    with processes.rights_of(host, who.name):
        for name, text in sorted(files.items()):
            host.write("%s/%s" % (path, name), text, 0o600)
    log = "%s/%s" % (path, LOG)
    variables = torchrun_environment(share, path)
    found = processes.start(host, command(share, path), who.name, variables, log, share.timeout_s, share.run, LEASE_S)
    return {"pid": found.pid, "start_time": found.start_time, "at": time.monotonic()}


def poll(host: Host, share: Share, process: Mapping[str, Any], age: float) -> Dict[str, Any]:
    """Wait a while for the end; ``over``: the job is so many seconds old, ``done``: it has ended. Whoever asks still wants it.

    A rank that failed is the end too: torchrun itself waits five minutes for the other nodes then. The status is no ``rc``: with that
    key any other value than 0 is a failure to Ansible, None too.
    """
    started = processes.Started(int(process["pid"]), str(process["start_time"]))
    end = float(process["at"]) + age  # the clock is the node's since its boot, the same for every process
    log = "%s/%s" % (run_directory.directory_of(share.run), LOG)
    run_directory.note(host, share.run)
    processes.renew(host, log, share.user)
    failed = a_rank_failed(host, share)  # by then torchrun has had ten seconds more
    code, ended = processes.wait(host, started, log, share.user, min(time.monotonic() + WAIT_S, end))
    now, done = time.monotonic(), ended or failed
    return {"done": done, "over": done or now >= end, "exit": code, "progress": progress(host, share, now - float(process["at"]))}


def a_rank_failed(host: Host, share: Share) -> bool:
    found = collect(host, share)
    return bool(found["failures"] or children(found["log"], share.first_rank))


def progress(host: Host, share: Share, seconds: float) -> Dict[str, Any]:
    found = _document(host, share, "progress.json") or {}
    step, steps = found.get("step"), found.get("steps")
    known = isinstance(step, int) and isinstance(steps, int) and steps
    return {"seconds": seconds, "step": step, "steps": steps} if known else {"seconds": seconds}


def collect(host: Host, share: Share) -> Dict[str, Any]:
    """What this node's ranks left; the judge knows what to make of it."""
    who, path = account(share.user), run_directory.directory_of(share.run)
    numbers = range(share.first_rank, share.first_rank + share.processes)
    ranks = [_document(host, share, "rank-%d.json" % rank) for rank in numbers]
    tail = host.run(as_user(host, who, ("tail", "-c", str(LOG_TAIL), "%s/%s" % (path, LOG))))
    return {
        "rc": processes.ended_with(host, "%s/%s" % (path, LOG), who.name),
        "ranks": [item for item in ranks if item is not None],
        "failures": failures_of([_document(host, share, "failed-%d.json" % rank) for rank in numbers]),
        "result": _document(host, share, "result.json") if share.node_rank == 0 else None,
        "log": clean(tail.out) if tail.ok else "",
    }


def way(host: Host, share: Share) -> str:
    """What NCCL said of the way of this node's data."""
    path = run_directory.directory_of(share.run)
    with processes.rights_of(host, share.user):
        return nccl_log(host, path, NCCL_LOG, host.listdir(path))


def _document(host: Host, share: Share, name: str) -> Optional[Dict[str, Any]]:
    with processes.rights_of(host, share.user):
        text = host.read("%s/%s" % (run_directory.directory_of(share.run), name), FILE_LIMIT)
    return json_object(text)


def stop(host: Host, share: Share) -> int:
    """End every process of the run; how many there were."""
    return processes.stop_marked(host, share.run, account(share.user).uid)


def remove(host: Host, run: str) -> None:
    """The directory with all that torchrun and the ranks put there, by the rights of whom it belongs to."""
    path = run_directory.directory_of(run)
    owner = host.owner(path)
    if owner is not None:
        host.run(as_user(host, account(owner[0]), ("find", path, "-xdev", "-mindepth", "1", "-delete")), 60.0)
    run_directory.remove(host, run)
