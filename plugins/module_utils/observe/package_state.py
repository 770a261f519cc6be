# SPDX-License-Identifier: GPL-3.0-or-later
"""What a package manager has beside versions: what is held, and what was left half done."""

import fnmatch
from typing import List, NamedTuple, Sequence, Tuple

from ..formats.outside import is_digits
from ..host.host import Host
from ..types import Identity
from .packages import dpkg_rows

DPKG_UPDATES = "/var/lib/dpkg/updates"
CONFIGURE = ("dpkg", "--force-confdef", "--force-confold", "--configure", "-a")
TRY_SECONDS = 60.0
_DEPENDENCY = "dependency problems"  # dpkg's words, in the C locale
# dpkg(1): what is left of an interrupted run; "installed" and "config-files" are the two states of rest.
UNFINISHED = ("unpacked", "half-configured", "half-installed", "triggers-awaited", "triggers-pending")
VERSIONLOCK = {
    "dnf": ("/etc/dnf/plugins/versionlock.list", "dnf versionlock delete %s", "dnf versionlock"),
    "yum": ("/etc/yum/pluginconf.d/versionlock.list", "yum versionlock delete %s", "yum versionlock"),
    "zypper": ("/etc/zypp/locks", "zypper removelock %s", "zypper addlock"),
}
LOCK_BEGIN, LOCK_END = "# railwright: begin (the next apply overwrites these lines)", "# railwright: end"


class Hold(NamedTuple):
    """A package that somebody keeps at its version, and the command that lets it go."""

    name: str
    by: str  # apt-mark hold, dnf versionlock …
    lift: str


class Unfinished(NamedTuple):
    """What an interrupted dpkg left behind: packages by name with their state, and whether its own journal is there.

    ``stuck``: dpkg alone cannot finish it (``cannot_finish``).
    """

    packages: Tuple[Tuple[str, str], ...]
    journal: bool
    stuck: bool = False

    @property
    def any(self) -> bool:
        return bool(self.packages) or self.journal


def held(host: Host, identity: Identity, names: Sequence[str]) -> Tuple[Hold, ...]:
    """Those of ``names`` that somebody else than railwright holds."""
    manager = identity.platform.package_manager
    if manager == "apt":
        on_hold = [row.name for row in dpkg_rows(host) or () if row.want == "hold"]
        return tuple(Hold(name, "apt-mark hold", "apt-mark unhold " + name) for name in names if name in on_hold)
    if manager not in VERSIONLOCK:
        return ()
    path, lift, by = VERSIONLOCK[manager]
    globs = _locked_globs(without_ours(host.read(path) or ""))
    locked = [name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    return tuple(Hold(name, "%s (%s)" % (by, path), lift % name) for name in locked)


def unfinished(host: Host) -> Unfinished:
    """Packages between two states, and files of dpkg's journal that the next run would have merged."""
    packages = tuple((row.name, row.state) for row in dpkg_rows(host) or () if row.state in UNFINISHED or row.error == "reinstreq")
    return Unfinished(packages, any(is_digits(name) for name in host.listdir(DPKG_UPDATES)))


def cannot_finish(host: Host, left: Unfinished) -> bool:
    """A package is torn, or one waits for a version that was never unpacked: a disk without room, a power cut. Tried, not done."""
    if any(state == "half-installed" for _name, state in left.packages):
        return True
    tried = host.run(CONFIGURE[:1] + ("--no-act",) + CONFIGURE[1:], TRY_SECONDS) if left.any else None
    return tried is not None and not tried.ok and _DEPENDENCY in tried.err + tried.out


def without_ours(text: str) -> str:
    """A list of version locks without the block that railwright keeps in it."""
    kept: List[str] = []
    ours = False
    for line in text.splitlines():
        if line == LOCK_BEGIN:
            ours = True
        elif line == LOCK_END:
            ours = False
        elif not ours:
            kept.append(line)
    return "".join(line + "\n" for line in kept)


def _locked_globs(text: str) -> List[str]:
    """Names in ``name-epoch:version-release.arch`` lines (``!`` excludes a version and locks nothing), or zypper's solvable_name."""
    found: List[str] = []
    for line in (row.strip() for row in text.splitlines()):
        if line.startswith("solvable_name:"):
            found.append(line.partition(":")[2].strip())
        elif line and line[0] not in "#!" and ":" not in line.partition("-")[0]:
            parts = line.rsplit("-", 2)
            found.append(parts[0] if len(parts) == 3 else line)
    return found
