# SPDX-License-Identifier: GPL-3.0-or-later
"""scontrol and squeue as Slurm 22.05.8 of Debian 12 answered in the scenario ``drain``: lines and errors are recorded.

States are the test's. It knows nodes, jobs and the few rules that were seen there: RESUME of a node that is not drained is refused, a
name that Slurm does not have is an error, slurmctld that is away is exit code 1 with one line. Nothing here starts or ends a job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result

LINE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=17.14 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=(null) NodeAddr=192.0.2.12 NodeHostName={name} Version=22.05.8 OS=Linux 6.1.0-26-amd64 #1 "
    "SMP PREEMPT_DYNAMIC Debian 6.1.112-1 RealMemory=1 AllocMem=0 FreeMem=18368 Sockets=2 Boards=1 State={state} "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=first,rdma  BootTime=2026-11-20T23:41:32 "
    "SlurmdStartTime=2026-11-21T18:30:58 LastBusyTime=2026-11-21T18:30:58 CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES= "
    "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s{reason}")
AWAY = "{what} error: Unable to contact slurm controller (connect failure)\n"


class SlurmHost(Host):
    """``nodes``: name -> [state, reason]; ``jobs``: lines of squeue."""

    def __init__(self, nodes: dict[str, tuple[str, str]], jobs: Sequence[str] = ()) -> None:
        self.nodes = {name: list(value) for name, value in nodes.items()}
        self.jobs = list(jobs)
        self.away = 0  # for so many commands
        self.forbidden = False
        self.orders: list[tuple[str, ...]] = []
        self.calls = 0

    def which(self, tool: str) -> str | None:
        return f"/usr/bin/{tool}"

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
        del timeout, stdin, limit
        self.calls += 1
        command, words = argv[0].rpartition("/")[2], tuple(argv[1:])
        if self.away:
            self.away -= 1
            return Result(1, "", AWAY.format(what="slurm_load_jobs" if command == "squeue" else "slurm_load_node"))
        if command == "squeue" and words[-1] == "--format=%A|%T|%U|%N":
            wanted = words[2].removeprefix("--jobs=")
            found = [line for line in self.jobs if line.split("|")[0] == wanted]
            return Result(0 if found else 1, "".join(f"{line}\n" for line in found), "slurm_load_jobs error: Invalid job id specified\n")
        if command == "squeue":
            assert words == ("--all", "--noheader", "--states=all", "--format=%i|%T|%N|%u")
            return Result(0, "".join(f"{line}\n" for line in self.jobs), "")
        if words[0] == "update":
            return self.update(words[1:])
        assert words == ("--all", "--oneliner", "show", "nodes")
        return Result(0, "".join(self.told(name) + "\n" for name in self.nodes), "")

    def told(self, name: str) -> str:
        state, reason = self.nodes[name]
        return LINE.format(name=name, state=state, reason=f" Reason={reason} [root@2026-11-21T18:31:31]" if reason else "")

    def update(self, words: tuple[str, ...]) -> Result:
        self.orders.append(words)
        given = dict(word.partition("=")[::2] for word in words)
        if self.forbidden:
            return Result(1, "", "slurm_update error: Invalid user id\n")
        if given["NodeName"] not in self.nodes:
            return Result(1, "", "slurm_update error: Invalid node name specified\n")
        node = self.nodes[given["NodeName"]]
        if given["State"] == "DRAIN":
            node[:] = [node[0] if "DRAIN" in node[0] else node[0] + "+DRAIN", given["Reason"]]
            return Result(0, "", "")
        if "DRAIN" not in node[0] and "DOWN" not in node[0]:
            return Result(1, "", "slurm_update error: Invalid node state specified\n")
        node[:] = [re.sub(r"^DOWN", "IDLE", node[0]).replace("+DRAIN", ""), ""]
        return Result(0, "", "")
