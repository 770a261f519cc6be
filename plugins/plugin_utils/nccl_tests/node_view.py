# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate for what a node says in its look: it decides what is started on the others. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PATH = re.compile(r"/[A-Za-z0-9_.+@/-]{1,4000}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_NETWORK = re.compile(r"[0-9.]{7,15}/[0-9]{1,2}\Z")
_KINDS = ("openmpi4", "openmpi5", "mpich")
_TEXT = 4096


def usable(found: Mapping[str, Any]) -> bool:
    """Whether a look has the form that ``look`` gives it; a node that answers anything else has not answered."""
    texts = [found.get(key) for key in ("user", "node")]
    texts += [item for key in ("problems", "nccl_conf", "libraries") for item in _items(found, key)]
    return (all(isinstance(item, str) and len(item) < _TEXT for item in texts) and _is(_NAME, found.get("hostname"))
            and all(_is(_PATH, found.get(key)) for key in ("python", "directory")) and _lists(found)
            and _cuda(found.get("cuda")) and _interface(found.get("interface")) and _slurm(found.get("slurm"))
            and all(map(_mpi, found["mpi"])) and all(map(_program, found["programs"])) and all(map(_row, found["affinity"])))


def _is(pattern: Any, value: Any) -> bool:
    return isinstance(value, str) and pattern.match(value) is not None


def _items(found: Mapping[str, Any], key: str) -> Any:
    """Its items; for what is no list one that fails."""
    value = found.get(key)
    return value if isinstance(value, list) else [None]


def _lists(found: Mapping[str, Any]) -> bool:
    return all(isinstance(found.get(key), list) for key in ("nccl", "mpi", "programs", "affinity"))


def _cuda(value: Any) -> bool:
    devices = value.get("devices") if isinstance(value, dict) else None
    return isinstance(devices, list) and all(
        isinstance(item, list) and len(item) == 3 and isinstance(item[0], str) and isinstance(item[2], int) for item in devices)


def _interface(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and _is(_NAME, value.get("name")) and all(_is(_NETWORK, item) for item in _items(value, "networks"))


def _slurm(value: Any) -> bool:
    return isinstance(value, dict) and all(item is None or _is(_PATH, item) for item in value.values())


def _mpi(item: Any) -> bool:
    return (isinstance(item, dict) and item.get("kind") in _KINDS and isinstance(item.get("version"), str)
            and all(_is(_PATH, item.get(key)) for key in ("prefix", "mpirun")))


def _program(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get("json"), bool) and "sha256" in item


def _row(item: Any) -> bool:
    return (isinstance(item, dict) and isinstance(item.get("gpu"), str) and isinstance(item.get("hca"), str)
            and isinstance(item.get("port"), int) and "path" in item)
