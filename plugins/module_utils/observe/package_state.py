# SPDX-License-Identifier: GPL-3.0-or-later
"""What a package manager has beside versions: everything that is installed, what is held, and what was left half done."""

import fnmatch
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import Host
from ..types import Identity
from .packages import DPKG_LIMIT, DPKG_STATUS, RPM_FORMAT, RPM_TIMEOUT, rpm_lines

DPKG_UPDATES = "/var/lib/dpkg/updates"
_FIELDS = re.compile(r"^(Package|Status|Version): (.+)$", re.MULTILINE)
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


def all_installed(host: Host, identity: Identity) -> Optional[Dict[str, str]]:
    """Version by name of everything that is installed; None when the database cannot be read."""
    if identity.platform.package_manager == "apt":
        rows = _dpkg_rows(host)
        if rows is None:
            return None
        return {name: version for name, _want, _error, state, version in rows if state == "installed" and version}
    answer = host.run(["rpm", "-qa", "--qf", RPM_FORMAT], RPM_TIMEOUT)
    if answer.ok and answer.out:
        return rpm_lines(answer.out)
    recorded = [] if host.live else [name for name in host.listdir("/cmd") if name.startswith("rpm_-qa")]
    found: Dict[str, str] = {}
    for name in recorded:
        found.update(rpm_lines(host.read("/cmd/" + name) or ""))
    return found or None


def held(host: Host, identity: Identity, names: Sequence[str]) -> Tuple[Hold, ...]:
    """Those of ``names`` that somebody else than railwright holds."""
    manager = identity.platform.package_manager
    if manager == "apt":
        on_hold = [name for name, want, _error, _state, _version in _dpkg_rows(host) or [] if want == "hold"]
        return tuple(Hold(name, "apt-mark hold", "apt-mark unhold " + name) for name in names if name in on_hold)
    if manager not in VERSIONLOCK:
        return ()
    path, lift, by = VERSIONLOCK[manager]
    globs = _locked_globs(without_ours(host.read(path) or ""))
    locked = [name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    return tuple(Hold(name, "%s (%s)" % (by, path), lift % name) for name in locked)


def unfinished(host: Host) -> Unfinished:
    """Packages between two states, and files of dpkg's journal that the next run would have merged."""
    rows = _dpkg_rows(host) or []
    packages = tuple((name, state) for name, _want, error, state, _version in rows if state in UNFINISHED or error == "reinstreq")
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


def _dpkg_rows(host: Host) -> Optional[List[Tuple[str, str, str, str, str]]]:
    """Name, want, error, state and version of every stanza."""
    text = host.read(DPKG_STATUS, DPKG_LIMIT)
    if text is None or "Package: " not in text:
        return None
    rows: List[Tuple[str, str, str, str, str]] = []
    for stanza in text.split("\n\n"):
        fields = dict(_FIELDS.findall(stanza))
        status = fields.get("Status", "").split()
        name, version = fields.get("Package", ""), sysfs_values.token(fields.get("Version"))
        if sysfs_values.is_name(name) and len(status) == 3:
            rows.append((name, status[0], status[1], status[2], version or ""))
    return rows


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
