# SPDX-License-Identifier: GPL-3.0-or-later
"""Alibaba's eRDMA driver in DKMS: added with our dkms.conf, built again where it does not fit, taken off where it is not wanted. Pure.

Every release of the vendor's calls itself 1.0.2 in its own dkms.conf, and is built with what stands in the environment of its
installer: when DKMS builds it again for the next kernel, that environment is gone, and with it compat mode (without OFED). So
we write dkms.conf, with the release as its version, and a script that DKMS calls for every build with the same settings.
The vendor's own script is never run. What is registered and not built for the running kernel is the business of area ``dkms``.
"""

import re
from typing import List, NamedTuple, Optional, Sequence

from ...catalogue import artifacts
from ...catalogue.artifacts import Source, find_artifact
from ...observe.dkms import INSTALLED, Build
from ...observe.erdma import FITS, MODULE, OTHER_CORE
from ...spec.model import Spec
from ...types import DRIVER, Change, Subject, write_file
from ..common.files import HEADER
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
