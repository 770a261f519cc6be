# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of Alibaba's driver from its archive to /usr/src, where DKMS looks for it. Nothing of the archive is run.

Two layouts are known: the public repository (kernel/CMakeLists.txt with kernel/conf/configure-dkms.sh), and what its packages put
into /usr/src (both in one directory). What the vendor's installer holds nobody here has seen: it is searched for either, and
refused with what it does hold where neither is in it.
"""

from typing import Any, Dict, List, Optional, Tuple

from ...errors import RailwrightError
from ...formats import sysfs_values
from ...host.commands import check_brought, must
from ...host.host import Host
from ...observe.identity import observe_identity
from ...spec.model import Spec
from .driver_choice import DKMS
from .erdma import desired, observe
from .source import CACHE, Source

SCRIPTS = ("conf/configure-dkms.sh", "configure-dkms.sh")
NEEDED = ("CMakeLists.txt", "src/CMakeLists.txt", "config/erdma.cmake")
DEPTH = 4  # directories below the archive's root
SECONDS = 300.0
SHOWN = 10


def wanted(host: Host, spec: Spec) -> Optional[Source]:
    """The archive that has to be brought before DKMS can build; None where it is there, or none is wanted. Raises RailwrightError."""
    asked = desired(spec, observe_identity(host, None))
    choice = observe(host, asked).choice
    if choice is None or choice.kind != DKMS or not asked.live:
        return None
    source = asked.source
    if source is None or source.version != choice.version:  # what DKMS has from an earlier apply has its source already
        return None
    if source.sha256 is None:
        raise RailwrightError("nobody here vouches for %s: set rdma_artifact_pins.%s to its sha256" % (source.url, source.artifact))
    return source


def look(host: Host, source: Source) -> Dict[str, Any]:
    """What the role is told. ``missing``: the source has to be unpacked."""
    missing = not host.exists("%s/%s" % (source.directory, NEEDED[0]))
    return dict(source._asdict(), directory=source.directory, file=source.file, missing=missing)


def unpack(host: Host, source: Source) -> None:
    """The archive is the pinned one, and the driver's source lies where DKMS looks, or nothing does."""
    check_brought(host, source.file, source.artifact, str(source.sha256))
    part = staging(source)
    must(host, ("rm", "-rf", "--", part), "remove what an earlier run left", SECONDS)
    must(host, ("install", "-d", "-m", "0755", "--", part), "make " + part)
    must(host, ("tar", "-xf", source.file, "-C", part, "--no-same-owner", "--no-same-permissions"), "unpack " + source.artifact, SECONDS)
    found = source_in(host, part)
    if found is None:
        raise RailwrightError("%s %s holds no source of the driver in a layout that is known (%s beside %s); it holds %s. Its own "
                              "installer is not run: run it yourself and set erdma_driver: auto, or use the public source" % (
                                  source.artifact, source.version, NEEDED[0], " or ".join(SCRIPTS), listed(host, part)))
    must(host, ("chmod", "-R", "u=rwX,go=rX", "--", found), "set the modes", SECONDS)
    must(host, ("rm", "-rf", "--", source.directory), "remove an incomplete " + source.directory, SECONDS)
    must(host, ("mv", "-T", "--", found, source.directory), "put %s in place" % source.directory)


def clean(host: Host, source: Source) -> None:
    """Neither the archive nor what was unpacked of it stays."""
    must(host, ("rm", "-rf", "--", staging(source)), "remove " + staging(source), SECONDS)
    host.remove(source.file)
    host.rmdir(CACHE)


def staging(source: Source) -> str:
    """Beside its place, so that a rename puts it there; DKMS looks at no name with a dot in front."""
    return "/usr/src/.%s.part" % source.directory.rpartition("/")[2]


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
