# SPDX-License-Identifier: GPL-3.0-or-later
"""How the HCAs reach GPU memory: DMA-BUF, nvidia_peermem or nv_peer_mem, decided, set up and kept.

DMA-BUF needs nothing: the path is there when driver and kernel have it. A peer memory module must be loaded now, at every
boot, and again after every restart of openibd, which unloads the RDMA core below it; and it must have been built after the
stack and against it. Before the GPU driver and the stack are there the plan is made for those that the inventory asks for,
so that it does not change when they have come. Files of ours that a former choice needed are taken away again.
"""

import fnmatch
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.artifacts import Source, source_of
from ...catalogue.stacks import VendorStack, vendor_stack
from ...formats import sysfs_values
from ...host.host import Host
from ...observe.dkms import INSTALLED, Build, builds_for, dkms_builds
from ...observe.gpu_driver import driver_on_disk, loaded_driver, module_loaded
from ...observe.gpudirect import OTHER_STACK, WITHOUT_CLIENT, observe_gpudirect
from ...observe.modules import loaded_modules
from ...observe.packages import family_names, query_packages
from ...observe.processes import unit_installed
from ...observe.stack import observe_stack
from ...rules.gpudirect import DMABUF, MODULES, NONE, NV_PEER_MEM, PEERMEM, Choice, choose_path
from ...spec.model import Spec
from ...types import DRIVER, MODULE, Change, Identity, Problem, Subject, run
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file
from ..common.modules import dkms_add, dkms_install, dkms_rebuild, load_module, loaded_module, source_problems
from ..common.units import RELOAD
from .gpudirect_evidence import Wants, evidence_of, wants_of

NAME = "gpudirect"
ARTIFACTS = {"1.0-9": "nv_peer_mem", "1.3-0": "nv_peer_mem-1.3"}  # sources by release
BOOT_FILE = "/etc/modules-load.d/nvidia-peermem.conf"
DROP_IN = "/etc/systemd/system/openibd.service.d/railwright-peermem.conf"
SOURCE = "AZ (setup_sku_customizations.sh: modules-load.d and openibd drop-in); NVIDIA (nvidia-peermem)"
WHY_LOADED = "without it the HCAs cannot reach GPU memory, and every message goes through the CPU's memory"
WHY_ORDER = "nvidia_peermem was built before this RDMA stack, or against another one: it cannot register with ib_core"
ORDER_SOURCE = "NVIDIA (nvidia-peermem: build the driver after OFED); nv_peer_memory issues 28, 79, 84"


class Desired(NamedTuple):
    """``idle``: why there is nothing to set up on this node, whatever is found on it."""

    wants: Wants
    idle: Optional[str]
    live: bool  # modules are this node's own: it is no container
    stack: Optional[VendorStack]  # that the inventory wants; it brings openibd
    sources: Mapping[str, Optional[Source]]  # of nv_peer_mem, by release
    identity: Identity


class Observed(NamedTuple):
    choice: Choice
    facts: Mapping[str, Any]  # gpudirect, gpu_driver and stack, as in the facts object
    boot: FileState
    drop_in: FileState
    openibd: bool
    ready: bool  # the module could be loaded now: no other driver holds the GPUs, and none that waits for a reboot
    builds: Tuple[Build, ...]
    sources: bool  # nv_peer_mem's source is where DKMS looks for it
    unbuilt: Optional[str] = None  # the driver that DKMS has, while this kernel has none: its modules are still to be built


def desired(spec: Spec, identity: Identity) -> Desired:
    wants = wants_of(spec, identity)
    idle = "this node has no NVIDIA GPU" if not wants.known.gpus else None if wants.known.hcas else "this node has no RDMA device"
    sources = {release: source_of(name, spec) for release, name in ARTIFACTS.items()}
    return Desired(wants, idle, not identity.has("container"), vendor_stack(spec, identity), sources, identity)


def observe(host: Host, desired: Desired) -> Observed:
    facts = {} if desired.idle is not None else observe_evidence(host, desired.identity)
    choice = choose_path(evidence_of(desired.wants, facts)[0], desired.wants.path)
    loaded, disk = (facts.get("gpu_driver") or {}).get("version"), (facts.get("gpu_driver") or {}).get("disk_version")
    coming = desired.wants.known.driver or disk
    registered = _of_driver(dkms_builds(host)) if desired.idle is None and coming is None and loaded is None else []
    return Observed(
        choice, facts, observe_file(host, BOOT_FILE), observe_file(host, DROP_IN), unit_installed(host, "openibd.service"),
        module_loaded(host, "nouveau") is not True and (loaded is None or loaded == coming),
        dkms_builds(host) if choice.path in MODULES else (),
        choice.release is not None and host.exists(directory(choice.release) + "/dkms.conf"),
        "%s/%s" % registered[-1][:2] if registered else None)


def observe_evidence(host: Host, identity: Identity) -> Dict[str, Any]:
    """The part of the facts object that the choice needs, in its form."""
    modules = loaded_modules(host)
    loaded, disk = loaded_driver(host), driver_on_disk(host, identity.kernel)
    packages = query_packages(host, identity, family_names(identity))
    return {
        "gpudirect": observe_gpudirect(host, identity.kernel or None, modules, len(identity.gpus)),
        "gpu_driver": {"version": loaded.version, "flavour": loaded.flavour, "disk_version": disk.version, "disk_flavour": disk.flavour},
        "stack": observe_stack(host, identity.kernel or None, packages),
    }


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if observed.unbuilt is not None:
        return []  # which path it is to be is asked again with the driver that the area dkms builds
    path = observed.choice.path if desired.idle is None and observed.choice.problem is None else NONE
    then = (RELOAD,) if desired.identity.has("systemd") else ()
    if path not in MODULES:
        why = "the choice fell on %s: it would load a module that nobody needs" % observed.choice.path
        return forget_file(NAME, observed.boot, why, SOURCE) + forget_file(NAME, observed.drop_in, why, SOURCE, then)
    module = MODULES[path]
    changes = plan_file(NAME, observed.boot, HEADER + module + "\n", "a module that is loaded by hand is gone after a reboot", SOURCE)
    if desired.stack is not None or observed.openibd:
        # The dash: without a GPU driver the modprobe fails, and openibd must come up all the same.
        text = HEADER + "[Service]\nExecStartPost=-/sbin/modprobe %s\n" % module
        changes += plan_file(NAME, observed.drop_in, text, "openibd unloads the RDMA core and everything on top of it; nobody else loads "
                             "the module again", SOURCE, then=then)
    if not desired.live:
        return changes
    kernel, seen = desired.wants.known.kernel, observed.facts["gpudirect"]
    if path == NV_PEER_MEM:
        state = (seen["peermem_build"] or {}).get("state")
        changes += plan_nv_peer_mem(dkms_version(str(observed.choice.release)), kernel, observed.builds, state)
    elif must_rebuild(desired, observed):
        build = nvidia_build(observed, kernel)
        if build is not None:
            return changes + plan_rebuild(build, kernel, seen, _loads(observed, module))
    return changes + _plan_module(module, observed)


def _plan_module(module: str, observed: Observed) -> List[Change]:
    """Loaded, and known to ib_core: a module that was loaded before the stack was exchanged is only half there."""
    seen = observed.facts["gpudirect"]
    if _loads(observed, module):
        return [loaded_module(NAME, module, WHY_LOADED, SOURCE)]
    if seen["peermem_module"] == module and seen["peermem_registered"] is False:
        unload = run(("modprobe", "-r", module), (("modprobe", module),))
        return [Change(NAME, "module %s registered with ib_core" % module, False, True, "reload", WHY_LOADED, SOURCE,
                       (unload, load_module(module)), Subject(MODULE, module))]
    return []


def _loads(observed: Observed, module: str) -> bool:
    """Not loaded yet, and it can be now; where the driver waits for a reboot the module comes with that."""
    return observed.facts["gpudirect"]["peermem_module"] != module and observed.ready


def must_rebuild(desired: Desired, observed: Observed) -> bool:
    """The driver's modules lie there built against another stack than the one that is there, or will be, and the driver stays."""
    driver = _driver_on_disk(observed)
    if driver is None or desired.wants.known.driver not in (None, driver):
        return False  # the package that brings the driver builds it, after the stack
    build = observed.facts["gpudirect"]["peermem_build"] or {}
    if build.get("state") in (WITHOUT_CLIENT, OTHER_STACK) or desired.stack is None:
        return build.get("state") in (WITHOUT_CLIENT, OTHER_STACK)
    found = observed.facts["stack"]  # which the package step of this plan may exchange
    return found.get("name") != desired.stack.name or not fnmatch.fnmatchcase(found.get("version") or "", desired.stack.version)


def _driver_on_disk(observed: Observed) -> Optional[str]:
    return sysfs_values.token(observed.facts["gpu_driver"]["disk_version"])


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """A path that the inventory asks for and that cannot work here, or one that cannot be set up."""
    if desired.idle is not None or observed.unbuilt is not None:
        return []
    choice = observed.choice
    if choice.problem is not None:
        return [Problem(NAME, "gpudirect_path", choice.problem)]
    if choice.path == NV_PEER_MEM and desired.live and not observed.sources:
        release = str(choice.release)
        return source_problems(NAME, "nv_peer_mem", desired.sources.get(release), release)
    if choice.path != PEERMEM or not desired.live or not must_rebuild(desired, observed):
        return []
    if nvidia_build(observed, desired.wants.known.kernel) is not None:
        return []
    build = observed.facts["gpudirect"]["peermem_build"] or {}
    return [Problem(NAME, "nvidia_peermem", "%s was built before this RDMA stack or against another one, and DKMS has no source of driver "
                    "%s to build it again; install the driver as DKMS package (gpu_driver_branch), after the stack" % (
                        build.get("file") or "the module", _driver_on_disk(observed)))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.idle is not None:
        return ["gpudirect: %s; nothing to set up" % desired.idle]
    if observed.unbuilt is not None:
        return ["gpudirect: left as it is: kernel %s has no GPU driver yet, DKMS has %s to build" % (
            desired.wants.known.kernel, observed.unbuilt)]
    choice, seen = observed.choice, observed.facts["gpudirect"]
    found = []
    if choice.path == NONE:
        found.append("gpudirect: nothing is set up: %s" % choice.reason)
    if choice.path in MODULES and not desired.live:
        found.append("gpudirect: this is a container, modules cannot be loaded here; only files are managed")
    if choice.path in MODULES and desired.live and not observed.ready:
        found.append("gpudirect: %s is loaded by the next boot: another driver holds the GPUs until then" % MODULES[choice.path])
    if choice.path == DMABUF and seen["peermem_module"] is not None and seen["peermem_registered"] is False:
        found.append("gpudirect: %s is loaded and not registered; DMA-BUF does not need it, but NCCL takes it for a working path: "
                     "unload it" % seen["peermem_module"])
    return found


def _of_driver(builds: Sequence[Build]) -> List[Build]:
    """nvidia, nvidia-open, nvidia-current-open … by distribution; two others begin like the driver and are none."""
    return [build for build in builds if build.module.startswith("nvidia") and build.module not in ("nvidia-fs", "nvidia-peer-memory")]


def nvidia_build(observed: Observed, kernel: str) -> Optional[Build]:
    """The DKMS module of the installed driver."""
    driver = _driver_on_disk(observed)
    return next((build for build in _of_driver(builds_for(observed.builds, kernel)) if build.version == driver), None)


def plan_rebuild(build: Build, kernel: str, seen: Mapping[str, Any], loads: bool) -> List[Change]:
    """Build the driver's modules again. One that is loaded and works stays; one that is loaded and useless is exchanged."""
    module = MODULES[PEERMEM]
    ops = dkms_rebuild("%s/%s" % (build.module, build.version), kernel)
    useless = seen["peermem_module"] == module and seen["peermem_registered"] is False
    if useless:
        ops = ops + (run(("modprobe", "-r", module), (("modprobe", module),)), load_module(module))
    elif seen["peermem_module"] == module:
        # Nothing to do while it is loaded; a restart of the stack in the same apply has unloaded it, and its old build does not come back.
        ops = ops + (run(("modprobe", module)),)
    before = (seen["peermem_build"] or {}).get("state")
    changes = [Change(NAME, "modules of the GPU driver built for this RDMA stack", before, "fits", "reload" if useless else "none",
                      WHY_ORDER, ORDER_SOURCE, ops)]
    if loads:
        changes.append(loaded_module(NAME, module, WHY_ORDER, ORDER_SOURCE))
    return changes


def plan_nv_peer_mem(release: str, kernel: str, builds: Sequence[Build], state: Optional[str]) -> List[Change]:
    """Added, built and installed for the running kernel; DKMS builds it for later kernels by itself (AUTOINSTALL)."""
    name = "nv_peer_mem/" + release
    found = [build for build in builds_for(builds, kernel, "nv_peer_mem") if build.version == release]
    unfit = state in (WITHOUT_CLIENT, OTHER_STACK)
    if found and found[0].state == INSTALLED and not unfit:
        return []
    known = any((build.module, build.version) == ("nv_peer_mem", release) for build in builds)
    ops = dkms_rebuild(name, kernel) if unfit and found else (() if known else (dkms_add(name),)) + (dkms_install(name, kernel),)
    before = found[0].state if found else None
    return [Change(NAME, "DKMS module %s for kernel %s" % (name, kernel), state if unfit else before, INSTALLED, "none",
                   WHY_ORDER if unfit else "this driver has no nvidia_peermem of its own; without a build for the running kernel there is "
                   "no path to GPU memory", "nv_peer_memory (README, dkms.conf)", ops, Subject(DRIVER, "nv_peer_mem"))]


def dkms_version(release: str) -> str:
    """PACKAGE_VERSION of the release's dkms.conf: 1.0 of 1.0-9."""
    return release.partition("-")[0]


def directory(release: str) -> str:
    """Where DKMS looks for it."""
    return "/usr/src/nv_peer_mem-" + dkms_version(release)
