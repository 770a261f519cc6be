# SPDX-License-Identifier: GPL-3.0-or-later
"""ECS instance types with eRDMA, by ``tables/erdma_instances.yml``. A node is handed what is known of its own (``erdma_derived``)."""

from typing import Any, NamedTuple

from ..tables.rows import read_table, rows


class ErdmaInstance(NamedTuple):
    """One type. ``gbps``: baseline bandwidth of the instance; ``device_gbps``: the share of one device. None: nobody here has read it."""

    name: str
    devices: int | None
    jumbo: bool | None
    gbps: float | None
    device_gbps: float | None
    source: str


class Measured(NamedTuple):
    """What somebody measured on a type: all_reduce of nccl-tests. Holds for this many nodes and GPUs, with this profile."""

    instance: str
    nodes: int
    gpus: int  # of each node
    nccl_profile: str
    size: int  # bytes, from which on
    busbw: float  # GB/s
    source: str


# ib_write_bw of one device, of its share: what is left of the line after headers is 0.93 at MTU 1400, and the rest is room.
DEVICE_FRACTION = 0.85
BUSBW_FRACTION = 0.9  # choice: what a measurement on the same kind of machines may be missed by
_TABLE = read_table("erdma_instances")
ERDMA_INSTANCES = rows(ErdmaInstance, _TABLE["instances"])
MEASURED = rows(Measured, _TABLE["measured"])
NO_TYPE = "erdma_instance_type is not set"


def erdma_instance(name: str | None) -> ErdmaInstance | None:
    return next((row for row in ERDMA_INSTANCES if row.name == name), None)


def erdma_derived(name: str | None) -> dict[str, Any]:
    """What a node has to know of its type; {} of one that is not named or not known."""
    row = erdma_instance(name)
    return {} if row is None else {"devices": row.devices, "source": row.source}


def device_floor(name: str | None) -> tuple[float | None, str]:
    """(Gb/s that ib_write_bw must reach over one device, where it comes from), or (None, why nothing is expected)."""
    if name is None:
        return None, NO_TYPE
    row = erdma_instance(name)
    if row is None or row.device_gbps is None:
        return None, "no bandwidth of one eRDMA device of %s is known" % name
    return round(DEVICE_FRACTION * row.device_gbps, 3), "%g of the %g Gb/s of one device of %s" % (DEVICE_FRACTION, row.device_gbps, name)


def busbw_floor(name: str | None, nodes: int, gpus: int, profile: str, largest: int) -> tuple[float | None, str]:
    """The same for all_reduce of nccl-tests, GB/s. ``largest``: the run's largest message in bytes."""
    if name is None:
        return None, NO_TYPE
    for row in MEASURED:
        if row.instance != name:
            continue
        known = "%g GB/s on %d nodes of %d GPUs with %s from %d MiB on" % (row.busbw, row.nodes, row.gpus, row.nccl_profile, row.size >> 20)
        if (row.nodes, row.gpus, row.nccl_profile) == (nodes, gpus, profile) and largest >= row.size:
            return round(BUSBW_FRACTION * row.busbw, 3), "%g of %s, %s" % (BUSBW_FRACTION, known, row.source)
        return None, "known of %s is %s" % (name, known)
    return None, "no busbw of %s is known" % name
