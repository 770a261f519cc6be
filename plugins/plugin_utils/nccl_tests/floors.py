# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw a collective must reach, and who says so: the inventory, else a share of what the machine can reach, else nobody. Pure.

The machine is what the inventory and the boards make of it, and not how it runs today: a floor is never learned from a node.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.boards import SWITCH, Board
from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line

from ..spec.erdma_instances import busbw_floor
from ..speed.ceilings import JUDGED_FROM, NVLS, NVLS_TREE, RING, TREE, Ceiling, ceiling, judged_from
from ..speed.machine import Machine

KEY = "nccl_tests_min_busbw"
FREE = ""  # NCCL chooses the algorithm
NAMES = (RING, TREE, NVLS, NVLS_TREE)


class Share(NamedTuple):
    """A share of the ceiling that 95 of 100 published healthy runs reach (docs/speed.md), and the lowest of these with its source."""

    of_ceiling: float
    lowest: str


# Within a node by the whole number of the GPUs' CUDA capability. Boards without NVSwitches, other collectives between nodes, and more nodes
# than these have too few published figures. Every figure is a row of docs/reference/speed-corpus.yml.
WITHIN_ALL_REDUCE = {
    8: Share(0.93, "0.95: 228 GB/s of A100, Azure/azurehpc-health-checks 0e0a1ac, 2024"),
    9: Share(0.88, "0.879: 431 GB/s of H200, Azure/azurehpc-health-checks 0e0a1ac, 2024"),
    10: Share(0.8, "0.84: 800 GB/s of B300, oracle-quickstart/oci-hpc, 2025"),
}
WITHIN = Share(0.75, "0.79: reduce_scatter of two H200, measured by this project, November 2026")
BETWEEN = Share(0.8, "0.82 of tuned runs over a ring: NVIDIA/nccl issue 1221, March 2024")
# all_reduce over two nodes where NCCL chooses the algorithm, by CUDA capability: of the fastest that it may use.
BETWEEN_TWO = {
    9.0: Share(0.8, "0.819: 430 GB/s of H100 with 8 x 400 Gb/s, NVIDIA/nccl issue 1221, March 2024"),
    10.0: Share(0.8, "0.911: 683.52 GB/s of B200 with 8 x 400 Gb/s, dstack, 2025"),
}
BETWEEN_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
MOST_NODES = 16


class Floor(NamedTuple):
    """``gbs``: what must be reached, None: nothing is judged; ``source``: who says so, or why there is none and what sets one."""

    gbs: float | None
    source: str
    ceiling: float | None = None  # what can be reached
    limit: str = ""  # the part that limits it
    judged_from: int = JUDGED_FROM  # bytes of a message


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
    top, since = ceiling_of(collective, site), max((judged_from(machine) for machine in site.machines), default=JUDGED_FROM)
    if minimum.get(collective) is not None:
        return Floor(float(minimum[collective]), KEY, top.gbs, top.limit, since)
    gbs, why = _default(collective, site, top, since)
    return Floor(gbs, why if gbs is not None else f"{why}; {KEY} sets a floor", top.gbs, top.limit, since)


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


def _default(collective: str, site: Site, top: Ceiling, since: int) -> tuple[float | None, str]:
    nodes = len(site.machines)
    if collective == "all_reduce" and nodes > 1 and site.erdma is not None and not site.rate_known:
        machine = site.machines[0]
        found, why = busbw_floor(site.erdma.instance, nodes, len(machine.gpus), site.erdma.nccl_profile, site.largest)
        return found, why if found is not None else f"{why}, and rdma_expect.rate_gbps is not set"
    share, why = _share(collective, site)
    if share is None:
        return None, why
    if nodes > 2 and site.algorithm == FREE:  # a tree may be faster than a ring, and a ring is what must be reached
        top = ceiling_of(collective, site._replace(algorithm=RING))
    if top.gbs is None:
        return None, f"what these nodes can reach is not known: {top.limit}"
    found = round(share.of_ceiling * top.gbs, 1)
    source = f"{share.of_ceiling:g} of {top.gbs:g} GB/s, limited by {top.limit}"
    halved = _with_half_the_nics(collective, site) if nodes == 2 and site.algorithm == FREE else 0.0
    if found <= halved:
        return None, f"half of the NICs could reach {halved:g} GB/s over a tree: only a ring is bound by them (nccl_tests_algorithm: Ring)"
    if site.largest < since:
        return None, f"{found:g} GB/s ({source}) hold from {since >> 30} GiB on, and this run ends at {site.largest / (1 << 20):g} MiB"
    return found, source


def _with_half_the_nics(collective: str, site: Site) -> float:
    """Return what nodes can reach on half their NICs, or on all of them at half their rate: a floor has to be above it."""
    rate = [tuple(port._replace(gbps=port.gbps / 2) for port in machine.ports) for machine in site.machines]
    number = [machine.ports[::2] if len(machine.ports) > 1 else () for machine in site.machines]
    slower = [[machine._replace(ports=own) for machine, own in zip(site.machines, ports, strict=True)] for ports in (rate, number)]
    return max(ceiling_of(collective, site._replace(machines=tuple(machines))).gbs or 0.0 for machines in slower)


def _share(collective: str, site: Site) -> tuple[Share | None, str]:
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
    return _share_between(collective, site, board, names[0])


def _share_between(collective: str, site: Site, board: Board, name: str) -> tuple[Share | None, str]:
    nodes = len(site.machines)
    if collective not in BETWEEN_COLLECTIVES or nodes > MOST_NODES:
        return None, f"too few figures are published for {collective} over {nodes} nodes"
    if not site.machines[0].gpudirect:
        return None, "too few figures are published without GPUDirect RDMA (gpudirect_path: none)"
    if collective != "all_reduce" or site.algorithm == RING:
        return BETWEEN, ""
    if site.algorithm != FREE:
        steered = f"NCCL_ALGO={site.algorithm} is set" if site.algorithm in NAMES else site.algorithm
        return None, f"only a ring is bound by the NICs, and {steered} (nccl_tests_algorithm: Ring)"
    # A tree sends less than a ring for the same busbw. On two nodes it passes twice what the NICs carry: its own ceiling counts there.
    if nodes > 2:
        return BETWEEN, ""
    return BETWEEN_TWO.get(board.capability), f"too few figures are published for {name} where NCCL chooses (nccl_tests_algorithm: Ring)"


def least(values: Sequence[float | None]) -> float | None:
    """None where one node's is not known."""
    known: list[float] = [float(value) for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
