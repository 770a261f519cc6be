# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw a collective must reach, and who says so: the inventory, else the catalogue, else nobody. Pure; never learned from a node.

A floor holds for the board and the algorithm that it was taken from. Where the run has others there is none, and the reason is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma_instances import busbw_floor
from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line

from ..nccl_catalogue.busbw import JUDGED_FROM, NETWORK_FRACTION, Board, board_of

KEY = "nccl_tests_min_busbw"
RING = "Ring"
FREE = ""  # NCCL chooses the algorithm
Floor = tuple[float | None, str]


class Site(NamedTuple):
    """What decides: the kinds of GPU that take part, how many a node has, rails of the node with fewest, and their rate as expected."""

    gpu_names: tuple[str, ...]  # each once
    gpus: int
    nodes: int
    rails: int
    rate_gbps: float | None
    largest: int  # bytes of the run's largest message
    algorithm: str = FREE  # RING, or what else steers NCCL's choice, in words
    erdma: Erdma | None = None  # of a fabric of eRDMA


class Erdma(NamedTuple):
    """What decides there, where the inventory expects no rate: sysfs has the same one for every instance type."""

    instance: str | None  # None where not all nodes are of one type
    nccl_profile: str


def floor_of(collective: str, minimum: Mapping[str, Any], site: Site) -> Floor:
    """(GB/s, source), or (None, why there is none and what sets one)."""
    if minimum.get(collective) is not None:
        return float(minimum[collective]), KEY
    found, why = _of_all_reduce(site) if collective == "all_reduce" else (None, f"no figure is known for {collective}")
    return found, why if found is not None else f"{why}; {KEY} sets a floor"


def _of_all_reduce(site: Site) -> Floor:
    if site.nodes > 1 and site.erdma is not None and site.rate_gbps is None:
        found, why = busbw_floor(site.erdma.instance, site.nodes, site.gpus, site.erdma.nccl_profile, site.largest)
        return found, why if found is not None else f"{why}, and rdma_expect.rate_gbps is not set"
    found, why = _within_a_node(site) if site.nodes == 1 else _between_nodes(site)
    if found is not None and site.largest < JUDGED_FROM:
        return None, f"{found:g} GB/s ({why}) hold from 1 GiB on, and this run ends at {site.largest / (1 << 20):g} MiB"
    return found, why


def _within_a_node(site: Site) -> Floor:
    board, name = _board(site)
    if board is None or board.gpus != site.gpus:
        return None, f"no figure is known for {site.gpus} x {name}"
    if site.algorithm != FREE:  # the figures are those of NCCL's choice, NVLS where the board has it: a ring reaches 370 of H100's 480
        return None, f"the figure for {name} holds where NCCL chooses the algorithm, and {_steered(site)}"
    return board.busbw, board.source


def _between_nodes(site: Site) -> Floor:
    """The rings of different channels use different NICs: together all of them, as far as the GPUs' own links carry them."""
    if not site.rails or site.rate_gbps is None:
        return None, "rdma_expect.rate_gbps and rdma_rails would give one and are not set"
    board, name = _board(site)
    if board is None:
        return None, f"what a ring gets through {name} is not known"
    share = site.rails * site.rate_gbps / site.gpus
    if board.ring_gbps is None or share > board.ring_gbps:
        known = f"known up to {board.ring_gbps:g}" if board.ring_gbps is not None else f"not known ({board.ring_source})"
        return None, f"each {name} has {share:g} Gb/s of NICs, and what a ring gets through it is {known}"
    # A tree sends less than a ring for the same busbw: on N nodes it may reach N / (N - 1) of what the NICs carry. NICs at half their
    # rate would pass on two nodes, and fail on three and more.
    if site.algorithm != RING and (site.algorithm != FREE or site.nodes == 2):
        return None, f"only a ring is bound by the NICs, and {_steered(site)} (nccl_tests_algorithm: Ring)"
    found = round(NETWORK_FRACTION * site.rails * site.rate_gbps / 8, 3)
    return found, f"{NETWORK_FRACTION:g} of {site.rails} NICs x {site.rate_gbps:g} Gb/s / 8"


def _board(site: Site) -> tuple[Board | None, str]:
    """The board of all GPUs, and what they are called: a node's own word."""
    if len(site.gpu_names) != 1:
        return None, "GPUs of several kinds"
    return board_of(site.gpu_names[0]), one_line(site.gpu_names[0])


def _steered(site: Site) -> str:
    return {FREE: "NCCL chooses the algorithm", RING: "NCCL_ALGO=Ring is set"}.get(site.algorithm, site.algorithm)


def least(values: Sequence[float | None]) -> float | None:
    """None where one node's is not known."""
    known: list[float] = [float(value) for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
