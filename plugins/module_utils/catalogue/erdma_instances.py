# SPDX-License-Identifier: GPL-3.0-or-later
"""ECS instance types with eRDMA: how many devices, jumbo frames or not, how fast. None where nobody here has read it.

sysfs says 100 Gb/sec for every eRDMA device, and nothing about jumbo frames: what a node must reach comes from its
type or from nobody. Alibaba gives the network bandwidth of the whole instance; with several devices the share of each
is known only where the same row writes it out (80 * 2). The API knows more than these pages, for any type:
DescribeInstanceTypes answers EriQuantity and JumboFrameSupport.
"""

from typing import NamedTuple, Optional, Tuple


class ErdmaInstance(NamedTuple):
    """One type. ``gbps``: baseline bandwidth of the instance; ``device_gbps``: the share of one device."""

    name: str
    devices: Optional[int]
    jumbo: Optional[bool]
    gbps: Optional[float]
    device_gbps: Optional[float]
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
_PAI = "PAI (eRDMA: NICs of each type)"
_GPU = "ALI (GPU-accelerated instance families, network baseline bandwidth)"
_BOTH = "%s; %s" % (_PAI, _GPU)
_JUMBO = "ALI (GPU-accelerated instance families: ERIs and jumbo frames; how many ERIs is not said)"

ERDMA_INSTANCES: Tuple[ErdmaInstance, ...] = (
    ErdmaInstance("ecs.ebmgn7ex.32xlarge", 2, None, 160.0, 80.0,
                  "the guide to eRDMA, line 98 (two devices); ALI (ebmgn7ex: 160 Gbit/s with two ERIs on two network card "
                  "indexes, at most 100 on one)"),
    ErdmaInstance("ecs.ebmgn7v.32xlarge", 2, None, None, None, _PAI),
    ErdmaInstance("ecs.ebmgn8v.48xlarge", 2, None, 170.0, 85.0, _BOTH),
    ErdmaInstance("ecs.ebmgn8i.32xlarge", 4, None, None, None, _PAI),
    ErdmaInstance("ecs.ebmgn8is.32xlarge", 2, None, 160.0, 80.0, _BOTH),
    ErdmaInstance("ecs.ebmgn8ia.64xlarge", None, None, 160.0, 80.0, _GPU),
    # 180 for each device by Alibaba's table; its own runbook measured 118 to 126 on what seems to be this type: no floor from either.
    ErdmaInstance("ecs.ebmgn9gc.64xlarge", None, None, 360.0, None, "%s; ERC (docs/erdma-benchmark)" % _GPU),
    ErdmaInstance("ecs.gn8is.2xlarge", 1, None, 8.0, 8.0, _BOTH),
    ErdmaInstance("ecs.gn8is.4xlarge", 1, None, 16.0, 16.0, _BOTH),
    ErdmaInstance("ecs.gn8is-2x.8xlarge", 1, None, 32.0, 32.0, _BOTH),
    ErdmaInstance("ecs.gn8is-4x.16xlarge", 1, None, 64.0, 64.0, _BOTH),
    ErdmaInstance("ecs.gn8is-8x.32xlarge", None, None, 100.0, None, _GPU),
    ErdmaInstance("ecs.gn8v.4xlarge", None, True, 12.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v.6xlarge", None, True, 15.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v-2x.8xlarge", None, True, 20.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v-4x.8xlarge", None, True, 20.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v-2x.12xlarge", None, True, 25.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v-8x.16xlarge", None, True, 32.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v-4x.24xlarge", None, True, 50.0, None, _JUMBO),
    ErdmaInstance("ecs.gn8v-8x.48xlarge", None, True, 100.0, None, _JUMBO),
)

MEASURED: Tuple[Measured, ...] = (
    Measured("ecs.ebmgn7ex.32xlarge", 2, 8, "erdma-aiacc", 512 << 20, 18.61,
             "the guide to eRDMA, line 142 (2 nodes of 8 GPUs, 512 MiB, AIACC 1.0.2)"),
)

NO_TYPE = "erdma_instance_type is not set"


def erdma_instance(name: Optional[str]) -> Optional[ErdmaInstance]:
    return next((row for row in ERDMA_INSTANCES if row.name == name), None)


def known_types() -> Tuple[str, ...]:
    return tuple(row.name for row in ERDMA_INSTANCES)


def device_floor(name: Optional[str]) -> Tuple[Optional[float], str]:
    """(Gb/s that ib_write_bw must reach over one device, where it comes from), or (None, why nothing is expected)."""
    if name is None:
        return None, NO_TYPE
    row = erdma_instance(name)
    if row is None or row.device_gbps is None:
        return None, "no bandwidth of one eRDMA device of %s is known" % name
    return round(DEVICE_FRACTION * row.device_gbps, 3), "%g of the %g Gb/s of one device of %s" % (DEVICE_FRACTION, row.device_gbps, name)


def busbw_floor(name: Optional[str], nodes: int, gpus: int, profile: str, largest: int) -> Tuple[Optional[float], str]:
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
