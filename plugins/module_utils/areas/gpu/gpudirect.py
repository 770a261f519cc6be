# SPDX-License-Identifier: GPL-3.0-or-later
"""How the HCAs reach GPU memory: DMA-BUF, nvidia_peermem or nv_peer_mem, decided, set up and kept.

DMA-BUF needs nothing: the path is there when driver and kernel have it. A peer memory module must be loaded now, at every
boot, and again after every restart of openibd, which unloads the RDMA core below it; and it must have been built after the
stack and against it. Before the GPU driver and the stack are there the plan is made for those that the inventory asks for,
so that it does not change when they have come. Files of ours that a former choice needed are taken away again.
"""

import fnmatch
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...catalogue.stacks import vendor_stack
from ...formats import sysfs_values
from ...host.host import Host
from ...observe.dkms import Build, dkms_builds
from ...observe.gpu_driver import driver_on_disk, loaded_driver, module_loaded, unit_installed
from ...observe.gpudirect import observe_gpudirect
from ...observe.modules import loaded_modules
from ...observe.packages import family_names, query_packages
from ...observe.peermem_build import OTHER_STACK, WITHOUT_CLIENT
from ...observe.stack import observe_stack
from ...rules.gpudirect import DMABUF, NONE, NV_PEER_MEM, PEERMEM, Choice, choose
from ...spec.model import Spec
from ...types import MODULE, Change, Identity, Problem, Subject, run
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file
from ..common.modules import load, loaded_module
from ..common.units import RELOAD
from .gpudirect_dkms import (
    ARTIFACTS,
    Source,
    directory,
    dkms_version,
    nvidia_build,
    nvidia_registered,
    plan_nv_peer_mem,
    plan_rebuild,
    source_of,
)
from .gpudirect_evidence import Wants, evidence_of, wants_of

NAME = "gpudirect"
BOOT_FILE = "/etc/modules-load.d/nvidia-peermem.conf"
DROP_IN = "/etc/systemd/system/openibd.service.d/railwright-peermem.conf"
OPENIBD = "openibd.service"
SOURCE = "AZ (setup_sku_customizations.sh: modules-load.d and openibd drop-in); NVIDIA (nvidia-peermem)"
WHY_LOADED = "without it the HCAs cannot reach GPU memory, and every message goes through the CPU's memory"
WHY_BOOT = "a module that is loaded by hand is gone after a reboot"
WHY_DROP_IN = "openibd unloads the RDMA core and everything on top of it; nobody else loads the module again"
MODULES = {PEERMEM: "nvidia_peermem", NV_PEER_MEM: "nv_peer_mem"}


class Desired(NamedTuple):
    """``idle``: why there is nothing to set up on this node, whatever is found on it."""

    wants: Wants
    idle: Optional[str]
    live: bool  # modules are this node's own: it is no container
    systemd: bool
    unit: bool  # the stack that the inventory wants brings openibd
    stack_glob: Optional[str]  # of the version of that stack's meta package
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
    idle = "this node has no NVIDIA GPU" if not wants.gpus else None if wants.hcas else "this node has no RDMA device"
    vendor = vendor_stack(spec, identity)
    return Desired(
        wants, idle, not identity.has("container"), identity.has("systemd"), vendor is not None,
        vendor.version if vendor is not None else None, {release: source_of(spec, release) for release in ARTIFACTS}, identity)


def observe(host: Host, desired: Desired) -> Observed:
    facts = {} if desired.idle is not None else observe_evidence(host, desired.identity)
    choice = choose(evidence_of(desired.wants, facts)[0], desired.wants.path)
    loaded, disk = (facts.get("gpu_driver") or {}).get("version"), (facts.get("gpu_driver") or {}).get("disk_version")
    coming = desired.wants.driver or disk
    return Observed(
        choice, facts, observe_file(host, BOOT_FILE), observe_file(host, DROP_IN), unit_installed(host, OPENIBD),
        module_loaded(host, "nouveau") is not True and (loaded is None or loaded == coming),
        dkms_builds(host) if choice.path in MODULES else (),
        choice.release is not None and host.exists(directory(choice.release) + "/dkms.conf"),
        nvidia_registered(dkms_builds(host)) if desired.idle is None and coming is None and loaded is None else None)


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
    if path not in MODULES:
        return _forget(desired, observed)
    module = MODULES[path]
    then = (RELOAD,) if desired.systemd else ()
    changes = plan_file(NAME, observed.boot, HEADER + module + "\n", WHY_BOOT, SOURCE)
    if desired.unit or observed.openibd:
        changes += plan_file(NAME, observed.drop_in, drop_in_text(module), WHY_DROP_IN, SOURCE, then=then)
    if not desired.live:
        return changes
    kernel, seen = desired.wants.kernel, observed.facts["gpudirect"]
    if path == NV_PEER_MEM:
        state = (seen["peermem_build"] or {}).get("state")
        changes += plan_nv_peer_mem(dkms_version(str(observed.choice.release)), kernel, observed.builds, state)
    elif must_rebuild(desired, observed):
        build = nvidia_build(observed.builds, kernel, _driver_on_disk(observed))
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
                       (unload, load(module)), Subject(MODULE, module))]
    return []


def _loads(observed: Observed, module: str) -> bool:
    """Not loaded yet, and it can be now; where the driver waits for a reboot the module comes with that."""
    return observed.facts["gpudirect"]["peermem_module"] != module and observed.ready


def must_rebuild(desired: Desired, observed: Observed) -> bool:
    """The driver's modules lie there built against another stack than the one that is there, or will be, and the driver stays."""
    driver = _driver_on_disk(observed)
    if driver is None or desired.wants.driver not in (None, driver):
        return False  # the package that brings the driver builds it, after the stack
    build = observed.facts["gpudirect"]["peermem_build"] or {}
    return build.get("state") in (WITHOUT_CLIENT, OTHER_STACK) or stack_changes(desired, observed)


def stack_changes(desired: Desired, observed: Observed) -> bool:
    """The package step of this plan will exchange the stack."""
    found = observed.facts["stack"]
    if desired.stack_glob is None:
        return False
    return found.get("name") != desired.wants.stack or not fnmatch.fnmatchcase(found.get("version") or "", desired.stack_glob)


def _driver_on_disk(observed: Observed) -> Optional[str]:
    return sysfs_values.token(observed.facts["gpu_driver"]["disk_version"])


def _forget(desired: Desired, observed: Observed) -> List[Change]:
    why = "the choice fell on %s: it would load a module that nobody needs" % observed.choice.path
    return forget_file(NAME, observed.boot, why, SOURCE) + forget_file(
        NAME, observed.drop_in, why, SOURCE, (RELOAD,) if desired.systemd else ())


def drop_in_text(module: str) -> str:
    """``-``: without a GPU driver the modprobe fails, and openibd must come up all the same."""
    return HEADER + "[Service]\nExecStartPost=-/sbin/modprobe %s\n" % module


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """A path that the inventory asks for and that cannot work here, or one that cannot be set up."""
    if desired.idle is not None or observed.unbuilt is not None:
        return []
    choice = observed.choice
    if choice.problem is not None:
        return [Problem(NAME, "gpudirect_path", choice.problem)]
    if choice.path == NV_PEER_MEM and desired.live and not observed.sources:
        return _without_source(desired, observed)
    if choice.path != PEERMEM or not desired.live or not must_rebuild(desired, observed):
        return []
    driver = _driver_on_disk(observed)
    if nvidia_build(observed.builds, desired.wants.kernel, driver) is not None:
        return []
    build = observed.facts["gpudirect"]["peermem_build"] or {}
    return [Problem(NAME, "nvidia_peermem", "%s was built before this RDMA stack or against another one, and DKMS has no source of driver "
                    "%s to build it again; install the driver as DKMS package (gpu_driver_branch), after the stack" % (
                        build.get("file") or "the module", driver))]


def _without_source(desired: Desired, observed: Observed) -> List[Problem]:
    """The role downloads it, held to a checksum; nobody here has computed one, so the operator must give it."""
    source = desired.sources.get(str(observed.choice.release))
    if source is not None and source.sha256 is not None:
        return []
    if source is None:
        return [Problem(NAME, "nv_peer_mem", "the catalogue has no source of release %s" % observed.choice.release)]
    return [Problem(NAME, "nv_peer_mem", "nobody here vouches for %s: download it, look at it, and set rdma_artifact_pins: {%s: its "
                    "sha256}" % (source.url, source.artifact))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.idle is not None:
        return ["gpudirect: %s; nothing to set up" % desired.idle]
    if observed.unbuilt is not None:
        return ["gpudirect: left as it is: kernel %s has no GPU driver yet, DKMS has %s to build" % (
            desired.wants.kernel, observed.unbuilt)]
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
