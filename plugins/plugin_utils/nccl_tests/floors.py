# SPDX-License-Identifier: GPL-3.0-or-later
"""What busbw a collective must reach, and who says so: the inventory, else the catalogue, else nobody. Pure; never learned from a node."""

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma_instances import busbw_floor

from ..nccl_catalogue.busbw import NETWORK_FRACTION, one_node, ring_floor

KEY = "nccl_tests_min_busbw"


class Site(NamedTuple):
    """What decides: GPUs of each node, rails of the node with fewest, and their rate as the inventory expects it."""

    gpu_names: Tuple[str, ...]  # of one node, all of them
    nodes: int
    rails: int
    rate_gbps: Optional[float]
    erdma: Optional["Erdma"] = None  # of a fabric of eRDMA


class Erdma(NamedTuple):
    """What decides there, where the inventory expects no rate: sysfs has the same one for every instance type."""

    instance: Optional[str]  # None where not all nodes are of one type
    nccl_profile: str
    largest: int  # bytes of the run's largest message


def floor_of(collective: str, minimum: Mapping[str, Any], site: Site) -> Tuple[Optional[float], str]:
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
        return floor, why if floor is not None else "%s, or expect.rate_gbps and rails; %s" % (KEY, why)
    nics = min(site.rails, len(site.gpu_names))  # a GPU sends over one NIC at a time
    if not nics or site.rate_gbps is None:
        return None, "%s, or expect.rate_gbps and rails" % KEY
    return round(ring_floor(nics, site.rate_gbps), 3), "%g of %d NICs x %g Gb/s / 8" % (NETWORK_FRACTION, nics, site.rate_gbps)


def least(values: Sequence[Optional[float]]) -> Optional[float]:
    """None where one node's is not known."""
    known: List[float] = [float(value) for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
