# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's GPU driver branches, CUDA and cuDNN: what is pinned, what fits together, and the packages by family. Pure."""

from typing import NamedTuple, Optional, Tuple

from ..spec.model import Spec
from ..types import Identity


class Branch(NamedTuple):
    """One branch of the driver."""

    name: str  # 580
    version: str  # the release that the catalogue pins
    kind: str  # long-term support, production, new feature
    eol: str  # ISO date of the last day of the month that NVIDIA names
    source: str


class Wanted(NamedTuple):
    """One package to have. ``version`` is a glob, matched against the package manager's form; None: any."""

    name: str
    version: Optional[str]
    why: str
    source: str


BRANCHES = (
    Branch("580", "580.126.20", "long-term support", "2028-06-30", "AZ (versions.json); NVIDIA (data center driver life cycle)"),
    Branch("595", "595.45.04", "production", "2027-03-31", "OGK (tag 595.45.04); NVIDIA (data center driver life cycle)"),
)


def find_branch(name):
    # type: (str) -> Optional[Branch]
    for row in BRANCHES:
        if row.name == name:
            return row
    return None


def gpu_packages(spec, identity):
    # type: (Spec, Identity) -> Tuple[Wanted, ...]
    """The driver's packages; () where no branch is set or the node has no GPU."""
    return ()


def cuda_packages(spec, identity):
    # type: (Spec, Identity) -> Tuple[Wanted, ...]
    """CUDA's and cuDNN's packages; () where no version is set or the node has no GPU."""
    return ()


def minimum_driver(cuda_version):
    # type: (str) -> str
    """The oldest driver that a CUDA release runs on (minor version compatibility)."""
    return {"13": "580.65.06", "12": "525.60.13", "11": "450.80.02"}.get(cuda_version.partition(".")[0], "")
