# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles of fabrics that a site runs itself, and of Scnet, whose nodes are ordinary RoCE nodes with rules of their own.

Only what differs from NCCL's own default is set (NCCL 2.30.7), and nothing that a node must find out: NCCL_IB_HCA and
NCCL_SOCKET_IFNAME are added there from the match. NCCL_IB_GID_INDEX is in no row for RoCE: see ``nccl_gid_index``.
"""

from __future__ import annotations

from .profile_row import Correction, NcclProfile, NcclVariable

TIMEOUT = NcclVariable(
    "NCCL_IB_TIMEOUT", "22", "A timeout of 4.096 us * 2^22, some 17 s, rides out a link flap or a switch failover; NCCL's own is 20.",
    "OCI (H100 and later shapes) and Scnet set 22 [V]")
GID_WHY = ("The index is a place in each port's own table: it differs from NIC to NIC and with every address, and one number for all is "
           "luck. NCCL finds it since 2.21; before, nccl_gid_index decides.")

ROCE = NcclProfile(
    "roce", ("roce",),
    (TIMEOUT,
     NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "4", "Several queue pairs give ECMP several flows to spread over the spines.",
                  "4 to 8 is usual for ConnectX-6/7; OCI A100 shapes use 4 [V]"),),
    False, "mlx5_", "RoCE v2 on ConnectX-6/7 and alike; the traffic class comes from the QoS profile.",
    "OCI and Scnet presets, without their GID index and device lists",
    corrected=(Correction("NCCL_IB_GID_INDEX=3", "nothing is set", GID_WHY),
               Correction("NCCL_IB_HCA=mlx5", "the rails' ports, exactly",
                          "A prefix takes in the NICs of storage and management, and a bond.")),
)

INFINIBAND = NcclProfile(
    "infiniband", ("infiniband",), (TIMEOUT,), False, "mlx5_",
    "InfiniBand routes by LID: no GID index and no traffic class.",
    "NCCL src/transport/net_ib/connect.cc (returns before it reads the GID index)")

SCNET = NcclProfile(
    "scnet", ("roce",),
    (NcclVariable("NCCL_DEBUG", "INFO", "The platform's own setting: its page tells success by the lines that NCCL prints (NET/IB).",
                  "Scnet documentation [V] (default variables)"),
     TIMEOUT._replace(source="Scnet documentation [V] (default variables)"),
     NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "8", "Several queue pairs give ECMP several flows to spread over the spines.",
                  "Scnet documentation [V] (default variables); the PAI Lingjun preset has the same"),),
    False, "mlx5_", "Nodes and pods of Scnet: RoCE v2 whose switches carry DSCP 34 on priority 4.",
    "Scnet documentation (default variables), corrected",
    corrected=(
        Correction("NCCL_IB_TC=136", "from rdma_qos_profile scnet-dscp34-prio4, which is 136",
                   "136 >> 2 = DSCP 34, 136 >> 5 = priority 4: PFC must be on 4. Taken from the QoS profile, the variable and the NIC's "
                   "lossless priority cannot contradict each other."),
        Correction("NCCL_IB_GID_INDEX=3", "nothing is set; nccl_gid_index: 3 is checked against every HCA before it is written",
                   GID_WHY),
        Correction("NCCL_IB_HCA=mlx5", "the rails' ports, exactly",
                   "A prefix takes in the NICs of storage and management too; the page itself says that number and names differ by node."),
        Correction("NCCL_SOCKET_IFNAME=eth, and ib0 in its example", "the node's management interface, or rdma_bootstrap_interface",
                   "It carries NCCL's bootstrap, not its data; eth is a prefix, and ib0 is right only where it has an address that all "
                   "ranks reach. In a pod it is eth0."),
        Correction("NCCL_IB_DISABLE=0", "left out", "0 is NCCL's own default."),
    ),
    qos="scnet-dscp34-prio4",
    needs=("roce_qos_manage: false too, where the platform sets the NICs itself (in its pods)",),
)

PROFILES = (ROCE, INFINIBAND, SCNET)
