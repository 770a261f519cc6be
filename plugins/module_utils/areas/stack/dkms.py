# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that DKMS builds: those of the stack and of the GPU driver must be installed for the running kernel, or the pinned one.

One change for each set (the stack, the GPU driver …), whose name carries no version: the plan is made before packages bring the
modules, and what DKMS then still has to do must have been in it. Where a package's own scripts have built everything, the change is
gone by the time it would be applied. A pinned kernel that does not run yet is the same case: its packages' hooks
build. The stack comes first, since the GPU driver's peer memory module is built against it.
"""

import re
import warnings
from functools import cmp_to_key, partial
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import gpu_packages
from ...catalogue.stacks import DKMS, VendorStack, has_nvidia_hca, keeps_stack, vendor_stack
from ...formats.sysfs_values import key_values
from ...formats.versions import compare, matches
from ...host.host import Host
from ...observe.boot import Boot, observe_boot
from ...observe.dkms import ADDED, BROKEN, ERDMA, GDRCOPY, GPU_DRIVER, INSTALLED, SOURCES, Build, builds_for, dkms_builds
from ...observe.modules import module_path
from ...observe.packages import query_packages
from ...observe.stack import CORE, FOREIGN_PATH
from ...spec.model import Spec
from ...types import Change, Identity, Op, Problem
from ..common.modules import dkms_install, dkms_remove
from ..kernel.kernel_guard import guard_problems

NAME = "dkms"
SOURCE = "dkms(8); AZ (check_dkms_status: installed for the running kernel, else the tail of make.log)"
STACK_MODULES = frozenset(name for names in DKMS.values() for name in names)
# In the order of building: each set may need the symbols of the one before. nv_peer_mem is for area gpudirect, which knows if it is wanted.
SETS = (
    ("GPU driver", GPU_DRIVER, "without it no GPU works after this"),
    ("GDRCopy", GDRCOPY, "it copies to and from GPU memory without the driver's help, and is gone without its module"),
    ("eRDMA", ERDMA, "eRDMA has no other driver in the OFED mode"),
)


class Desired(NamedTuple):
    """``stack`` is None where no vendor's stack is wanted; ``gpu`` holds (package, version glob) of the wanted driver."""

    identity: Identity
    stack: Optional[VendorStack]
    gpu: Tuple[Tuple[str, Optional[str]], ...]
    signed: bool  # what is to be built is signed by the distribution
    live: bool
    kept: bool = False  # a vendor's stack that is there is left alone, and has to go on working
    pinned: Optional[str] = None  # rdma_kernel_version

    @property
    def kernel(self) -> str:
        """What is built for."""
        return self.pinned or self.identity.kernel

    @property
    def awaited(self) -> bool:
        """That kernel is not running yet: area ``kernel`` brings it, and a reboot."""
        return self.kernel != self.identity.kernel


class Observed(NamedTuple):
    builds: Tuple[Build, ...]
    unfit: Tuple[Tuple[str, str], ...]  # (module, version) that its own dkms.conf does not mean for this kernel
    boot: Boot
    installed: Optional[Dict[str, str]]  # of the packages that bring modules; None: the database cannot be read
    prebuilt: bool  # mlx5_core on disk is a vendor's, whoever built it


class ModuleSet(NamedTuple):
    """What belongs together. ``pending``: packages that bring these modules are still to come, or to change."""

    title: str
    builds: Tuple[Build, ...]  # newest version of each module, in its state for the running kernel
    pending: Optional[str]
    why: str


def desired(spec: Spec, identity: Identity) -> Desired:
    gpu = tuple((row.name, row.version) for row in gpu_packages(spec, identity))
    stack = vendor_stack(spec, identity)
    # Ubuntu signs the modules of its own driver packages, unless they are the DKMS ones.
    signed = stack is None and spec["gpu_driver_source"] == "distribution" and identity.platform.id == "ubuntu" and not any(
        "dkms" in name for name, _version in gpu)
    return Desired(identity, stack, gpu, signed, not identity.has("container"), keeps_stack(spec), spec["kernel_version"])


def observe(host: Host, desired: Desired) -> Observed:
    kernel, running = desired.kernel, desired.identity.kernel
    if not desired.live:
        return Observed((), (), Boot(running, (), None, None, "", (), None, None, None), None, False)
    builds = dkms_builds(host)
    unfit = {(build.module, build.version) for build in builds if not _meant_for(host, build, kernel)}
    names = [name for name, _version in desired.gpu] + ([desired.stack.meta] if desired.stack is not None else [])
    path = module_path(host, kernel, CORE)
    return Observed(
        builds, tuple(sorted(unfit)), observe_boot(host, running), query_packages(host, desired.identity, names),
        path is not None and FOREIGN_PATH.search(path) is not None)


def _meant_for(host: Host, build: Build, kernel: str) -> bool:
    pattern = key_values(host.read("%s/%s-%s/dkms.conf" % (SOURCES, build.module, build.version))).get("BUILD_EXCLUSIVE_KERNEL")
    if pattern is None or len(kernel) > 64 or not _is_plain(pattern):  # uname(2) has room for 64
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return re.search(pattern, kernel) is not None
        except (re.error, Warning):  # bash's patterns are not quite Python's: dkms decides then
            return True


def _is_plain(pattern: str) -> bool:
    """A package wrote the pattern, and there are some that Python tries for years: a few repeats, none of a group, and some choices."""
    repeats = sum(pattern.count(letter) for letter in "*+?{")
    return repeats <= 3 and pattern.count("|") <= 12 and not any(")" + letter in pattern for letter in "*+{")


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes = _removed(desired, observed)
    for group in module_sets(desired, observed):
        wrong = [build for build in group.builds if build.state != INSTALLED]
        if not wrong and group.pending is None:
            continue
        before = {build.module: "%s, %s" % (build.version, build.state) for build in group.builds} or None
        after = {build.module: "%s, %s" % (build.version, INSTALLED) for build in group.builds} if group.pending is None else group.pending
        # Before the packages have come it is for their scripts to build (no ops: not apply's to make); after them for us, if they did not.
        ready = group.pending is None and not desired.awaited
        ops = [_install(build, desired.kernel) for build in wrong] if ready else []
        what = "modules of the %s built for %s" % (group.title, desired.kernel)
        changes.append(Change(NAME, what, before, after, "none", group.why, SOURCE, tuple(ops)))
    return changes


def module_sets(desired: Desired, observed: Observed) -> List[ModuleSet]:
    if not desired.live:
        return []
    found: List[ModuleSet] = []
    stack = desired.stack
    rows = _rows(desired, observed, STACK_MODULES.__contains__)
    if stack is not None:
        pending = None if stack_installed(stack, observed.installed, desired.identity) else "%s %s" % (stack.name, stack.release)
        why = "the stack's modules are built for one kernel and missing under every other"
        found.append(ModuleSet(stack.name + " stack", rows, pending, why))
    elif desired.kept:
        why = "it stays, and its modules are missing under every kernel that they were not built for"
        found.append(ModuleSet("stack that is there", rows, None, why))
    for title, pattern, why in SETS:
        pending = _gpu_pending(desired, observed) if title == "GPU driver" else None
        found.append(ModuleSet(title, _rows(desired, observed, pattern.match), pending, why))
    return found


def stack_installed(stack: VendorStack, installed: Optional[Dict[str, str]], identity: Identity) -> bool:
    """Whether the stack's meta package has the wanted release; an unreadable database promises nothing either way."""
    if installed is None:
        return True
    version = installed.get(stack.meta)
    return version is not None and matches(version, stack.version, identity.platform.family)


def _gpu_pending(desired: Desired, observed: Observed) -> Optional[str]:
    if observed.installed is None:
        return None
    for name, version in desired.gpu:
        found = observed.installed.get(name)
        if found is None or (version is not None and not matches(found, version, desired.identity.platform.family)):
            return "%s %s" % (name, version or "")
    return None


def _rows(desired: Desired, observed: Observed, belongs: Any) -> Tuple[Build, ...]:
    """The newest registered version of each module of a set, for the running kernel; ADDED where it was built for others only."""
    kernel = desired.kernel
    rows: List[Build] = []
    core = [names[0] for names in DKMS.values()]  # of a stack, before what is built against it
    modules = {build.module for build in observed.builds if belongs(build.module)}
    for module in sorted(modules, key=lambda name: (name not in core, name)):
        versions = {build.version for build in observed.builds if build.module == module and (module, build.version) not in observed.unfit}
        if not versions:
            continue
        newest = max(versions, key=cmp_to_key(partial(compare, family="debian")))  # no epoch in them, so both rules agree
        gone = [build for build in observed.builds if build[:3] == (module, newest, None) and build.state == BROKEN]
        here = [build for build in builds_for(observed.builds, kernel, module) if build.version == newest]
        rows.append((gone or here or [Build(module, newest, None, None, ADDED)])[0])
    return tuple(rows)


def _install(build: Build, kernel: str) -> Op:
    """--force where DKMS takes it for installed and the files are gone.

    eRDMA's driver always by force: the kernel may have one of that name, and DKMS does not replace it where neither has a version.
    """
    force = ("--force",) if build.state == BROKEN or ERDMA.match(build.module) else ()
    return dkms_install("%s/%s" % (build.module, build.version), kernel, *force)


def _removed(desired: Desired, observed: Observed) -> List[Change]:
    """Modules of a vendor's stack that stay registered where none is wanted."""
    if desired.stack is not None or desired.kept or not desired.live:
        return []
    builds = [build for build in observed.builds if build.module in STACK_MODULES and (build.kernel is not None or build.state == ADDED)]
    ops: List[Op] = []
    for module, version in sorted({(build.module, build.version) for build in builds}):
        kernels = [build.kernel for build in builds if (build.module, build.version, build.state) == (module, version, INSTALLED)]
        ops.append(dkms_remove("%s/%s" % (module, version), kernels))
    before = {build.module: "%s, %s" % (build.version, build.state) for build in builds}
    return [Change(NAME, "modules of a vendor's stack removed", before, None, "none", "the next boot would load them in place of the "
                   "kernel's own, with libraries that do not fit", SOURCE, tuple(ops))] if builds else []


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """The kernel guard, where there is something to build; and modules that cannot be built at all."""
    if not desired.live:
        return []
    sets = module_sets(desired, observed)
    groups = [group for group in sets if group.pending is not None or any(row.state != INSTALLED for row in group.builds)]
    found = guard_problems(NAME, observed.boot, desired.identity.platform, desired.signed, desired.pinned) if groups else []
    found += [
        Problem(NAME, "DKMS %s/%s" % (build.module, build.version), "its source %s/%s-%s is gone, so that it can be neither built nor "
                "removed; install its package anew" % (SOURCES, build.module, build.version))
        for group in groups if group.pending is None for build in group.builds if build.state == BROKEN and build.kernel is None]
    return found + _nothing_built(desired, observed)


def _nothing_built(desired: Desired, observed: Observed) -> List[Problem]:
    """The stack is installed and has no driver for this kernel: neither DKMS nor a prebuilt package brought one."""
    if desired.stack is None or observed.installed is None or not stack_installed(desired.stack, observed.installed, desired.identity):
        return []
    if desired.awaited:  # a prebuilt package for that kernel may come with it
        return []
    if observed.prebuilt or any(build.module in STACK_MODULES for build in observed.builds) or not has_nvidia_hca(desired.identity):
        return []
    meta = desired.stack.meta
    return [Problem(NAME, "stack " + desired.stack.name, "%s %s is installed and has no %s for kernel %s: DKMS knows none of its modules, "
                    "and no prebuilt one fits; install its DKMS packages, or a kernel that it was built for" % (
                        meta, observed.installed[meta], CORE, desired.kernel))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if not desired.live:
        wanted = desired.stack is not None or bool(desired.gpu)
        return ["dkms: this is a container, kernel modules belong to the machine below; none is built or judged here"] if wanted else []
    return ["dkms: %s/%s is not meant for kernel %s (BUILD_EXCLUSIVE_KERNEL), it is left alone" % (module, version, desired.kernel)
            for module, version in observed.unfit]
