# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether all nodes of a run have the same driver, CUDA, NCCL, MPI and programs: one that differs holds the others up. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.probe import Answer
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node

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
    where = VerdictSubject("", None, None, label)
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
