# SPDX-License-Identifier: GPL-3.0-or-later
"""torchrun's rank and rendezvous flags of one node, put into its command line. Pure.

Static rendezvous: the job's first node has rank 0 and listens on its own address; every other node is told that address. The flags
stand right behind torchrun: what comes after the script is the script's.
"""

from collections.abc import Sequence
from typing import NamedTuple

LOOPBACK = "127.0.0.1"
MODULES = ("torch.distributed.run", "torch.distributed.launch")
_WITHOUT_VALUE = ("--standalone", "-m", "--module", "--no-python", "--no_python", "--run-path", "--run_path", "-h", "--help")
_ALONE = ("--standalone", "--rdzv_endpoint", "--rdzv-endpoint")  # another kind of rendezvous than ours


class Job(NamedTuple):
    """``master`` None: nothing says where rank 0 can be reached. ``why``: where the address comes from."""

    nodes: int = 1
    rank: int = 0
    master: str | None = LOOPBACK
    port: int = 29500
    why: str = ""


class Launch(NamedTuple):
    """``command``: what runs in the container; ``flags``: torchrun's, whether the command has a torchrun or not."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    notes: tuple[str, ...]


def launch(command: Sequence[str], job: Job, processes: int | None) -> Launch:
    wanted = {"nnodes": str(job.nodes), "node_rank": str(job.rank), "master_addr": job.master, "master_port": str(job.port),
              "nproc_per_node": None if processes is None else str(processes)}
    flags = tuple(f"--{name}={value}" for name, value in wanted.items() if value is not None)
    place = _place(command)
    if place is None:
        return Launch(tuple(command), flags, ())
    notes = []
    if MODULES[1] in command[:place]:
        notes.append("torch.distributed.launch is deprecated: torchrun does the same, and sets LOCAL_RANK instead of passing --local-rank")
    own = _own(command[place:])
    if any(name in own for name in _ALONE):
        return Launch(tuple(command), flags, (*notes, "the command has a rendezvous of its own: no rank and master flags are added"))
    kept = [name for name in wanted if f"--{name}" in own or f"--{name.replace('_', '-')}" in own]
    if kept:
        notes.append(f"the command's own {', '.join('--' + name for name in kept)} stay; the other nodes must agree with them")
    if job.master is None and "master_addr" not in kept:
        notes.append("nothing says where the node with rank 0 can be reached: give --master-addr, or inspect that node too")
    added = tuple(flag for flag in flags if flag[2:].partition("=")[0] not in kept)
    return Launch((*command[:place], *added, *command[place:]), flags, tuple(notes))


def _place(command: Sequence[str]) -> int | None:
    """Behind torchrun, or behind ``python -m torch.distributed.run``; None where neither is started."""
    for at, word in enumerate(command):
        if word.rpartition("/")[2] == "torchrun":
            return at + 1
        if word in MODULES and at and command[at - 1] == "-m":
            return at + 1
    return None


def _own(words: Sequence[str]) -> set[str]:
    """The names of torchrun's own options: those before the script, whose options may have the same names."""
    found = set()
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, _value = words[at].partition("=")
        found.add(name)
        at += 1 if equals or name in _WITHOUT_VALUE else 2
    return found
