# SPDX-License-Identifier: GPL-3.0-or-later
"""The stack's own kernel modules are the ones that run, and openibd brings them up at boot.

Installing or upgrading a stack puts new modules on disk; the old ones run on until openibd restarts or the node reboots. Which ones
run is told by the kernel (``observe/stack``). A restart cuts every RDMA user, so it is a class of its own: ``reload``,
``storage`` where file systems are mounted over RDMA, ``management`` where the node is reached over such an HCA.
"""

import re
from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.stacks import NVIDIA_DRIVERS, VENDOR_STACKS, VendorStack, keeps_stack, vendor_stack
from ...formats import sysfs_values
from ...formats.text import first_of
from ...host.host import Host
from ...observe.dkms import INSTALLED, dkms_builds
from ...observe.modules import module_path
from ...observe.packages import query_packages
from ...observe.processes import unit_installed
from ...observe.stack import CORE, FOREIGN_PATH, INBOX, StackModule, observe_modules, origin
from ...observe.storage import RdmaStorage, rdma_storage
from ...rules.gpudirect import MODULES as PEER_MODULES
from ...spec.model import Spec
from ...types import Change, Identity, Op, Problem, run
from ..common import initramfs
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file
from ..common.units import RELOAD, enabled_unit, mask_of, wanting
from .dkms import STACK_MODULES, stack_installed

NAME = "stack"
DROPIN = "/etc/systemd/system/openibd.service.d/railwright.conf"
OF_SCRIPTS = "/run/systemd/generator.late"  # units that systemd makes of old init scripts
RESTART_SECONDS = 600.0  # sixteen functions, each loads its firmware pages
SOURCE = "NVIDIA (openibd restart after an installation)"
DROPIN_SOURCE = "AZ (openibd races udev at boot)"
HELD = ("the fabric manager and the NVLink subnet manager hold ib_umad and manage the NVSwitches over %s: a restart of %s would fail "
        "half-way, or take the GPUs' fabric down")


class Desired(NamedTuple):
    identity: Identity
    stack: Optional[VendorStack]
    reboot: bool  # new modules come into use by a reboot
    live: bool
    kept: bool = False  # no stack is wanted by name, and one that is there stays


class Observed(NamedTuple):
    modules: Tuple[StackModule, ...]
    hardware: bool  # an NVIDIA NIC is on the PCI bus, with or without a driver
    unbound: bool  # one of them has no driver
    installed: bool  # the wanted release, by its meta package
    building: bool  # DKMS has the stack's modules, and not for the running kernel
    storage: Tuple[RdmaStorage, ...]
    peermem: Optional[Tuple[str, int]]  # loaded peer memory module and its reference count
    unit: bool  # openibd.service is there
    enabled: bool
    dropin: FileState
    systemd: Optional[int]
    image: Optional[str]  # of the initramfs of the running kernel, where its mlx5_core is not the one on disk


def desired(spec: Spec, identity: Identity) -> Desired:
    by_reboot = spec["rdma_stack_activation"] == "reboot"
    return Desired(identity, vendor_stack(spec, identity), by_reboot, not identity.has("container"), keeps_stack(spec))


def observe(host: Host, desired: Desired) -> Observed:
    dropin = observe_file(host, DROPIN)
    if not desired.live or (desired.kept and desired.stack is None):
        return Observed((), False, False, True, False, (), None, False, False, dropin, None, None)
    kernel, stack = desired.identity.kernel, desired.stack
    installed = stack is None or stack_installed(stack, query_packages(host, desired.identity, [stack.meta]), desired.identity)
    unit = stack.unit if stack is not None else VENDOR_STACKS[0].unit
    path = module_path(host, kernel, CORE)
    waiting = not installed or (path is not None and FOREIGN_PATH.search(path) is not None)
    nics = _nics(host)
    builds = [build for build in dkms_builds(host) if build.module in STACK_MODULES]
    built = {build.module for build in builds if (build.kernel, build.state) == (kernel, INSTALLED)}
    systemd = re.match(r"systemd ([0-9]{1,18})", host.run(("systemctl", "--version"), 10.0).out) if stack is not None else None
    return Observed(
        observe_modules(host, kernel), bool(nics), any(host.readlink(nic + "/driver") is None for nic in nics), installed,
        any(build.module not in built for build in builds), tuple(rdma_storage(host)), loaded_peermem(host),
        unit_installed(host, unit, OF_SCRIPTS), is_enabled(host, unit), dropin,
        int(systemd.group(1)) if systemd else None, _image(host, desired, path, installed) if stack is None or waiting else None)


def _image(host: Host, desired: Desired, path: Optional[str], installed: bool) -> Optional[str]:
    """An image is listed only where something of a vendor's is there, wanted or not: that takes seconds."""
    if desired.stack is not None:
        return initramfs.outdated(host, desired.identity, CORE, path, not installed)
    if origin(observe_modules(host, desired.identity.kernel)) in (None, INBOX):
        return None
    return initramfs.with_foreign(host, desired.identity, CORE)


def _nics(host: Host) -> List[str]:
    """Network controllers of NVIDIA's: not other functions of a BlueField, nor virtual functions, which may well wait for a guest."""
    paths = ["/sys/bus/pci/devices/" + name for name in host.listdir("/sys/bus/pci/devices")]
    return [path for path in paths if host.line(path + "/vendor") == "0x15b3" and (host.line(path + "/class") or "").startswith("0x02")
            and host.readlink(path + "/physfn") is None]


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.live or (desired.kept and desired.stack is None):
        return []
    if desired.stack is None:
        return _without(desired, observed)
    unit = desired.stack.unit
    text = dropin_text(observed.systemd)
    changes = plan_file(NAME, observed.dropin, text, "openibd starts before udev has found the devices", DROPIN_SOURCE, then=(RELOAD,))
    if not observed.enabled and (observed.unit or not observed.installed):
        changes.append(enabled_unit(NAME, unit, "it loads the stack's modules at boot", SOURCE))
    changes += initramfs.plan_image(NAME, observed.image, desired.identity, CORE)
    return changes + _plan_reload(desired, desired.stack, observed)


def dropin_text(systemd: Optional[int]) -> str:
    text = HEADER + "[Unit]\nWants=systemd-udev-settle.service\nAfter=systemd-udev-settle.service\n"
    if systemd is not None and systemd >= 244:  # before it a oneshot service with Restart= does not load at all
        text += "\n[Service]\nRestart=on-failure\nRestartSec=5\n"
    return text


def needs_reload(observed: Observed) -> bool:
    """Also when packages or builds are still to come and old modules run: the plan must hold what the new ones will need."""
    loaded = [module for module in observed.modules if module.loaded is not None]
    if not observed.installed:
        return bool(loaded) or observed.hardware
    if observed.building and any(not module.foreign for module in loaded):
        return True
    return observed.unbound or any(module.stale and module.foreign for module in loaded)


def state_of(observed: Observed, package_name: Optional[str]) -> str:
    """What runs, in words: ``inbox``, ``doca 25.10-1.7.1; on disk 25.10-2.4.1``, ``not loaded``."""
    core = next((module for module in observed.modules if module.loaded is not None), None)
    if core is None or core.loaded is None:
        return "not loaded"
    words = " ".join(word for word in (origin(observed.modules, package_name), core.loaded[0]) if word)
    if core.stale and core.disk is not None:
        words += "; on disk %s" % (core.disk[0] or INBOX)
    return words


def _without(desired: Desired, observed: Observed) -> List[Change]:
    """Back to the kernel's own modules: nothing unloads a vendor's cleanly once its scripts are gone, so a reboot does it."""
    changes = forget_file(NAME, observed.dropin, "no vendor's stack is wanted here", DROPIN_SOURCE, (RELOAD,))
    changes += initramfs.plan_image(NAME, observed.image, desired.identity, CORE)
    running = origin(observed.modules)
    if running in (None, INBOX):
        return changes
    return [*changes, Change(NAME, "kernel modules of inbox in use", state_of(observed, None), INBOX, "reboot",
                             "the modules of %s stay loaded until a reboot, without the libraries that fit them" % running, SOURCE, ())]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """GPU memory that is registered with an HCA right now: peer memory cannot be unloaded, and openibd would fail half-way."""
    if not desired.live or desired.stack is None or observed.peermem is None or observed.peermem[1] == 0:
        return []
    if all(change.external for change in _plan_reload(desired, desired.stack, observed)):
        return []
    return [Problem(NAME, "module " + observed.peermem[0], "is in use (reference count %d), so the stack under it cannot be restarted: "
                    "stop what uses GPUs over RDMA on this node, or set rdma_stack_activation: reboot" % observed.peermem[1])]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.stack is None:
        return []
    if not desired.live:
        return ["stack: this is a container, which modules run is decided by the machine below; nothing is reloaded here"]
    found: List[str] = []
    unknown = [module.name for module in observed.modules if module.loaded is not None and module.path is not None and module.disk is None]
    if unknown:
        found.append("stack: modinfo says nothing about %s, so whether the loaded ones are those on disk is not known" % ", ".join(unknown))
    if not observed.hardware and observed.installed:
        found.append("stack: no NVIDIA NIC on this node; only loaded modules of %s are inspected" % desired.stack.name)
    return found


def _plan_reload(desired: Desired, stack: VendorStack, observed: Observed) -> List[Change]:
    """The wanted modules are loaded, and they are those on disk. Else who would notice, what has to let go first, and how.

    The heaviest class that applies: management over storage over reload.
    """
    if not needs_reload(observed):
        return []
    what, before, after = "kernel modules of %s in use" % stack.name, state_of(observed, stack.name), "%s %s" % (stack.name, stack.release)
    reboot = _why_reboot(desired, stack, observed)
    if reboot is not None:
        return [Change(NAME, what, before, after, "reboot", reboot, SOURCE, ())]
    disruption = "storage" if observed.storage else "reload"
    why = "the loaded modules are not the stack's on disk; a restart cuts every RDMA user"
    if observed.storage:
        why += "; in use over RDMA: " + first_of(["%s %s" % (item.kind, item.where) for item in observed.storage], 3)
    management = [nic.name for nic in desired.identity.nics if nic.management and nic.driver in NVIDIA_DRIVERS]
    if management:
        disruption, why = "management", "%s; the node is reached over %s, which goes down meanwhile" % (why, first_of(management, 3))
    ops: List[Op] = []
    if observed.peermem is not None:
        ops.append(run(("modprobe", "-r", observed.peermem[0]), (("modprobe", observed.peermem[0]),)))
    # The packages stay whatever becomes of the rest of the transaction, so there is no way back to the modules before.
    ops.append(run(("systemctl", "restart", stack.unit), (("true",),), RESTART_SECONDS))
    return [Change(NAME, what, before, after, disruption, why, SOURCE, tuple(ops))]


def _why_reboot(desired: Desired, stack: VendorStack, observed: Observed) -> Optional[str]:
    """Why the new modules come into use by a reboot alone, or None."""
    switches = desired.identity.switch_functions
    if desired.reboot:
        return "rdma_stack_activation: the new modules come into use by a reboot"
    if switches:  # also where they do not run yet: they may by the time of the apply
        return HELD % (first_of(switches, 4), stack.unit)
    if not observed.unit and observed.installed:
        return "%s is not on this node, so only a reboot brings them in" % stack.unit
    return None


def loaded_peermem(host: Host) -> Optional[Tuple[str, int]]:
    """The peer memory module that is loaded, with its reference count: memory that is registered right now."""
    name = next((name for name in PEER_MODULES.values() if host.exists("/sys/module/" + name)), None)
    return None if name is None else (name, sysfs_values.integer(host.line("/sys/module/%s/refcnt" % name)) or 0)


def is_enabled(host: Host, unit: str) -> bool:
    """By its link below any target: vendors have changed which one. systemctl is asked where there is none (init scripts)."""
    masked = mask_of(host, unit) is not None
    if masked or wanting(host, unit):
        return not masked
    return unit_installed(host, unit, OF_SCRIPTS) and host.run(("systemctl", "is-enabled", unit), 10.0).out.strip() == "enabled"
