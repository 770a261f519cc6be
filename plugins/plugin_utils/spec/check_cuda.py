# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the cuda keys, and between CUDA and the driver that the inventory names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import (
    MINIMUM_DRIVERS,
    driver_fits,
    minimum_driver,
    wanted_driver,
)

from .findings import Findings

_RELEASED = re.compile(r"-[0-9]+-[0-9]+\Z")


def check_cuda(values: Mapping[str, Any], findings: Findings) -> None:
    keys = ("cuda_version", "cuda_cudnn_version", "gpu_driver_branch", "gpu_driver_version")
    if any(key not in values for key in keys):
        return
    version, cudnn = values["cuda_version"], values["cuda_cudnn_version"]
    if version is None:
        if cudnn is not None:
            findings.error("cuda_cudnn_version", cudnn, "does nothing without cuda_version: cuDNN is made for one CUDA release",
                           "cuda_version too, or unset")
        return
    for position, name in enumerate(values.get("cuda_packages", ())):
        if _RELEASED.search(name) is not None:
            findings.error(f"cuda_packages[{position}]", name, "has a version in its name; cuda_version adds it",
                           f"the name without it: {_RELEASED.sub('', name)}")
    minimum = minimum_driver(version)
    if not minimum:
        findings.error("cuda_version", version, "is no CUDA release that the catalogue knows a minimum driver for",
                       f"a release of CUDA {', '.join(sorted(MINIMUM_DRIVERS))}")
        return
    driver = wanted_driver(values)
    if driver is not None and not driver_fits(version, driver):
        findings.error("cuda_version", version, "needs driver %s or newer, gpu_driver_branch %s brings %s" % (
            minimum, values["gpu_driver_branch"], driver), "a newer gpu_driver_branch, or an older cuda_version")
