# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw a collective must reach, and who says so: the inventory, else a share of what the machine can reach, else nobody. Pure.

The machine is what the inventory and the boards make of it, and not how it runs today: a floor is never learned from a node.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.boards import SWITCH
from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line

from ..spec.erdma_instances import busbw_floor
from ..speed.ceilings import JUDGED_FROM, NVLS, NVLS_TREE, RING, TREE, Ceiling, ceiling
from ..speed.machine import Machine

KEY = "nccl_tests_min_busbw"
FREE = ""  # NCCL chooses the algorithm
NAMES = (RING, TREE, NVLS, NVLS_TREE)
# Shares of the ceiling that 95 of 100 published healthy runs reach (docs/speed.md). Within a node by the whole number of the GPUs' CUDA
# capability; boards without NVSwitches, other collectives between nodes, and more nodes than these have too few published figures.
WITHIN_ALL_REDUCE = {8: 0.93, 9: 0.88, 10: 0.8}
WITHIN = 0.75
BETWEEN = 0.8
BETWEEN_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
MOST_NODES = 16


class Floor(NamedTuple):
    """``gbs``: what must be reached, None: nothing is judged; ``source``: who says so, or why there is none and what sets one."""

    gbs: float | None
    source: str
    ceiling: float | None = None  # what can be reached
    limit: str = ""  # the part that limits it


class Site(NamedTuple):
    """What decides. ``machines``: of each node, with the rails and the rate that the inventory expects."""

    machines: tuple[Machine, ...]
    rate_known: bool
    largest: int  # bytes of the run's largest message
    algorithm: str = FREE  # a name of NCCL's, or what else steers NCCL's choice, in words
    erdma: "Erdma | None" = None  # of a fabric of eRDMA


class Erdma(NamedTuple):
    """What decides there, where the inventory expects no rate: sysfs has the same one for every instance type."""

    instance: str | None  # None where not all nodes are of one type
    nccl_profile: str


def floor_of(collective: str, minimum: Mapping[str, Any], site: Site) -> Floor:
    top = ceiling_of(collective, site)
    if minimum.get(collective) is not None:
        return Floor(float(minimum[collective]), KEY, top.gbs, top.limit)
    gbs, why = _default(collective, site, top)
    return Floor(gbs, why if gbs is not None else f"{why}; {KEY} sets a floor", top.gbs, top.limit)


def ceiling_of(collective: str, site: Site) -> Ceiling:
    """Of the slowest node; without a figure where that of one node is not known, or what NCCL does."""
    nodes = len(site.machines)
    forced = site.algorithm if site.algorithm in NAMES else None
    if site.algorithm not in (FREE, forced):
        return Ceiling(collective, nodes, None, "", site.algorithm)
    if nodes > 1 and not (site.rate_known and all(machine.ports for machine in site.machines)):
        return Ceiling(collective, nodes, None, "", "rdma_expect.rate_gbps and rdma_rails would give one and are not set")
    found = [ceiling(machine, collective, nodes, forced) for machine in site.machines]
    unknown = next((item for item in found if item.gbs is None), None)
    return unknown if unknown is not None else min(found, key=lambda item: item.gbs or 0.0)


def above_ceiling(collective: str, floor: Floor) -> str | None:
    """A floor of the operator's that no run can reach: found before anything is started."""
    if floor.gbs is None or floor.ceiling is None or floor.gbs <= floor.ceiling:
        return None
    return (f"{KEY}: {collective}: {floor.gbs:g} GB/s is more than these nodes can reach: {floor.ceiling:g} GB/s, limited by {floor.limit} "
            "(railwright explain speed)")


def _default(collective: str, site: Site, top: Ceiling) -> tuple[float | None, str]:
    nodes = len(site.machines)
    if collective == "all_reduce" and nodes > 1 and site.erdma is not None and not site.rate_known:
        machine = site.machines[0]
        found, why = busbw_floor(site.erdma.instance, nodes, len(machine.gpus), site.erdma.nccl_profile, site.largest)
        return found, why if found is not None else f"{why}, and rdma_expect.rate_gbps is not set"
    share, why = _share(collective, site)
    if share is None:
        return None, why
    if nodes > 1 and site.algorithm in (FREE, RING):  # a tree may be faster than a ring, and a ring is what must be reached
        top = ceiling_of(collective, site._replace(algorithm=RING))
    if top.gbs is None:
        return None, f"what these nodes can reach is not known: {top.limit}"
    found = round(share * top.gbs, 1)
    source = f"{share:g} of {top.gbs:g} GB/s, limited by {top.limit}"
    if site.largest < JUDGED_FROM:
        return None, f"{found:g} GB/s ({source}) hold from 1 GiB on, and this run ends at {site.largest / (1 << 20):g} MiB"
    return found, source


def _share(collective: str, site: Site) -> tuple[float | None, str]:
    nodes, boards = len(site.machines), {machine.board for machine in site.machines}
    names = sorted({one_line(gpu.name) for machine in site.machines for gpu in machine.gpus})
    board = boards.pop() if len(boards) == 1 else None
    if len(names) > 1:
        return None, "GPUs of several kinds"
    if board is None or board.nvlink != SWITCH:
        return None, f"too few figures are published for {names[0] if names else 'a node without GPUs'}"
    if nodes == 1:
        share = WITHIN_ALL_REDUCE.get(int(board.capability)) if collective == "all_reduce" else WITHIN
        return share, f"too few figures are published for {names[0]}"
    if collective not in BETWEEN_COLLECTIVES or nodes > MOST_NODES:
        return None, f"too few figures are published for {collective} over {nodes} nodes"
    if not site.machines[0].gpudirect:
        return None, "too few figures are published without GPUDirect RDMA (gpudirect_path: none)"
    # A tree sends less than a ring for the same busbw: NICs at half their rate would pass on two nodes, and fail on three and more.
    if collective == "all_reduce" and site.algorithm != RING and (site.algorithm != FREE or nodes == 2):
        return None, f"only a ring is bound by the NICs, and {_steered(site)} (nccl_tests_algorithm: Ring)"
    return BETWEEN, ""


def _steered(site: Site) -> str:
    if site.algorithm == FREE:
        return "NCCL chooses the algorithm"
    return f"NCCL_ALGO={site.algorithm} is set" if site.algorithm in NAMES else site.algorithm


def least(values: Sequence[float | None]) -> float | None:
    """None where one node's is not known."""
    known: list[float] = [float(value) for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
