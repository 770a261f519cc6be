# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the keys of eRDMA's user space: they are for fabric erdma, and a repository that is not wanted is not named. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Findings

PLACES = ("erdma_repository_url", "erdma_repository_key_url")
KEYS = (*PLACES, "erdma_repository_fingerprint")


def check_erdma(values: Mapping[str, Any], findings: Findings) -> None:
    """Runs after each key is well-formed."""
    fabric, wanted = values.get("fabric"), values.get("erdma_repository")
    if fabric is None or wanted is None:
        return
    if fabric != "erdma":
        for name in KEYS + (("erdma_repository",) if wanted == "true" else ()):
            if values.get(name):
                findings.error(name, values[name], f"is for eRDMA; rdma_fabric is {fabric}", "unset, or rdma_fabric: erdma")
        return
    for name in PLACES:
        if wanted == "false" and values.get(name):
            findings.error(name, values[name], "names a repository, and erdma_repository: false takes the distribution's packages",
                           "unset, or erdma_repository: auto or true")
