# SPDX-License-Identifier: GPL-3.0-or-later
"""What one name means to NCCL: read, removed, never read, or read by somebody else."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import (
    NEVER_IN_NCCL,
    OWNED_BY_OTHERS,
    PLUGIN_VARIABLES,
    REMOVED,
    VARIABLES,
    VERSION,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import nearest


def explanation(name: str) -> dict[str, Any]:
    """``{"variable", "known", "meaning", …}``; ``known`` is True only for what NCCL or a plugin in its source tree reads."""
    row = VARIABLES.get(name) or PLUGIN_VARIABLES.get(name)
    if row is not None:
        reader = f"NCCL {VERSION}" if name in VARIABLES else "a plugin in NCCL's source tree"
        found: dict[str, Any] = {
            "variable": name, "known": True, "meaning": row.meaning, "type": row.type, "default": row.default,
            "values": list(row.values), "since": row.since or None, "read by": reader}
        if row.deprecated is not None:
            found["deprecated"] = f"use {row.deprecated}" if row.deprecated else "leave it out"
        return found
    found = {"variable": name, "known": False}
    if name in REMOVED:
        gone = REMOVED[name]
        return {**found, "meaning": f"removed from NCCL; it existed in {gone.existed}", "use instead": gone.replacement}
    if name in NEVER_IN_NCCL:
        return {**found, "meaning": "has never been a variable of NCCL", "use instead": NEVER_IN_NCCL[name]}
    owner = next((other for other in OWNED_BY_OTHERS if re.fullmatch(other.name.replace("*", ".*"), name)), None)
    if owner is not None:
        return {**found, "meaning": f"is not read by NCCL but by {owner.owner}", "use instead": owner.use_instead}
    return {**found, "meaning": f"is no variable of NCCL {VERSION}", "nearest": nearest(name, tuple(VARIABLES))}
