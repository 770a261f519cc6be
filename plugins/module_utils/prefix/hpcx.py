# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X below /opt/railwright/hpcx: which release belongs on this node, and from which archive; its own mpirun must answer."""

from typing import Any, Dict, Optional, Tuple

from ..catalogue.artifacts import located, mirrored, pinned
from ..catalogue.mpi import hpcx_artifact
from ..errors import RailwrightError
from ..host.host import Host
from ..observe.mpi import HPCX_PREFIX, HPCX_TAIL, MPICH, found_mpi
from ..spec.model import Spec
from ..types import Identity
from .installer import Installer, Release, plain_name

CACHE = "/var/cache/railwright/hpcx"


class Hpcx(Installer):
    """Unpacked as it is."""

    title = "HPC-X"
    space = 4 * 1024 ** 3  # choice: the archive has some hundred MB, and is packed by bzip2
    remedy = "set another mpi_version"
    key_files = (HPCX_TAIL[1:],)

    def finish(self, work: str) -> Tuple[str, Dict[str, Any]]:
        """Once its own mpirun starts from where it lies."""
        answers = [row for row in found_mpi(self.host, work + "/unpacked") if row.kind != MPICH]
        if not answers:
            raise RailwrightError("%s holds no %s that runs on this node" % (self.release.artifact, HPCX_TAIL[1:]))
        return work + "/unpacked", {"name": "hpcx", "mpi": answers[0].version}


def wanted(host: Host, spec: Spec, identity: Identity) -> Optional[Hpcx]:
    """None where the inventory wants none. Raises RailwrightError with one line where it cannot be had."""
    if spec["mpi_install"] != "hpcx":
        return None
    artifact = hpcx_artifact(identity.platform, identity.arch)
    if artifact is None:
        raise RailwrightError("the catalogue has no HPC-X for %s (%s); use openmpi or mpich, or unpack one and name it in mpi_prefix" % (
            identity.platform.pretty or identity.platform.id, identity.arch))
    version = spec["mpi_version"] or artifact.version
    sha256 = pinned(artifact, spec, version)
    if sha256 is None:
        raise RailwrightError("nobody here vouches for %s %s: set rdma_artifact_pins.%s to its sha256" % (
            artifact.name, version, artifact.name))
    url = None if spec["mpi_archive"] is not None else mirrored(located(artifact, version), spec["artifact_mirror"])
    file = "%s/%s-%s.tbz" % (CACHE, artifact.name, version)
    return Hpcx(host, Release(version, "%s/%s" % (HPCX_PREFIX, version), artifact.name, url, sha256, file, plain_name(identity.hostname)))
