# SPDX-License-Identifier: GPL-3.0-or-later
"""Which eRDMA driver a node gets: Alibaba's from source, the one of Alibaba's that is there, or the kernel's own; and ours in DKMS. Pure.

``dkms``: ours to build. ``kept``: a driver with modes that somebody else brought (an image, the vendor's installer, a
distribution of Alibaba's): its mode is ours, the driver itself is not. ``mainline``: the kernel's own, which has no modes and is
taken by itself only where its devices show that they are what the inventory wants.

Ours is added with our dkms.conf, built again where it does not fit, taken off where it is not wanted. Every release of the vendor's calls
itself 1.0.2 in its own dkms.conf, and is built with what stands in the environment of its
installer: when DKMS builds it again for the next kernel, that environment is gone, and with it compat mode (without OFED). So
we write dkms.conf, with the release as its version, and a script that DKMS calls for every build with the same settings.
The vendor's own script is never run. What is registered and not built for the running kernel is the business of area ``dkms``.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...catalogue import artifacts
from ...catalogue.artifacts import Source, find_artifact
from ...host.host import Host
from ...observe.dkms import INSTALLED, Build
from ...observe.erdma import FITS, MODULE, OTHER_CORE, Driver, letter_of, node_types
from ...rules.erdma_mode import DKMS, LEAVE, LETTERS, MAINLINE, MODES, NODE_TYPES, OFED, RAW_TYPES, letter_of_type, mode_of
from ...spec.model import Spec
from ...types import DRIVER, Change, Identity, Subject, write_file
from ..common.files import HEADER, is_ours
from ..common.modules import dkms_add, dkms_install, dkms_rebuild, dkms_remove

AREA = "erdma"
SOURCE = "ERD (dkms.conf, configure-dkms.sh, CMakeLists.txt), ERC (internal/drivers)"
COMING = "the RDMA core is exchanged by packages to come"
# As in the vendor's package: without it DKMS leaves a module of the kernel's own in its place where it finds both alike.
FORCE = "--force"
OPEN = "erdma-driver"  # the public source
INSTALLER = "erdma-installer"  # the vendor's archive; its releases begin with 1
BUILD_SCRIPT = "railwright-build.sh"
MAD = "ERDMA_FORCE_MAD_ENABLE=1"
RELEASE = r"[0-9]+\.[0-9]+\.[0-9]+"
KEPT = "kept"
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
    versions = dict.fromkeys(build.version for build in builds)
    return [version for version in versions if is_ours(host.read(directory(version) + "/dkms.conf") or "")]


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


class Files(NamedTuple):
    """Of a version's source: our two files as they are, and whether the source itself is there."""

    conf: Optional[str]
    script: Optional[str]
    source: bool


def plan_dkms(version: str, kernel: str, mad: bool, builds: Sequence[Build], files: Files, fits: Optional[str]) -> List[Change]:
    """``mad``: the wanted mode needs it. A driver that has it serves every mode, so it is never taken out again."""
    name = dkms_name(version)
    had = files.script is not None and MAD in files.script
    script = build_script(version, mad=mad or had)
    wanted = ((files.conf, "dkms.conf", dkms_conf(version), 0o644), (files.script, BUILD_SCRIPT, script, 0o755))
    writes = tuple(write_file("%s/%s" % (directory(version), file), text, mode) for found, file, text, mode in wanted if found != text)
    if not any(build.version == version for build in builds):
        return [Change(AREA, "DKMS module %s for kernel %s" % (name, kernel), None, INSTALLED, "none", "eRDMA has its modes with Alibaba's "
                       "driver alone; DKMS builds it for later kernels by itself", SOURCE,
                       writes + (dkms_add(name), dkms_install(name, kernel, FORCE)), Subject(DRIVER, AREA))]
    if writes:  # where it is not built for this kernel yet, area dkms has done that before
        before = "compat mode" if had else "no compat mode" if files.script is not None else None
        after = "compat mode" if mad or had else "no compat mode"
        return [Change(AREA, "options of DKMS module " + name, before, after if after != before else after + ", anew", "none",
                       "compat mode without OFED needs a driver that was built with it (ERDMA_FORCE_MAD_ENABLE)", SOURCE,
                       dkms_rebuild(name, kernel, FORCE, files=writes))]
    built = any((build.version, build.kernel, build.state) == (version, kernel, INSTALLED) for build in builds)
    return plan_core(name, kernel, fits) if built else []


def plan_core(name: str, kernel: str, fits: Optional[str]) -> List[Change]:
    """Built again for the running kernel: after OFED came or was changed nobody else does it.

    Without ops where OFED is still to come: then it is for the apply behind the package step.
    """
    if fits not in (OTHER_CORE, COMING):
        return []
    return [Change(AREA, "DKMS module %s built for this RDMA core" % name, fits, FITS, "none", "the driver was built against another RDMA "
                   "core than the one that is there; it would not load", SOURCE,
                   dkms_rebuild(name, kernel, FORCE) if fits == OTHER_CORE else ())]


def plan_off(versions: Sequence[str], builds: Sequence[Build], keep: Optional[str]) -> List[Change]:
    """Our versions but ``keep`` leave DKMS."""
    changes: List[Change] = []
    for version in versions:
        if version != keep:
            kernels = [build.kernel for build in builds if (build.version, build.state) == (version, INSTALLED) and build.kernel]
            changes.append(Change(
                AREA, "DKMS module %s removed" % dkms_name(version), "registered", None, "none", "the inventory wants another driver, and "
                "DKMS would build this one for every new kernel", SOURCE, (dkms_remove(dkms_name(version), kernels, FORCE),)))
    return changes


def directory(version: str) -> str:
    """Where DKMS looks for the source."""
    return "/usr/src/%s-%s" % (MODULE, version)


def dkms_name(version: str) -> str:
    return "%s/%s" % (MODULE, version)


def archive_of(source: Source) -> str:
    """Where the role downloads it to."""
    return "/var/cache/railwright/erdma/%s-%s.tar.gz" % (source.artifact, source.version)


def artifact_of(version: Optional[str]) -> Optional[str]:
    """The row of a release; None where the catalogue has none for it. The public source is one commit, and has no other release."""
    source = find_artifact(OPEN)
    if version is None or (source is not None and version == source.version):
        return OPEN
    if find_artifact("%s-%s" % (INSTALLER, version)) is not None:
        return "%s-%s" % (INSTALLER, version)
    return INSTALLER if re.match(r"[1-9]", version) else None


def source_of(spec: Spec) -> Optional[Source]:
    """The archive that the inventory asks for; None where the catalogue has no such release."""
    version: Optional[str] = spec["erdma_driver_version"]
    return artifacts.source_of(artifact_of(version) or "", spec, version)


def dkms_conf(version: str) -> str:
    """No MAKE that begins with make: DKMS would put KERNELRELEASE behind it, which the makefile that CMake writes passes on."""
    return HEADER + (
        'PACKAGE_NAME="%s"\n'
        'PACKAGE_VERSION="%s"\n'
        'MAKE[0]="sh ./%s $kernelver"\n'
        'CLEAN="true"\n'
        'BUILT_MODULE_NAME[0]="%s"\n'
        'BUILT_MODULE_LOCATION[0]="build/src/"\n'
        'DEST_MODULE_LOCATION[0]="/extra"\n'
        'AUTOINSTALL="yes"\n'
        'NO_WEAK_MODULES="yes"\n' % (MODULE, version, BUILD_SCRIPT, MODULE))


def build_script(version: str, *, mad: bool) -> str:
    """``mad``: what compat mode needs beside the parameter. On top of OFED the source's own makefile sets it.

    CMake 4 refuses the version that the source asks for, unless it is told; older ones do not know the variable. The module gets a
    version, because DKMS puts none without one in the place of the kernel's own where that has none either, and says nothing.
    """
    settings = ["ERDMA_CM_NO_BOUND_IF=1", "CMAKE_POLICY_VERSION_MINIMUM=3.5"] + ([MAD] if mad else [])
    return "#!/bin/sh\n" + HEADER + (
        "set -e\n"
        "export %s\n"
        "configure=configure-dkms.sh\n"
        '[ -f "$configure" ] || configure=conf/configure-dkms.sh\n'
        'bash "./$configure" "$1"\n'
        "grep -qs MODULE_VERSION build/src/*.c || echo 'MODULE_VERSION(\"%s\");' >> build/src/erdma_main.c\n"
        "make -C build\n" % (" ".join(settings), version))
