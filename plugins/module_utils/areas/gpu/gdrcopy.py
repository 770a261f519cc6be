# SPDX-License-Identifier: GPL-3.0-or-later
"""GDRCopy: its kernel module, built by DKMS against the GPU driver, and its library.

Nothing is planned before the driver is on disk: the module would be built against none. In a container the module belongs to the
machine below.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import Wanted
from ...host.host import Host
from ...observe.gpu_driver import driver_on_disk, module_loaded
from ...observe.packages import Hold, all_installed, held_packages
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file
from ..common.modules import loaded_module
from ..common.package_changes import hold_conflicts, missing_database, names_of, plan_packages

NAME = "gdrcopy"
MODULE = "gdrdrv"
BOOT_FILE = "/etc/modules-load.d/railwright-gdrdrv.conf"
SOURCE = "NVIDIA/gdrcopy (README)"
WHY = "UCX, NVSHMEM and MPI copy small messages from GPU memory through it, without a round trip through the driver"
_NAMES = {"debian": ("gdrdrv-dkms", "libgdrapi"), "redhat": ("gdrcopy-kmod", "gdrcopy")}


class Desired(NamedTuple):
    identity: Identity
    wanted: Optional[Tuple[Wanted, ...]]  # None: nothing is wanted here


class Observed(NamedTuple):
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    driver: Optional[str]  # on disk
    loaded: bool
    boot: FileState


def desired(spec: Spec, identity: Identity) -> Desired:
    if not spec["gpudirect_gdrcopy"] or not identity.gpus:
        return Desired(identity, None)
    return Desired(identity, tuple(Wanted(name, None, WHY, SOURCE) for name in _NAMES.get(identity.platform.family, ())))


def observe(host: Host, desired: Desired) -> Observed:
    boot = observe_file(host, BOOT_FILE)
    if not desired.wanted:
        return Observed(None, (), None, False, boot)
    identity = desired.identity
    return Observed(all_installed(host, identity), held_packages(host, identity, names_of(desired.wanted)),
                    driver_on_disk(host, identity.kernel).version, bool(module_loaded(host, MODULE)), boot)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if desired.wanted is None:
        return forget_file(NAME, observed.boot, "gpudirect_gdrcopy is false; the packages are left", SOURCE)
    if observed.driver is None or observed.installed is None:
        return []
    changes = plan_packages(NAME, desired.wanted, observed.installed, desired.identity.platform.family)
    changes += plan_file(NAME, observed.boot, HEADER + MODULE + "\n", "a module that is loaded by hand is gone after a reboot", SOURCE)
    if not observed.loaded and not desired.identity.has("container"):
        changes.append(loaded_module(NAME, MODULE, WHY, SOURCE))
    return changes


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.wanted != ():
        return []
    return [Problem(NAME, "gpudirect_gdrcopy", "no packages of GDRCopy are known for %s; allowed: false" % identity.platform.pretty)]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if not desired.wanted:
        return []
    if observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    return hold_conflicts(NAME, plan(desired, observed), observed.holds)


def notes(desired: Desired, observed: Observed) -> List[str]:
    waits = desired.wanted and observed.installed is not None and observed.driver is None
    return ["gdrcopy: waits for the GPU driver, which its module is built against; apply again once that is there"] if waits else []
