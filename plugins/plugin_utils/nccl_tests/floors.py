# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw a collective must reach, and who says so: the inventory, else the catalogue, else nobody. Pure; never learned from a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma_instances import busbw_floor

from ..nccl_catalogue.busbw import NETWORK_FRACTION, one_node, ring_floor

KEY = "nccl_tests_min_busbw"


class Site(NamedTuple):
    """What decides: GPUs of each node, rails of the node with fewest, and their rate as the inventory expects it."""

    gpu_names: tuple[str, ...]  # of one node, all of them
    nodes: int
    rails: int
    rate_gbps: float | None
    erdma: Erdma | None = None  # of a fabric of eRDMA


class Erdma(NamedTuple):
    """What decides there, where the inventory expects no rate: sysfs has the same one for every instance type."""

    instance: str | None  # None where not all nodes are of one type
    nccl_profile: str
    largest: int  # bytes of the run's largest message


def floor_of(collective: str, minimum: Mapping[str, Any], site: Site) -> tuple[float | None, str]:
    """(GB/s or None, source)."""
    if minimum.get(collective) is not None:
        return float(minimum[collective]), KEY
    if collective != "all_reduce":
        return None, KEY
    if site.nodes == 1:
        row = one_node(site.gpu_names[0], len(site.gpu_names)) if len(set(site.gpu_names)) == 1 else None
        return (row.busbw, row.source) if row is not None else (None, KEY)
    if site.erdma is not None and site.rate_gbps is None:
        floor, why = busbw_floor(site.erdma.instance, site.nodes, len(site.gpu_names), site.erdma.nccl_profile, site.erdma.largest)
        return floor, why if floor is not None else f"{KEY}, or rdma_expect.rate_gbps and rdma_rails; {why}"
    nics = min(site.rails, len(site.gpu_names))  # a GPU sends over one NIC at a time
    if not nics or site.rate_gbps is None:
        return None, f"{KEY}, or rdma_expect.rate_gbps and rdma_rails"
    return round(ring_floor(nics, site.rate_gbps), 3), f"{NETWORK_FRACTION:g} of {nics} NICs x {site.rate_gbps:g} Gb/s / 8"


def least(values: Sequence[float | None]) -> float | None:
    """None where one node's is not known."""
    known: list[float] = [float(value) for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
