# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate for what a node says in its look: it decides what is started on the others. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.probe import Answer
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import Where, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node

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


# Whether all nodes of a run have the same driver, CUDA, NCCL, MPI and programs: one that differs holds the others up. Pure.

_THINGS = (("driver", "GPU driver"), ("cuda", "CUDA of the driver"), ("nccl", "NCCL"), ("mpi", "MPI"))


def versions_of(node: Node, said: Answer | None) -> dict[str, str | None]:
    """``{"driver", "cuda", "nccl", "mpi"}`` of a node. NCCL's is that of the library a rank loaded, else of the first one found."""
    libraries = [item.get("version") for item in node.seen["nccl"] if isinstance(item, dict)]
    mpi = node.seen["mpi"][0] if node.seen["mpi"] else {}
    cuda = said.cuda if said is not None else node.seen["cuda"].get("cuda")
    nccl = said.nccl if said is not None and said.nccl is not None else next((item for item in libraries if item is not None), None)
    return {"driver": _word(node.seen.get("driver")), "cuda": _word(cuda), "nccl": _word(nccl),
            "mpi": _word("%s %s" % (mpi["kind"], mpi["version"])) if mpi else None}


def versions(nodes: Sequence[Node], said: Mapping[str, Answer | None]) -> list[Verdict]:
    """``nccl.versions`` of each thing, for a run over several nodes."""
    if len(nodes) < 2:
        return []
    each = {node.name: versions_of(node, said.get(node.name)) for node in nodes}
    found = [_agree(label, {name: values[key] for name, values in each.items()}) for key, label in _THINGS]
    for program in sorted({str(item["name"]) for node in nodes for item in node.seen["programs"]}):
        sums = {node.name: next((item["sha256"] for item in node.seen["programs"] if item["name"] == program), None) for node in nodes}
        found.append(_agree(program, {name: _word(value) for name, value in sums.items()}))
    return [item for item in found if item is not None]


def _agree(label: str, values: Mapping[str, str | None]) -> Verdict | None:
    """None where no node has the thing at all: other verdicts say that."""
    where = Where("", None, None, label)
    known = {value for value in values.values() if value is not None}
    if not known:
        return None
    missing = [name for name, value in values.items() if value is None]
    each = ", ".join("%s has %s" % (name, (value or "none")[:16]) for name, value in sorted(values.items()))
    if len(known) > 1:
        return verdict("nccl.versions", where, "fail", "one on all nodes", sorted(known), "%s differs: %s" % (label, each))
    if missing:
        return verdict("nccl.versions", where, "unknown", "one on all nodes", sorted(known),
                       "%s is not known on %s" % (label, ", ".join(missing)))
    return verdict("nccl.versions", where, "pass", "one on all nodes", min(known), "%s is the same on %d nodes" % (label, len(values)))


def _word(value: Any) -> str | None:
    return one_line(value, 80) if isinstance(value, str) and value.strip() else None
