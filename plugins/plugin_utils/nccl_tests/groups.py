# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes run together, from a node by itself to all of them: a figure over all nodes does not say where it is lost. Pure.

What the nodes do not have is left out, and each time a text says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of, grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL, LEAF, NODE, RAIL

if TYPE_CHECKING:
    from .plan_jobs import Node

SHOWN = 4  # nodes that a text names


class Part(NamedTuple):
    """One launch. ``end`` and ``gpu``: of a run over one rail alone, its RDMA device and port and the GPU's number on each node."""

    label: str  # within rack1; "" of all nodes
    nodes: tuple[str, ...]
    rail: str = ""
    end: str = ""
    gpu: int = 0


class Omitted(NamedTuple):
    """``missing``: what should be there is not; else the cluster is not so large."""

    group: str
    why: str
    missing: bool = False

    def __str__(self) -> str:
        return f"{self.group}: {self.why}"


Found = tuple[list[Part], list[Omitted]]


def leaf_of(leaves: Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Node -> its leaf; of several the first. ``groups``: those of the inventory with their hosts."""
    found: dict[str, str] = {}
    for leaf in leaves:
        found = {str(node): leaf for node in groups.get(leaf, ())} | found
    return found


def parts_of(group: str, nodes: Sequence[Node], leaves: Mapping[str, str], *, local: bool, chosen: Sequence[str]) -> Found:
    """The launches of a group. ``leaves``: node -> its leaf; ``chosen``: all groups of the run."""
    names = [node.name for node in nodes]
    if group == ALL:
        return [Part("", (name,)) for name in names] if local else [Part("", tuple(names))], []
    if group == NODE:
        if local and ALL in chosen:
            return [], [Omitted(NODE, "the launcher local runs each node by itself, as group all does")]
        few = max(len(node.gpus) for node in nodes) < 2
        return ([], [Omitted(NODE, "one GPU has nobody to talk to")]) if few else ([Part(f"within {name}", (name,)) for name in names], [])
    if local or len(nodes) < 2:
        return [], [Omitted(group, "the launcher local runs each node by itself" if len(nodes) > 1 else "one node alone")]
    return _rails(nodes) if group == RAIL else by_leaf(group, names, leaves)


def by_leaf(group: str, names: Sequence[str], leaves: Mapping[str, str]) -> Found:
    """All nodes of each leaf together; or one of each leaf, so that any two of them are behind different leaves."""
    members = grouped((leaves[name], name) for name in names if name in leaves)
    lost = [name for name in names if name not in leaves]
    if not members:
        return [], [Omitted(group, "no leaf is known: rdma_leaves names no group with these nodes")]
    omitted = [Omitted(group, f"{first_of(lost, SHOWN)}: behind no leaf of rdma_leaves")] if lost else []
    if group == LEAF:
        parts = [Part(f"within {leaf}", tuple(own)) for leaf, own in members.items() if len(own) > 1]
        return parts, omitted + [Omitted(group, f"{leaf} has one node in this run") for leaf, own in members.items() if len(own) < 2]
    if len(members) < 2:
        return [], [Omitted(group, f"all nodes are behind {next(iter(members))}")]
    rows = [tuple(own[at] for own in members.values() if at < len(own)) for at in range(max(map(len, members.values())))]
    alone = [row[0] for row in rows if len(row) < 2]
    parts = [Part(f"across leaves: {first_of(row, SHOWN)}", row) for row in rows if len(row) > 1]
    return parts, omitted + ([Omitted(group, f"{first_of(alone, SHOWN)}: no partner is left behind another leaf")] if alone else [])


def _rails(nodes: Sequence[Node]) -> Found:
    rails = list(dict.fromkeys(rail for node in nodes for rail in node.wishes["rail_names"]))
    if len(rails) < 2:
        return [], [Omitted(RAIL, "there are not two rails")]
    if plugin := nodes[0].wishes.get("transport"):
        return [], [Omitted(RAIL, f"{plugin} chooses its devices itself, whatever NCCL_IB_HCA says")]
    parts, omitted = list[Part](), list[Omitted]()
    for rail in rails:
        seats: dict[tuple[str, int], str] = {}  # device and GPU: the first node that has them
        for node in nodes:
            end = str(node.seen["ends"].get(rail) or "")
            seats.setdefault((end, nearest_gpu(node, end)), node.name)
        if len(seats) == 1 and "" not in (ends := [end for end, _gpu in seats]):
            parts.append(Part(f"over {rail}", tuple(node.name for node in nodes), rail, ends[0], next(gpu for _end, gpu in seats)))
            continue
        known = [f"{name} has {f'{end} and GPU {gpu}' if end else 'no device'}" for (end, gpu), name in seats.items()]
        why = f"{rail} is not measured: one launch has one NCCL_IB_HCA and one GPU number, and {first_of(known, SHOWN)}"
        omitted.append(Omitted(RAIL, why, missing=True))
    return parts, omitted


def figure_of(run: Mapping[str, Any]) -> str:
    """What a floor and a baseline call it: all_reduce; of a group all_reduce/leaf. Older documents name no group."""
    group = run.get("group") or ALL
    return str(run["collective"]) if group == ALL else f"{run['collective']}/{group}"


def nearest_gpu(node: Node, end: str) -> int:
    """Its number; the first one where none is known to be near."""
    near = {row["gpu"] for row in node.seen["affinity"] if row["near"] is True and f"{row['hca']}:{row['port']}" == end}
    return next((number for number, gpu in enumerate(node.gpus) if gpu[1] in near), 0)


def over_one_rail(end: str, gpu: int) -> dict[str, str]:
    """What makes NCCL take this RDMA device alone (= is an exact name), and nccl-tests this GPU."""
    return {"NCCL_IB_HCA": f"={end}", "NCCL_TESTS_DEVICE": str(gpu)}


def narrowed(node: Node, part: Part) -> Node:
    """The node as if it had the rail of the part and its GPU alone; as it is where the part has none."""
    if not part.rail:
        return node
    seen = {**node.seen, "cuda": {**node.seen["cuda"], "devices": [node.gpus[part.gpu]]},
            "places": [place for place in node.seen["places"] if place["rail"] in (None, part.rail)]}
    return node._replace(wishes={**node.wishes, "rails": 1, "nccl_tests_ranks": "gpu"}, seen=seen)
