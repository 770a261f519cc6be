# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers on RDMA nodes: NVIDIA's container toolkit, which versions can do what, and names that clusters give RDMA devices. Pure.

The toolkit comes from the CUDA repository, whose index and rpms are signed by a key that ``artifacts.py`` pins. (NVIDIA's own
repository for it, nvidia.github.io/libnvidia-container, has rpms that nobody signed.)
"""

import re
from typing import NamedTuple, Optional, Tuple

from ..formats.versions import compare
from ..spec.model import Spec
from ..types import Identity
from .artifacts import rows_of
from .drivers import Wanted, driver_fits, minimum_driver

TOOLKIT_RELEASE = "1.19.1"
TOOLKIT_SOURCE = "NVIDIA/nvidia-docker issue 1731 (in the CUDA repositories since 1.13); a public guide lists 1.19.1-1 there for ubuntu2204"
# In this order: each depends on the next in one version, and apt takes the newest of what it is not told.
TOOLKIT_PACKAGES = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
WHY_TOOLKIT = "gives containers the GPUs and the driver's libraries (containers_toolkit_install)"
# From which version on something works, with where that was read.
CDI_SINCE = {
    "podman": "4.1.0",  # NVIDIA (container toolkit: support for CDI)
    "docker": "25.0.0",  # docker/cli pull request 4084: opt-in by features.cdi
    "toolkit": "1.12.0",  # NVIDIA (container toolkit: support for CDI)
}
DOCKER_CDI_DEFAULT = "28.2.0"  # Docker Engine 28.2.0 release notes: on unless features.cdi is false
CDI_SOURCE = "NVIDIA (container toolkit: support for CDI)"
# What device plugins of Kubernetes call an RDMA device, by fabric.
RDMA_RESOURCES = {
    "erdma": "aliyun/erdma",  # ERC
    "roce": "rdma/rdma_shared_device_a",  # NVIDIA Network Operator's example; a site may call it otherwise
    "infiniband": "rdma/rdma_shared_device_a",
}
GPU_RESOURCE = "nvidia.com/gpu"  # NVIDIA's device plugin
_REQUIRED_CUDA = re.compile(r"(?:^|\s)cuda>=([0-9]{1,9}(?:\.[0-9]{1,9})*)")
_CUDA = re.compile(r"[0-9]{1,2}(?:\.[0-9]+){0,2}\Z")


class CudaFit(NamedTuple):
    """``fits`` None: it cannot be told, and ``message`` says why."""

    fits: Optional[bool]
    message: str


def toolkit_packages(spec: Spec, identity: Identity) -> Tuple[Wanted, ...]:
    """() where nothing is known for this system."""
    family = identity.platform.family
    if family not in ("debian", "redhat") or (spec["cuda_repository_url"] is None and rows_of("cuda", identity)[0] is None):
        return ()
    return tuple(Wanted(name, TOOLKIT_RELEASE + "-*", WHY_TOOLKIT, TOOLKIT_SOURCE) for name in TOOLKIT_PACKAGES)


def at_least(version: Optional[str], minimum: str) -> bool:
    return version is not None and compare(version, minimum, "redhat") >= 0


def image_cuda(cuda_version: Optional[str], required: Optional[str]) -> Optional[str]:
    """The CUDA release of an image: of CUDA_VERSION (12.4.1), else the least that NVIDIA_REQUIRE_CUDA asks for (cuda>=12.4 brand=…)."""
    if cuda_version is not None and _CUDA.match(cuda_version):
        return cuda_version
    found = _REQUIRED_CUDA.search(required or "")
    return found.group(1) if found is not None and _CUDA.match(found.group(1)) else None


def cuda_fit(cuda: Optional[str], driver: Optional[str]) -> CudaFit:
    """Whether an image's CUDA runs on a node's driver, by minor version compatibility."""
    if cuda is None:
        return CudaFit(None, "the image's CUDA is not known; --image-cuda VERSION says it")
    minimum = minimum_driver(cuda)
    if not minimum:
        return CudaFit(None, "the catalogue does not know which driver CUDA %s needs" % cuda)
    if driver is None:
        return CudaFit(None, "no NVIDIA driver is loaded here; CUDA %s needs %s or newer" % (cuda, minimum))
    if driver_fits(cuda, driver):
        return CudaFit(True, "the image's CUDA %s runs on this node's driver %s (needs %s or newer)" % (cuda, driver, minimum))
    return CudaFit(False, "the image's CUDA %s needs driver %s or newer, and this node has %s: take an image with an older CUDA or a newer "
                   "driver (gpu_driver_branch)" % (cuda, minimum, driver))
