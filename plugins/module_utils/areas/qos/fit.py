# SPDX-License-Identifier: GPL-3.0-or-later
"""When a part of a NIC's QoS is as the profile wants it. The verdict and the plan ask the same functions, so they cannot disagree. Pure."""

from typing import Any, List, Mapping, Optional, Sequence

from ...catalogue.qos import QosProfile, dscp_of
from ...observe.qos import WITHOUT_DCB
from ...observe.qos_dcb import OBJECTS

CONGESTED = 3  # both ECN bits set: what a switch writes when it marks a packet
CELL = 512  # NICs round buffers down to whole cells, which are smaller than this (mlx5: port_buff_cell_sz)
DCB_PARTS = tuple(part for part, _object in OBJECTS)


def marks(profile: QosProfile, tc: Optional[int]) -> bool:
    """Whether a traffic class has the profile's DSCP. The ECN bits are free: NICs set them on what may be marked."""
    return tc is not None and 0 <= tc <= 255 and dscp_of(tc) == profile.dscp and tc & 3 != CONGESTED


def trusts_dscp(trust: Optional[str]) -> bool:
    """The first selector that applies decides."""
    return trust is not None and trust.split()[:1] == ["dscp"]


def priorities_of(nic: Mapping[str, Any], dscp: int) -> Optional[List[int]]:
    """The priorities that the NIC maps a DSCP to."""
    pairs = nic.get("dscp_priority")
    return None if pairs is None else [pair[1] for pair in pairs if pair[0] == dscp]


def shares(profile: QosProfile, ets: Mapping[str, Any]) -> bool:
    """Each priority with a share has it of its own, which it does only in a traffic class of its own that shares by ETS."""
    return all(ets["percent"][tc] == share and ets["tsa"][tc] == "ets" and ets["tc"].count(tc) == 1
               for tc, share in zip(ets["tc"], profile.ets) if share)


def buffered(sizes: Sequence[int], places: Sequence[int], found: Mapping[str, Any]) -> bool:
    return list(found["of_priority"]) == list(places) and all(0 <= size - now < CELL for size, now in zip(sizes, found["bytes"]))


def without_dcb(nic: Mapping[str, Any]) -> Optional[str]:
    """Why there is nothing to judge on a software device: the interface below it has no DCB either. None where there is."""
    if any(nic.get(part) is not None for part in DCB_PARTS):
        return None
    return WITHOUT_DCB.get(str(nic.get("driver")))
