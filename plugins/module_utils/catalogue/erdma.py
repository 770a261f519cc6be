# SPDX-License-Identifier: GPL-3.0-or-later
"""User space of eRDMA: whose rdma-core has the provider, where Alibaba's packages are for a system, and which they are. Pure.

libibverbs opens an eRDMA device with the provider ``erdma`` alone. rdma-core has it since 43; for older systems
Alibaba has repositories, for x86_64, and no others: a system that is in neither table is refused by name.
"""

from typing import Any, NamedTuple, Optional, Sequence, Tuple

from ..types import Identity, Platform
from .inbox import CORE, DEVINFO, MANAGER, PERFTEST, VERBS, Package
from .platforms import find_system

PROVIDER = "erdma"
PROVIDER_SINCE = "43"
ARCH = "x86_64"
APT_ARCH = "amd64"
KEY = "erdma-key"  # one key signs everything of Alibaba's for eRDMA


class Inbox(NamedTuple):
    """A release whose rdma-core is known."""

    id: str
    version: str
    rdma_core: str
    source: str

    @property
    def provider(self) -> bool:
        return int(self.rdma_core.partition(".")[0]) >= int(PROVIDER_SINCE)


class Place(NamedTuple):
    """Which repository of Alibaba's serves a system: a suite on apt, a directory on dnf."""

    id: str
    version: str  # VERSION_ID, or its first part
    name: str  # bionic, redhat8
    source: str


_DEBIAN = "Debian's archive (versions of rdma-core)"
_UBUNTU = "Ubuntu's archive (versions of rdma-core)"
INBOX = (
    Inbox("debian", "10", "22.1", _DEBIAN), Inbox("debian", "11", "33.2", _DEBIAN),
    Inbox("debian", "12", "44.0", _DEBIAN), Inbox("debian", "13", "56.1", _DEBIAN),
    Inbox("ubuntu", "18.04", "17.1", _UBUNTU), Inbox("ubuntu", "20.04", "28.0", _UBUNTU), Inbox("ubuntu", "22.04", "39.0", _UBUNTU),
    Inbox("ubuntu", "24.04", "50.0", _UBUNTU), Inbox("ubuntu", "26.04", "61.0", _UBUNTU),
)
_EL8 = "inferred: built from the sources of Red Hat Enterprise Linux 8"
# $releasever is no help: the document's baseurl has it, and on Alibaba Cloud Linux it is 2.x or 3, on Rocky Linux 8.10.
PLACES = (
    Place("ubuntu", "18.04", "bionic", "the guide to eRDMA, line 83"), Place("ubuntu", "20.04", "focal", "the guide to eRDMA, line 81"),
    Place("ubuntu", "22.04", "jammy", "ERC (docs/erdma-benchmark/Dockerfile)"),
    Place("alinux", "2", "redhat7", "the guide to eRDMA, line 60 names the system; inferred: it is built from CentOS 7's sources"),
    Place("alinux", "3", "redhat8", "the guide to eRDMA, line 60 names the system; inferred: it is built from CentOS 8's sources"),
    Place("centos", "7", "redhat7", "the guide to eRDMA, line 66; ALI (ACK page)"),
    Place("centos", "8", "redhat8", "the guide to eRDMA, line 66"),
    Place("centos-stream", "8", "redhat8", _EL8), Place("rhel", "8", "redhat8", _EL8), Place("rocky", "8", "redhat8", _EL8),
    Place("almalinux", "8", "redhat8", _EL8), Place("anolis", "8", "redhat8", _EL8),
)
_DEB = "the guide to eRDMA, line 88; ALI (ACK page)"
_RPM = "the guide to eRDMA, line 72"
PACKAGES = {  # supplied: Alibaba's repository is known to have it, so it must come from there
    "debian": (
        Package("libibverbs1", VERBS, _DEB, supplied=True),
        Package("ibverbs-providers", "has the provider erdma, without which libibverbs finds no device", _DEB, supplied=True),
        Package("ibverbs-utils", DEVINFO, _DEB, supplied=True),
        Package("librdmacm1", MANAGER, _DEB, supplied=True),
        Package("rdmacm-utils", "rping", "usual practice"),
        Package("perftest", PERFTEST, "usual practice"),
    ),
    "redhat": (
        Package("libibverbs", "the verbs library with its providers, erdma among them", _RPM, supplied=True),
        Package("rdma-core", CORE, _RPM, ("rdma-ndd.service",), supplied=True),
        Package("librdmacm", MANAGER, _RPM, supplied=True),
        Package("libibverbs-utils", DEVINFO, _RPM, supplied=True),
        Package("perftest", PERFTEST, "ALI (eRDMA user guide: yum install perftest)"),
    ),
}
SOURCE = "the guide to eRDMA, lines 60 to 88, ERC, ALI"


def _row_of(platform: Platform, rows: Sequence[Any]) -> Any:
    """The row of a system, whose version is whole (18.04) or the part before the dot; None where a table has none."""
    major = platform.version.partition(".")[0]
    return next((row for row in rows if row.id == platform.id and row.version == (platform.version if "." in row.version else major)), None)


def inbox_provider(platform: Platform) -> Optional[bool]:
    """Whether the distribution's rdma-core has the provider; None where its version is not known here."""
    row: Optional[Inbox] = _row_of(platform, INBOX)
    return None if row is None else row.provider


def repository_place(platform: Platform) -> Optional[Place]:
    """Alibaba's repository for a system, whatever its architecture."""
    place: Optional[Place] = _row_of(platform, PLACES)
    return place


def label_of(platform: Platform) -> Optional[str]:
    """As artifacts call it: ``apt`` holds every suite, ``redhat7`` and ``redhat8`` are directories of their own."""
    place = repository_place(platform)
    return None if place is None else "apt" if platform.package_manager == "apt" else place.name


def suite_of(platform: Platform) -> str:
    """The suite of apt, ``jammy/erdma``; of a system that Alibaba does not serve, what a copy for it would be called."""
    place = repository_place(platform)
    return "%s/erdma" % (place.name if place is not None else platform.codename)


def packages_of(platform: Platform) -> Tuple[Package, ...]:
    return PACKAGES.get(platform.family, ())


def supplied_by_alibaba(platform: Platform) -> Tuple[str, ...]:
    return tuple(row.name for row in packages_of(platform) if row.supplied)


def no_repository(identity: Identity) -> Optional[str]:
    """Why Alibaba has no repository for a node, and every way out, in one line; None where it has one."""
    platform = identity.platform
    system = "%s on %s" % (platform.pretty or platform.id, identity.arch)
    place = repository_place(platform)
    if place is not None and identity.arch != ARCH:
        return ("Alibaba's eRDMA repositories hold packages for %s alone; this is %s. Use a system whose own rdma-core has the provider "
                "(%s), or name a repository in erdma_repository_url" % (ARCH, system, _names(INBOX)))
    if place is None:
        return ("Alibaba has no eRDMA repository for %s; it serves %s, on %s. Use one of these or a system whose own rdma-core has the "
                "provider (%s: %s or newer), name a repository in erdma_repository_url, or set erdma_repository: false to take the "
                "distribution's packages" % (system, _names(PLACES), ARCH, _names(INBOX), PROVIDER_SINCE))
    return None


def _names(rows: Sequence[Any]) -> str:
    """As people call the systems of a table; of INBOX those with the provider."""
    systems = [find_system(row.id, row.version) for row in rows if not isinstance(row, Inbox) or row.provider]
    return ", ".join(system.name for system in systems if system is not None)
