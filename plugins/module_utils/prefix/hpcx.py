# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X below /opt/railwright/hpcx: which release belongs on this node, from which archive, and the steps that put it there.

Every release has a directory of its own with a manifest. It is unpacked beside its place and renamed once its own mpirun has
answered from there; what is in place is never changed. The link ``current`` names the one that the inventory asks for.
"""

import json
from typing import Any, Dict, NamedTuple, Optional

from ..catalogue.artifacts import located, mirrored, pinned
from ..catalogue.mpi import hpcx_artifact
from ..errors import RailwrightError
from ..formats.outside import read_json
from ..host.commands import check_brought, must
from ..host.host import Host
from ..observe.mpi import CURRENT, HPCX_PREFIX, HPCX_TAIL, MPICH, found_mpi
from ..spec.model import Spec
from ..types import Identity

CACHE = "/var/cache/railwright/hpcx"
MANIFEST = "railwright.json"
SPACE = 4 * 1024 ** 3  # choice: the archive has some hundred MB, and is packed by bzip2
UNPACK_SECONDS = 1800.0


class Wanted(NamedTuple):
    """One release in its directory. ``url`` None: the archive comes from the controller."""

    version: str
    directory: str
    artifact: str
    url: Optional[str]
    sha256: str
    file: str  # where the archive is brought to

    @property
    def staging(self) -> str:
        """Beside its place, so that a rename puts it there; no name of a release, so that nobody takes it for one."""
        return "%s/.%s.part" % (HPCX_PREFIX, self.version)


def wanted(spec: Spec, identity: Identity) -> Optional[Wanted]:
    """None where the inventory wants none. Raises RailwrightError with one line where it cannot be had."""
    if spec["mpi_install"] != "hpcx":
        return None
    artifact = hpcx_artifact(identity.platform, identity.arch)
    if artifact is None:
        raise RailwrightError("the catalogue has no HPC-X for %s (%s); use openmpi or mpich, or unpack one and name it in mpi_prefix" % (
            identity.platform.pretty or identity.platform.id, identity.arch))
    version = spec["mpi_version"] or artifact.version
    # the catalogue's checksum is of its own release only
    sha256 = pinned(artifact, spec) if version == artifact.version else spec["artifact_pins"].get(artifact.name)
    if sha256 is None:
        raise RailwrightError("nobody here vouches for %s %s: set rdma_artifact_pins.%s to its sha256" % (
            artifact.name, version, artifact.name))
    url = None if spec["mpi_archive"] is not None else mirrored(located(artifact, version), spec["artifact_mirror"])
    return Wanted(version, "%s/%s" % (HPCX_PREFIX, version), artifact.name, url, sha256, "%s/%s-%s.tbz" % (CACHE, artifact.name, version))


def in_place(host: Host, hpcx: Wanted) -> bool:
    """Whether it lies there whole. Raises RailwrightError where something else lies in its place."""
    if not host.exists(hpcx.directory):
        return False
    try:
        found = read_json(host.read("%s/%s" % (hpcx.directory, MANIFEST), 65536) or "")
    except ValueError:
        found = None
    wrong: Optional[str] = None
    if not isinstance(found, dict):
        wrong = "it has no manifest of railwright's (%s)" % MANIFEST
    elif found.get("artifact_sha256") != hpcx.sha256:
        wrong = "it was unpacked from another archive than the one that is pinned now"
    elif not host.exists(hpcx.directory + HPCX_TAIL):
        wrong = "%s is gone" % HPCX_TAIL[1:]
    if wrong is not None:
        raise RailwrightError("%s is there, but %s; remove it, or set another mpi_version" % (hpcx.directory, wrong))
    return True


def as_result(host: Host, hpcx: Wanted) -> Dict[str, Any]:
    """What the role is told. ``missing``: it has to be unpacked; ``needed``: that, or the link leads elsewhere."""
    missing = not in_place(host, hpcx)
    linked = host.readlink("%s/%s" % (HPCX_PREFIX, CURRENT)) == hpcx.version
    return dict(hpcx._asdict(), missing=missing, needed=missing or not linked)


def unpack(host: Host, hpcx: Wanted) -> None:
    """The archive that was brought is the pinned one, and its content lies beside its place."""
    check_brought(host, hpcx.file, hpcx.artifact, hpcx.sha256)
    must(host, ("install", "-d", "-m", "0755", "--", HPCX_PREFIX), "make " + HPCX_PREFIX)
    free = host.free_bytes(HPCX_PREFIX)
    if free is not None and free < SPACE:
        raise RailwrightError("%s has %d MiB free, and HPC-X needs %d" % (HPCX_PREFIX, free >> 20, SPACE >> 20))
    must(host, ("rm", "-rf", "--", hpcx.staging), "remove what an earlier run left", 300.0)
    must(host, ("install", "-d", "-m", "0755", "--", hpcx.staging), "make " + hpcx.staging)
    must(host, ("tar", "-xf", hpcx.file, "-C", hpcx.staging, "--strip-components=1", "--no-same-owner", "--no-same-permissions"),
         "unpack HPC-X", UNPACK_SECONDS)


def place(host: Host, hpcx: Wanted) -> None:
    """What was unpacked becomes the directory of its release, once its own mpirun starts from where it lies."""
    answers = [row for row in found_mpi(host, hpcx.staging) if row.kind != MPICH]
    if not answers:
        raise RailwrightError("%s holds no %s that runs on this node" % (hpcx.artifact, HPCX_TAIL[1:]))
    manifest = {"name": "hpcx", "version": hpcx.version, "artifact": hpcx.artifact, "artifact_sha256": hpcx.sha256,
                "mpi": answers[0].version}
    host.write("%s/%s" % (hpcx.staging, MANIFEST), json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    must(host, ("chmod", "-R", "u=rwX,go=rX", "--", hpcx.staging), "set the modes", 300.0)  # jobs of any user start it
    if host.exists("/sys/fs/selinux/enforce"):
        host.run(("restorecon", "-R", hpcx.staging), 300.0)
    must(host, ("mv", "-T", "--", hpcx.staging, hpcx.directory), "put %s in place" % hpcx.directory)
    _forget_archive(host, hpcx)


def link(host: Host, hpcx: Wanted) -> None:
    """``current`` leads to it from one moment to the next."""
    if not in_place(host, hpcx):
        raise RailwrightError("%s is not there" % hpcx.directory)
    part = "%s/.%s.part" % (HPCX_PREFIX, CURRENT)
    must(host, ("ln", "-sfn", "--", hpcx.version, part), "make " + part)
    must(host, ("mv", "-T", "--", part, "%s/%s" % (HPCX_PREFIX, CURRENT)), "make the link " + CURRENT)


def clean(host: Host, hpcx: Wanted) -> None:
    """After an error: nothing of it is left, and no directory that was made for it."""
    must(host, ("rm", "-rf", "--", hpcx.staging), "remove " + hpcx.staging, 300.0)
    _forget_archive(host, hpcx)
    host.rmdir(HPCX_PREFIX)


def _forget_archive(host: Host, hpcx: Wanted) -> None:
    host.remove(hpcx.file)
    host.rmdir(CACHE)
