# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's stack as packages: what it needs to build, its meta package, and what has to go when a node leaves it. Pure.

A stack is left cleanly before another one comes: everything of the old vendor's own family
goes, and with it every package of an inbox name whose version bears the vendor's mark; those
that the node wants come back as the distribution's.
"""

import fnmatch
import re
from typing import Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...catalogue.inbox import RENAMED
from ...catalogue.stacks import PROFILES, VENDOR_STACKS, VendorStack
from ...formats.versions import GLOB
from ...types import Identity

# Meta packages tell the vendors apart (PROFILES); the kernel packages and scripts have the same names in both.
SHARED = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "mlnx-ofed-kernel-modules", "mlnx-ofa_kernel*", "kmod-mlnx-ofa_kernel*",
          "ofed-scripts")
HEADERS = {"debian": "linux-headers-%s", "redhat": "kernel-devel-%s"}


class Leaving(NamedTuple):
    """What of an old stack must go: ``removed`` for good, ``replaced`` by the distribution's package of the same name."""

    removed: Tuple[str, ...]
    replaced: Tuple[str, ...]


def headers_package(identity: Identity) -> Optional[str]:
    """What DKMS builds against, for the running kernel."""
    name = HEADERS.get(identity.platform.family)
    return name % identity.kernel if name is not None else None


def build_path(identity: Identity) -> str:
    """Where the headers of the running kernel are found, whatever package brought them."""
    return "/lib/modules/%s/build" % identity.kernel


def leaving(vendor: Optional[VendorStack], installed: Mapping[str, str], wanted: Sequence[str]) -> Leaving:
    """What must go before the wanted stack (None: the distribution's) can come. ``wanted``: names that the node is to have."""
    if other_stack(vendor, installed, wanted) is None:
        return Leaving((), ())
    family = _matching(installed, [glob for row in VENDOR_STACKS for glob in row.family])
    gone = [name for name in sorted(installed) if name in family or marked(installed[name])]
    if vendor is not None:
        return Leaving(tuple(gone), ())
    # perftest and others bear no mark, and the vendor's depend on its libraries: every inbox name is asked of the distribution again.
    back = tuple(name for name in sorted(installed) if name in wanted and (name in gone or name not in family))
    return Leaving(tuple(name for name in gone if name not in back), back)


def in_the_way(vendor: Optional[VendorStack], identity: Identity, installed: Mapping[str, str]) -> Tuple[str, ...]:
    """Inbox packages whose files the vendor has in a package of another name (librdmacm1t64), on a node that moves there."""
    if vendor is None or identity.platform.family != "debian" or vendor.meta in installed:
        return ()
    return tuple(new for _old, (new, _releases) in sorted(RENAMED.items()) if new in installed and not marked(installed[new]))


def marked(version: str) -> bool:
    """A vendor's build, whatever the package is called."""
    return any(re.search(row.mark, version) for row in VENDOR_STACKS)


def other_stack(vendor: Optional[VendorStack], installed: Mapping[str, str], wanted: Sequence[str]) -> Optional[str]:
    """The package that tells that a stack is installed which is not the wanted one."""
    own = vendor.name if vendor is not None else ""
    found = [meta for name, metas in PROFILES.items() if name != own for meta in metas if meta in installed]
    if vendor is None:
        found += sorted(_matching(installed, SHARED))
        found += [name for name in wanted if name in installed and marked(installed[name])]
    return "%s %s" % (found[0], installed[found[0]]) if found else None


def _matching(names: Mapping[str, str], globs: Sequence[str]) -> Set[str]:
    return {name for glob in set(globs) for name in (fnmatch.filter(names, glob) if GLOB.search(glob) else [glob]) if name in names}
