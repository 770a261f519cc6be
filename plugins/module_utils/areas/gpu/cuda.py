# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkit and cuDNN at their pinned versions, where the node has a GPU.

Holding the packages at their versions is the repositories area's; the link /usr/local/cuda is the packages' own.
"""

from functools import partial
from typing import List

from ...catalogue.drivers import cuda_packages, wanted_driver
from ...catalogue.platforms import system_of
from ...spec.model import Spec
from ...types import Identity, Problem
from ..common.package_changes import Desired, Observed, forbidden, observe, plan_pinned

NAME = "cuda"
__all__ = ["NAME", "conflicts", "desired", "notes", "observe", "plan", "problems"]
plan = partial(plan_pinned, NAME)
conflicts = partial(forbidden, NAME, key="cuda_version", product="CUDA")


def desired(spec: Spec, identity: Identity) -> Desired:
    version = spec["cuda_version"]
    wanted = cuda_packages(spec, identity) if version is not None and identity.gpus else None
    reason = "no NVIDIA GPU on the PCI bus of this node, so CUDA %s is not installed" % version
    return Desired(identity, wanted, "", "" if version is None or identity.gpus else reason, version or "", wanted_driver(spec.as_dict()))


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.wanted != ():
        return []
    return [Problem(NAME, "cuda_version", "no packages of CUDA %s are known for %s; allowed: another release, or leave it unset" % (
        desired.cuda, system_of(identity)))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.reason:
        return ["cuda: " + desired.reason]
    if desired.wanted is not None and desired.driver is None and observed.driver is None:
        return ["cuda: this node has no NVIDIA driver and the inventory wants none; programs can be built here, not run"]
    return []
