# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the gpu_driver keys: branches that exist, versions that belong to them, and the flavours that a branch has."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import BRANCHES, LAST_PROPRIETARY, find_branch

from .findings import Findings, did_you_mean

OPEN_BEGINS = 515  # the first branch with open kernel modules (data centre GPUs)
KEYS = ("gpu_driver_branch", "gpu_driver_version", "gpu_driver_flavour", "gpu_driver_source", "gpu_driver_fabricmanager")
_OF_BRANCH = re.compile(r"(?:[0-9]+:)?([0-9]{3,4})\.")


def check_gpu_driver(values: Mapping[str, Any], findings: Findings, today: str | None = None) -> None:
    """``today``: an ISO date, for tests; default is the clock's."""
    if any(key not in values for key in KEYS):
        return  # one of them is an error by itself
    branch = values["gpu_driver_branch"]
    if branch is None:
        _without_branch(values, findings)
        return
    _check_version(values, branch, findings)
    if values["gpu_driver_flavour"] == "proprietary" and int(branch) > LAST_PROPRIETARY:
        findings.error("gpu_driver_flavour", "proprietary", "branch %s has open kernel modules only (since %d)" % (
            branch, LAST_PROPRIETARY + 1), "open")
    if values["gpu_driver_flavour"] == "open" and int(branch) < OPEN_BEGINS:
        findings.error("gpu_driver_flavour", "open", f"branch {branch} has no open kernel modules (they begin with {OPEN_BEGINS})",
                       "proprietary, or a newer branch")
    row = find_branch(branch)
    date = today if today is not None else time.strftime("%Y-%m-%d", time.gmtime())
    if row is not None and date > row.eol:
        findings.warning("gpu_driver_branch", branch, f"NVIDIA's support of this branch ({row.kind}) ended on {row.eol}",
                         branches(date))


def branches(today: str) -> str:
    """Every branch that the catalogue knows and NVIDIA still mends."""
    return ", ".join(f"{row.name} ({row.kind}, to {row.eol})" for row in BRANCHES if today <= row.eol)


def _without_branch(values: Mapping[str, Any], findings: Findings) -> None:
    """Keys that do nothing then: whoever set them expects that they do."""
    for key in ("gpu_driver_version", "gpu_driver_fabricmanager"):
        if values[key] not in (None, False):
            findings.error(key, values[key], "does nothing without gpu_driver_branch: no driver is installed",
                           "gpu_driver_branch too, or unset")


def _check_version(values: Mapping[str, Any], branch: str, findings: Findings) -> None:
    version = values["gpu_driver_version"]
    known = tuple(row.name for row in BRANCHES)
    if version is None:
        if branch not in known and values["gpu_driver_source"] == "cuda_repository":
            findings.error("gpu_driver_branch", branch, "is no branch of the catalogue, so no version of it is pinned%s" % (
                did_you_mean(branch, known)), f"{', '.join(known)}, or gpu_driver_version too")
        return
    found = _OF_BRANCH.match(version)
    if found is None or found.group(1) != branch:
        findings.error("gpu_driver_version", version, f"is no version of branch {branch}", f"{branch}.N or {branch}.N.N")
