# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when a difference is there: what earlier runs on this controller saw, one file an inventory, written whole or not at all.

A node's own records (file times, package logs) say when something changed; this says when it was first found, which is all there
is for a runtime value. A node that did not answer, or was not asked (--limit, --area), keeps what is known of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from railwright.runs import runs_directory, site_path
from railwright.writing import make_directories, write_atomic

SCHEMA = 1
Seen = dict[str, dict[str, str]]  # node -> key -> when it was first found, ISO 8601


def history_path(inventory: Path) -> Path:
    """Two inventories may have nodes of the same name."""
    name = hashlib.sha256(site_path(inventory).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return runs_directory().parent / "drift" / f"{name}.json"


def read_history(inventory: Path) -> Seen:
    """What is known; nothing where the file is missing or damaged, since it is only a memory."""
    try:
        data = read_json(history_path(inventory).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    nodes = data.get("nodes") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    if not isinstance(nodes, dict):
        return {}
    return {
        str(node): {str(key): str(when) for key, when in keys.items() if isinstance(when, str)}
        for node, keys in nodes.items()
        if isinstance(keys, dict)
    }


def remember(seen: Seen, found: Mapping[str, Iterable[str]], now: str) -> Seen:
    """With this run's keys, node by node: a new one is first seen now, one that is gone is forgotten."""
    return {**seen, **{node: {key: seen.get(node, {}).get(key, now) for key in keys} for node, keys in found.items()}}


def unasked(known: Iterable[str], silent: Iterable[str]) -> list[str]:
    """Keys about a login shell (or the like) that could not be asked this time: that is no sign that its difference is gone."""
    ends = tuple(f" for {name}" for name in silent)
    return [key for key in known if key.startswith("effective: ") and key.endswith(ends)]


def write_history(inventory: Path, seen: Seen) -> None:
    """Raises OSError."""
    path = history_path(inventory)
    make_directories(path.parent, 0o700)
    document: dict[str, Any] = {"schema": SCHEMA, "inventory": site_path(inventory), "nodes": seen}
    write_atomic(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
