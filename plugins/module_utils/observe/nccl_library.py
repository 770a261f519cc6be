# SPDX-License-Identifier: GPL-3.0-or-later
"""Every libnccl.so.2 that a program of this node could load, with the version that the file itself says.

NCCL prints its version at start (``NCCL version 2.30.7+cuda13.3``), so the text is in every build of the library, whatever
its file is called: the wheels' is ``libnccl.so.2`` and no more. It is read, not run: a library executes code when it is loaded.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import Host

PREFIX = "/opt/railwright/nccl"
CURRENT = "current"  # the link below the prefix to the release that the inventory asks for
NAME = "libnccl.so.2"
LDCONFIG, BELOW_PREFIX, NAMED = "ldconfig", "prefix", "named"
# Where the text lies: 3 MB into NVIDIA's wheel of 2.30.7, before the GPU code that makes the file large. Only a static
# or an unusual link order moves it behind, so most files are read once and little.
LIMITS = (16 * 1024 * 1024, 512 * 1024 * 1024)
_VERSION = re.compile(rb"NCCL version (2\.[0-9]{1,3}\.[0-9]{1,3}[a-z0-9.]{0,16})\+cuda([0-9]{1,3}\.[0-9]{1,3})\0")
_CACHED = re.compile(r"^[ \t]+(libnccl\S*) \(([^)\n]*)\) => (/\S+)$", re.MULTILINE)


class NcclLibrary(NamedTuple):
    """``version`` is None for a file that is no build of NCCL; ``cuda`` is the release that it was built with."""

    path: str
    version: Optional[str]
    origin: str  # LDCONFIG: programs find it by themselves; BELOW_PREFIX: made by role nccl; NAMED: the caller asked for it
    cuda: Optional[str] = None


def nccl_libraries(host: Host, prefix: str = PREFIX, named: Sequence[str] = ()) -> Tuple[NcclLibrary, ...]:
    """The loader's first, in its order, then what lies below ``prefix``, then ``named`` (files, or their directories)."""
    places = [(path, LDCONFIG) for path in cached_libraries(host)]
    places += [(path, BELOW_PREFIX) for path in prefixed_libraries(host, prefix)]
    places += [("%s/%s" % (path.rstrip("/"), NAME) if host.exists(path.rstrip("/") + "/" + NAME) else path, NAMED) for path in named]
    found: List[NcclLibrary] = []
    for path, origin in places:
        if host.exists(path) and path not in [row.path for row in found]:
            version, cuda = library_version(host, path)
            found.append(NcclLibrary(path, version, origin, cuda))
    return tuple(found)


def library_version(host: Host, path: str) -> Tuple[Optional[str], Optional[str]]:
    """(NCCL's version, CUDA's) of one file; (None, None) where it does not say."""
    for limit in LIMITS:
        content = host.read_bytes(path, limit)
        if content is None or not content.startswith(b"\x7fELF"):
            return None, None
        text = _VERSION.search(content)
        if text is not None:
            return text.group(1).decode("ascii"), text.group(2).decode("ascii")
        if len(content) < limit:
            break
    return None, None


def cached_libraries(host: Host, name: str = NAME) -> List[str]:
    """What the dynamic loader knows of this name. libc6 alone is a 32-bit x86 library, which no GPU program loads."""
    answer = host.run(("ldconfig", "-p"), 10.0)
    rows: List[Tuple[str, str, str]] = _CACHED.findall(answer.out) if answer.ok else []
    return [path for library, kind, path in rows if library == name and kind != "libc6"]


def prefixed_libraries(host: Host, prefix: str) -> List[str]:
    """The one that the inventory asks for, then the newest."""
    names = sorted((name for name in host.listdir(prefix) if is_digits(name[:1])), key=sysfs_values.natural_key, reverse=True)
    current = host.readlink("%s/%s" % (prefix, CURRENT))
    names.sort(key=lambda name: name != current)
    return ["%s/%s/lib/%s" % (prefix, name, NAME) for name in names]
