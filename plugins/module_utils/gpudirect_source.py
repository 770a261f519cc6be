# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the source of nv_peer_mem comes from and goes to: the catalogue's archive, through the site's mirror, held to a pin. Pure."""

from typing import NamedTuple, Optional

from .catalogue.artifacts import find, located, mirrored, pinned
from .spec.model import Spec

ARTIFACTS = {"1.0-9": "nv_peer_mem", "1.3-0": "nv_peer_mem-1.3"}


class Source(NamedTuple):
    """An archive to download. ``sha256`` None: nobody vouches for it yet, so it is not taken."""

    artifact: str
    url: str
    sha256: Optional[str]


def dkms_version(release: str) -> str:
    """PACKAGE_VERSION of the release's dkms.conf: 1.0 of 1.0-9."""
    return release.partition("-")[0]


def directory(release: str) -> str:
    """Where DKMS looks for it."""
    return "/usr/src/nv_peer_mem-" + dkms_version(release)


def source_of(spec: Spec, release: str) -> Optional[Source]:
    """The archive of a release; None when the catalogue does not have it."""
    artifact = find(ARTIFACTS.get(release, ""))
    if artifact is None:
        return None
    return Source(artifact.name, mirrored(located(artifact), spec["artifact_mirror"]), pinned(artifact, spec))
