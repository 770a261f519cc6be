# SPDX-License-Identifier: GPL-3.0-or-later
"""What each vendor calls a system in the names of its repositories, and so which row of the catalogue is for a node. Pure."""

from typing import Optional, Tuple

from ..types import Identity, Platform
from . import erdma
from .artifacts import Artifact, find

# Systems that NVIDIA serves from RHEL's directories: built from the same sources.
REBUILDS = {
    "doca": ("rhel", "rocky", "almalinux"),  # AZ installs rhel8 and rhel9 packages on AlmaLinux and Rocky Linux
    "mlnx_ofed": ("rhel", "rocky", "almalinux"),
    "cuda": ("rhel", "rocky", "almalinux", "ol"),  # NVIDIA (driver installation guide, table of distributions)
}


def label_of(vendor: str, platform: Platform) -> Optional[str]:
    """ubuntu24.04 for DOCA, ubuntu2404 for CUDA, rhel9.5 for MLNX_OFED …; None for a system that the vendor does not serve."""
    if vendor == "erdma":
        return erdma.label_of(platform)
    major = platform.version.partition(".")[0]
    if platform.id == "ubuntu":
        return "ubuntu" + (platform.version.replace(".", "") if vendor == "cuda" else platform.version)
    if platform.id == "debian":
        return "debian" + major
    if platform.id in REBUILDS[vendor]:
        return "rhel" + (platform.version if vendor == "mlnx_ofed" else major)
    return None


def rows_of(vendor: str, identity: Identity) -> Tuple[Optional[Artifact], Optional[Artifact]]:
    """(repository, key) of a vendor (doca, mlnx_ofed, cuda, erdma) for a node; None where the catalogue has none."""
    place = "%s-%s" % (label_of(vendor, identity.platform), identity.arch)
    repository = find("%s-%s" % (vendor, place))
    if vendor == "erdma":
        return repository, find(erdma.KEY)
    return repository, find("%s-key-%s" % (vendor, place))
