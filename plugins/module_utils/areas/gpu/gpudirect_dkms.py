# SPDX-License-Identifier: GPL-3.0-or-later
"""Peer memory modules through DKMS: the driver's own built again against the stack, nv_peer_mem built from its source.

``dkms remove`` of the last kernel takes the module off DKMS' list; ``dkms install`` puts it there again from /usr/src.
"""

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ...catalogue.artifacts import find, located, mirrored, pinned
from ...observe.dkms import INSTALLED, Build, builds_for
from ...observe.peermem_build import OTHER_STACK, WITHOUT_CLIENT
from ...spec.model import Spec
from ...types import DRIVER, Change, Subject, run
from ..common.modules import load, loaded_module

AREA = "gpudirect"
BUILD_SECONDS = 1800.0  # the open modules take 3 minutes on 16 cores
WHY_ORDER = "nvidia_peermem was built before this RDMA stack, or against another one: it cannot register with ib_core"
WHY_SOURCE = "this driver has no nvidia_peermem of its own; without a build for the running kernel there is no path to GPU memory"
ORDER_SOURCE = "NVIDIA (nvidia-peermem: build the driver after OFED); nv_peer_memory issues 28, 79, 84"
SOURCE = "nv_peer_memory (README, dkms.conf)"
OTHERS = ("nvidia-fs", "nvidia-peer-memory")  # begin like the driver and are none


def nvidia_build(builds: Sequence[Build], kernel: str, driver: Optional[str]) -> Optional[Build]:
    """The DKMS module of the installed driver: nvidia, nvidia-open, nvidia-current-open … by distribution."""
    for build in builds_for(builds, kernel):
        if build.module.startswith("nvidia") and build.module not in OTHERS and build.version == driver:
            return build
    return None


def nvidia_registered(builds: Sequence[Build]) -> Optional[str]:
    """MODULE/VERSION of a driver that DKMS has, for whatever kernel."""
    found = [build for build in builds if build.module.startswith("nvidia") and build.module not in OTHERS]
    return "%s/%s" % (found[-1].module, found[-1].version) if found else None


def plan_rebuild(build: Build, kernel: str, seen: Mapping[str, Any], loads: bool) -> List[Change]:
    """Build the driver's modules again. One that is loaded and works stays; one that is loaded and useless is exchanged."""
    name = "%s/%s" % (build.module, build.version)
    module = "nvidia_peermem"
    ops = rebuild_ops(name, kernel)
    useless = seen["peermem_module"] == module and seen["peermem_registered"] is False
    if useless:
        ops = ops + (run(("modprobe", "-r", module), (("modprobe", module),)), load(module))
    elif seen["peermem_module"] == module:
        # Nothing to do while it is loaded; a restart of the stack in the same apply has unloaded it, and its old build does not come back.
        ops = ops + (run(("modprobe", module)),)
    before = (seen["peermem_build"] or {}).get("state")
    changes = [Change(AREA, "modules of the GPU driver built for this RDMA stack", before, "fits", "reload" if useless else "none",
                      WHY_ORDER, ORDER_SOURCE, ops)]
    if loads:
        changes.append(loaded_module(AREA, module, WHY_ORDER, ORDER_SOURCE))
    return changes


def rebuild_ops(name: str, kernel: str) -> Any:
    """What is undone is built again as well: against whatever stack is there by then."""
    remove, install = ("dkms", "remove", name, "-k", kernel), ("dkms", "install", name, "-k", kernel)
    return (run(remove, (install,), BUILD_SECONDS), run(install, (remove,), BUILD_SECONDS))


def plan_nv_peer_mem(release: str, kernel: str, builds: Sequence[Build], state: Optional[str]) -> List[Change]:
    """Added, built and installed for the running kernel; DKMS builds it for later kernels by itself (AUTOINSTALL)."""
    name = "nv_peer_mem/" + release
    found = [build for build in builds_for(builds, kernel, "nv_peer_mem") if build.version == release]
    unfit = state in (WITHOUT_CLIENT, OTHER_STACK)
    if found and found[0].state == INSTALLED and not unfit:
        return []
    known = any(build.module == "nv_peer_mem" and build.version == release for build in builds)
    if unfit and found:
        ops = rebuild_ops(name, kernel)
    else:
        added = () if known else (run(("dkms", "add", name), (("dkms", "remove", name, "--all"),)),)
        ops = added + (run(("dkms", "install", name, "-k", kernel), (("dkms", "uninstall", name, "-k", kernel),), BUILD_SECONDS),)
    before = found[0].state if found else None
    return [Change(AREA, "DKMS module %s for kernel %s" % (name, kernel), state if unfit else before, INSTALLED, "none",
                   WHY_ORDER if unfit else WHY_SOURCE, SOURCE, ops, Subject(DRIVER, "nv_peer_mem"))]


# Where the source of nv_peer_mem comes from and goes to: the catalogue's archive, through the site's mirror, held to a pin. Pure.

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
