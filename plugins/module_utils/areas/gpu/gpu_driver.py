# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver, its fabric manager and its persistence daemon, where the node has a GPU and the inventory names a branch.

A driver is in effect when three things agree: the packages, the module on disk for the running kernel, and the module
that is loaded. Packages are the playbook's; here the rest is planned. What only a reboot can do (nouveau holds the GPUs,
or processes hold the old module) is one external change of class reboot, and nothing that would need the new module is
started before it. In a container the module belongs to the machine below.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import Wanted, find_branch, gpu_packages
from ...catalogue.gpus import SOURCE as GPU_SOURCE
from ...catalogue.gpus import hides_nvswitches, only_open, only_proprietary
from ...catalogue.stacks import vendor_stack
from ...host.host import Host
from ...observe.gpu_driver import FABRICMANAGER, PERSISTENCED, Driver, driver_on_disk, loaded_driver, module_loaded
from ...observe.package_state import Hold, held
from ...observe.packages import all_installed
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.modules import load
from ..common.package_changes import hold_conflicts, missing_database, names_of, plan_packages, plan_removals
from ..common.units import RELOAD, DaemonState, masked_problem, observe_daemon, plan_daemon
from . import reload
from .reload import MODULE, Loaded, stale_packages

NAME = "gpu_driver"
BLACKLIST = "/etc/modprobe.d/railwright-nouveau.conf"
BLACKLIST_TEXT = HEADER + "blacklist nouveau\noptions nouveau modeset=0\n"
DROPIN = "/etc/systemd/system/%s.d/50-railwright.conf" % PERSISTENCED
# Ubuntu's own unit starts the daemon with --no-persistence-mode and stops it when nothing needs it. Its user differs between packages, so
# the daemon's command stays; nvidia-smi hands the wish to it. A failure is a verdict (gpu.persistence), not a dead daemon.
DROPIN_TEXT = HEADER + """[Unit]
StopWhenUnneeded=false

[Service]
ExecStartPost=-/usr/bin/nvidia-smi -pm 1
"""
INITRAMFS = (("update-initramfs", ("update-initramfs", "-u", "-k", "all")), ("dracut", ("dracut", "--force", "--regenerate-all")))
INITRAMFS_SECONDS = 1200.0
REBOOT = "reboot into the NVIDIA driver"
LOADED = "NVIDIA driver loaded"
SOURCE = "NVIDIA (driver installation guide)"
FABRIC_WHY = "the NVSwitches carry no traffic until the fabric manager has set them up; it must have exactly the driver's version"
FABRIC_SOURCE = "NVIDIA (Fabric Manager user guide)"
PERSISTENCE_WHY = "without a process that keeps it awake the driver sets every GPU up anew for each job"
PERSISTENCE_SOURCE = "NVIDIA (driver persistence)"
_VERSION = re.compile(r"(?:[0-9]+:)?([0-9]{3,4}(?:\.[0-9]+)+)")


class Desired(NamedTuple):
    """``wanted`` None: nothing is wanted, and ``reason`` says why (empty: nothing to say)."""

    identity: Identity
    wanted: Optional[Tuple[Wanted, ...]]
    reason: str
    branch: str
    flavour: str
    version: Optional[str]  # of the driver, as the module prints it; None: whatever the packages bring
    fabricmanager: bool
    persistence: bool
    live: bool  # the running kernel is ours to change
    stack: Optional[str]  # meta package of the vendor's RDMA stack that this node wants


class Observed(NamedTuple):
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    loaded: Driver
    disk: Driver
    nouveau: bool
    standing: Loaded
    blacklist: FileState
    dropin: FileState
    daemons: Tuple[DaemonState, ...]
    initramfs: Optional[Tuple[str, ...]]  # the command that builds it anew


def desired(spec: Spec, identity: Identity) -> Desired:
    branch = spec["gpu_driver_branch"]
    wanted: Optional[Tuple[Wanted, ...]] = None
    reason: str = ""
    if branch is not None and identity.gpus:
        wanted = gpu_packages(spec, identity)
    elif branch is not None:
        reason = "no NVIDIA GPU on the PCI bus of this node, so no driver is installed"
    elif identity.gpus:
        reason = "gpu_driver_branch is not set; the NVIDIA driver is left as it is"
    stack = vendor_stack(spec, identity) if wanted is not None else None
    return Desired(
        identity, wanted, reason, branch or "", spec["gpu_driver_flavour"], wanted_version(spec), wants_fabricmanager(spec, identity),
        spec["gpu_driver_persistence"], not identity.has("container"), stack.meta if stack is not None else None)


def wanted_version(spec: Spec) -> Optional[str]:
    """The driver's version as /proc shows it. The distribution's packages have the version that they have, unless one is asked for."""
    version = spec["gpu_driver_version"]
    if version is None and spec["gpu_driver_source"] == "cuda_repository":
        row = find_branch(spec["gpu_driver_branch"]) if spec["gpu_driver_branch"] is not None else None
        version = row.version if row is not None else None
    found = _VERSION.match(version) if version is not None else None
    return found.group(1) if found is not None else None


def wants_fabricmanager(spec: Spec, identity: Identity) -> bool:
    asked = spec["gpu_driver_fabricmanager"]
    return bool(identity.nvswitches) if asked is None else bool(asked)


def observe(host: Host, desired: Desired) -> Observed:
    if desired.wanted is None:
        return Observed(None, (), Driver(None, None), Driver(None, None), False, Loaded((), (), ()), FileState(BLACKLIST, None, None),
                        FileState(DROPIN, None, None), (), None)
    identity = desired.identity
    installed = all_installed(host, identity)
    loaded, disk = loaded_driver(host), driver_on_disk(host, identity.kernel)
    target = desired.version or disk.version
    other = desired.live and loaded.version is not None and target is not None and loaded.version != target
    units = ((PERSISTENCED,) if desired.persistence else ()) + ((FABRICMANAGER,) if desired.fabricmanager else ())
    names = names_of(desired.wanted) + tuple(stale_packages(installed or {}, names_of(desired.wanted), desired.branch, desired.flavour))
    return Observed(
        installed, held(host, identity, names), loaded, disk, bool(module_loaded(host, "nouveau")),
        reload.observe_loaded(host) if other else Loaded((), (), ()),  # looks through every process: only where it matters
        observe_file(host, BLACKLIST), observe_file(host, DROPIN), tuple(observe_daemon(host, unit) for unit in units),
        next((command for tool, command in INITRAMFS if host.which(tool) is not None), None),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if desired.wanted is None or observed.installed is None:
        return []
    changes = package_changes(desired, observed)
    rebuild = (run(observed.initramfs, seconds=INITRAMFS_SECONDS),) if observed.initramfs is not None and desired.live else ()
    changes += plan_file(NAME, observed.blacklist, BLACKLIST_TEXT, "nouveau would take the GPUs before the NVIDIA driver can, from the "
                         "initramfs on", SOURCE + ": disable nouveau", then=rebuild)
    module = module_changes(desired, observed, bool(changes))
    waiting = any(change.needs_reboot for change in module)
    return changes + module + daemon_changes(desired, observed, waiting=waiting)


def package_changes(desired: Desired, observed: Observed) -> List[Change]:
    """Another version restarts NVIDIA's daemons, and programs that start before the module follows fail: the module's change says so."""
    wanted, installed = desired.wanted or (), observed.installed or {}
    stale = stale_packages(installed, names_of(wanted), desired.branch, desired.flavour)
    removals = plan_removals(NAME, stale, installed, "conflicts with the driver of branch %s with %s kernel modules" % (
        desired.branch, desired.flavour), SOURCE + ": one branch and one flavour at a time", "restart")
    return removals + plan_packages(NAME, wanted, installed, desired.identity.platform.family, "restart")


def module_changes(desired: Desired, observed: Observed, packages: bool) -> List[Change]:
    """From the module that is loaded to the wanted one: load it, change it, or reboot. ``packages``: some change before it does."""
    target = desired.version or observed.disk.version
    before = observed.loaded.version
    if not desired.live or (before is not None and before == target) or (target is None and not packages):
        return []
    if observed.nouveau and before is None:
        return [Change(
            NAME, REBOOT, "nouveau", target, "reboot", "nouveau drives the GPUs and lets go of them only at a reboot", SOURCE, ())]
    if before is None:
        return [Change(NAME, LOADED, None, target, "none", "nothing can use the GPUs without it", SOURCE,
                       (load(MODULE, reload.LOAD_SECONDS),))]
    if target is None:
        return []
    if observed.standing.processes:
        return [Change(NAME, REBOOT, before, target, "reboot", "the older module stays loaded while processes use the GPUs: " + some(
            observed.standing.processes), SOURCE, ())]
    why = "the loaded module is not of the installed version: new programs fail with a driver/library version mismatch"
    return [Change(NAME, LOADED, before, target, "reload", why, SOURCE, reload.reload_ops(observed.standing))]


def daemon_changes(desired: Desired, observed: Observed, *, waiting: bool) -> List[Change]:
    """``waiting``: for a reboot; until then the daemons would only fail. In a container they run where the machine below has the driver."""
    changes: List[Change] = []
    running = not waiting and (desired.live or observed.loaded.version is not None)
    for state in observed.daemons:
        if state.unit == PERSISTENCED:
            if desired.identity.platform.id == "ubuntu":
                changes += plan_dropin(observed.dropin, state)
            changes += plan_daemon(NAME, state, PERSISTENCE_WHY, PERSISTENCE_SOURCE, running=running)
        else:
            changes += plan_daemon(NAME, state, FABRIC_WHY, FABRIC_SOURCE, running=running)
    return changes


def plan_dropin(dropin: FileState, daemon: DaemonState) -> List[Change]:
    again = (run(("systemctl", "restart", daemon.unit)),) if daemon.active else ()
    return plan_file(NAME, dropin, DROPIN_TEXT, PERSISTENCE_WHY + "; Ubuntu's unit starts it with --no-persistence-mode",
                     "Ubuntu (nvidia-persistenced.service)", then=(RELOAD,) + again, disruption="restart" if again else "none")


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    """GPUs that the wanted kind of kernel module does not drive, and systems for which nothing is known."""
    if desired.wanted is None:
        return []
    if not desired.wanted:
        return [Problem(NAME, "gpu_driver_branch", "no packages of branch %s are known for %s (%s); allowed: another gpu_driver_source, or "
                        "leave it unset" % (desired.branch, identity.platform.pretty or identity.platform.id, identity.arch))]
    unfit = only_proprietary(identity.gpus) if desired.flavour == "open" else only_open(identity.gpus)
    if not unfit:
        return []
    other = "proprietary" if desired.flavour == "open" else "open"
    return [Problem(NAME, "gpu_driver_flavour", "the %s kernel modules do not drive %s (%s); allowed on this node: %s" % (
        desired.flavour, some(tuple("%s (%s)" % (gpu.pci, gpu.device_id) for gpu in unfit)), GPU_SOURCE, other))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if desired.wanted is None:
        return []
    if observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    changes = package_changes(desired, observed)
    found = hold_conflicts(NAME, changes, observed.holds)
    for state in observed.daemons:
        found += masked_problem(NAME, state)
    disk = observed.disk.version
    if not changes and desired.live and desired.wanted and disk is not None and desired.version not in (None, disk):
        found.append(Problem(NAME, "module nvidia", "the packages are of version %s, the module on disk for kernel %s is %s: DKMS did not "
                             "build it, or another installation's module comes first (modinfo -n nvidia)" % (
                                 desired.version, desired.identity.kernel, disk)))
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.wanted is None:
        return ["gpu_driver: " + desired.reason] if desired.reason else []
    said = []
    if not desired.live:
        said.append("gpu_driver: this is a container, its kernel is the machine's below: the module is neither loaded nor judged")
    if desired.stack is not None and desired.stack not in (observed.installed or {}):
        said.append("gpu_driver: %s is not installed yet; a driver built before it needs nvidia-peermem built again" % desired.stack)
    if not desired.fabricmanager and hides_nvswitches(desired.identity.gpus):
        said.append("gpu_driver: these GPUs sit on boards whose NVSwitches the PCI bus does not show; if this is one, set "
                    "gpu_driver_fabricmanager: true")
    return said


def some(names: Tuple[str, ...]) -> str:
    """The first few of a list that may be long."""
    return ", ".join(names[:4]) + (" and %d more" % (len(names) - 4) if len(names) > 4 else "")
