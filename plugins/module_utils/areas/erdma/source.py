# SPDX-License-Identifier: GPL-3.0-or-later
"""Alibaba's driver as source for DKMS: which archive, held to which checksum, and the two files of ours that make DKMS build it. Pure.

Every release of the vendor's calls itself 1.0.2 in its own dkms.conf, and is built with what stands in the environment of its
installer: when DKMS builds it again for the next kernel, that environment is gone, and with it compat mode (without OFED). So
we write dkms.conf, with the release as its version, and a script that DKMS calls for every build with the same settings.
The vendor's own script is never run.
"""

import re
from typing import NamedTuple, Optional

from ...catalogue.artifacts import find, located, mirrored, pinned
from ...spec.model import Spec

MODULE = "erdma"
OPEN = "erdma-driver"  # the public source
INSTALLER = "erdma-installer"  # the vendor's archive; its releases begin with 1
MARK = "# Managed by railwright"
HEADER = MARK + " (railwright.rdma): the next apply overwrites changes made here.\n"
BUILD_SCRIPT = "railwright-build.sh"
MAD = "ERDMA_FORCE_MAD_ENABLE=1"
RELEASE = r"[0-9]+\.[0-9]+\.[0-9]+"
CACHE = "/var/cache/railwright/erdma"


class Source(NamedTuple):
    """An archive to download. ``sha256`` None: nobody vouches for it yet, so it is not taken."""

    version: str
    artifact: str
    url: str
    sha256: Optional[str]

    @property
    def directory(self) -> str:
        """Where DKMS looks for it."""
        return directory(self.version)

    @property
    def file(self) -> str:
        return "%s/%s-%s.tar.gz" % (CACHE, self.artifact, self.version)


def directory(version: str) -> str:
    return "/usr/src/%s-%s" % (MODULE, version)


def dkms_name(version: str) -> str:
    return "%s/%s" % (MODULE, version)


def artifact_of(version: Optional[str]) -> Optional[str]:
    """The row of a release; None where the catalogue has none for it. The public source is one commit, and has no other release."""
    source = find(OPEN)
    if version is None or (source is not None and version == source.version):
        return OPEN
    if find("%s-%s" % (INSTALLER, version)) is not None:
        return "%s-%s" % (INSTALLER, version)
    return INSTALLER if re.match(r"[1-9]", version) else None


def source_of(spec: Spec) -> Optional[Source]:
    """The archive that the inventory asks for; None where the catalogue has no such release."""
    version: Optional[str] = spec["erdma_driver_version"]
    artifact = find(artifact_of(version) or "")
    if artifact is None:
        return None
    wanted = version or artifact.version
    url = mirrored(located(artifact, wanted), spec["artifact_mirror"])
    return Source(wanted, artifact.name, url, pinned(artifact, spec, wanted))


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


def has_mad(script: Optional[str]) -> bool:
    return script is not None and MAD in script
