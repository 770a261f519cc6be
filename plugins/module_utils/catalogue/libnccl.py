# SPDX-License-Identifier: GPL-3.0-or-later
"""The NCCL library: which release is pinned, for which CUDA, and what the packages are called. Pure.

NVIDIA builds every release once for each major version of CUDA that it still serves, and the package's version says with which
release: 2.30.7-1+cuda13.3. Such a build runs on every driver of that major version (minor version compatibility).
"""

from typing import Any, NamedTuple, Optional, Tuple

from ..spec.model import Spec
from ..types import Identity
from .artifacts import NCCL_RELEASE, rows_of
from .drivers import MINIMUM_DRIVERS, Wanted, driver_fits

PACKAGED, IN_PREFIX = ("repository", "distribution"), ("wheel", "source")


class Build(NamedTuple):
    """The package of the pinned release that is built for one major version of CUDA."""

    cuda: str
    version: str
    source: str


class Shipped(NamedTuple):
    """What a distribution itself has; a released one keeps the version for its life."""

    id: str
    version_id: str
    version: str
    source: str


BUILDS = (
    Build("13", NCCL_RELEASE + "-1+cuda13.3", "NVIDIA's CUDA repository, as several public build files of 2026 install it (deb and rpm)"),
    Build("12", NCCL_RELEASE + "-1+cuda12.9", "NVIDIA's CUDA repository, as three public build files of 2026 install it (deb)"),
)
SHIPPED = (
    Shipped("debian", "13", "2.22.3-1-*", "Debian (trixie, contrib: source package nvidia-nccl)"),
    Shipped("ubuntu", "24.04", "2.18.5-1-*", "Ubuntu (noble, multiverse: nvidia-nccl)"),
    Shipped("ubuntu", "26.04", "2.22.3-1-*", "Ubuntu (resolute, multiverse: nvidia-nccl)"),
)
NAMES = {"debian": ("libnccl2", "libnccl-dev"), "redhat": ("libnccl", "libnccl-devel")}
BUILD_TOOLS = {"debian": ("make", "g++"), "redhat": ("make", "gcc-c++", "which")}  # which: its Makefile asks


def cuda_of(version: Optional[str]) -> str:
    """13 of ``2.30.7-1+cuda13.3``; '' where a version does not say."""
    return (version or "").partition("+cuda")[2].partition(".")[0]


def wanted_cuda(spec: Any) -> str:
    """The major version of CUDA that NCCL has to be built for, as far as the inventory alone tells; '' where it does not."""
    if spec["nccl_version"] is not None and cuda_of(spec["nccl_version"]):
        return cuda_of(spec["nccl_version"])
    if spec["cuda_version"] is not None:
        return str(spec["cuda_version"]).partition(".")[0]
    return cuda_for_driver(spec["gpu_driver_branch"] or "")


def cuda_for_driver(driver: str) -> str:
    """The newest major version of CUDA that a driver (a version, or a branch) runs; '' for none that the catalogue knows."""
    fitting = [major for major in MINIMUM_DRIVERS if driver and driver_fits(major, driver)]
    return max(fitting, key=int) if fitting else ""


def nccl_version(spec: Spec, identity: Identity) -> Optional[Tuple[str, str]]:
    """(version of the packages as a glob, source); None where nothing is known for this system or this CUDA."""
    asked: Optional[str] = spec["nccl_version"]
    if spec["nccl_install"] == "distribution":
        system = (identity.platform.id, identity.platform.version)
        row = next((row for row in SHIPPED if (row.id, row.version_id) == system and identity.arch == "x86_64"), None)
        return None if row is None else (row.version if asked is None else _as_glob(asked, ""), row.source)
    cuda = wanted_cuda(spec)
    build = next((row for row in BUILDS if row.cuda == cuda), None)
    if asked is None:
        return None if build is None else (build.version, build.source)
    return (_as_glob(asked, cuda), "inventory") if cuda else None


def _as_glob(asked: str, cuda: str) -> str:
    """``2.29.7-1+cuda13.*`` of 2.29.7; what has a revision and a CUDA is exact.

    One star, and at the end: apt-get takes no other glob after ``=`` (seen). NVIDIA's revision is 1; another one can be named.
    """
    if "+cuda" in asked:
        return asked
    if not cuda:
        return asked + ("*" if "-" in asked else "-*")
    return "%s+cuda%s.*" % (asked if "-" in asked else asked + "-1", cuda)


def nccl_packages(spec: Spec, identity: Identity) -> Tuple[Wanted, ...]:
    """NCCL's packages, or those that build it; () where none are wanted or nothing is known for this system."""
    install, family = spec["nccl_install"], identity.platform.family
    if not identity.gpus or family not in NAMES:
        return ()
    if install == "source":
        return tuple(Wanted(name, None, "NCCL is built from its source on this node", "NVIDIA/nccl (README, build)")
                     for name in BUILD_TOOLS[family])
    known = install == "distribution" or spec["cuda_repository_url"] is not None or rows_of("cuda", identity)[0] is not None
    found = nccl_version(spec, identity) if install in PACKAGED and known else None
    if found is None:
        return ()
    version, source = found
    whys = ("NCCL " + version.partition("-")[0], "to build against NCCL")
    return tuple(Wanted(name, version, why, source) for name, why in zip(NAMES[family], whys))
