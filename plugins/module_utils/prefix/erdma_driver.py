# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of Alibaba's driver from its archive to /usr/src, where DKMS looks for it. Nothing of the archive is run.

Two layouts are known: the public repository (kernel/CMakeLists.txt with kernel/conf/configure-dkms.sh), and what its packages put
into /usr/src (both in one directory). What the vendor's installer holds nobody here has seen: it is searched for either, and
refused with what it does hold where neither is in it.
"""

from typing import Any, Dict, List, Optional, Tuple

from ..areas.erdma.driver_choice import DKMS
from ..areas.erdma.erdma import desired, observe
from ..errors import RailwrightError
from ..formats import sysfs_values
from ..host.host import Host
from ..spec.model import Spec
from ..types import Identity
from .installer import ABSENT, INSTALLED, Installer, Release, plain_name

SCRIPTS = ("conf/configure-dkms.sh", "configure-dkms.sh")
NEEDED = ("CMakeLists.txt", "src/CMakeLists.txt", "config/erdma.cmake")
DEPTH = 4  # directories below the archive's root
SHOWN = 10


class ErdmaDriver(Installer):
    """DKMS builds it from its place, and looks at no name with a dot in front."""

    title = "the driver's source"
    strip = 0
    linked = False

    def state(self) -> Tuple[str, str]:
        """What somebody else put there whole is as good."""
        there = self.host.exists("%s/%s" % (self.release.directory, NEEDED[0]))
        return (INSTALLED if there else ABSENT), ""

    def finish(self, work: str) -> Tuple[str, Dict[str, Any]]:
        found = source_in(self.host, work + "/unpacked")
        if found is None:
            raise RailwrightError("%s %s holds no source of the driver in a layout that is known (%s beside %s); it holds %s. Its own "
                                  "installer is not run: run it yourself and set erdma_driver: auto, or use the public source" % (
                                      self.release.artifact, self.release.version, NEEDED[0], " or ".join(SCRIPTS),
                                      listed(self.host, work + "/unpacked")))
        return found, {"name": "erdma"}


def wanted(host: Host, spec: Spec, identity: Identity) -> Optional[ErdmaDriver]:
    """What has to be brought before DKMS can build; None where it is there, or none is wanted. Raises RailwrightError."""
    asked = desired(spec, identity)
    choice = observe(host, asked).choice
    if choice is None or choice.kind != DKMS or not asked.live:
        return None
    source = asked.source
    if source is None or source.version != choice.version:  # what DKMS has from an earlier apply has its source already
        return None
    if source.sha256 is None:
        raise RailwrightError("nobody here vouches for %s: set rdma_artifact_pins.%s to its sha256" % (source.url, source.artifact))
    return ErdmaDriver(host, Release(
        source.version, source.directory, source.artifact, source.url, source.sha256, source.file, plain_name(identity.hostname)))


def source_in(host: Host, root: str) -> Optional[str]:
    """The first directory, uppermost first, that is a source of the driver."""
    level = [root]
    for _depth in range(DEPTH + 1):
        for path in level:
            if all(host.exists("%s/%s" % (path, name)) for name in NEEDED) and any(host.exists("%s/%s" % (path, name)) for name in SCRIPTS):
                return path
        level = [below for path in level for below in directories(host, path)]
    return None


def directories(host: Host, path: str) -> List[str]:
    """Real ones: a link in an archive leads nowhere."""
    names = [name for name in host.listdir(path) if sysfs_values.is_name(name)]
    return [full for full in ["%s/%s" % (path, name) for name in names] if host.readlink(full) is None and host.listdir(full)]


def listed(host: Host, root: str) -> str:
    """What the archive holds, two levels deep, bounded."""
    names: List[str] = []
    for path in [root] + directories(host, root):
        here = [name for name in host.listdir(path) if sysfs_values.is_name(name)]
        names += ["%s/%s" % (path[len(root) + 1:], name) if path != root else name for name in here]
    shown: Tuple[str, ...] = tuple(names[:SHOWN])
    return ", ".join(shown) + (" and %d more" % (len(names) - SHOWN) if len(names) > SHOWN else "") if names else "nothing"
