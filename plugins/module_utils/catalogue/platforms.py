# SPDX-License-Identifier: GPL-3.0-or-later
"""Operating systems: family, package manager, end of life, each row with why and source.

``eol`` is the last day on which the vendor fixes security holes without a separate
paid contract (Debian: the end of LTS, which is free). A system past it is refused
unless the inventory says ``rdma_accept_eol``. The date decides, not a flag, so that a row
does not go stale: ask ``end_of_life(row, today)``.

What the distributions' own RDMA packages are called is in ``inbox.py``.
"""

from typing import NamedTuple, Optional, Tuple

from ..types import Identity


class System(NamedTuple):
    """One release of a distribution. ``version`` is VERSION_ID or the part of it before a dot."""

    id: str  # ID of /etc/os-release; "centos-stream" is told from "centos" by NAME
    version: str
    name: str
    family: str  # debian, redhat, suse
    package_manager: str  # apt, dnf, yum, zypper
    eol: str  # ISO date, the last day of support
    why: str
    source: str


_DEBIAN = "wiki.debian.org/LTS"
_UBUNTU = "ubuntu.com/about/release-cycle (end of standard security maintenance)"
_RHEL = "access.redhat.com/support/policy/updates/errata (end of the maintenance phase)"
_ROCKY = "wiki.rockylinux.org/rocky/version"
_ALMA = "wiki.almalinux.org/release-notes"
_CENTOS = "centos.org/centos-linux-eol and centos.org/cl-vs-cs"
_STREAM = "centos.org/cl-vs-cs (with RHEL's full support: access.redhat.com/support/policy/updates/errata)"
_ALIBABA = "alibabacloud.com/help/en/ecs, Alibaba Cloud Linux life cycle"
_OPENEULER = "openeuler.org/en/other/lifecycle (service pack with the latest date)"
_SUSE = "suse.com/lifecycle (general support)"

SYSTEMS = (
    System("debian", "10", "Debian 10", "debian", "apt", "2024-06-30", "LTS is over", _DEBIAN),
    System("debian", "11", "Debian 11", "debian", "apt", "2026-08-31", "rdma-core 33.2, no erdma provider", _DEBIAN),
    System("debian", "12", "Debian 12", "debian", "apt", "2028-06-30", "rdma-core 44, the lab's system", _DEBIAN),
    System("debian", "13", "Debian 13", "debian", "apt", "2030-06-30", "rdma-core 56, erdma provider inbox", _DEBIAN),
    System("ubuntu", "18.04", "Ubuntu 18.04", "debian", "apt", "2023-05-31", "standard support is over", _UBUNTU),
    System("ubuntu", "20.04", "Ubuntu 20.04", "debian", "apt", "2025-05-31", "standard support is over", _UBUNTU),
    System("ubuntu", "22.04", "Ubuntu 22.04", "debian", "apt", "2027-04-30", "rdma-core 39, no erdma provider", _UBUNTU),
    System("ubuntu", "24.04", "Ubuntu 24.04", "debian", "apt", "2029-04-30", "rdma-core 50", _UBUNTU),
    System("ubuntu", "26.04", "Ubuntu 26.04", "debian", "apt", "2031-04-30", "rdma-core 61", _UBUNTU),
    System("rhel", "8", "Red Hat Enterprise Linux 8", "redhat", "dnf", "2029-05-31", "platform Python 3.6: ansible-core 2.16", _RHEL),
    System("rhel", "9", "Red Hat Enterprise Linux 9", "redhat", "dnf", "2032-05-31", "Python 3.9", _RHEL),
    System("rhel", "10", "Red Hat Enterprise Linux 10", "redhat", "dnf", "2035-05-31", "Python 3.12", _RHEL),
    System("rocky", "8", "Rocky Linux 8", "redhat", "dnf", "2029-05-31", "platform Python 3.6: ansible-core 2.16", _ROCKY),
    System("rocky", "9", "Rocky Linux 9", "redhat", "dnf", "2032-05-31", "Python 3.9", _ROCKY),
    System("rocky", "10", "Rocky Linux 10", "redhat", "dnf", "2035-05-31", "Python 3.12", _ROCKY),
    System("almalinux", "8", "AlmaLinux 8", "redhat", "dnf", "2029-03-01", "platform Python 3.6: ansible-core 2.16", _ALMA),
    System("almalinux", "9", "AlmaLinux 9", "redhat", "dnf", "2032-05-31", "Python 3.9", _ALMA),
    System("almalinux", "10", "AlmaLinux 10", "redhat", "dnf", "2035-05-31", "Python 3.12", _ALMA),
    System("centos", "7", "CentOS Linux 7", "redhat", "yum", "2024-06-30", "no updates any more; Python 2.7", _CENTOS),
    System("centos", "8", "CentOS Linux 8", "redhat", "dnf", "2021-12-31", "no updates any more", _CENTOS),
    System("centos-stream", "8", "CentOS Stream 8", "redhat", "dnf", "2024-05-31", "no updates any more", _STREAM),
    System("centos-stream", "9", "CentOS Stream 9", "redhat", "dnf", "2027-05-31", "ahead of RHEL 9", _STREAM),
    System("centos-stream", "10", "CentOS Stream 10", "redhat", "dnf", "2030-05-31", "ahead of RHEL 10", _STREAM),
    System("alinux", "2", "Alibaba Cloud Linux 2", "redhat", "yum", "2026-03-31", "extended support is over", _ALIBABA),
    System("alinux", "3", "Alibaba Cloud Linux 3", "redhat", "dnf", "2031-03-31", "Alibaba's choice for eRDMA; Python 3.6", _ALIBABA),
    System("anolis", "8", "Anolis OS 8", "redhat", "dnf", "2031-03-31", "RHEL 8 compatible", "gitee.com/anolis/rnotes, life-cycle.md"),
    System("openEuler", "20.03", "openEuler 20.03 LTS", "redhat", "dnf", "2025-11-30", "SP4 was the last", _OPENEULER),
    System("openEuler", "22.03", "openEuler 22.03 LTS", "redhat", "dnf", "2026-06-30", "SP4 was the last", _OPENEULER),
    System("openEuler", "24.03", "openEuler 24.03 LTS", "redhat", "dnf", "2027-12-31", "SP3 lives longest", _OPENEULER),
    System("sles", "15.5", "SUSE Linux Enterprise Server 15 SP5", "suse", "zypper", "2024-12-31", "LTSS is a paid contract", _SUSE),
    System("sles", "15.6", "SUSE Linux Enterprise Server 15 SP6", "suse", "zypper", "2025-12-31", "LTSS is a paid contract", _SUSE),
    System("sles", "15.7", "SUSE Linux Enterprise Server 15 SP7", "suse", "zypper", "2031-07-31", "the last service pack of 15", _SUSE),
)

# For systems that have no row: what ID or ID_LIKE says about the family.
FAMILIES = {
    "debian": "debian", "ubuntu": "debian",
    "rhel": "redhat", "centos": "redhat", "fedora": "redhat", "rocky": "redhat", "almalinux": "redhat",
    "alinux": "redhat", "anolis": "redhat", "openeuler": "redhat", "ol": "redhat", "amzn": "redhat",
    "suse": "suse", "sles": "suse", "opensuse": "suse",
}


def find_system(os_id: str, version: str) -> Optional[System]:
    """The row of a system: the exact VERSION_ID first, then the major version."""
    rows = {row.version: row for row in SYSTEMS if row.id.lower() == os_id.lower()}
    return rows.get(version) or rows.get(version.partition(".")[0])


def family_of(os_id: str, like: Tuple[str, ...], version: str = "") -> Tuple[str, str]:
    """(family, package manager) of a system, ("unknown", "unknown") when nothing tells."""
    row = find_system(os_id, version)
    if row is not None:
        return row.family, row.package_manager
    family = next((FAMILIES[name.lower()] for name in (os_id,) + like if name.lower() in FAMILIES), "unknown")
    return family, {"debian": "apt", "redhat": "dnf", "suse": "zypper"}.get(family, "unknown")


def system_of(identity: Identity) -> str:
    """``Debian GNU/Linux 12 (x86_64)``, for messages."""
    return "%s (%s)" % (identity.platform.pretty or identity.platform.id, identity.arch)


def end_of_life(row: System, today: str) -> bool:
    """Whether support of a system has ended on ``today`` (ISO date; the caller owns the clock)."""
    return today > row.eol


def supported_names(today: str) -> Tuple[str, ...]:
    """Every system that is supported today, as people call it: for error messages."""
    return tuple(row.name for row in SYSTEMS if not end_of_life(row, today))
