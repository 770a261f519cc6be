# SPDX-License-Identifier: GPL-3.0-or-later
"""Alibaba's eRDMA driver in DKMS: added with our dkms.conf, built again where it does not fit, taken off where it is not wanted. Pure.

What is registered and not built for the running kernel is the business of area ``dkms``.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...observe.dkms import INSTALLED, Build
from ...observe.erdma_driver import FITS, OTHER_CORE
from ...types import DRIVER, Change, Op, Subject, run, write_file
from .source import BUILD_SCRIPT, build_script, directory, dkms_conf, dkms_name, has_mad

AREA = "erdma"
BUILD_SECONDS = 1800.0
SOURCE = "ERD (dkms.conf, configure-dkms.sh, CMakeLists.txt), ERC (internal/drivers)"
WHY_DRIVER = "eRDMA has its modes with Alibaba's driver alone; DKMS builds it for later kernels by itself"
WHY_MAD = "compat mode without OFED needs a driver that was built with it (ERDMA_FORCE_MAD_ENABLE)"
WHY_CORE = "the driver was built against another RDMA core than the one that is there; it would not load"
WHY_OFF = "the inventory wants another driver, and DKMS would build this one for every new kernel"
SCRIPT_MODE = 0o755
COMING = "the RDMA core is exchanged by packages to come"


class Files(NamedTuple):
    """Of a version's source: our two files as they are, and whether the source itself is there."""

    conf: Optional[str]
    script: Optional[str]
    source: bool


def plan_dkms(version: str, kernel: str, mad: bool, builds: Sequence[Build], files: Files, fits: Optional[str]) -> List[Change]:
    """``mad``: the wanted mode needs it. A driver that has it serves every mode, so it is never taken out again."""
    name = dkms_name(version)
    registered = any(build.version == version for build in builds)
    script = build_script(version, mad=mad or has_mad(files.script))
    writes = [write_file(directory(version) + "/dkms.conf", dkms_conf(version))] if files.conf != dkms_conf(version) else []
    writes += [write_file("%s/%s" % (directory(version), BUILD_SCRIPT), script, SCRIPT_MODE)] if files.script != script else []
    if not registered:
        ops = writes + [run(("dkms", "add", name), (("dkms", "remove", name, "--all"),)),
                        run(install_command(name, kernel), (("dkms", "uninstall", name, "-k", kernel),), BUILD_SECONDS)]
        return [Change(AREA, "DKMS module %s for kernel %s" % (name, kernel), None, INSTALLED, "none", WHY_DRIVER, SOURCE, tuple(ops),
                       Subject(DRIVER, AREA))]
    if writes:  # where it is not built for this kernel yet, area dkms has done that before
        before = "compat mode" if has_mad(files.script) else "no compat mode" if files.script is not None else None
        after = "compat mode" if has_mad(script) else "no compat mode"
        return [Change(AREA, "options of DKMS module " + name, before, after if after != before else after + ", anew", "none", WHY_MAD,
                       SOURCE, _around(name, kernel, writes))]
    built = any(build.version == version and build.kernel == kernel and build.state == INSTALLED for build in builds)
    return plan_core(name, kernel, fits) if built else []


def plan_core(name: str, kernel: str, fits: Optional[str]) -> List[Change]:
    """Built again for the running kernel: after OFED came or was changed nobody else does it.

    Without ops where OFED is still to come: then it is for the apply behind the package step.
    """
    if fits not in (OTHER_CORE, COMING):
        return []
    ops = _around(name, kernel, []) if fits == OTHER_CORE else ()
    return [Change(AREA, "DKMS module %s built for this RDMA core" % name, fits, FITS, "none", WHY_CORE, SOURCE, ops)]


def install_command(name: str, kernel: str) -> Tuple[str, ...]:
    """--force, as in the vendor's package: without it DKMS leaves a module of the kernel's own in its place where it finds both alike."""
    return ("dkms", "install", name, "-k", kernel, "--force")


def _around(name: str, kernel: str, writes: Sequence[Op]) -> Tuple[Op, ...]:
    """Off, the files, on: undone in reverse, the old files are back before the old driver is built with them."""
    remove, install = ("dkms", "remove", name, "-k", kernel), install_command(name, kernel)
    return (run(remove, (install,), BUILD_SECONDS),) + tuple(writes) + (run(install, (remove,), BUILD_SECONDS),)


def plan_off(versions: Sequence[str], builds: Sequence[Build], keep: Optional[str]) -> List[Change]:
    """Our versions but ``keep`` leave DKMS; their sources stay in /usr/src, where a roll-back needs them."""
    changes: List[Change] = []
    for version in versions:
        if version == keep:
            continue
        name = dkms_name(version)
        undo: List[Tuple[str, ...]] = [("dkms", "add", name)]
        undo += [install_command(name, build.kernel) for build in builds
                 if build.version == version and build.state == INSTALLED and build.kernel is not None]
        ops = (run(("dkms", "remove", name, "--all"), tuple(undo), BUILD_SECONDS),)
        changes.append(Change(AREA, "DKMS module %s removed" % name, "registered", None, "none", WHY_OFF, SOURCE, ops))
    return changes
