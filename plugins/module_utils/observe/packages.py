# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages and their versions, from dpkg's database file or one rpm command.

The names of interest are known beforehand, so dpkg's status (some MiB of text) is
searched and not parsed. In a captured tree rpm's answer is a recording: of the exact command, or
any file under cmd/ whose name begins with ``rpm_-qa``.
"""

import re
from typing import Dict, Iterable, List, Optional, Tuple

from ..catalogue.inbox import FAMILIES as INBOX
from ..catalogue.inbox import RENAMED
from ..formats import sysfs_values
from ..host.host import Host
from ..types import Identity

DPKG_STATUS = "/var/lib/dpkg/status"
DPKG_LIMIT = 64 * 1024 * 1024  # 4,000 packages are 6 MiB
RPM_FORMAT = "%{NAME} %{VERSION}-%{RELEASE}\\n"
RPM_TIMEOUT = 60.0

# Beside the inbox packages: vendor stacks, NCCL and its plugins, GPU direct.
_OTHERS = (
    "doca-ofed", "doca-host", "doca-all", "doca-networking", "doca-roce", "doca-ofed-userspace",
    "mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-kernel-only", "mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils",
    "mlnx-ofa_kernel", "mlnx-ofa_kernel-dkms", "kmod-mlnx-ofa_kernel", "mlnx-tools", "ofed-scripts", "mft", "opensm",
    "erdma", "erdma-dkms", "libnccl2", "libnccl", "libnccl-net", "aiacc-nccl-plugin", "deep-nccl", "gdrcopy", "libgdrapi", "gdrdrv-dkms",
    "nvidia-peermem-dkms", "nvidia-peer-memory", "nvidia-peer-memory-dkms", "ucx", "iproute2", "iproute", "ethtool",
)
_STANZA_HEAD = re.compile(r"^Package: (\S+)$", re.MULTILINE)
_STATUS = re.compile(r"^Status: \S+ \S+ installed$", re.MULTILINE)
_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)


def family_names(identity: Identity) -> Tuple[str, ...]:
    """Every package of the RDMA family that a node of this kind may have, renamed ones by both names."""
    inbox = INBOX.get(identity.platform.family) or tuple(row for rows in INBOX.values() for row in rows)
    names = {row.name for row in inbox} | set(_OTHERS)
    names.update(RENAMED[name][0] for name in list(names) if name in RENAMED and identity.platform.family == "debian")
    return tuple(sorted(names))


def installed_packages(host: Host, identity: Identity, names: Iterable[str]) -> Dict[str, Optional[str]]:
    """Version of each named package, None for those that are not installed (or cannot be asked for)."""
    wanted = sorted(set(names))
    found = query_packages(host, identity, wanted) or {}
    return {name: found.get(name) for name in wanted}


def query_packages(host: Host, identity: Identity, names: Iterable[str]) -> Optional[Dict[str, str]]:
    """Those of ``names`` that are installed; None when the node's package database cannot be read."""
    wanted = [name for name in sorted(set(names)) if sysfs_values.is_name(name)]
    if not wanted:
        return {}
    family = identity.platform.family
    if family in ("debian", "unknown"):
        text = host.read(DPKG_STATUS, DPKG_LIMIT)
        if text is not None or family == "debian":
            return _from_dpkg(text, wanted)
    return _from_rpm(host, wanted)


def _from_dpkg(text: Optional[str], wanted: List[str]) -> Optional[Dict[str, str]]:
    if text is None or not _STANZA_HEAD.search(text):
        return None
    names = frozenset(wanted)
    found = {}
    end = 0
    for head in _STANZA_HEAD.finditer(text):
        if head.group(1) not in names or head.start() < end:  # a stanza has one name
            continue
        end = text.find("\n\n", head.end())
        end = end if end >= 0 else len(text)
        stanza = text[head.start():end]
        version = _VERSION.search(stanza)
        if version is not None and _STATUS.search(stanza) and sysfs_values.token(version.group(1)):
            found[head.group(1)] = version.group(1)
    return {name: found[name] for name in wanted if name in found}


def _from_rpm(host: Host, wanted: List[str]) -> Optional[Dict[str, str]]:
    """rpm's exit status counts the packages that are missing, so only its answer tells."""
    argv = ["rpm", "-q", "--qf", RPM_FORMAT] + wanted
    answer = host.run(argv, RPM_TIMEOUT)
    if answer.rc not in (124, 127) and (answer.out or answer.ok):
        found = rpm_lines(answer.out)
    else:
        recorded = [] if host.live else [name for name in host.listdir("/cmd") if name.startswith("rpm_-qa")]
        if not recorded:
            return None
        found = {}
        for name in recorded:
            found.update(rpm_lines(host.read("/cmd/" + name) or ""))
    return {name: found[name] for name in wanted if name in found}


def rpm_lines(text: str) -> Dict[str, str]:
    """``name version-release`` of our format, or ``name-version-release.arch`` of plain ``rpm -qa``."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 1:
            parts = fields[0].rpartition(".")[0].rsplit("-", 2)
            fields = [parts[0], "-".join(parts[1:])] if len(parts) == 3 else []
        if len(fields) == 2 and sysfs_values.is_name(fields[0]) and sysfs_values.token(fields[1]):
            found[fields[0]] = fields[1]  # a kernel-like package has several; the last is the newest
    return found
