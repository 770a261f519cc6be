# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing the loaded NVIDIA module for another version without a reboot: what must be stopped, unloaded and come back.

A module goes only when nothing uses it. Daemons of NVIDIA's own are stopped and started again; every other process
that has a GPU open makes a reboot the only way, because nobody but its owner may end it.
"""

import os
from typing import Dict, List, NamedTuple, Sequence, Tuple

from ...formats.outside import is_digits
from ...host.host import Host
from ...observe import sysfs_values
from ...types import Op, run

MODULE = "nvidia"
# The units that hold the driver and may be stopped for a moment, with the name that their process shows (15 characters).
HOLDERS = (
    ("nvidia-dcgm.service", "nv-hostengine"),
    ("nvidia-fabricmanager.service", "nv-fabricmanage"),
    ("nvidia-persistenced.service", "nvidia-persiste"),
)
LOAD_SECONDS = 180.0  # eight GPUs take 20 s; a firmware that does not answer takes longer


class Loaded(NamedTuple):
    """What stands on the loaded module."""

    modules: Tuple[str, ...]  # that use it, directly or not: in the order in which they can go
    units: Tuple[str, ...]  # of ours to stop, that are active
    processes: Tuple[str, ...]  # everybody else's: "python3 (4711)"


def observe_loaded(host: Host) -> Loaded:
    units = tuple(unit for unit, _process in HOLDERS if host.run(("systemctl", "is-active", unit)).out.strip() == "active")
    stopped = [process for unit, process in HOLDERS if unit in units]
    return Loaded(tuple(users_of(host, MODULE)), units, tuple(processes_with_gpus(host, stopped)))


def users_of(host: Host, module: str) -> List[str]:
    """Modules on top of ``module``, uppermost first."""
    used_by: Dict[str, List[str]] = {}
    for line in (host.read("/proc/modules") or "").splitlines():
        fields = line.split()
        if len(fields) > 3:
            used_by[fields[0]] = [name for name in fields[3].split(",") if sysfs_values.is_name(name)]
    found: List[str] = []

    def visit(name: str) -> None:
        for user in used_by.get(name, []):
            if user not in found:
                visit(user)
                found.append(user)

    visit(module)
    return found


def processes_with_gpus(host: Host, without: Sequence[str]) -> List[str]:
    """Processes that have a device of the driver open, but those called as in ``without``."""
    found = []
    for pid in host.listdir("/proc"):
        if not is_digits(pid):
            continue
        directory = "/proc/%s/fd" % pid
        if any((host.readlink("%s/%s" % (directory, fd)) or "").startswith("/dev/nvidia") for fd in host.listdir(directory)):
            name = sysfs_values.token(host.line("/proc/%s/comm" % pid)) or "?"
            if name not in without:
                found.append("%s (%s)" % (name, os.path.basename(pid)))
    return found


def reload_ops(loaded: Loaded) -> Tuple[Op, ...]:
    """Stop, unload, load what is on disk now, start again; each with its undo.

    Not by modprobe -r: with nvidia_peermem it would take modules of the RDMA stack that nothing else uses.
    """
    stop = [run(("systemctl", "stop", unit), (("systemctl", "start", unit),), LOAD_SECONDS) for unit in loaded.units]
    gone = loaded.modules + (MODULE,)
    back = gone[::-1]
    unload = run(("rmmod",) + gone, tuple(("modprobe", name) for name in back), LOAD_SECONDS)
    load = [run(("modprobe", name), (("modprobe", "-r", name),), LOAD_SECONDS) for name in back]
    start = [run(("systemctl", "start", unit), (("systemctl", "stop", unit),), LOAD_SECONDS) for unit in loaded.units[::-1]]
    return tuple(stop + [unload] + load + start)
