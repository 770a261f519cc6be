# SPDX-License-Identifier: GPL-3.0-or-later
"""The package database of a node, read once an inspection (dpkg's file, or what ``rpm -qa`` says); what is held, and what is half done.

In a captured tree rpm's answer is a recording: of the exact command, or any file under cmd/ whose name begins with ``rpm_-qa``.
"""

import fnmatch
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.inbox import FAMILIES as INBOX
from ..catalogue.inbox import RENAMED
from ..formats import sysfs_values, versions
from ..formats.outside import is_digits, lines_in
from ..host.host import Host
from ..types import Identity

DPKG_STATUS = "/var/lib/dpkg/status"
DPKG_LIMIT = 64 * 1024 * 1024  # 4,000 packages are 6 MiB
RPM_LIST = ("rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n")
RPM_TIMEOUT = 60.0
INSTALLED = "installed"

# Beside the inbox packages: vendor stacks, NCCL and its plugins, GPU direct.
_OTHERS = (
    "doca-ofed", "doca-host", "doca-all", "doca-networking", "doca-roce", "doca-ofed-userspace",
    "mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-kernel-only", "mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils",
    "mlnx-ofa_kernel", "mlnx-ofa_kernel-dkms", "kmod-mlnx-ofa_kernel", "mlnx-tools", "ofed-scripts", "mft", "opensm",
    "erdma", "erdma-dkms", "libnccl2", "libnccl", "libnccl-net", "aiacc-nccl-plugin", "deep-nccl", "gdrcopy", "libgdrapi", "gdrdrv-dkms",
    "nvidia-peermem-dkms", "nvidia-peer-memory", "nvidia-peer-memory-dkms", "ucx", "iproute2", "iproute", "ethtool",
)


class Row(NamedTuple):
    """What dpkg(1) keeps of a package: the wish, whether it is broken, its state, and its version ("" where it has none)."""

    name: str
    want: str
    error: str
    state: str
    version: str


def family_names(identity: Identity) -> Tuple[str, ...]:
    """Every package of the RDMA family that a node of this kind may have, renamed ones by both names."""
    inbox = INBOX.get(identity.platform.family) or tuple(row for rows in INBOX.values() for row in rows)
    names = {row.name for row in inbox} | set(_OTHERS)
    names.update(RENAMED[name][0] for name in list(names) if name in RENAMED and identity.platform.family == "debian")
    return tuple(sorted(names))


def query_packages(host: Host, identity: Identity, names: Iterable[str]) -> Optional[Dict[str, str]]:
    """Those of ``names`` that are installed, sorted; None when the node's package database cannot be read."""
    found = all_installed(host, identity)
    return None if found is None else {name: found[name] for name in sorted(set(names)) if name in found}


def all_installed(host: Host, identity: Identity) -> Optional[Dict[str, str]]:
    """Version by name of everything that is installed; None when the database cannot be read. Nobody changes it: it is kept."""
    family = identity.platform.family
    return host.once("installed packages of " + family, lambda: _installed(host, family))


def _installed(host: Host, family: str) -> Optional[Dict[str, str]]:
    if family == "debian" or (family == "unknown" and host.exists(DPKG_STATUS)):
        rows = dpkg_rows(host)
        return None if rows is None else {row.name: row.version for row in rows if row.state == INSTALLED and row.version}
    answer = host.run(RPM_LIST, RPM_TIMEOUT)
    recorded = [] if host.live or answer.ok else [name for name in host.listdir("/cmd") if name.startswith("rpm_-qa")]
    text = answer.out if answer.ok else "\n".join(host.read("/cmd/" + name) or "" for name in recorded)
    return rpm_lines(text) or None


def dpkg_rows(host: Host) -> Optional[Tuple[Row, ...]]:
    """Every package that dpkg knows, in the order of its file; None when that cannot be read."""
    return host.once("rows of dpkg", lambda: parse_status(host.read(DPKG_STATUS, DPKG_LIMIT) or ""))


def parse_status(text: str) -> Optional[Tuple[Row, ...]]:
    """The file has some MiB: its three fields are searched for, not all of it taken apart."""
    if "Package: " not in text:
        return None
    rows: List[Row] = []
    for lines in text.split("\n\n"):
        stanza = "\n" + lines
        name, status, version = _field(stanza, "\nPackage: "), _field(stanza, "\nStatus: "), _field(stanza, "\nVersion: ")
        words = status.split()
        if sysfs_values.is_name(name) and len(words) == 3:
            rows.append(Row(name, words[0], words[1], words[2], sysfs_values.token(version) or ""))
    return tuple(rows)


def _field(stanza: str, key: str) -> str:
    begin = stanza.find(key)
    if begin < 0:
        return ""
    end = stanza.find("\n", begin + len(key))
    return stanza[begin + len(key) : end if end >= 0 else None]


def rpm_lines(text: str) -> Dict[str, str]:
    """``name version-release`` of our format, or ``name-version-release.arch`` of plain ``rpm -qa``."""
    found: Dict[str, str] = {}
    for line in lines_in(text):
        fields = line.split()
        if len(fields) == 1:
            parts = fields[0].rpartition(".")[0].rsplit("-", 2)
            fields = [parts[0], "-".join(parts[1:])] if len(parts) == 3 else []
        if len(fields) == 2 and sysfs_values.is_name(fields[0]) and sysfs_values.token(fields[1]):
            known = found.get(fields[0])  # a kernel-like package has several; the newest counts
            if known is None or versions.compare(known, fields[1], "redhat") < 0:
                found[fields[0]] = fields[1]
    return found


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


def held_packages(host: Host, identity: Identity, names: Sequence[str]) -> Tuple[Hold, ...]:
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
    for line in lines_in(text):
        if line in (LOCK_BEGIN, LOCK_END):
            ours = line == LOCK_BEGIN
        elif not ours:
            kept.append(line)
    return "".join(line + "\n" for line in kept)


def _locked_globs(text: str) -> List[str]:
    """Names in ``name-epoch:version-release.arch`` lines (``!`` excludes a version and locks nothing), or zypper's solvable_name."""
    found: List[str] = []
    for line in (row.strip() for row in lines_in(text)):
        if line.startswith("solvable_name:"):
            found.append(line.partition(":")[2].strip())
        elif line and line[0] not in "#!" and ":" not in line.partition("-")[0]:
            parts = line.rsplit("-", 2)
            found.append(parts[0] if len(parts) == 3 else line)
    return found
