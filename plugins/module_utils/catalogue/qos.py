# SPDX-License-Identifier: GPL-3.0-or-later
"""QoS profiles: which DSCP and priority RoCE traffic carries. A new profile is one more row, a site's own is ``rdma_qos_custom``.

The traffic class byte holds both: ``dscp = tc >> 2``, ``ecn = tc & 3``, and NICs map
``prio = dscp >> 3 = tc >> 5`` unless told otherwise. A traffic class whose priority is
not the lossless one lands in a queue that drops.
"""

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple


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
    def dscp(self) -> int:
        return dscp_of(self.tc)

    @property
    def priority(self) -> int:
        return priority_of(self.tc) if self.mapped is None else self.mapped

    @property
    def ecn(self) -> int:
        return self.tc & 3

    @property
    def rdma_cm_tos(self) -> int:
        """What cma_roce_tos takes: connections by RDMA-CM must ride the same queue as NCCL's, which makes its own."""
        return self.tc


QOS_PROFILES: Tuple[QosProfile, ...] = (
    QosProfile(
        "dscp26-prio3", 106, 48, 6, ("roce",),
        "DSCP 26 with ECT(0) maps to priority 3, the lossless priority of every switch vendor's RoCE template.",
        "NVIDIA doroce-linux (ToS 106, PFC on 3, CNP DSCP 48 on priority 6)", (3,)),
    QosProfile(
        "scnet-dscp34-prio4", 136, 48, 6, ("roce",),
        "Scnet and PAI Lingjun fabrics map DSCP 34 to priority 4; PFC must be on 4, on 3 the traffic is lossy.",
        "Scnet documentation and PAI Lingjun preset (NCCL_IB_TC=136); CNP marking as in NVIDIA's default (inferred)", (4,)),
    QosProfile(
        "oci-dscp10", 41, 48, 6, ("roce",),
        "Oracle's cluster network maps DSCP 10 to priority 1.",
        "oci-hpc roles/nccl-conf (NCCL_IB_TC=41); CNP marking as in NVIDIA's default (inferred)", (1,)),
)
NONE = "none"
CUSTOM = "custom"  # the name of the profile that the inventory's rdma_qos_custom describes
ECT0 = 2  # ECN bits of a packet that may be marked: what NVIDIA's ToS 106 carries
CNP_DSCP = 48  # NVIDIA doroce-linux; priority 6 follows from it
# Every lossless priority of every port needs buffer for what is on its way when PFC pauses it. Some switches have more: Juniper's QFX
# documents six. Microsoft could fund two of eight, and Dell OS9 refuses a third on a port.
MAX_LOSSLESS = 2
MAX_LOSSLESS_SOURCE = "Dell OS9 refuses a third; Guo et al., SIGCOMM 2016, could reserve headroom for two of eight"
DEFAULT_QOS: Dict[str, str] = {"roce": "dscp26-prio3", "infiniband": NONE, "erdma": NONE}


def qos_profile(name: str) -> Optional[QosProfile]:
    """The catalogue's profile of this name; None for ``none``, ``custom`` and a name that is no profile."""
    return next((profile for profile in QOS_PROFILES if profile.name == name), None)


def site_profile(name: str, custom: Mapping[str, Any]) -> Optional[QosProfile]:
    """The profile that a site chose: ``spec["qos_profile"]`` with ``spec["qos_custom"]``, which validation has filled up."""
    if name != CUSTOM or not custom:
        return qos_profile(name)
    tc, priority = custom["tc"], custom["priority"]
    return QosProfile(
        CUSTOM, tc, custom["cnp_dscp"], custom["cnp_priority"], ("roce",), "Described by the site.", "the inventory (rdma_qos_custom)",
        tuple(custom["lossless"]), tuple(custom["ets"]), None if priority == priority_of(tc) else priority)


def dscp_of(tc: int) -> int:
    return tc >> 2


def priority_of(tc: int) -> int:
    return tc >> 5
