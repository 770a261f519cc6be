# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing the loaded NVIDIA module for another version without a reboot: what must be stopped, unloaded and come back.

A module goes only when nothing uses it. Daemons of NVIDIA's own are stopped and started again; every other process
that has a GPU open makes a reboot the only way, because nobody but its owner may end it.
"""

import os
import re
from typing import List, Mapping, NamedTuple, Sequence, Tuple

from ...formats import sysfs_values
from ...formats.outside import is_digits
from ...host.host import Host
from ...observe.modules import running_modules
from ...types import Op, run
from ..common.modules import load
from ..common.units import systemctl

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
    running = running_modules(host) or {}
    found: List[str] = []

    def visit(name: str) -> None:
        for user in running[name].users if name in running else ():
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
    stop = [systemctl("stop", unit, LOAD_SECONDS) for unit in loaded.units]
    gone = loaded.modules + (MODULE,)
    back = gone[::-1]
    unload = run(("rmmod",) + gone, tuple(("modprobe", name) for name in back), LOAD_SECONDS)
    start = [systemctl("start", unit, LOAD_SECONDS) for unit in loaded.units[::-1]]
    return tuple(stop + [unload] + [load(name, LOAD_SECONDS) for name in back] + start)


# Which installed driver packages cannot stay beside the wanted ones: another branch's, or the other kind of kernel module. Pure.
#
# Ubuntu and older CUDA repositories have the branch in every package's name, and two branches conflict; both flavours of the
# kernel module conflict everywhere. They are removed as planned changes, not as a surprise of the package manager.

_PREFIXES = ("nvidia-", "libnvidia-", "cuda-drivers-", "linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-",
             "xserver-xorg-video-nvidia-")
_BRANCH = re.compile(r"-([4-9][0-9]{2})(?=-|\Z)")
_PROPRIETARY = re.compile(
    r"(?:nvidia-(?:dkms|kernel-source|driver)-[0-9]{3}(?:-server)?|nvidia-kernel-dkms|kmod-nvidia-latest-dkms|cuda-drivers(?:-[0-9]{3})?)\Z")
_OPEN = re.compile(
    r"(?:nvidia-(?:dkms|kernel-source|driver)-[0-9]{3}(?:-server)?-open|nvidia-open(?:-[0-9]{3})?|nvidia-kernel-open-dkms|"
    r"nvidia-open-kernel-dkms|kmod-nvidia-open-dkms)\Z")


def stale_packages(installed: Mapping[str, str], wanted: Sequence[str], branch: str, flavour: str) -> List[str]:
    """Names of what must go before ``wanted`` can come."""
    other = _PROPRIETARY if flavour == "open" else _OPEN
    found = []
    for name in sorted(installed):
        if name in wanted:
            continue
        if other.match(name) or _other_branch(name, branch):
            found.append(name)
    return found


def _other_branch(name: str, branch: str) -> bool:
    if not name.startswith(_PREFIXES):
        return False
    found = _BRANCH.search(name)
    return found is not None and found.group(1) != branch
