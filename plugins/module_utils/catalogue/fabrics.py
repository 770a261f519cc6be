# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles: the variables that a fabric needs, each with its reason. A new profile is one more row.

Only what differs from NCCL's own default is set (NCCL 2.30.7), and nothing that a
node must find out: NCCL_IB_HCA and NCCL_SOCKET_IFNAME are added there from the match.
NCCL_IB_GID_INDEX is never set for RoCE: the index differs from NIC to NIC, and NCCL
picks it by itself since 2.21.
"""

import ipaddress
from typing import Dict, NamedTuple, Optional, Tuple

from ..spec.model import Spec
from .qos import site_profile


class NcclVariable(NamedTuple):
    name: str
    value: str
    why: str
    source: str


class NcclProfile(NamedTuple):
    name: str
    fabrics: Tuple[str, ...]
    variables: Tuple[NcclVariable, ...]
    address_range: bool  # set NCCL_IB_ADDR_RANGE to the rails' subnet when they share one
    hca_prefix: Optional[str]  # the driver's device names, for documentation; lists are rendered from the match
    why: str
    source: str


_TIMEOUT = NcclVariable(
    "NCCL_IB_TIMEOUT", "22", "A timeout of 4.096 us * 2^22, some 17 s, rides out a link flap or a switch failover; NCCL's own is 20.",
    "OCI (H100 and later shapes) and Scnet set 22 [V]")

NCCL_PROFILES = (
    NcclProfile(
        "roce", ("roce",),
        (_TIMEOUT,
         NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "4", "Several queue pairs give ECMP several flows to spread over the spines.",
                      "4 to 8 is usual for ConnectX-6/7; OCI A100 shapes use 4 [V]"),),
        False, "mlx5_", "RoCE v2 on ConnectX-6/7 and alike; the traffic class comes from the QoS profile.",
        "OCI and Scnet presets, without their GID index and device lists"),
    NcclProfile(
        "infiniband", ("infiniband",), (_TIMEOUT,), False, "mlx5_",
        "InfiniBand routes by LID: no GID index and no traffic class.",
        "NCCL src/transport/net_ib/connect.cc (returns before it reads the GID index)"),
    NcclProfile(
        "erdma-native", ("erdma",),
        (NcclVariable("NCCL_IB_GID_INDEX", "-1",
                      "The index differs between the NICs of one node (erdma_0: 2, erdma_1: 1); NCCL 2.21 finds it.",
                      "alibabacloud-erdma-controller runbook [V]"),
         NcclVariable("NCCL_IB_ADDR_FAMILY", "AF_INET", "eRDMA has no IPv6.", "alibabacloud-erdma-controller runbook [V]"),
         NcclVariable("NCCL_IB_ROCE_VERSION_NUM", "2", "Pins the GID type that the automatic choice looks for.",
                      "alibabacloud-erdma-controller runbook [V]"),
         NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "8", "One queue pair does not fill an eRDMA NIC.", "PAI preset [V]"),
         NcclVariable("NCCL_MIN_CTAS", "16", "Enough channels to keep both NICs busy; PAI writes the deprecated name NCCL_MIN_NCHANNELS.",
                      "PAI preset [V], renamed in NCCL 2.17"),
         NcclVariable("NCCL_NET_GDR_LEVEL", "SYS", "GPUs and eRDMA NICs are far apart on PCIe; without it NCCL copies through host memory.",
                      "alibabacloud-erdma-controller runbook [V]"),
         NcclVariable("NCCL_NET_PLUGIN", "none", "Keeps an installed AIACC plugin from replacing NCCL's own transport.",
                      "PAI preset [V]"),),
        True, "erdma_", "eRDMA in compat or ofed mode with NCCL from 2.21 on.", "alibabacloud-erdma-controller and PAI presets"),
)  # type: Tuple[NcclProfile, ...]
DEFAULT_NCCL = {"roce": "roce", "infiniband": "infiniband", "erdma": "erdma-native"}  # type: Dict[str, str]


def nccl_profile(name):
    # type: (str) -> Optional[NcclProfile]
    for profile in NCCL_PROFILES:
        if profile.name == name:
            return profile
    return None


def nccl_variables(spec):
    # type: (Spec) -> Dict[str, str]
    """Profile, traffic class and overrides of a host, in the order in which files show them.

    Without NCCL_IB_HCA and NCCL_SOCKET_IFNAME, which the node adds unless they are overridden here.
    """
    variables = {}  # type: Dict[str, str]
    profile = nccl_profile(spec["nccl_profile"])
    if profile is not None:
        variables.update((variable.name, variable.value) for variable in profile.variables)
        subnet = common_subnet(spec) if profile.address_range else None
        if subnet is not None:
            variables["NCCL_IB_ADDR_RANGE"] = subnet
        if spec.fabric == "roce" and has_ipv6(spec):  # without it NCCL 2.21 and later look for an IPv4 GID; older ones find neither
            variables["NCCL_IB_ADDR_FAMILY"] = "AF_INET6"
    qos = site_profile(spec["qos_profile"], spec["qos_custom"])
    if qos is not None:
        variables["NCCL_IB_TC"] = str(qos.tc)
    for name, value in spec["nccl_env_overrides"].items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables


def has_ipv6(spec):
    # type: (Spec) -> bool
    """Whether the rails have IPv6 addresses; of several rails all have, or none. On InfiniBand no GID holds them."""
    return any(rail.address is not None and ":" in rail.address for rail in spec.rails)


def common_subnet(spec):
    # type: (Spec) -> Optional[str]
    """The one subnet of all rails of the host, or None when they have several or none."""
    subnets = {str(ipaddress.ip_interface(rail.address).network) for rail in spec.rails if rail.address is not None}
    return subnets.pop() if len(subnets) == 1 else None
