# SPDX-License-Identifier: GPL-3.0-or-later
"""QoS profiles: which DSCP and priority RoCE traffic carries. A new profile is one more row.

The traffic class byte holds both: ``dscp = tc >> 2``, ``ecn = tc & 3``, and NICs map
``prio = dscp >> 3 = tc >> 5`` unless told otherwise. A traffic class whose priority is
not the lossless one lands in a queue that drops.
"""

from typing import Dict, NamedTuple, Optional, Tuple


class QosProfile(NamedTuple):
    name: str
    tc: int  # the whole traffic class byte: what NCCL_IB_TC carries
    cnp_dscp: int
    cnp_priority: int
    fabrics: Tuple[str, ...]
    why: str
    source: str
    lossless: Tuple[int, ...]  # priorities that PFC pauses instead of dropping; all others are lossy
    ets: Tuple[int, ...] = ()  # percent of the bandwidth for each of the eight priorities; (): left as it is
    mapped: Optional[int] = None  # the priority that NICs and switches are told to map the DSCP to; None: dscp >> 3

    @property
    def dscp(self):
        # type: () -> int
        return dscp_of(self.tc)

    @property
    def priority(self):
        # type: () -> int
        return priority_of(self.tc) if self.mapped is None else self.mapped

    @property
    def ecn(self):
        # type: () -> int
        return self.tc & 3

    @property
    def pfc_mask(self):
        # type: () -> int
        """One bit for each lossless priority, as dcbnl and the switches' tables have it."""
        return sum(1 << priority for priority in self.lossless)

    @property
    def rdma_cm_tos(self):
        # type: () -> int
        """What cma_roce_tos takes: connections by RDMA-CM must ride the same queue as NCCL's, which makes its own."""
        return self.tc


QOS_PROFILES = (
    QosProfile(
        "dscp26-prio3", 106, 48, 6, ("roce",),
        "DSCP 26 with ECT(0) maps to priority 3, the lossless priority of every switch vendor's RoCE template.",
        "NVIDIA doroce-linux (ToS 106, PFC on 3, CNP DSCP 48 on priority 6) [V]", (3,)),
    QosProfile(
        "scnet-dscp34-prio4", 136, 48, 6, ("roce",),
        "Scnet and PAI Lingjun fabrics map DSCP 34 to priority 4; PFC must be on 4, on 3 the traffic is lossy.",
        "Scnet documentation and PAI Lingjun preset (NCCL_IB_TC=136); CNP marking as in NVIDIA's default [I]", (4,)),
    QosProfile(
        "oci-dscp10", 41, 48, 6, ("roce",),
        "Oracle's cluster network maps DSCP 10 to priority 1.",
        "oci-hpc roles/nccl-conf (NCCL_IB_TC=41) [V]; CNP marking as in NVIDIA's default [I]", (1,)),
)  # type: Tuple[QosProfile, ...]
NONE = "none"
DEFAULT_QOS = {"roce": "dscp26-prio3", "infiniband": NONE, "erdma": NONE}  # type: Dict[str, str]


def qos_profile(name):
    # type: (str) -> Optional[QosProfile]
    """The profile of this name; None for ``none`` and for a name that is no profile."""
    for profile in QOS_PROFILES:
        if profile.name == name:
            return profile
    return None


def dscp_of(tc):
    # type: (int) -> int
    return tc >> 2


def priority_of(tc):
    # type: (int) -> int
    return tc >> 5
