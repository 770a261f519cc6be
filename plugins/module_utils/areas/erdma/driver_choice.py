# SPDX-License-Identifier: GPL-3.0-or-later
"""Which eRDMA driver a node gets: Alibaba's from source, the one of Alibaba's that is there, or the kernel's own. Pure.

``dkms``: ours to build. ``kept``: a driver with modes that somebody else brought (an image, the vendor's installer, a
distribution of Alibaba's): its mode is ours, the driver itself is not. ``mainline``: the kernel's own, which has no modes and is
taken by itself only where its devices show that they are what the inventory wants.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...host.host import Host
from ...observe.dkms import Build
from ...observe.erdma import Driver, letter_of, node_types
from ...rules.erdma_mode import LEAVE, LETTERS, MAINLINE, MODES, NODE_TYPES, OFED, RAW_TYPES, letter_of_type, mode_of
from ...spec.model import Spec
from ...types import Identity
from ..common.files import is_ours
from .dkms import directory

DKMS, KEPT = "dkms", "kept"
OUT = "erdma_driver: dkms, which has modes"


class Choice(NamedTuple):
    """``version``: of the driver that DKMS is to have, for ``dkms``. ``problem``: why nothing of it can be."""

    kind: str
    reason: str
    version: Optional[str] = None
    problem: Optional[str] = None


def choose_driver(wanted: str, version: Optional[str], mode: str, driver: Driver, ours: Sequence[str]) -> Choice:
    """``wanted`` is erdma_driver, ``version`` the release that the inventory asks for (None: any); ``ours``: what we gave DKMS before."""
    if wanted == LEAVE:
        return Choice(LEAVE, "erdma_driver is leave")
    if wanted == MAINLINE:
        return Choice(MAINLINE, "erdma_driver is mainline", None, mainline_problem(mode, driver))
    if version is None and ours:
        return Choice(DKMS, "DKMS has it from an earlier apply", ours[-1])
    if version is None and (driver.alibabas or foreign_builds(driver, ours)):
        return Choice(KEPT, "Alibaba's driver is there already")
    if wanted == "auto" and version is None and mode != OFED and proven(mode, driver):
        return Choice(MAINLINE, "the kernel's own driver has its devices as %s" % NODE_TYPES[LETTERS[mode]])
    return Choice(DKMS, "the driver with modes is not there", version)


def proven(mode: str, driver: Driver) -> bool:
    """Every device of the loaded mainline driver is of the wanted kind; without a device nothing is proven."""
    return driver.loaded and not driver.alibabas and bool(driver.types) and not wrong_types(mode, driver)


def wrong_types(mode: str, driver: Driver) -> List[str]:
    return [name for name, kind in driver.types if kind != NODE_TYPES[LETTERS[mode]]]


def mainline_problem(mode: str, driver: Driver) -> Optional[str]:
    """Why the kernel's own driver is not what the inventory wants, in one line."""
    if mode == OFED:
        return "mode ofed needs Alibaba's driver: the kernel's own does not load on top of MLNX_OFED; use erdma_mode: compat, or %s" % OUT
    if not driver.there:
        return "this kernel has no module erdma; use a newer kernel, or %s" % OUT
    if driver.loaded and not driver.alibabas and wrong_types(mode, driver):
        found = dict(driver.types)
        names = wrong_types(mode, driver)
        return "%s reads `%s` with the kernel's own driver, and mode %s needs `%s`; use erdma_mode: %s on every node, or %s" % (
            ", ".join(names), RAW_TYPES.get(found[names[0]], found[names[0]]), mode, RAW_TYPES[NODE_TYPES[LETTERS[mode]]],
            next(name for name in MODES if LETTERS[name] != LETTERS[mode]), OUT)
    return None


def our_versions(host: Host, builds: Sequence[Build]) -> List[str]:
    """Versions that DKMS has and whose dkms.conf we wrote, in DKMS' order."""
    found: List[str] = []
    for build in builds:
        if build.version not in found and is_ours(host.read(directory(build.version) + "/dkms.conf") or ""):
            found.append(build.version)
    return found


def foreign_builds(driver: Driver, ours: Sequence[str]) -> List[str]:
    """Versions that DKMS has from somebody else."""
    return sorted({build.version for build in driver.builds if build.version not in ours})


def in_the_way(choice: Choice, driver: Driver, ours: Sequence[str]) -> Optional[str]:
    """Another one's driver in DKMS, where ours or the kernel's own is wanted. Its package would fight for it."""
    others = foreign_builds(driver, ours)
    if choice.kind not in (DKMS, MAINLINE) or not others:
        return None
    wanted = "erdma/%s" % choice.version if choice.kind == DKMS else "the kernel's own driver"
    return "DKMS has %s from somebody else, and %s is wanted; unset erdma_driver and erdma_driver_version to keep it, or %s" % (
        ", ".join("erdma/" + version for version in others), wanted,
        "take it off first (its package, or: %s)" % "; ".join("dkms remove erdma/%s --all" % version for version in others))


# What a node will talk on the wire once its plan is applied: for the controller, which compares all nodes before anything changes.

def planned_wire(host: Host, spec: Spec, identity: Identity) -> Optional[Dict[str, Any]]:
    """``mode`` that the inventory wants and ``letter`` of compat_mode that will run; None where the fabric is not eRDMA.

    Where the driver is left alone it is what runs now; None in place of a letter where nothing tells.
    """
    mode = mode_of(spec, identity)
    if mode is None:
        return None
    if spec["erdma_driver"] != LEAVE:
        return {"mode": mode, "letter": LETTERS[mode]}
    letters = {letter_of_type(kind) for _name, kind in node_types(host)}
    return {"mode": LEAVE, "letter": letter_of(host) or (letters.pop() if len(letters) == 1 else None)}
