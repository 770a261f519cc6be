# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch's releases: which CUDA and which NCCL the wheel of PyPI brings, and for which Pythons there is one. Pure.

PyTorch's own index has each release once more for several CUDAs, told apart by a local version: 2.8.0+cu126, 2.8.0+cpu. What such a
wheel is built for stands in its name; which NCCL it brings only its metadata and the library itself say.
"""

import re
from typing import NamedTuple, Optional, Tuple

from ..formats.text import numbers
from ..formats.versions import compare

SOURCE = "PyPI (METADATA of torch: Requires-Dist of its Linux wheel, read release by release; the wheels' names for the Pythons)"
CPU = "cpu"
_LOCAL = re.compile(r"cu([0-9]{2})([0-9])\Z")


class Release(NamedTuple):
    """One release as PyPI has it for x86_64."""

    version: str
    cuda: str
    nccl: str
    pythons: Tuple[str, str]  # oldest and newest that have a wheel
    arm_cuda: bool = False  # whether the wheel for aarch64 has CUDA too: its dependencies are asked for on every machine


RELEASES = (
    Release("2.15.0", "13.2", "2.30.7", ("3.11", "3.15"), True),
    Release("2.14.1", "13.0", "2.30.7", ("3.10", "3.14"), True),
    Release("2.14.0", "13.0", "2.30.7", ("3.10", "3.14"), True),
    Release("2.13.0", "13.0", "2.29.7", ("3.10", "3.14"), True),
    Release("2.12.1", "13.0", "2.29.7", ("3.10", "3.14"), True),
    Release("2.12.0", "13.0", "2.29.7", ("3.10", "3.14"), True),
    Release("2.11.0", "13.0", "2.28.9", ("3.10", "3.14"), True),
    Release("2.10.0", "12.8", "2.27.5", ("3.10", "3.14")),
    Release("2.9.1", "12.8", "2.27.5", ("3.10", "3.14")),
    Release("2.9.0", "12.8", "2.27.5", ("3.10", "3.14")),
    Release("2.8.0", "12.8", "2.27.3", ("3.9", "3.13")),
    Release("2.7.1", "12.6", "2.26.2", ("3.9", "3.13")),
    Release("2.7.0", "12.6", "2.26.2", ("3.9", "3.13")),
    Release("2.6.0", "12.4", "2.21.5", ("3.9", "3.13")),
    Release("2.5.1", "12.4", "2.21.5", ("3.9", "3.13")),
    Release("2.4.1", "12.1", "2.20.5", ("3.8", "3.12")),
    Release("2.3.1", "12.1", "2.20.5", ("3.8", "3.12")),
    Release("2.2.2", "12.1", "2.19.3", ("3.8", "3.12")),
    Release("2.1.2", "12.1", "2.18.1", ("3.8", "3.11")),
    Release("2.0.1", "11.7", "2.14.3", ("3.8", "3.11")),
    Release("2.0.0", "11.7", "2.14.3", ("3.8", "3.11")),
)
NEWEST = RELEASES[0].version
FIRST_SAFE = "2.6.0"  # GHSA-53q9-r3pm-6pq6, CVE-2025-32434: before it, loading a checkpoint runs what its author put there
OLDEST_PYTHON = "3.9"  # the oldest that a supported system ships (EL 9); 3.8 ended in October 2024 (PEP 569)
# Kernels for Blackwell are in builds for CUDA 12.8 and later: 2.7.0 has sm_100 in the one for 12.8 and not in that for 12.6
# (moi90/pytorch_compute_capabilities: the architectures that each build has).
BLACKWELL_CUDA = "12.8"


def find_release(version: str) -> Optional[Release]:
    """The row of ``2.9.1`` or ``2.9.1+cu126``."""
    public = version.partition("+")[0]
    return next((row for row in RELEASES if row.version == public), None)


def local_cuda(version: str) -> Optional[str]:
    """12.6 of ``2.9.1+cu126``, '' of ``+cpu``; None where the version does not say."""
    local = version.partition("+")[2]
    found = _LOCAL.match(local)
    return "" if local == CPU else "%s.%s" % found.groups() if found is not None else None


def cuda_of_torch(version: str, arch: str) -> Optional[str]:
    """What a build is for: a CUDA, '' for a build without, None where nobody here knows."""
    said = local_cuda(version)
    row = find_release(version)
    if said is not None or row is None:
        return said
    return row.cuda if arch == "x86_64" or row.arm_cuda else ""


def python_fits(release: Release, python: str) -> bool:
    """Whether PyPI has a wheel of it for this Python, ``3.11``."""
    return numbers(release.pythons[0]) <= numbers(python) <= numbers(release.pythons[1])


def newer(version: str, than: str) -> bool:
    return compare(version.partition("+")[0], than, "redhat") > 0
