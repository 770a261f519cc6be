# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver, its fabric manager and its persistence daemon, where the node has a GPU and the inventory names a branch.

A driver is in effect when three things agree: the packages, the module on disk for the running kernel, and the module
that is loaded. Packages are the playbook's; here the rest is planned. What only a reboot can do (nouveau holds the GPUs,
or processes hold the old module) is one external change of class reboot, and nothing that would need the new module is
started before it. In a container the module belongs to the machine below.

A module goes only when nothing uses it. Daemons of NVIDIA's own are stopped and started again; every other process
that has a GPU open makes a reboot the only way, because nobody but its owner may end it.
"""

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue import drivers
from ...catalogue.drivers import GPUS_SOURCE, Wanted, gpu_packages
from ...catalogue.platforms import system_of
from ...catalogue.stacks import vendor_stack
from ...formats.text import first_of
from ...host.host import Host
from ...observe.gpu_driver import DCGM_UNIT, FABRICMANAGER, IMEX_UNIT, PERSISTENCED, Driver, driver_on_disk, loaded_driver, module_loaded
from ...observe.modules import running_modules
from ...observe.packages import Hold, all_installed, held_packages
from ...observe.processes import holders
from ...spec.model import Spec
from ...types import Change, Identity, Op, Problem, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.modules import load_module
from ..common.package_changes import hold_conflicts, missing_database, names_of, plan_packages, plan_removals
from ..common.units import RELOAD, DaemonState, observe_daemon, plan_daemon, systemctl
from ..system import agent

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
IMEX_OPTION = "/etc/modprobe.d/railwright-imex.conf"
IMEX_OPTION_TEXT = HEADER + "options nvidia NVreg_CreateImexChannel0=1\n"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
IMEX_WHY = "CUDA refuses memory of the rack's other nodes without nvidia-imex and a channel of it"
IMEX_SOURCE = "NVIDIA (IMEX guide)"
INITRAMFS = (("update-initramfs", "-u", "-k", "all"), ("dracut", "--force", "--regenerate-all"))
REBOOT = "reboot into the NVIDIA driver"
LOADED = "NVIDIA driver loaded"
SOURCE = "NVIDIA (driver installation guide)"
PERSISTENCE_WHY = "without a process that keeps it awake the driver sets every GPU up anew for each job"
MODULE = "nvidia"
# The units that hold the driver and may be stopped for a moment, with the name that their process shows (15 characters).
HOLDERS = (
    (DCGM_UNIT, "nv-hostengine"),
    (FABRICMANAGER, "nv-fabricmanage"),
    (PERSISTENCED, "nvidia-persiste"),
)
AGENT = ((agent.TIMER, agent.PROCESS), (agent.UNIT, agent.PROCESS))  # looks for a moment each minute, and once more when all is back
LOAD_SECONDS = 180.0  # eight GPUs take 20 s; a firmware that does not answer takes longer
# Which installed driver packages cannot stay beside the wanted ones. Ubuntu and older CUDA repositories have the branch in every package's
# name, and two branches conflict; both flavours of the kernel module conflict everywhere. They are removed as planned changes, not as a
# surprise of the package manager.
_PREFIXES = ("nvidia-", "libnvidia-", "cuda-drivers-", "linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-",
             "xserver-xorg-video-nvidia-")
_BRANCH = re.compile(r"-([4-9][0-9]{2})(?=-|\Z)")
_PROPRIETARY = re.compile(
    r"(?:nvidia-(?:dkms|kernel-source|driver)-[0-9]{3}(?:-server)?|nvidia-kernel-dkms|kmod-nvidia-latest-dkms|cuda-drivers(?:-[0-9]{3})?)\Z")
_OPEN = re.compile(
    r"(?:nvidia-(?:dkms|kernel-source|driver)-[0-9]{3}(?:-server)?-open|nvidia-open(?:-[0-9]{3})?|nvidia-kernel-open-dkms|"
    r"nvidia-open-kernel-dkms|kmod-nvidia-open-dkms)\Z")


class Loaded(NamedTuple):
    """What stands on the loaded module."""

    modules: Tuple[str, ...]  # that use it, directly or not: in the order in which they can go
    units: Tuple[str, ...]  # of ours to stop, that are active
    processes: Tuple[str, ...]  # everybody else's: "python3 (4711)"


class Desired(NamedTuple):
    """``wanted`` None: nothing is wanted, and ``reason`` says why (empty: nothing to say)."""

    identity: Identity
    wanted: Optional[Tuple[Wanted, ...]]
    reason: str
    branch: str
    flavour: str
    version: Optional[str]  # of the driver, as the module prints it; None: whatever the packages bring
    fabricmanager: bool
    imex: bool
    dcgm: bool
    imex_nodes: Tuple[str, ...]  # (): the site writes them
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
    files: Dict[str, FileState]  # of ours, by path
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
        identity, wanted, reason, branch or "", spec["gpu_driver_flavour"], drivers.wanted_driver(spec.as_dict()),
        drivers.wants_fabricmanager(spec, identity), drivers.wants_imex(spec, identity), spec["gpu_driver_dcgm"],
        tuple(spec["gpu_driver_imex_nodes"]),
        spec["gpu_driver_persistence"], not identity.has("container"),
        stack.meta if stack is not None else None)


def observe(host: Host, desired: Desired) -> Observed:
    if desired.wanted is None:
        return Observed(None, (), Driver(None, None), Driver(None, None), False, Loaded((), (), ()), {}, (), None)
    identity = desired.identity
    installed = all_installed(host, identity)
    loaded, disk = loaded_driver(host), driver_on_disk(host, identity.kernel)
    target = desired.version or disk.version
    other = desired.live and loaded.version is not None and target is not None and loaded.version != target
    wishes = ((PERSISTENCED, desired.persistence), (FABRICMANAGER, desired.fabricmanager), (IMEX_UNIT, desired.imex),
              (DCGM_UNIT, desired.dcgm))
    units = [unit for unit, wanted in wishes if wanted]
    names = names_of(desired.wanted) + tuple(stale_packages(installed or {}, names_of(desired.wanted), desired.branch, desired.flavour))
    standing = Loaded((), (), ())
    if other:  # looks through every process: only where it matters
        active = [row for row in AGENT[:1] + HOLDERS if host.run(("systemctl", "is-active", row[0])).out.strip() == "active"]
        active = list(AGENT) + active[1:] if AGENT[0] in active else active
        others = [found for found in holders(host, lambda path: path.startswith("/dev/nvidia"))
                  if found.rpartition(" ")[0] not in [process for _unit, process in active]]
        standing = Loaded(tuple(users_of(host, MODULE)), tuple(unit for unit, _process in active), tuple(others))
    return Observed(
        installed, held_packages(host, identity, names), loaded, disk, bool(module_loaded(host, "nouveau")),
        standing, {path: observe_file(host, path) for path in (BLACKLIST, DROPIN, IMEX_OPTION, IMEX_NODES)},
        tuple(observe_daemon(host, unit) for unit in units),
        next((command for command in INITRAMFS if host.which(command[0]) is not None), None),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if desired.wanted is None or observed.installed is None:
        return []
    changes = package_changes(desired, observed)
    rebuild = (run(observed.initramfs, seconds=1200.0),) if observed.initramfs is not None and desired.live else ()
    changes += plan_file(NAME, observed.files[BLACKLIST], BLACKLIST_TEXT, "nouveau would take the GPUs before the NVIDIA driver "
                         "can, from the initramfs on", SOURCE + ": disable nouveau", then=rebuild)
    if desired.imex:
        changes += plan_file(NAME, observed.files[IMEX_OPTION], IMEX_OPTION_TEXT, IMEX_WHY + "; the driver makes that when it loads",
                             IMEX_SOURCE)
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
        why = "nouveau drives the GPUs and lets go of them only at a reboot"
        return [Change(NAME, REBOOT, "nouveau", target, "reboot", why, SOURCE, ())]
    if before is None:
        return [Change(NAME, LOADED, None, target, "none", "nothing can use the GPUs without it", SOURCE,
                       (load_module(MODULE, LOAD_SECONDS),))]
    if target is None:
        return []
    if observed.standing.processes:
        return [Change(NAME, REBOOT, before, target, "reboot", "the older module stays loaded while processes use the GPUs: " + first_of(
            observed.standing.processes, 4), SOURCE, ())]
    why = "the loaded module is not of the installed version: new programs fail with a driver/library version mismatch"
    return [Change(NAME, LOADED, before, target, "reload", why, SOURCE, reload_ops(observed.standing))]


def daemon_changes(desired: Desired, observed: Observed, *, waiting: bool) -> List[Change]:
    """``waiting``: for a reboot; until then the daemons would only fail. In a container they run where the machine below has the driver."""
    changes: List[Change] = []
    running = not waiting and (desired.live or observed.loaded.version is not None)
    for state in observed.daemons:
        if state.unit == PERSISTENCED and desired.identity.platform.id == "ubuntu":
            again = (run(("systemctl", "restart", state.unit)),) if state.active else ()
            changes += plan_file(NAME, observed.files[DROPIN], DROPIN_TEXT, PERSISTENCE_WHY + "; Ubuntu's unit starts it with "
                                 "--no-persistence-mode", "Ubuntu (nvidia-persistenced.service)", then=(RELOAD,) + again,
                                 disruption="restart" if again else "none")
        if state.unit == IMEX_UNIT and desired.imex_nodes:
            again = (run(("systemctl", "restart", state.unit)),) if state.active else ()
            text = "".join(one + "\n" for one in desired.imex_nodes)
            changes += plan_file(NAME, observed.files[IMEX_NODES], text, "the nodes of a rack find each other by this list", IMEX_SOURCE,
                                 then=again, disruption="restart" if again else "none")
        why, source = _DAEMONS[state.unit]
        changes += plan_daemon(NAME, state, why, source, running=running)
    return changes


_DAEMONS = {
    PERSISTENCED: (PERSISTENCE_WHY, "NVIDIA (driver persistence)"),
    FABRICMANAGER: ("the NVSwitches carry no traffic until the fabric manager has set them up; it must have exactly the driver's version",
                    "NVIDIA (Fabric Manager user guide)"),
    IMEX_UNIT: (IMEX_WHY, IMEX_SOURCE),
    DCGM_UNIT: ("without its daemon nobody watches the GPUs between two looks", "NVIDIA (DCGM installation)"),
}


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    """GPUs that the wanted kind of kernel module does not drive, and systems for which nothing is known."""
    if desired.wanted is None:
        return []
    if not desired.wanted:
        return [Problem(NAME, "gpu_driver_branch", "no packages of branch %s are known for %s; allowed: another gpu_driver_source, or "
                        "leave it unset" % (desired.branch, system_of(identity)))]
    unfit = drivers.only_proprietary(identity.gpus) if desired.flavour == "open" else drivers.only_open(identity.gpus)
    if not unfit:
        return []
    other = "proprietary" if desired.flavour == "open" else "open"
    return [Problem(NAME, "gpu_driver_flavour", "the %s kernel modules do not drive %s (%s); allowed on this node: %s" % (
        desired.flavour, first_of(["%s (%s)" % (gpu.pci, gpu.device_id) for gpu in unfit], 4), GPUS_SOURCE, other))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if desired.wanted is None:
        return []
    if observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    changes = package_changes(desired, observed)
    found = hold_conflicts(NAME, changes, observed.holds)
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
    unread = desired.identity.unread_functions
    if not desired.fabricmanager and unread and drivers.hides_nvswitches(desired.identity.gpus):
        said.append("gpu_driver: these GPUs sit on boards whose NVSwitches the PCI bus does not show, and the VPD of %s, which would tell, "
                    "cannot be read; if this is one, set gpu_driver_fabricmanager: true" % first_of(unread, 4))
    return said


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


def reload_ops(loaded: Loaded) -> Tuple[Op, ...]:
    """Stop, unload, load what is on disk now, start again; each with its undo.

    Not by modprobe -r: with nvidia_peermem it would take modules of the RDMA stack that nothing else uses.
    """
    gone = loaded.modules + (MODULE,)
    back = gone[::-1]
    ops = [systemctl("stop", unit, LOAD_SECONDS) for unit in loaded.units]
    ops.append(run(("rmmod",) + gone, tuple(("modprobe", name) for name in back), LOAD_SECONDS))
    ops += [load_module(name, LOAD_SECONDS) for name in back]
    return tuple(ops + [systemctl("start", unit, LOAD_SECONDS) for unit in loaded.units[::-1]])


def stale_packages(installed: Mapping[str, str], wanted: Sequence[str], branch: str, flavour: str) -> List[str]:
    """Names of what must go before ``wanted`` can come."""
    other = _PROPRIETARY if flavour == "open" else _OPEN
    found = []
    for name in sorted(installed):
        own = _BRANCH.search(name) if name.startswith(_PREFIXES) else None
        if name not in wanted and (other.match(name) or (own is not None and own.group(1) != branch)):
            found.append(name)
    return found
