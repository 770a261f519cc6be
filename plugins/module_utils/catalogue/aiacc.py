# SPDX-License-Identifier: GPL-3.0-or-later
"""AIACC's network plugin for NCCL on eRDMA: its package, where it lies, which NCCL it goes with, and what of its family does harm. Pure.

The package is not signed, so it is taken only with a sha256 of the operator's, whatever its release.
"""

from typing import Any, NamedTuple, Optional, Tuple

from ..formats.text import numbers
from .artifacts import download_url, find_artifact, pinned

PROFILE = "erdma-aiacc"
PACKAGE = "aiacc-nccl-plugin"
VARIABLE = "NCCL_NET_PLUGIN"
RELEASE = "1.0.2"  # the document's (the guide to eRDMA, lines 44-46)
LIBRARIES = "/usr/local/lib"
PLUGIN = "libnccl-net.so"
PATH = "%s/%s" % (LIBRARIES, PLUGIN)
OLDEST, NEWEST = (2, 8), (2, 16)  # the guide to eRDMA, line 38
RANGE = "2.8 to 2.16"
SOURCE = "the guide to eRDMA, ALI (AIACC)"
DEEPNCCL = "deep-nccl"  # overwrites libnccl.so(.2) in /usr/local/lib and leaves .bak (ALI)
# Source distributions whose setup.py downloads a package and installs it with rpm or dpkg (read on PyPI).
PYPI = ("aiacc-nccl-plugin", "deepncclplugin", "deepnccl")
BROUGHT = "/var/cache/railwright/packages/aiacc-nccl-plugin.%s"


class AiaccPackage(NamedTuple):
    """One package file. ``url`` None: it comes from the controller; ``sha256`` None: it is not pinned."""

    version: str
    artifact: str  # the name in rdma_artifact_pins
    url: Optional[str]
    archive: Optional[str]
    sha256: Optional[str]
    path: str  # where it is brought to


def ending_of(manager: str) -> Optional[str]:
    return {"apt": "deb", "dnf": "rpm", "yum": "rpm"}.get(manager)


def artifact_name(version: str, ending: str) -> str:
    """A release that the catalogue knows has a row of its own; any other is pinned under the first one's name."""
    base = "aiacc_nccl_plugin_" + ending
    return "%s-%s" % (base, version) if find_artifact("%s-%s" % (base, version)) is not None else base


def known_place(version: str) -> bool:
    """Whether the catalogue has a URL of this release; of each it has both kinds."""
    row = find_artifact(artifact_name(version, "deb"))
    return row is not None and row.version == version


def package_of(spec: Any, manager: str) -> Optional[AiaccPackage]:
    """The wanted package for a package manager, None where there is none of its kind."""
    ending = ending_of(manager)
    if ending is None:
        return None
    version, archive = spec["aiacc_version"], spec["aiacc_archive"]
    name = artifact_name(version, ending)
    row = find_artifact(name)
    url = spec["aiacc_url"]
    if url is None and archive is None and row is not None and known_place(version):
        url = download_url(row, spec)
    sha256 = pinned(row, spec) if row is not None else None
    return AiaccPackage(version, name, None if archive is not None else url, archive, sha256, BROUGHT % ending)


def fits_nccl(version: Optional[str]) -> Optional[bool]:
    """Whether AIACC's plugin goes with this NCCL; None where the version does not say."""
    found = numbers(version)[:2]
    return OLDEST <= found <= NEWEST if len(found) == 2 else None


def is_release(found: str, wanted: str) -> bool:
    """``1.0.2-1.el7`` is 1.0.2; 1.0.20 is not."""
    bare = found.rpartition(":")[2]
    return bare == wanted or bare.startswith(wanted + "-")


def deep_words(package: Optional[str], backups: Tuple[str, ...]) -> str:
    what = "package %s %s" % (DEEPNCCL, package) if package is not None else "its package is gone"
    kept = "; what it overwrote is in %s" % ", ".join(backups) if backups else ""
    return "DeepNCCL (%s) has put its own libnccl.so.2 into %s, over the one that was there%s" % (what, LIBRARIES, kept)


def pypi_words(name: str, version: str, directory: str) -> str:
    return "%s %s of a package index is in %s: its setup downloads a package and installs it with rpm or dpkg, past every pin" % (
        name, version, directory)
