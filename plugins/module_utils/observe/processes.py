# SPDX-License-Identifier: GPL-3.0-or-later
"""When a process and the node itself began, as the kernel says it; whether a unit of systemd is there, and whether it runs; and of all
processes by one ``ps``: which wait on a device, and which hold a GPU outside every job."""

import re
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from ..formats.outside import is_digits, lines_in
from ..formats.program_output import one_line
from ..formats.sysfs_values import token
from ..host.host import Host

UNIT_DIRECTORIES = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
FIELDS = "pid=,stat=,wchan:32=,comm="
SECONDS, PAUSE, SUSPECTS = 5.0, 2.0, 64
SCHEDULERS = ("slurmd", "kubelet", "k3s-server", "k3s-agent")
_PROCESS = re.compile(r" {0,10}([0-9]{1,10}) ([A-Z])[^ ]{0,8} {1,8}([^ ]{1,64}) {1,40}([^ ].{0,80})")
# Functions of the drivers of GPUs and HCAs, of RDMA and NFS, as a process's wchan names them.
_DEVICE = re.compile(r"_?nv(?!me)|rm_|uvm_|os_acquire|mlx[45]_|ib_|rdma_|uverbs|ucma_|nfs|rpc_wait")
_JOB = re.compile("slurm|kubepods|docker|libpod|podman|containerd|crio")
SWITCHES = re.compile(r"^voluntary_ctxt_switches:\s{0,8}([0-9]{1,18})$", re.MULTILINE)
_REAL_USER = re.compile(r"^Uid:\t([0-9]{1,10})\t", re.MULTILINE)
_BOOT = re.compile(r"^btime ([0-9]{1,18})$", re.MULTILINE)


def boot_time(host: Host) -> Optional[int]:
    """Seconds since the epoch; None where it cannot be read."""
    found = _BOOT.search(host.read("/proc/stat") or "")
    return int(found.group(1)) if found is not None else None


def start_time(host: Host, pid: Union[int, str]) -> Optional[str]:
    """Field 22 of /proc/PID/stat: clock ticks since boot; None when there is no such process, or only what is left of it (a zombie).

    The name in field 2 may hold spaces and brackets, so count from its end.
    """
    text = host.read("/proc/%s/stat" % pid, 4096)
    fields = text.rpartition(")")[2].split() if text else []
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else None


def real_user(host: Host, pid: int) -> Optional[int]:
    """Who started it: a program with a set-user-ID bit has the rights of another one. None when there is no such process."""
    found = _REAL_USER.search(host.read("/proc/%d/status" % pid, 4096) or "")
    return int(found.group(1)) if found is not None else None


def unit_installed(host: Host, unit: str, *more: str) -> bool:
    """``more``: directories beside those of administrators and packages."""
    return any(host.exists("%s/%s" % (directory, unit)) for directory in UNIT_DIRECTORIES + more)


def unit_active(host: Host, unit: str) -> Optional[bool]:
    """None when there is no such unit, or nobody to ask."""
    answer = host.run(("systemctl", "is-active", unit)).out.strip() if unit_installed(host, unit) else ""
    return answer == "active" if answer else None


class Process(NamedTuple):
    """``waits``: the kernel's function that it is in; "-" where it runs, or nobody may know."""

    pid: int
    state: str
    waits: str
    name: str


def processes_of(text: str) -> List[Process]:
    found = [_PROCESS.match(line) for line in lines_in(text)]
    return [Process(int(row.group(1)), row.group(2), row.group(3), one_line(row.group(4), 40)) for row in found if row is not None]


def holders(host: Host, is_one: Callable[[str], bool]) -> List[str]:
    """``python3 (4711)``: the processes with an open file of which ``is_one`` says so, by its path."""
    pids = [pid for pid in filter(is_digits, host.listdir("/proc")) if any(
        is_one(host.readlink("/proc/%s/fd/%s" % (pid, fd)) or "") for fd in host.listdir("/proc/%s/fd" % pid))]
    return ["%s (%s)" % (token(host.line("/proc/%s/comm" % pid)) or "?", pid) for pid in pids]


def observe_processes(host: Host, gpus: Sequence[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """``schedulers``: whose daemon runs; ``stuck``: see there; ``jobless``: logins' processes on ``gpus`` beside one; ``unseen``:
    checks of which something is hidden from this user. None without ps."""
    text = host.run(("ps", "-eo", FIELDS), SECONDS).out
    running = processes_of(text)
    if not running:
        return None
    broken = len(running) < len([line for line in lines_in(text) if line.strip()])
    names = {process.pid: process.name for process in running}
    schedulers = sorted(set(SCHEDULERS) & set(names.values()))
    groups = {pid: host.read("/proc/%d/cgroup" % pid, 65536) or "" for gpu in gpus for pid in gpu["pids"] if schedulers and pid in names}
    jobless = [{"gpu": gpu["pci"], "pid": pid, "name": names[pid]} for gpu in gpus for pid in gpu["pids"]
               if "/user.slice/" in groups.get(pid, "") and not _JOB.search(groups[pid])]
    unseen = [check for check, hidden in (
        ("node.stuck", broken or any(process.state == "D" and process.waits == "-" for process in running)),
        ("gpu.jobless", broken or any(pid not in names for gpu in gpus for pid in gpu["pids"]))) if hidden]
    return {"schedulers": schedulers, "stuck": stuck(host, running), "jobless": jobless, "unseen": unseen}


def stuck(host: Host, running: Sequence[Process]) -> List[Dict[str, Any]]:
    """What waits on a device in a function of its driver, both times of two looks, and did not run between them: who is only busy does."""
    first = {process.pid: (process.waits, _switches(host, "/proc/%d/status" % process.pid))
             for process in running if process.state == "D" and _DEVICE.match(process.waits)}
    if not first:
        return []
    if host.live:
        time.sleep(PAUSE)
    # By other names than before: one inspection asks for each file and command once.
    again = processes_of(host.run(("ps", "-o", FIELDS, "-p", ",".join(map(str, sorted(first)[:SUSPECTS]))), SECONDS).out)
    return [{"pid": process.pid, "name": process.name, "waits": one_line(process.waits, 40)} for process in again if process.state == "D"
            and first.get(process.pid) == (process.waits, _switches(host, "/proc/%d/task/%d/status" % (process.pid, process.pid)))]


def _switches(host: Host, path: str) -> Optional[str]:
    found = SWITCHES.search(host.read(path, 65536) or "")
    return found.group(1) if found is not None else None
